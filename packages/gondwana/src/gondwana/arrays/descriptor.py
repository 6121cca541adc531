"""How arrays appear to compiled code: a spec, and the words of a descriptor (see `gondwana.compiler.types.views`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from gondwana.compiler.types.arguments import ArraySpec, Described, dtype_name, intern
from gondwana.compiler.types.records import is_record
from gondwana.domains import RectDomain
from gondwana.errors import UsageError


def describe_elements(
    dtype: np.dtype[Any],
    address: int,
    strides: Sequence[int],
    domain: RectDomain,
    *,
    readonly: bool,
    place: str = "host",
) -> Described:
    """Return the spec and the descriptor of elements on a domain. Local.

    Args:
        dtype: type of an element.
        address: of the first element.
        strides: bytes from an element to the next along each axis.
        domain: where they are.
        readonly: whether they must not be written.
        place: "host" or "cuda".

    Raises:
        UsageError: an element does not lie at a multiple of its size, as compiled code needs it, or is a record on a
            device.
    """
    name, item, shape = dtype_name(dtype), dtype.itemsize, domain.shape
    if place != "host" and is_record(dtype):
        raise UsageError(f"kernels on GPUs take no records {dtype.names}: use an array for each field")
    if any(stride % item for stride in strides) or (domain.size and address % dtype.alignment):
        raise UsageError("compiled code needs aligned elements: pass a copy")
    distances = [stride // item for stride in strides]
    steps = domain.stride
    # Strides for one unit of each coordinate; where a domain's stride is not contained in them, indices are divided.
    scaled = any(distance % step for distance, step, n in zip(distances, steps, shape, strict=True) if n > 1)
    units = distances if scaled else [distance // step for distance, step in zip(distances, steps, strict=True)]
    origin = address
    if not scaled:
        origin -= item * sum(c * s for c, s in zip(domain.lo, units, strict=True))
    spec = intern(ArraySpec(name, domain.ndim, _contiguous_axis(units, shape), scaled, readonly, place))
    words = (origin, *units, *domain.lo, *domain.hi, *steps)
    return spec, struct.pack(f"{len(words)}q", *words)


def _contiguous_axis(units: Sequence[int], shape: Sequence[int]) -> int:
    """The axis whose neighbours are adjacent in memory, -1 if there is none; preferably one of several elements."""
    adjacent = [axis for axis, distance in enumerate(units) if distance == 1]
    several = [axis for axis in adjacent if shape[axis] != 1]
    return several[0] if several else adjacent[-1] if adjacent else -1
