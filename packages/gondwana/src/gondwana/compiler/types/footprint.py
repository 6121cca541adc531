"""The elements that a kernel reads and writes: found while it is compiled, checked at each launch."""

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
        writes: the constant offsets at which it stores.
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    written: bool = False
    bounded: bool = True
    read: bool = False
    reads: set[tuple[int, ...]] = field(default_factory=set, compare=False)
    writes: set[tuple[int, ...]] = field(default_factory=set, compare=False)

    @property
    def offsets(self) -> set[tuple[int, ...]]:
        """All constant offsets."""
        return self.reads | self.writes

    @classmethod
    def from_about(cls, about: dict[str, Any]) -> Footprint:
        """Return the footprint described by `about`."""
        corners = tuple(about["lo"]), tuple(about["hi"])
        offsets = (set(map(tuple, about[name])) for name in ("reads", "writes"))
        return cls(*corners, about["written"], about["bounded"], about["read"], *offsets)

    def about(self) -> dict[str, object]:
        """The facts needed at each launch, as JSON values."""
        return {
            "lo": self.lo,
            "hi": self.hi,
            "written": self.written,
            "bounded": self.bounded,
            "read": self.read,
            "reads": sorted(self.reads),
            "writes": sorted(self.writes),
        }


@dataclass
class Recorder:
    """Collects the footprints of the kernels under compilation, by number of the compilation and slot.

    Attributes:
        kernels: footprints found so far.
        mixed: for each compilation the slots known to have accesses both with a constant offset and without, for which
            launches are not checked.
        count: number of compilations so far.
    """

    kernels: dict[int, dict[int, Footprint]] = field(default_factory=dict)
    mixed: dict[int, frozenset[int]] = field(default_factory=dict)
    count: int = 0

    def new_kernel(self, mixed: frozenset[int] = frozenset()) -> int:
        """Number of a new compilation; `mixed` is the result of `mixed_slots` for an earlier one of the same kernel."""
        self.count += 1
        self.kernels[self.count] = {}
        self.mixed[self.count] = mixed
        return self.count

    def is_proven(self, view: ViewType, index: Any) -> bool:
        """Return whether launches are checked for an access to the array `view` at `index` (both are types)."""
        known = view.kernel in self.kernels and getattr(index, "offset", None) is not None
        return known and self.mixed.get(view.kernel, frozenset()).isdisjoint(view.slots)

    def mixed_slots(self, kernel: int) -> frozenset[int]:
        """The slots of a compilation that have accesses both with a constant offset and without."""
        slots = self.kernels[kernel].items()
        return frozenset(slot for slot, footprint in slots if footprint.offsets and not footprint.bounded)

    def record(self, view: ViewType, index: Any, *, written: bool) -> None:
        """Note one access of compiled code to the array `view` at `index` (both are types)."""
        for slot in view.slots if view.kernel in self.kernels else ():
            self._record(self.kernels[view.kernel], slot, view.ndim, getattr(index, "offset", None), written)

    def _record(
        self, slots: dict[int, Footprint], slot: int, ndim: int, offset: tuple[int, ...] | None, written: bool
    ) -> None:
        seen = slots.get(slot)
        at = (0,) * ndim if offset is None else offset
        if seen is None:
            seen = slots[slot] = Footprint(at, at, written, offset is not None)
        if offset is not None:
            (seen.writes if written else seen.reads).add(at)
            seen.lo = tuple(map(min, seen.lo, at))
            seen.hi = tuple(map(max, seen.hi, at))
        seen.written |= written
        seen.read |= not written
        seen.bounded &= offset is not None

    def finish(self, kernel: int) -> dict[int, Footprint]:
        """The footprints of a compilation, by slot; forgets it."""
        self.mixed.pop(kernel, None)
        return self.kernels.pop(kernel)


recorder = Recorder()
