"""Boxes and plans as the race detector knows them."""

from __future__ import annotations

from typing import Any

from gondwana.runtime.races import reporter
from gondwana.runtime.races.records import Box
from gondwana.transfer.box import StridedBox
from gondwana.transfer.plans.pairs import Copies, Pair


def boxes_of(box: StridedBox) -> list[Box]:
    """Return the elements of an end of a copy as reports name them, none for private memory. Local."""
    if box.pointer is None or not box.pointer.kind.host:
        return []
    pointer, item = box.pointer, box.dtype.itemsize
    key, rank = pointer.segment.key, pointer.team.world_ranks[pointer.rank]
    offsets = box.offsets()
    if offsets is None:
        axes = tuple(zip(box.shape, box.strides, strict=True))
        return [Box(key, rank, pointer.offset, item, axes)] if box.size else []
    inner = ((box.shape[1], box.item_stride),)
    return [Box(key, rank, pointer.offset + offset, item, inner) for offset in offsets.tolist()]


def report_plan(copies: Copies, key: int, number: int) -> None:
    """Tell the detector what a plan copies. Local.

    Args:
        copies: copies of the plan.
        key: the same on all of its ranks.
        number: what names the plan in the records of this rank.
    """
    assert reporter is not None
    ranks = copies.team.world_ranks
    reporter.tell(
        plan=number,
        key=key,
        what=copies.what,
        ready=copies.ready,
        own=_told(copies.own),
        to={ranks[rank]: _told(copies.to(rank)) for rank in copies.receivers},
        of=[ranks[rank] for rank in copies.incoming if rank != copies.team.rank],
    )


def _told(pairs: list[Pair]) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for source, target in pairs:
        found += [(box, None) for box in boxes_of(source)]
        found += [(None, box) for box in boxes_of(target)]
    return found
