"""Launches as the race detector sees them: the elements that each array's footprint reads and writes over the domain.

Accesses at computed points have no footprint, and are not seen.
"""

from __future__ import annotations

import itertools
import types as pytypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gondwana.compiler.types.footprint import Footprint
from gondwana.domains import IndexSet, Point, RectDomain
from gondwana.kernels.arguments import KernelArray
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import Box
from gondwana.transfer.plans.pairs import boxes_of

Offsets = frozenset[tuple[int, ...]]


def report(
    function: pytypes.FunctionType,
    domain: IndexSet,
    names: Sequence[str],
    arrays: Sequence[KernelArray],
    footprints: dict[int, Footprint],
) -> None:
    """Report what a launch accesses. Local.

    Args:
        function: the kernel.
        domain: its points.
        names: names of its arrays, by slot.
        arrays: the arrays.
        footprints: what it accesses of them, by slot.
    """
    one, code = reporter, function.__code__
    assert one is not None
    kernel, file, line = function.__qualname__, code.co_filename, code.co_firstlineno
    launched, inside = one.caller()
    for slot, footprint in footprints.items():
        array, name = arrays[slot], names[slot]
        if array.device is not None or len(footprint.lo) != domain.ndim:
            continue
        what = f"{kernel}: {name}"
        site = one.site(what, (file, line), inside, kernel=kernel, name=name, launched=launched)
        for kind, offsets in ((Kind.READ, footprint.reads), (Kind.WRITE, footprint.writes)):
            for box in touched(domain, array, frozenset(offsets)):
                one.access(kind, box, site)
        met = meeting(domain, footprint)
        if met is not None:
            written, other, writes = met
            content = {"what": kernel, "file": file, "line": line, "function": inside, "launched": launched}
            shown = {"written": _index(written), "other": _index(other), "writes": writes}
            one.tell(launch=content, name=name, **shown)


def touched(domain: IndexSet, array: Any, offsets: Offsets) -> Iterator[Box]:
    """Return the elements at offsets from the points of a domain, each once where that is easy. Local."""
    for rect in domain.rects:
        for box in spread(rect, offsets):
            yield from boxes_of(array.restrict(box).__gondwana_box__())


def spread(rect: RectDomain, offsets: Iterable[tuple[int, ...]]) -> list[RectDomain]:
    """Return boxes that have exactly the points at some offsets from those of a box. Pure.

    Example:
        >>> spread(RectDomain((0, 0), (4, 4)), [(0, 1), (0, -1), (1, 0), (-1, 0)])
        [RectDomain((-1, 0), (5, 4)), RectDomain((0, -1), (4, 5))]
    """
    boxes = [rect + Point(at) for at in sorted(offsets)]
    for axis in range(rect.ndim):
        boxes = list(_united(boxes, axis))
    return sorted(boxes, key=lambda box: box.lo)


def _united(boxes: list[RectDomain], axis: int) -> Iterator[RectDomain]:
    """Unite boxes that overlap or touch along an axis, and are alike along the others."""

    def across(box: RectDomain) -> tuple[range, ...]:
        return (*box.axes[:axis], *box.axes[axis + 1 :])

    def order(box: RectDomain) -> tuple[Any, ...]:
        return tuple((r.start, r.stop, r.step) for r in across(box)), box.lo[axis]

    ordered = sorted(boxes, key=order)
    for _, group in itertools.groupby(ordered, across):
        held: RectDomain | None = None
        for box in group:
            if held is not None and box.axes[axis].step == 1 == held.axes[axis].step and box.lo[axis] <= held.hi[axis]:
                held = box.from_axes(
                    range(held.lo[axis], max(held.hi[axis], box.hi[axis])) if other == axis else held.axes[other]
                    for other in range(box.ndim)
                )
                continue
            if held is not None:
                yield held
            held = box
        if held is not None:
            yield held


def meeting(domain: IndexSet, footprint: Footprint) -> tuple[tuple[int, ...], tuple[int, ...], bool] | None:
    """Return two offsets at which different points access one element, the first to write; and whether both write."""
    for written in sorted(footprint.writes):
        for other in sorted(footprint.offsets - {written}):
            if not (domain + Point(written)).isdisjoint(domain + Point(other)):
                return written, other, other in footprint.writes
    return None


def _index(offset: tuple[int, ...]) -> str:
    return f"[p + {offset}]" if any(offset) else "[p]"
