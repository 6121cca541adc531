"""What a kernel reads and writes: found while it is compiled, checked at each launch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gondwana.compiler.types.views import ViewType


@dataclass
class Footprint:
    """The accesses of a kernel to one of its arrays.

    Attributes:
        lo: smallest offset from the index point, per axis.
        hi: largest offset from the index point, per axis.
        written: whether any access stores.
        bounded: whether all accesses have a constant offset, so that `lo` and `hi` say everything.
        read: whether any access loads.
        reads: the constant offsets at which it loads.
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    written: bool = False
    bounded: bool = True
    read: bool = False
    reads: set[tuple[int, ...]] = field(default_factory=set, compare=False)

    def about(self) -> dict[str, object]:
        """What must be known at each launch, as JSON values."""
        return {"lo": self.lo, "hi": self.hi, "written": self.written, "bounded": self.bounded, "read": self.read}


@dataclass
class Recorder:
    """Collects the footprints of the kernels under compilation, by number of the compilation and slot."""

    kernels: dict[int, dict[int, Footprint]] = field(default_factory=dict)
    count: int = 0

    def new_kernel(self) -> int:
        """Number of a new compilation."""
        self.count += 1
        self.kernels[self.count] = {}
        return self.count

    def record(self, view: ViewType, index: Any, *, written: bool) -> None:
        """Note one access of compiled code to the array `view` at `index` (both are types)."""
        slots = self.kernels.get(view.kernel)
        if slots is None or view.slot < 0:
            return
        offset = getattr(index, "offset", None)
        seen = slots.get(view.slot)
        at = (0,) * view.ndim if offset is None else offset
        if seen is None:
            seen = slots[view.slot] = Footprint(at, at, written, offset is not None)
        if offset is not None:
            if not written:
                seen.reads.add(at)
            seen.lo = tuple(map(min, seen.lo, at))
            seen.hi = tuple(map(max, seen.hi, at))
        seen.written |= written
        seen.read |= not written
        seen.bounded &= offset is not None

    def finish(self, kernel: int) -> dict[int, Footprint]:
        """The footprints of a compilation, by slot; forgets it."""
        return self.kernels.pop(kernel)


recorder = Recorder()
