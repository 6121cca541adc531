"""Random numbers: the parts that compiled code does differently, on the host and on devices. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import overload

from gondwana.compiler.types.views import DtypeType
from gondwana.kernels.random_numbers import signed_unit, wide_product


@overload(wide_product)
def _compiled_wide_product(a: Any, b: Any) -> Any:
    """An unsigned product: compilers assume that signed ones do not overflow, and conclude that the sign is 0."""

    def product(a: Any, b: Any) -> Any:
        return types.int64(types.uint64(a) * types.uint64(b))

    return product


@overload(signed_unit, inline="never")
def _compiled_signed_unit(word: Any, dtype: Any) -> Any:
    """The conversion of `random`, resolved by dtype at compile time."""
    single = "float32" in str(dtype)
    if not isinstance(dtype, DtypeType | types.DType | types.NumberClass | types.Omitted):
        return None
    if single:

        def convert(word: Any, dtype: Any) -> Any:
            signed = word - ((word & 0x80000000) << 1)
            return types.float32(signed >> 8) * types.float32(2.0**-23)

    else:

        def convert(word: Any, dtype: Any) -> Any:
            signed = word - ((word & 0x80000000) << 1)
            return signed * 2.0**-31

    return convert
