"""What a plan copies: pairs of boxes, as one rank sees them, and as the race detector knows them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.runtime.races import reporter
from gondwana.runtime.races.records import Box
from gondwana.teams import Team
from gondwana.transfer.box import StridedBox
from gondwana.transfer.box_copy import Copy, copy_between


class Pair(NamedTuple):
    """One copy of a plan.

    Attributes:
        source: where the elements are. At the owner of the target only its dtype, shape and strides have a meaning.
        target: where they go.
    """

    source: StridedBox
    target: StridedBox

    @property
    def nbytes(self) -> int:
        """Bytes that it moves."""
        return self.source.nbytes

    @property
    def packed(self) -> StridedBox:
        """The elements without gaps, in the order of the source: how they travel in a message."""
        source = self.source
        return StridedBox(None, None, source.dtype, source.shape, source.packed_strides)

    def direct(self, end: int | None = None) -> Copy:
        """Return the copy between the addresses of both, as this rank reaches them. Local.

        Args:
            end: address of the target, if it is mapped elsewhere.
        """
        return copy_between(self.source, self.target, self.source.address, self.target.address if end is None else end)

    def packing(self, address: int) -> Copy:
        """Return the copy of the source to its part of a message. Local."""
        return copy_between(self.source, self.packed, self.source.address, address)

    def unpacking(self, address: int) -> Copy:
        """Return the copy of a part of a message to the target. Local."""
        return copy_between(self.packed, self.target, address, self.target.address)


class Copies(NamedTuple):
    """The copies of a plan in which a rank has a part.

    Attributes:
        team: the ranks of the plan.
        outgoing: pairs whose source this rank owns, by the rank that owns the target; it may be this one.
        incoming: pairs whose target this rank owns, by the other rank that owns the source, in the order of its
            `outgoing`.
        what: what messages call the plan: "plan", "exchange" or "accumulation".
        ready: whether a destination may be overwritten before its owner starts the round: see `exchange`.
    """

    team: Team
    outgoing: dict[int, list[Pair]]
    incoming: dict[int, list[Pair]]
    what: str = "plan"
    ready: bool = False

    @property
    def neighbours(self) -> list[int]:
        """The other ranks that this one sends to or receives from."""
        return sorted({*self.outgoing, *self.incoming} - {self.team.rank})

    @property
    def receivers(self) -> list[int]:
        """The other ranks that this one sends to."""
        return sorted(set(self.outgoing) - {self.team.rank})

    @property
    def own(self) -> list[Pair]:
        """The pairs with both ends at this rank."""
        return self.outgoing.get(self.team.rank, [])

    def to(self, rank: int) -> list[Pair]:
        """Return what this rank sends to another. Local."""
        return self.outgoing.get(rank, [])

    def of(self, rank: int) -> list[Pair]:
        """Return what this rank receives from another. Local."""
        return self.incoming.get(rank, [])

    def pairs(self) -> list[Pair]:
        """Return all pairs. Local."""
        return [pair for part in (self.outgoing, self.incoming) for pairs in part.values() for pair in pairs]

    def in_host_memory(self) -> bool:
        """Return whether all ends are in host memory. Local."""
        return all(box.pointer is None or box.pointer.kind.host for pair in self.pairs() for box in pair)

    def is_mapped(self, rank: int) -> bool:
        """Return whether loads and stores of this rank reach all that it writes at a rank. Local."""
        return all(pair.target.memory is not None for pair in self.to(rank))

    def devices(self) -> set[Device | None]:
        """Return the devices with this rank's ends; None stands for other memory at any end. Local."""
        sources = [pair.source for pairs in self.outgoing.values() for pair in pairs]
        found: set[Device | None] = set()
        for box in (*sources, *(pair.target for pair in self.pairs())):
            kind = None if box.pointer is None else box.pointer.kind
            if not isinstance(kind, CudaKind):
                found.add(None)
            elif box.is_own:
                found.add(kind.device)
        return found


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
