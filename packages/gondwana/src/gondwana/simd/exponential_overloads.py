"""`simd.exp` in compiled code. Imports Numba.

With n the integer next to x / ln 2 and r = x - n ln 2, e^x is 2^n e^r. For |r| <= ln 2 / 2 this takes
e^r = 1 + r + r^2 q(r), where q is the polynomial with the least relative error of e^r: 4e-18, 3e-9 in single precision.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from gondwana.compiler.inlining import INLINED
from gondwana.simd import vectors
from gondwana.simd.vectors import fma, maximum, minimum
from gondwana.simd.vectors_overloads import VectorType

_FIELDS = {types.float64: (52, 1023), types.float32: (23, 127)}
"""Bits of the fraction of a float, and bias of its exponent."""
_LOG2_E = 1.4426950408889634
_LN_2, _REST_OF_LN_2 = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
"""ln 2: with enough zeros at the end that its product with n is exact, and the rest."""
_SINGLE_LN_2, _REST_OF_SINGLE_LN_2 = float.fromhex("0x1.62e400p-1"), float.fromhex("0x1.7f7d1cp-20")
_ROUNDER, _SINGLE_ROUNDER = 1.5 * 2.0**52 + 2046.0, 1.5 * 2.0**23 + 254.0
"""Added to n, this rounds it to an integer, and leaves n and twice the bias of exponents in the lowest bits."""


@intrinsic
def _scale(typingctx: Any, vector: Any, rounded: Any) -> Any:
    """Multiply with 2^n, where n has been added to the rounder: by two factors, as 2^n itself may be no normal float.

    Their biased exponents are the halves of the number in the lowest bits. All bits above those of an exponent are
    shifted out.
    """
    fraction = _FIELDS[vector.dtype][0]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        integers = ir.VectorType(ir.IntType(vector.dtype.bitwidth), vector.width)

        def constant(value: int) -> Any:
            return ir.Constant(integers, [value] * vector.width)

        bits = builder.bitcast(args[1], integers)
        half = builder.lshr(bits, constant(1))
        scaled = args[0]
        for exponent in half, builder.sub(bits, half):
            factor = builder.bitcast(builder.shl(exponent, constant(fraction)), scaled.type)
            scaled = builder.fmul(scaled, factor)
        return scaled

    return vector(vector, rounded), codegen


@overload(vectors.exp, jit_options=INLINED)
def _overload_exp(x: Any) -> Any:
    if not (isinstance(x, VectorType) and x.is_float):
        raise TypingError(f"exp takes a vector of floats, not {x}")

    def double(x: Any) -> Any:
        x = maximum(minimum(x, 710.0), -746.0)  # beyond these the results are infinity and 0; NaN stays
        rounded = fma(x, _LOG2_E, _ROUNDER)
        n = rounded - _ROUNDER
        r = fma(n, -_REST_OF_LN_2, fma(n, -_LN_2, x))
        s = r * r
        even = fma(s, 2.763023496151816e-07, 2.4801493133244117e-05)
        odd = fma(s, 2.5000074654187397e-08, 2.75575862669651e-06)
        even = fma(s, even, 0.0013888888943600496)
        odd = fma(s, odd, 0.00019841269506766973)
        even = fma(s, even, 0.04166666666653026)
        odd = fma(s, odd, 0.008333333333494347)
        even = fma(s, even, 0.5000000000000011)
        odd = fma(s, odd, 0.16666666666666413)
        most = r + 1.0
        return _scale(fma(s, fma(r, odd, even), (1.0 - most) + r) + most, rounded)

    def single(x: Any) -> Any:
        x = maximum(minimum(x, 89.0), -104.0)
        rounded = fma(x, _LOG2_E, _SINGLE_ROUNDER)
        n = rounded - _SINGLE_ROUNDER
        r = fma(n, -_REST_OF_SINGLE_LN_2, fma(n, -_SINGLE_LN_2, x))
        s = r * r
        even = fma(s, 0.0013814621728848477, 0.04166838719754317)
        odd = fma(s, 0.00836871001082627, 0.16666520688077976)
        even = fma(s, even, 0.49999993452500646)
        most = r + 1.0
        return _scale(fma(s, fma(r, odd, even), (1.0 - most) + r) + most, rounded)

    return double if x.dtype == types.float64 else single
