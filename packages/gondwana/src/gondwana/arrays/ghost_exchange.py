"""Ghosts and their owners: `exchange` is a plan of the cells of one rank that are ghosts of another.

`Accumulation` goes the other way: a plan moves the ghosts into rooms at their owners, which add them to their cells.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterator
from typing import Any, Self, TypeAlias

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.base import DomainArray
from gondwana.arrays.divided import forget
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

Exchange = Plan
"""The result of `exchange`."""
_Key: TypeAlias = tuple[Any, ...]
"""The key of a call of `exchange`: its options, then the arrays in their order, by their `id`."""


def ghost_copies(arrays: tuple[GlobalArray, ...], corners: bool, ready: bool) -> Copies:
    """Return the copies of this rank for the ghosts of all. Local.

    Args:
        arrays: arrays of one team.
        corners: see `exchange`.
        ready: see `exchange`.
    """
    team = arrays[0].team
    owners = {piece.owner for array in arrays for piece in array.layout.pieces(team.rank, corners=corners)}
    # Ghosts have the same width everywhere, so the owners of this rank's ghosts have ghosts that it owns.
    neighbours = sorted(owners - {team.rank})
    outgoing = {rank: _between(arrays, corners, team.rank, rank) for rank in (team.rank, *neighbours)}
    incoming = {rank: _between(arrays, corners, rank, team.rank) for rank in neighbours}
    return Copies(team, _with_pairs(outgoing), _with_pairs(incoming), "exchange", ready)


def _with_pairs(by_rank: dict[int, list[Pair]]) -> dict[int, list[Pair]]:
    return {rank: pairs for rank, pairs in by_rank.items() if pairs}


def _between(arrays: tuple[GlobalArray, ...], corners: bool, owner: int, holder: int) -> list[Pair]:
    """The copies from cells of one rank to ghosts of another, in an order that both agree on."""
    return [
        Pair(
            array.block(owner).restrict(piece.target + piece.shift).__gondwana_box__(),
            array.block(holder).restrict(piece.target).__gondwana_box__(),
        )
        for array in arrays
        for piece in array.layout.pieces(holder, corners=corners)
        if piece.owner == owner
    ]


def exchange(*arrays: GlobalArray, corners: bool = False, ready: bool = False) -> Exchange:
    """Start to fill the ghosts of arrays from the cells of the neighbours. Collective over their team; does not wait.

    The first call for these arrays makes a plan (blocking); later calls cost microseconds. Between the call and
    `wait()` of its result, this rank may read and write everything but the ghosts and may not change its own cells;
    `.inner` is the part that can be computed meanwhile. After `wait()` the ghosts are filled and the cells may change.
    Neighbours may need this rank's `wait()` to finish theirs: call it before anything else that waits for them. On GPUs
    that holds for the kernels launched before, between and after: the device keeps the order, `exchange` and `wait` do
    not wait for it.

    Several arrays in one call share handshakes and messages. All ranks give the same arrays, in the first call in the
    same order. Ghosts outside of a domain that is not periodic keep their values.

    Args:
        *arrays: global arrays of one team, of any shapes, dtypes and ghost widths.
        corners: fill also the ghosts that lie outside along several axes, from all diagonal neighbours at once;
            stencils with neighbours along the axes only do not need them.
        ready: promise that when a rank starts this exchange, its neighbours neither read nor write their ghosts any
            more; these may then change before their own rank calls. It saves a handshake on a node, as MPI's ready mode
            does, and changes nothing elsewhere. The promise holds if the ghosts of two arrays are exchanged in
            turns, and a rank starts each exchange after its work with the ghosts of the one before.

    Returns:
        The exchange under way: call its `wait()` before the next exchange of the same arrays.

    Raises:
        UsageError: no arrays, an array twice, different teams; in the first call also other arrays, another order or
            other options on another rank, raised by every rank.
        RuntimeError: the last exchange of these arrays was not waited for.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain(0, 8), ghost=1, periodic=True)
        >>> T.fill(float(gw.world.rank))
        >>> gw.exchange(T).wait()
    """
    for array in arrays:
        if not isinstance(array, GlobalArray):
            raise UsageError(f"exchange takes global arrays (gw.zeros, ...), not {array!r}")
    if not arrays or len({id(array) for array in arrays}) < len(arrays):
        raise UsageError(f"exchange got {len(arrays)} arrays: give at least one, each once")
    if any(array.team != arrays[0].team for array in arrays):
        raise UsageError("exchange takes arrays of one team: make several calls for several teams")
    key = (corners, ready, *map(id, arrays))
    plan = arrays[0].plans.get(key)
    if plan is None:
        plan = arrays[0].plans[key] = _of_other_order(arrays, key) or _made(arrays, corners, ready)
        for array in arrays[1:]:
            weakref.finalize(array, forget, weakref.ref(arrays[0]), key).atexit = False
    return plan.start()


def _of_other_order(arrays: tuple[GlobalArray, ...], key: _Key) -> Exchange | None:
    """Return the plan of these arrays in another order: other ranks may use that order."""
    for array in arrays:
        for known, plan in array.plans.items():
            if known[:2] == key[:2] and sorted(known[2:]) == sorted(key[2:]):
                return plan
    return None


def _made(arrays: tuple[GlobalArray, ...], corners: bool, ready: bool) -> Exchange:
    """Make the plan of a call that is the same on all ranks. Collective over their team."""
    arrays[0].team.expect_same("exchanges", arrays=[a.label for a in arrays], corners=corners, ready=ready)
    kinds = list(zip(*(array.kinds for array in arrays), strict=True))
    return plan_in(ghost_copies(arrays, corners, ready), kinds)


class Accumulation:
    """Ghosts that are added to the cells which they are copies of: the result of `T.accumulate()`.

    Collective over the team of the array to make (blocking).

    Args:
        array: the array.

    Raises:
        UsageError: the array has no numbers that a processor or a GPU can add, or the ranks give different arrays;
            raised by every rank.
    """

    def __init__(self, array: GlobalArray) -> None:
        team, layout = array.team, array.layout
        team.expect_same("accumulations", _refusal(array), array=array.label)
        item, owners = array.dtype.itemsize, _owners(layout, team.rank)
        rooms = {rank: list(_rooms(layout, rank, item)) for rank in {*owners, team.rank}}
        mine = rooms[team.rank]
        nbytes = mine[-1][2] + _room(mine[-1][1], item) if mine else 0
        self._segment = Segment(team, nbytes, array.kind, window=not array.in_host_memory)

        def end(rank: int, piece: Piece, offset: int) -> DomainArray:
            """The room of some ghosts at their owner, with the coordinates of its cells."""
            cells, first = piece.target + piece.shift, self._segment.pointer(rank, array.dtype)
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
        self._plan = plan_in(copies, [[kind] for kind in array.kinds])
        local = array.block(team.rank)
        self._sums = [(local.restrict(piece.target + piece.shift), end(team.rank, piece, at)) for _, piece, at in mine]
        self._ghosts = [local.restrict(piece.target) for piece in layout.pieces(team.rank, corners=True)]
        self._pending = False

    def start(self) -> Self:
        """Begin a round, as `T.accumulate()` does. Collective over team; does not wait.

        Raises:
            RuntimeError: the last round was not waited for.
        """
        self._plan.start()
        self._pending = True
        return self

    def wait(self) -> None:
        """Return when the ghosts of the neighbours are added to the cells of this rank. Blocks; user-level progress."""
        self._plan.wait()
        self._add()

    def test(self) -> bool:
        """Return whether `wait` would return at once. Local; internal progress."""
        if self._plan.test():
            self._add()
        return not self._pending

    def _add(self) -> None:
        """Add what has arrived, in the order of the rooms, and set the ghosts to zero, once in a round."""
        if not self._pending:
            return
        self._pending = False
        for cells, room in self._sums:
            if isinstance(cells, Array) and isinstance(room, Array):
                np.add(cells.numpy(), room.numpy(), out=cells.numpy())
            else:
                _kernel()(cells.domain, cells, room)
        for ghosts in self._ghosts:
            ghosts.fill(0)


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
def _kernel() -> Any:
    """The kernel that adds on a GPU."""
    from gondwana.kernels.foreach_kernels import foreach

    return foreach(_add_at)


def _add_at(p: Any, cells: Any, room: Any) -> None:
    cells[p] += room[p]
