"""The arrays among the arguments of a kernel, and the checks made before memory is touched."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from gondwana.compiler.types.arguments import WORD, ArraySpec, Described, Spec, TupleSpec, array_specs
from gondwana.compiler.types.footprint import Footprint
from gondwana.domains import IndexSet, Point, RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.variant import Order
from gondwana.transfer.under_way import Use


class KernelArray(Protocol):
    """An array on a domain, with the attributes that kernels need."""

    @property
    def domain(self) -> RectDomain:
        """The domain of the array's elements."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""

    @property
    def extent(self) -> tuple[int, int]:
        """First address and end address of its memory."""

    @property
    def device(self) -> int | None:
        """Number of the device in whose memory it lies, None for the host."""

    @classmethod
    def empty(cls, domain: RectDomain, dtype: Any, *, order: Order) -> KernelArray:
        """A new array of this kind on the host."""

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor for compiled code."""


def as_kernel_array(value: Any) -> KernelArray | None:
    """The local array of an argument (a global array stands for its local part), None for other arguments."""
    array = getattr(value, "__gondwana_array__", None)
    return None if array is None else array()


def kernel_arrays(arguments: Iterable[Any]) -> list[KernelArray]:
    """Return the local arrays among arguments, those inside tuples too, in the order of their slots. Local."""
    found = []
    for value in arguments:
        array = as_kernel_array(value)
        if array is not None:
            found.append(array)
        elif isinstance(value, tuple):
            found += kernel_arrays(value)
    return found


def alike_strides(arrays: Sequence[KernelArray]) -> tuple[int, ...]:
    """Return for each array the first one with the same strides. Local."""
    layouts = [_strides(array) for array in arrays]
    return tuple(map(layouts.index, layouts))


def _strides(array: KernelArray) -> tuple[int, bytes]:
    """The number of axes of an array and the part of its descriptor that holds its strides (`compiler.types.views`)."""
    ndim = array.domain.ndim
    return ndim, array.__gondwana_argument__()[1][WORD : WORD * (1 + ndim)]


def loop_order(specs: tuple[Spec, ...], ndim: int) -> Order:
    """Return the order whose innermost loop runs along the contiguous axis of the first array. Local."""
    units = [spec.unit for spec in array_specs(specs) if spec.unit >= 0]
    return "F" if units and units[0] == 0 and ndim > 1 else "C"


def array_names(parameters: Iterable[str], specs: tuple[Spec, ...]) -> list[str]:
    """Return a kernel's names of its arrays, in the order of their slots: `u`, `fields.u`, `pair[0]`. Local."""
    names = []
    for name, spec in zip(parameters, specs, strict=True):
        if isinstance(spec, ArraySpec):
            names.append(name)
        elif isinstance(spec, TupleSpec):
            members = [f"{name}.{member}" for member in spec.fields]
            names += array_names(members or [f"{name}[{i}]" for i in range(len(spec.items))], spec.items)
    return names


def common_device(name: str, parameters: Sequence[str], arrays: Sequence[KernelArray]) -> int | None:
    """Return the device that holds all arrays of a launch, None for the host. Local.

    Raises:
        UsageError: the arrays lie in different places.
    """
    places = [array.device for array in arrays]
    if len(set(places)) > 1:
        where = (f"{p} in {_place(d)}" for p, d in zip(parameters, places, strict=True))
        raise UsageError(f"{name} needs all its arrays in one memory, but got {', '.join(where)}: copy some of them")
    return places[0] if places else None


def _place(device: int | None) -> str:
    return "host memory" if device is None else f"memory of device {device}"


def overlapping(arrays: Sequence[KernelArray], footprints: dict[int, Footprint]) -> bool:
    """Whether memory that the kernel writes through one array may be seen through another."""
    for slot, footprint in footprints.items():
        if not footprint.written:
            continue
        first, end = arrays[slot].extent
        for other, array in enumerate(arrays):
            if other != slot and array.extent[0] < end and first < array.extent[1]:
                return True
    return False


def check_reach(
    name: str, parameters: Sequence[str], domain: IndexSet, arrays: Sequence[KernelArray], reach: dict[int, Footprint]
) -> None:
    """Refuse a launch that would touch memory outside of an array.

    Raises:
        UsageError: an access leaves an array; the message names the array, the accesses, and its ends.
    """
    if domain.is_empty:
        return
    box = domain.bounding_box
    for slot, footprint in reach.items():
        array = arrays[slot]
        if not footprint.bounded or len(footprint.lo) != box.ndim:
            continue
        corners = Point(footprint.lo), Point(footprint.hi)
        touched = RectDomain(box.lo + corners[0], box.hi + corners[1])
        held = array.domain
        if held.is_dense and touched <= held:
            continue
        if not held.is_dense and all(rect + Point(at) <= held for rect in domain.rects for at in footprint.offsets):
            continue
        hint = "use a smaller domain (such as .inner or .owned), or more ghost cells (ghost=...)"
        fits = (parameters[i] for i, one in enumerate(arrays) if one.domain.ndim == box.ndim and box <= one.domain)
        other = None if box <= held else next(fits, None)
        if other is not None:
            hint = (
                f"{other} has elements at all these points; if both are blocks of global arrays, these are divided "
                f"differently: make one with the layout of the other, gw.zeros({other}.layout), and gw.copy to it"
            )
        raise UsageError(
            f"{name} on {domain} touches {parameters[slot]} on {touched}, "
            f"but {parameters[slot]} has elements on {held} only: {hint}"
        )


def check_completion(
    name: str,
    parameters: Sequence[str],
    domain: IndexSet,
    arrays: Sequence[Any],
    reach: dict[int, Footprint],
    uses: Sequence[Use],
) -> None:
    """Refuse a launch on the host that would use memory of a copy under way.

    Accesses with constant offsets are compared; others are unknown.

    Raises:
        RuntimeError: an access uses such memory; the message names the array, the access and the copy.
    """
    for slot, footprint in reach.items():
        for offsets, written in ((footprint.reads, False), (footprint.writes, True)):
            for rect, offset in itertools.product(domain.rects, sorted(offsets)):
                touched = arrays[slot].restrict(rect + Point(offset))
                use = next((use for use in uses if use.excludes(touched.numpy(), written=written)), None)
                if use is not None:
                    raise RuntimeError(
                        f"{name} {'writes' if written else 'reads'} {parameters[slot]} on {touched.domain}, part of "
                        f"which is {'written' if use.written else 'read'} by {use.what}: call wait() before"
                    )
