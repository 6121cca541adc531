"""The values that the first kernel of a fused pair leaves for the second: see `fused`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.arguments import (
    ArraySpec,
    Described,
    HandleSpec,
    Spec,
    TupleSpec,
    describe_handle,
    dtype_name,
)
from gondwana.errors import UsageError

FAMILY = "gondwana.kernels.intermediate"

REFUSED_READ = "the first kernel of a fused pair cannot read what it leaves for the second"
REFUSED_WRITE = "the second kernel of a fused pair cannot write what the first left for it"
REFUSED_STAR = "the second kernel of a fused pair reads intermediates at p and its nearest neighbours only"
REFUSED_STORE = "a kernel of a fused pair writes an intermediate at its own point only"

_numbers = itertools.count()


class Intermediate:
    """An array between the two kernels of `gw.fused`: the first writes it, the second reads it. Local.

    It is never in memory as a whole. Its elements are where the first kernel wrote them, in the
    coordinates of the other arrays, and are gone afterwards.

    Args:
        dtype: type of an element.
        ndim: number of axes.

    Example:
        >>> import gondwana as gw
        >>> gw.Intermediate("float32", 3)
        Intermediate(float32, 3 axes)
    """

    def __init__(self, dtype: npt.DTypeLike = float, ndim: int = 3) -> None:
        self.dtype = np.dtype(dtype)
        self.ndim = ndim
        self._number = next(_numbers)
        self._described = describe_handle(FAMILY, (dtype_name(self.dtype), ndim, self._number), ())
        if self.dtype.kind not in "fiu" or not 1 <= ndim <= 4:
            raise UsageError(f"{self!r}: give a real dtype and 1 to 4 axes")

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor for compiled code."""
        return self._described

    def __repr__(self) -> str:
        return f"Intermediate({self.dtype}, {self.ndim} axes)"


def numbered(specs: tuple[Spec, ...], numbers: dict[Any, int]) -> tuple[Spec, ...]:
    """Specs with intermediates numbered from 0 in the order of their first use, so that equal programs are equal."""
    return tuple(_numbered(spec, numbers) for spec in specs)


def _numbered(spec: Spec, numbers: dict[Any, int]) -> Spec:
    if isinstance(spec, TupleSpec):
        return TupleSpec(numbered(spec.items, numbers), spec.cls, spec.fields, spec.arrays)
    if isinstance(spec, HandleSpec) and spec.family == FAMILY:
        dtype, ndim, number = spec.parameters
        return HandleSpec(FAMILY, (dtype, ndim, numbers.setdefault(number, len(numbers))), 0)
    return spec


def intermediates(specs: tuple[Spec, ...]) -> dict[int, tuple[str, int]]:
    """Return the dtype and the number of axes of each intermediate among specs, by its number. Local."""
    found: dict[int, tuple[str, int]] = {}
    for spec in specs:
        if isinstance(spec, TupleSpec):
            found |= intermediates(spec.items)
        elif isinstance(spec, HandleSpec) and spec.family == FAMILY:
            dtype, ndim, number = spec.parameters
            found[number] = dtype, ndim  # type: ignore[index, assignment]
    return found


def bytes_kept(specs: tuple[Spec, ...]) -> int:
    """Return the bytes of all intermediates among specs at a point. Local."""
    return sum(np.dtype(dtype).itemsize for dtype, _ in intermediates(specs).values())


def as_arrays(specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Return specs with an array in place of each intermediate: the arguments of the kernel in its own sweep. Local."""
    return tuple(_as_array(spec) for spec in specs)


def _as_array(spec: Spec) -> Spec:
    if isinstance(spec, TupleSpec):
        return TupleSpec(as_arrays(spec.items), spec.cls, spec.fields, spec.arrays)
    if isinstance(spec, HandleSpec) and spec.family == FAMILY:
        dtype, ndim, _ = spec.parameters
        return ArraySpec(str(dtype), int(str(ndim)), -1, scaled=False, readonly=False)
    return spec
