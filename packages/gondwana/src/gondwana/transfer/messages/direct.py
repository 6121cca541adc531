"""Blocking messages, and collectives of few bytes, that MPI does for Python by machine code.

They are as fast as mpi4py's although they can wait with progress: mpi4py's own blocking calls would hold up remote
calls, and its requests take twice as long. So one call of machine code starts MPI's non-blocking form and polls it;
only what is not complete then is waited for in Python. Machine code looks at the arrays itself (`compiler.native`).
What it leaves takes the way of mpi4py, which calls the same functions of MPI: ranks meet whichever way each takes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native, abi_is_known, pays_off
from gondwana.runtime import progress
from gondwana.runtime.watching import waits
from gondwana.teams import Op, Team, addresses, mpi
from gondwana.teams.blocking import folds
from gondwana.teams.messages import DONE, NOT_YET, UNFIT, Start, StartTwo
from gondwana.teams.request import size_of
from gondwana.transfer.collectives.on_node import KINDS, PLACES, item_sizes

POLLS = 20
"""Polls of a request before a waiting rank makes progress."""
COMMUNICATOR, SIZE, RANK, DATATYPES = 0, 8, 16, 24
ITEM_SIZES = DATATYPES + 8 * KINDS
"""Where in the block are the handle of the communicator, its size, and this rank; and by the numbers of dtypes, handles
of datatypes, 0 if MPI has none, and bytes of an element."""

_abandoned: list[object] = []
"""Buffers of requests whose wait an exception has ended, which MPI still uses."""

_MODULE = "gondwana.transfer.messages.direct_native"
_native = partial(Native, _MODULE, brief=True)
_send, _receive, _sendrecv = _native("send", 4), _native("receive", 4), _native("sendrecv", 8)
_send_object = _native("send_object", 4, objects=1)
_receive_object = _native("receive_object", 4, objects=1, makes_object=True)
_go_on = _native("go_on", 1)
_barrier, _fill, _gather = _native("barrier", 1), _native("fill", 3), _native("gather", 3)
_combine, _fold = _native("combine", 5), _native("fold_gathered", 5)

_Array = npt.NDArray[Any]


class Direct:
    """The machine code for the messages of a team, and for its collectives where its ranks share no memory. Local.

    See `teams.messages.Direct` and `teams.blocking.BetweenNodes`.

    Args:
        team: Several ranks of MPI, or one.
    """

    def __init__(self, team: Team) -> None:
        handles = [0] * KINDS
        for dtype in map(np.dtype, "?bhilqBHILQfdFD"):
            handles[dtype.num] = addresses.datatype(dtype.name)
        words = addresses.handle(team.comm), team.size, team.rank, *handles, *item_sizes()
        self._words = np.array(words, np.int64)
        self._size = team.size
        self._team = team.name, team.rank, team.world_ranks
        self.block = int(self._words.ctypes.data)
        self.any_tag = int(mpi.any_tag(team.comm, None) or 0)
        self.send: Start = partial(self._load, "send", _send, UNFIT)
        self.receive: Start = partial(self._load, "receive", _receive, UNFIT)
        self.sendrecv: StartTwo = partial(self._load, "sendrecv", _sendrecv, UNFIT)
        self.send_object: Start = partial(self._load, "send_object", _send_object, UNFIT)
        self.receive_object: Start = partial(self._load, "receive_object", _receive_object, None)
        self._calls = 0
        self._loaded: set[Native] = set()

    # -- messages ------------------------------------------------------------------------------------------------

    def await_object(self, found: Any, rank: int, tag: int, message: waits.Message) -> Any:
        """Wait for the bytes of an object, with progress; or return None: mpi4py must. Local; blocking."""

        def has_come() -> bool:
            nonlocal found
            if found == NOT_YET:
                found = self.receive_object(self.block, rank, tag, None)
            return type(found) is not int or found != NOT_YET

        progress.wait_until(has_come, "a message", why=partial(waits.of_message, *message))
        if type(found) is int:
            raise mpi.module().Exception(-found)
        return found

    def finish(self, found: int, what: waits.Message | waits.Wait, *buffers: Any) -> bool:
        """Wait for the request that a call has left, with progress. Local; blocking.

        Args:
            found: Value that the call has returned.
            what: Message that is waited for, or what else is.
            *buffers: Buffers of the call, first that of the message; MPI still uses all if an exception ends the wait.

        Returns:
            False if nothing was done, so that it is left to mpi4py.

        Raises:
            RuntimeError: MPI has refused the message; mpi4py's exception.
        """
        if found == UNFIT:
            return False
        if found == DONE:
            return True

        def done() -> bool:
            nonlocal found
            if found > 0:
                found = _go_on.call(found)
            return found <= 0

        try:
            if isinstance(what, waits.Wait):
                why = partial(waits.Wait, what.what, what.kind, what.ranks, size_of(buffers))
            else:
                why = partial(waits.of_message, *what, size_of(buffers[:1]))
            progress.wait_until(done, "a message" if why.func is waits.of_message else "a collective", why=why)
        except BaseException:
            _abandoned.append(buffers)
            raise
        if found < 0:
            raise mpi.module().Exception(-found)
        return True

    # -- collectives ---------------------------------------------------------------------------------------------

    def barrier(self) -> bool:
        """Wait until all ranks have come, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_barrier):
            return False
        found = _barrier.call(self.block)
        return bool(found == DONE or self.finish(found, waits.of_collective("a barrier", self._team)))

    def fill(self, buffer: _Array, root: int) -> bool:
        """Fill an array with that of ``root``, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_fill):
            return False
        found = _fill.call(self.block, id(buffer), root)
        return bool(found == DONE or self.finish(found, waits.of_collective("a broadcast", self._team), buffer))

    def gather(self, part: _Array, whole: _Array) -> bool:
        """Gather equal parts on all ranks, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_gather):
            return False
        found = _gather.call(self.block, id(part), id(whole))
        return bool(found == DONE or self.finish(found, waits.of_collective("a gather", self._team), part, whole))

    def combine(self, send: _Array, recv: _Array, op: Op) -> bool:
        """Combine arrays by elements, or return False: MPI must. Collective over team. Blocking."""
        place, nbytes = PLACES.get(op), recv.nbytes
        if place is None or not folds(self._size, nbytes, share_memory=False) or not self._can_start(_combine):
            return False
        parts = np.empty(self._size * nbytes, np.uint8)
        found = _combine.call(self.block, place, id(send), id(recv), id(parts))
        if found == DONE:
            return True
        if not self.finish(found, waits.of_collective("an allreduce", self._team), send, parts):
            return False
        _fold.call(self.block, place, id(send), id(recv), id(parts))
        return True

    def _can_start(self, function: Native) -> bool:
        """Return whether this rank may wait, and has this machine code: it is loaded when it pays."""
        if progress.thread.flow.depth:
            return False
        if function not in self._loaded:
            self._calls += 1
            if not pays_off(self._calls, function):
                return False
            self._loaded.add(function)
        return True

    def _load(self, name: str, function: Native, answer: int | None, *message: Any) -> Any:
        """Leave a message to mpi4py, and later ones to machine code if it pays to load it."""
        self._calls += 1
        if pays_off(self._calls, function):
            setattr(self, name, function.call)
        return answer


def attach(team: Team) -> None:
    """Give a team machine code for what MPI does for it. Local."""
    if not mpi.is_serial(team.comm) and abi_is_known():
        team.direct = direct = Direct(team)
        if team.size > 1 and team.on_node is None:
            team.between_nodes = direct
