"""The reverse of an exchange: a plan moves ghosts into rooms at their owners, which add them to their cells."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from gondwana.arrays.base import DomainArray
from gondwana.arrays.global_array import LINE, GlobalArray
from gondwana.arrays.layout import Layout, Piece
from gondwana.arrays.reference import ArrayReference
from gondwana.compiler.types.records import is_record, spelled
from gondwana.errors import UsageError
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.segment import Segment
from gondwana.transfer.box import contiguous_strides, moved
from gondwana.transfer.plans.create import plan_in
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan


def accumulation(array: GlobalArray) -> Plan:
    """Return the plan that adds ghosts to the cells which they are copies of: see `T.accumulate`.

    Collective over the team of the array; blocks.

    Raises:
        UsageError: the array has no numbers that a processor or a GPU can add, or the ranks give different arrays;
            raised by every rank.
    """
    team, layout = array.team, array.layout
    team.expect_same("accumulations", _refusal(array), array=array.label)
    item, owners = array.dtype.itemsize, _owners(layout, team.rank)
    rooms = {rank: list(_rooms(layout, rank, item)) for rank in {*owners, team.rank}}
    mine = rooms[team.rank]
    nbytes = mine[-1][2] + _room(mine[-1][1], item) if mine else 0
    segment = Segment(team, nbytes, array.kind, window=not array.in_host_memory)

    def end(rank: int, piece: Piece, offset: int) -> DomainArray:
        """The room of some ghosts at their owner, with the coordinates of its cells."""
        cells, first = piece.target + piece.shift, segment.pointer(rank, array.dtype)
        strides = contiguous_strides(cells.shape, item, array.order)
        return ArrayReference(moved(first, offset), cells, strides).array()

    def pair(holder: int, piece: Piece, offset: int) -> Pair:
        ghosts, room = array.block(holder).restrict(piece.target), end(piece.owner, piece, offset)
        return Pair(ghosts.__gondwana_box__(), room.__gondwana_box__())

    copies = Copies(team, {}, {}, "accumulation")
    for rank in owners:
        copies.outgoing[rank] = [pair(*room) for room in rooms[rank] if room[0] == team.rank]
    for room in mine:
        if room[0] != team.rank:
            copies.incoming.setdefault(room[0], []).append(pair(*room))
    plan = plan_in(copies, [[kind] for kind in array.kinds])
    local, (add, clear) = array.block(team.rank), _kernels()
    # In the order of the rooms: so the order in which numbers are added to a cell depends on the layout alone.
    steps = [add.prepared(piece.target + piece.shift, local, end(team.rank, piece, at)) for _, piece, at in mine]
    steps += [clear.prepared(piece.target, local) for piece in layout.pieces(team.rank, corners=True)]
    plan._with_kernels([], [(step, False) for step in steps])
    return plan


def _refusal(array: GlobalArray) -> UsageError | None:
    if is_record(array.dtype):
        return UsageError(f"accumulate of {spelled(array.dtype)}: records cannot be added, use an array for each field")
    if not all(kind.host or isinstance(kind, CudaKind) for kind in array.kinds):
        return UsageError(f"accumulate in {array.kind.name} memory: neither the processor nor a GPU adds there")
    return None


def _owners(layout: Layout, rank: int) -> list[int]:
    """The ranks that own ghosts of a rank, which have ghosts that it owns; perhaps itself."""
    return sorted({piece.owner for piece in layout.pieces(rank, corners=True)})


def _rooms(layout: Layout, rank: int, item: int) -> Iterator[tuple[int, Piece, int]]:
    """The ghosts that a rank owns: who holds them, which they are, and the offset of their room at their owner.

    They are ordered by where the block of the holder lies, seen from the cells of the owner, the first axis first. So
    the order in which they are added to a cell depends on the layout alone.
    """
    held = itertools.chain.from_iterable(zip(itertools.repeat(r), _held(layout, r)) for r in _owners(layout, rank))
    found = [(holder, piece) for holder, piece in held if piece.owner == rank]
    found.sort(key=lambda one: (tuple(layout.owned(one[0]).lo + one[1].shift), tuple(one[1].target.lo)))
    offset = 0
    for holder, piece in found:
        yield holder, piece, offset
        offset += _room(piece, item)


def _room(piece: Piece, item: int) -> int:
    """Bytes of the room of some ghosts: whole lines."""
    return -(-piece.target.size * item // LINE) * LINE


@functools.lru_cache(1 << 10)
def _held(layout: Layout, rank: int) -> list[Piece]:
    """The ghosts of a rank; several neighbours of it ask for them."""
    return layout.pieces(rank, corners=True)


@functools.cache
def _kernels() -> tuple[Any, Any]:
    """The kernels that add the ghosts that have arrived, and that set ghosts to zero."""
    from gondwana.kernels.foreach_kernels import foreach

    return foreach(_add_at), foreach(_clear_at)


def _add_at(p: Any, cells: Any, room: Any) -> None:
    cells[p] += room[p]


def _clear_at(p: Any, cells: Any) -> None:
    cells[p] = 0
