"""Blocking messages of arrays from Python by machine code, as fast as mpi4py's although they can wait with progress.

mpi4py's own blocking calls would hold up remote calls, and its requests take twice as long. So one call of machine code
starts a message and polls it; only what is not complete then is waited for in Python. Machine code looks at the array
itself (`compiler.native`). What it leaves goes the way through mpi4py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gondwana.compiler.native import Native, abi_is_known, pays_off
from gondwana.runtime import progress
from gondwana.teams import Team, addresses, mpi
from gondwana.teams.messages import ANY as ANY
from gondwana.teams.messages import DONE as DONE
from gondwana.teams.messages import UNFIT as UNFIT
from gondwana.teams.messages import Start
from gondwana.teams.request import LONG, size_of

POLLS = 20
"""Polls of a message before a waiting rank makes progress."""
KINDS = 32
"""Numbers of dtypes that the block of a team has room for."""
COMMUNICATOR, SIZE, RANK, DATATYPES = 0, 8, 16, 24
ITEM_SIZES = DATATYPES + 8 * KINDS
"""Where in the block are the handle of the communicator, its size, and this rank; and by the numbers of dtypes, handles
of datatypes, 0 if MPI has none, and bytes of an element."""

_DTYPES = tuple(map(np.dtype, "?bhilqBHILQfdFD"))
_abandoned: list[object] = []
"""Buffers of requests whose wait an exception has ended, which MPI still uses."""

_MODULE = "gondwana.transfer.messages_native"
_send = Native(_MODULE, "send", 4, brief=True)
_receive = Native(_MODULE, "receive", 4, brief=True)
_start = Native(_MODULE, "start", 4, brief=True)
_go_on = Native(_MODULE, "go_on", 1, brief=True)


class DirectMessages:
    """The machine code for the messages of a team, as `teams.messages.Direct` describes it. Local.

    Args:
        team: of MPI ranks.
    """

    def __init__(self, team: Team) -> None:
        words = [addresses.handle(team.comm), team.size, team.rank, *_datatypes(), *_item_sizes()]
        self._words = np.array(words, np.int64)
        self.block = int(self._words.ctypes.data)
        self.any_tag = int(mpi.any_tag(team.comm, None) or 0)
        self.send: Start = partial(self._load, "send", _send)
        self.receive: Start = partial(self._load, "receive", _receive)
        self.start: Start = partial(self._load, "start", _start)
        self._calls = 0

    def finish(self, found: int, what: str, *buffers: np.ndarray[Any, Any]) -> bool:
        """Wait for the request that a call has left, with progress. Local; blocking.

        Args:
            found: what the call has returned.
            what: is waited for, for messages.
            *buffers: of the call; MPI still uses them if an exception ends the wait.

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
            progress.wait_until(done, what, for_ranks=size_of(buffers) <= LONG)
        except BaseException:
            _abandoned.append(buffers)
            raise
        if found < 0:
            raise mpi.module().Exception(-found)
        return True

    def _load(self, name: str, function: Native, block: int, array: int, rank: int, tag: int) -> int:
        """Leave a message to mpi4py, and later ones to machine code if it pays to load it."""
        self._calls += 1
        if pays_off(self._calls):
            setattr(self, name, function.call)
        return UNFIT


def _datatypes() -> list[int]:
    handles = [0] * KINDS
    for dtype in _DTYPES:
        handles[dtype.num] = addresses.datatype(dtype.name)
    return handles


def _item_sizes() -> list[int]:
    sizes = [0] * KINDS
    for dtype in _DTYPES:
        sizes[dtype.num] = dtype.itemsize
    return sizes


def attach(team: Team) -> None:
    """Give a team machine code for messages. Local."""
    if not mpi.is_serial(team.comm) and abi_is_known():
        team.direct = DirectMessages(team)
