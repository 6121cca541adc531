"""Collectives of few bytes between nodes by machine code: one call starts MPI's non-blocking form and polls it.

mpi4py's requests take as long as a message on a fast network. What is not complete after some polls is waited for in
Python, with progress. Machine code looks at the arrays itself (`compiler.native`). What it leaves takes the way of
mpi4py, which calls the same functions of MPI: ranks meet whichever way each of them takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native, abi_is_known, pays_off
from gondwana.runtime import progress
from gondwana.teams import Op, Team, mpi
from gondwana.teams.blocking import MOST_GATHERED, MOST_GATHERING
from gondwana.transfer.collectives.on_node import IN_MACHINE_CODE
from gondwana.transfer.messages.verbs import DONE, DirectMessages

_MODULE = "gondwana.transfer.collectives.between_nodes_native"
_barrier = Native(_MODULE, "barrier", 1, brief=True)
_fill = Native(_MODULE, "fill", 3, brief=True)
_gather = Native(_MODULE, "gather", 3, brief=True)
_combine = Native(_MODULE, "combine", 5, brief=True)
_fold = Native(_MODULE, "fold_gathered", 5, brief=True)

_PLACES = {op: place for place, op in enumerate(IN_MACHINE_CODE)}
_WHAT = "a collective"

_Array = npt.NDArray[Any]


class BetweenNodes:
    """The machine code for the collectives of a team that MPI serves: see `teams.blocking.BetweenNodes`. Local.

    Args:
        team: has several ranks, and no memory that all of them share.
        messages: of the team.
    """

    def __init__(self, team: Team, messages: DirectMessages) -> None:
        self._block, self._size, self._finish = messages.block, team.size, messages.finish
        self._most = MOST_GATHERED // team.size if team.size <= MOST_GATHERING else 0
        self._calls = 0

    def barrier(self) -> bool:
        """Wait until all ranks have come, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_barrier):
            return False
        found = _barrier.call(self._block)
        return bool(found == DONE or self._finish(found, "a barrier"))

    def fill(self, buffer: _Array, root: int) -> bool:
        """Fill an array with that of ``root``, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_fill):
            return False
        found = _fill.call(self._block, id(buffer), root)
        return bool(found == DONE or self._finish(found, _WHAT, buffer))

    def gather(self, part: _Array, whole: _Array) -> bool:
        """Gather equal parts on all ranks, or return False: MPI must. Collective over team. Blocking."""
        if not self._can_start(_gather):
            return False
        found = _gather.call(self._block, id(part), id(whole))
        return bool(found == DONE or self._finish(found, _WHAT, part, whole))

    def combine(self, send: _Array, recv: _Array, op: Op) -> bool:
        """Combine arrays by elements, or return False: MPI must. Collective over team. Blocking."""
        place, nbytes = _PLACES.get(op), recv.nbytes
        if place is None or nbytes > self._most or not self._can_start(_combine):
            return False
        parts = np.empty(self._size * nbytes, np.uint8)
        found = _combine.call(self._block, place, id(send), id(recv), id(parts))
        if found == DONE:
            return True
        if not self._finish(found, _WHAT, send, parts):
            return False
        _fold.call(self._block, place, id(send), id(recv), id(parts))
        return True

    def _can_start(self, function: Native) -> bool:
        """Return whether this rank may wait, and has this machine code: it is loaded when it pays."""
        if progress.thread.flow.depth:
            return False
        self._calls += 1
        return pays_off(self._calls, function)


def attach(team: Team) -> None:
    """Give a team machine code for what MPI does between nodes. Local."""
    if team.size > 1 and team.on_node is None and not mpi.is_serial(team.comm) and abi_is_known():
        team.between_nodes = BetweenNodes(team, DirectMessages(team))
