"""Filling ghosts: `exchange`, and what all ways to do it have in common."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod

from gondwana.arrays.ghost_cells import GhostCells
from gondwana.arrays.global_array import GlobalArray
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.teams import PersistentRequest


class Exchange(ABC):
    """The exchange of the ghosts of some arrays: made once, started by `exchange`, finished by `wait`.

    Attributes:
        moved: bytes that this rank writes into ghosts of other ranks in one round.
    """

    def __init__(self, cells: GhostCells) -> None:
        self._pending = False
        self.moved = sum(move.source.nbytes for rank in cells.neighbours for move in cells.to(rank))

    def start(self) -> Exchange:
        """Begin a round. Collective over team; does not wait for other ranks."""
        if self._pending:
            raise RuntimeError(
                "this exchange is still under way: call wait() on what exchange() returned before the next exchange"
            )
        self._pending = True
        _under_way.append(self)
        self._begin()
        return self

    def wait(self) -> None:
        """Return when the ghosts are filled and this rank's cells may be changed again. Blocks; user-level progress."""
        if not self._pending:
            return
        if len(_under_way) == 1 and self._soon():
            self._finish()
        else:  # a neighbour may wait first for another exchange of its, or for a call that this rank is to serve
            progress.wait_until(self.test, "an exchange of ghosts")

    def test(self) -> bool:
        """Return whether `wait` would return at once. Local; internal progress."""
        if not self._pending:
            return True
        for other in _under_way:
            if other is not self:
                other._advance()
        if self._advance():
            self._finish()
        return not self._pending

    def _finish(self) -> None:
        self._end()
        self._pending = False
        _under_way.remove(self)

    @abstractmethod
    def _begin(self) -> None:
        """Start a round."""

    @abstractmethod
    def _soon(self) -> bool:
        """Look for a while, if that is of use, whether all of this rank's part is done but `_end`."""

    @abstractmethod
    def _advance(self) -> bool:
        """Do what can be done now, and return whether all of this rank's part is done but `_end`."""

    @abstractmethod
    def _end(self) -> None:
        """Do what remains when all has arrived."""


_under_way: list[Exchange] = []
"""What this rank has started and not finished: all of it goes on while this rank waits for any."""


def free_requests(requests: list[PersistentRequest]) -> None:
    """Give the requests of an exchange back, but not those that MPI still works on. Local."""
    for request in requests:
        if request.test():
            request.free()


def _plan(arrays: tuple[GlobalArray, ...], corners: bool) -> Exchange:
    """Make an exchange. Collective over the team of the arrays."""
    cells = GhostCells(arrays, corners)
    if all(array.in_host_memory for array in arrays):
        from gondwana.arrays.host_exchange import HostExchange

        return HostExchange(cells)
    from gondwana.arrays.device_exchange import DeviceExchange, can_exchange

    if can_exchange(arrays):
        return DeviceExchange(cells)
    from gondwana.arrays.copied_exchange import CopiedExchange

    return CopiedExchange(cells)


def _forget(first: weakref.ref[GlobalArray], key: tuple[int | bool, ...]) -> None:
    """Drop the plan of a call when one of its arrays is gone."""
    array = first()
    if array is not None:
        array.exchanges.pop(key, None)


def exchange(*arrays: GlobalArray, corners: bool = False) -> Exchange:
    """Start to fill the ghosts of arrays from the cells of the neighbours. Collective over their team; does not wait.

    The first call for these arrays makes a plan (blocking); later calls cost microseconds. Between the call and
    `wait()` of what it returns, this rank may read and write everything but the ghosts and may not change its own
    cells; `.inner` is what can be computed meanwhile. After `wait()` the ghosts are there and the cells may change.
    Neighbours may need this rank's `wait()` to finish theirs: call it before anything else that waits for them. On GPUs
    that holds for the kernels launched before, between and after: the device keeps the order, `exchange` and `wait` do
    not wait for it.

    Several arrays in one call share handshakes and messages. Ghosts outside of a domain that is not periodic keep what
    they have.

    Args:
        *arrays: global arrays of one team, of any shapes, dtypes and ghost widths.
        corners: fill also the ghosts that lie outside along several axes, from all diagonal neighbours at once;
            stencils with neighbours along the axes only do not need them.

    Returns:
        What is under way: `wait()` for it before the next exchange of the same arrays.

    Raises:
        UsageError: no arrays, an array twice, different teams.
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
    key = (corners, *map(id, arrays))
    plan = arrays[0].exchanges.get(key)
    if plan is None:
        plan = arrays[0].exchanges[key] = _plan(arrays, corners)
        for array in arrays[1:]:
            weakref.finalize(array, _forget, weakref.ref(arrays[0]), key).atexit = False
    return plan.start()
