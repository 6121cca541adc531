"""Filling ghosts: `exchange` is a plan of the cells of one rank that are ghosts of another."""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

from gondwana.arrays.divided import forget
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.walls.conditions import conditions
from gondwana.errors import UsageError
from gondwana.transfer.plans.create import plan_in
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan, check_time

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
            array._peek(owner).restrict(piece.target + piece.shift).__gondwana_box__(),
            array._peek(holder).restrict(piece.target).__gondwana_box__(),
        )
        for array in arrays
        for piece in array.layout.pieces(holder, corners=corners)
        if piece.owner == owner
    ]


def exchange(*arrays: GlobalArray, corners: bool = False, ready: bool = False, time: float | None = None) -> Exchange:
    """Start to fill the ghosts of arrays from the cells of the neighbours. Collective over their team; does not wait.

    The first call for these arrays makes a plan (blocking); later calls cost microseconds. Between the call and
    `wait()` of its result, this rank may read and write everything but the ghosts and may not change its own cells;
    `.inner` is the part that can be computed meanwhile. After `wait()` the ghosts are filled and the cells may change.
    Neighbours may need this rank's `wait()` to finish theirs: call it before anything else that waits for them. On GPUs
    that holds for the kernels launched before, between and after: the device keeps the order, `exchange` and `wait` do
    not wait for it.

    Several arrays in one call share handshakes and messages. All ranks give the same arrays, in the first call in the
    same order. Ghosts at walls (`boundary=` of `gw.zeros` and the like) are filled, too: those that `.inner` needs by
    this call, the others by `wait()`. Other ghosts outside of a domain that is not periodic keep their values.

    Args:
        *arrays: global arrays of one team, of any shapes, dtypes and ghost widths.
        corners: fill also the ghosts that lie outside along several axes, from all diagonal neighbours at once;
            stencils with neighbours along the axes only do not need them. At walls they are composed axis by axis, as
            `numpy.pad` does: the wall of an axis takes the ghosts at walls of the axes before it for cells.
        ready: promise that when a rank starts this exchange, its neighbours neither read nor write their ghosts any
            more; these may then change before their own rank calls. It saves a handshake on a node, as MPI's ready mode
            does, and changes nothing elsewhere. The promise holds if the ghosts of two arrays are exchanged in
            turns, and a rank starts each exchange after its work with the ghosts of the one before.
        time: time for walls whose values depend on it; needed if there are any.

    Returns:
        The exchange under way: call its `wait()` before the next exchange of the same arrays.

    Raises:
        UsageError: no arrays, an array twice, different teams, a time that is missing or that no wall depends on; in
            the first call also other arrays, another order or other options on another rank, raised by every rank.
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
        check_time(time, needed=any(one.is_timed(a.ndim) for a in arrays for one in conditions(a.faces)))
        plan = arrays[0].plans[key] = _of_other_order(arrays, key) or _made(arrays, corners, ready)
        for array in arrays[1:]:
            weakref.finalize(array, forget, weakref.ref(arrays[0]), key).atexit = False
    return plan.start(time)


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
    plan = plan_in(ghost_copies(arrays, corners, ready), kinds)
    walled = [(array.local, array.layout, array.faces, array.team.rank) for array in arrays if conditions(array.faces)]
    if walled:
        from gondwana.arrays.walls.filling import fill_walls  # only now: kernels take time to load

        fill_walls(plan, walled, corners=corners)
    return plan
