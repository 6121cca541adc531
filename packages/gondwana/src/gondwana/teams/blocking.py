"""Waiting of a team's blocking collectives: with user-level progress, since a late rank may need this one first."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gondwana.runtime import ordering, progress
from gondwana.runtime.races.reporting import each_collective
from gondwana.runtime.tracing import each_method
from gondwana.runtime.watching import waits
from gondwana.teams import mpi
from gondwana.teams.ops import Op
from gondwana.teams.request import complete

SHORT = 16384
"""The largest contribution of a rank [bytes] with which MPI's non-blocking form of a collective is used.

It takes one to three steps of the network, where a barrier before the blocking form takes as many again. With more
bytes the time of the barrier no longer counts, and MPI has better algorithms for its blocking forms.
"""

LARGEST_FOLDED, MOST_FOLDED, MOST_FOLDING = 64 * 1024, 384 * 1024, 16
"""Contributions to a sum are combined in the order of the ranks if each has at most so many bytes, and all together,
and between nodes if they are also of at most so many ranks. MPI combines the others, in an order of its own."""

ROOM = 504
FIRST = struct.Struct(f"q{ROOM}s")
"""The first message of an object between nodes: the length of its bytes, and those of them that it has room for."""


def folds(ranks: int, nbytes: int, share_memory: bool) -> bool:
    """Return whether contributions of so many bytes each are combined in the order of the ranks. Local.

    Through memory if all ranks share some; else each rank that gets the result gathers the contributions of all.
    """
    is_small = nbytes <= LARGEST_FOLDED and ranks * nbytes <= MOST_FOLDED
    return ranks > 1 and is_small and (share_memory or ranks <= MOST_FOLDING)


class Quick(Protocol):
    """Collectives of few bytes without the requests of mpi4py.

    Each of them returns False, and does nothing, if it leaves the work to others; perhaps not the same on all ranks.
    """

    def fill(self, buffer: np.ndarray[Any, Any], root: int) -> bool:
        """Broadcast the array of ``root``. Collective over team. Blocking."""

    def combine(self, send: Any, recv: Any, op: Op) -> bool:
        """Combine arrays by elements. Collective over team. Blocking."""


class OnNode(Quick, Protocol):
    """Collectives of few bytes without MPI, for a team whose ranks are all on one node.

    Attributes:
        address: address of the memory that its ranks share, for compiled code.
        largest: bytes of the largest array that is broadcast through it.
    """

    address: int
    largest: int

    def barrier(self) -> None:
        """Wait until all ranks have come. Collective over team. Blocking; user-level progress."""

    def bcast(self, buffer: np.ndarray[Any, Any], root: int) -> None:
        """Broadcast a contiguous buffer of ``root`` that fits. Collective over team. Blocking."""

    def fold(self, send: np.ndarray[Any, Any], recv: np.ndarray[Any, Any] | None, op: Op) -> None:
        """Combine contiguous buffers in the order of the ranks, on ranks with a `recv`. Collective. Blocking."""

    def bring(self, data: bytes, root: int | None) -> tuple[Sequence[bytes], list[int] | None]:
        """Return the bytes of a root or of all ranks, and their lengths if those are not all. Collective. Blocking."""


class BetweenNodes(Quick, Protocol):
    """MPI's collectives of few bytes by machine code, for a team whose ranks share no memory."""

    def barrier(self) -> bool:
        """Wait until all ranks have come, or return False. Collective over team. Blocking; user-level progress."""

    def gather(self, part: np.ndarray[Any, Any], whole: np.ndarray[Any, Any]) -> bool:
        """Gather equal parts on all ranks, or return False. Collective over team. Blocking."""


@each_collective
@ordering.each_counted
@each_method("collective")
class Blocking:
    """The barrier, and the common parts of all blocking collectives of a team."""

    comm: mpi.Communicator
    rank: int
    size: int
    name: str
    world_ranks: tuple[int, ...]
    on_node: OnNode | None = None
    between_nodes: BetweenNodes | None = None

    def barrier(self) -> None:
        """Wait until every rank has entered this barrier. Collective over team. Blocking; user-level progress.

        Remote calls from other ranks run here meanwhile.

        Raises:
            ProgressError: called inside a callback.
        """
        on_node = self.on_node
        if on_node is not None:
            on_node.barrier()
        else:
            self._arrive("a barrier")

    def _arrive(self, what: str = "a collective") -> None:
        """Wait until all ranks arrive, with progress: a late rank may need this one, and MPI serves no calls."""
        if self.on_node is not None:
            self.on_node.barrier()
        elif self.between_nodes is None or not self.between_nodes.barrier():
            progress.refuse_in_callback(what)
            complete(self.comm.Ibarrier(), self._meeting(what))

    def _perform(self, collective: str, nbytes: int, *arguments: Any) -> None:
        """Perform a collective of MPI, and serve other ranks until it has all that it needs of them. Blocking.

        Args:
            collective: the name of its blocking form.
            nbytes: bytes of one rank's contribution, the same on all ranks.
            *arguments: arguments of both forms.
        """
        if nbytes > SHORT or self.on_node is not None or mpi.is_serial(self.comm):
            self._arrive(collective)
            getattr(self.comm, collective)(*arguments)
            return
        progress.refuse_in_callback("a collective")
        complete(getattr(self.comm, "I" + collective.lower())(*arguments), self._meeting(collective, nbytes))

    def _meeting(self, collective: str, nbytes: int = 0) -> waits.Why:
        """Return what describes the wait for the other ranks in a collective."""
        return lambda: waits.of_collective(collective, (self.name, self.rank, self.world_ranks), nbytes)

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self.size:
            raise ValueError(f"root {root}: legal are the ranks 0 to {self.size - 1}")
