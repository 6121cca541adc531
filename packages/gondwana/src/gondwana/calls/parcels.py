"""Parcels: byte messages between ranks of different nodes for remote calls, with a limit on those in transit.

They have a communicator of their own, so no message of the program can match one. A send completes when the receiver
has begun to receive (MPI's synchronous mode): the sender alone limits what is in transit to a rank, without credit
messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.teams import mpi
from gondwana.teams.buffers import Buffer
from gondwana.teams.team import Team

Bytes = npt.NDArray[np.uint8]

QUEUES = 2
REQUESTS, REPLIES = range(QUEUES)
"""The two queues: a full or unread one does not block the other."""

MOST_PARCELS = 64
MOST_BYTES = 4 * 2**20
"""Limits on what is in transit to one rank in one queue; one parcel is always allowed."""


class Parcels:
    """Byte messages among the ranks of a team. Collective over team to create; blocking.

    All other methods are local. Parcels arrive exactly once, in no particular order. They move only inside ``send``,
    ``poll`` and other calls of MPI: there are no hidden threads. One thread may send while another polls; the caller
    ensures that no two send, and no two poll, at the same time.

    Args:
        team: the ranks that send and receive; it works through MPI.

    Raises:
        UsageError: the team works without MPI.

    Example:
        >>> import gondwana as gw
        >>> parcels = Parcels(gw.world)                        # doctest: +SKIP
        >>> parcels.send(1, [b"header", b"payload"])        # doctest: +SKIP
        True
        >>> parcels.poll()                                  # doctest: +SKIP
        (0, <memory at 0x7f1c5e0d1a80>)
    """

    def __init__(self, team: Team) -> None:
        if mpi.is_serial(team.comm):
            raise UsageError(f"parcels over {team!r}: it has one rank and works without MPI; start more ranks")
        self.team = team
        self._comm = team.comm.Dup()
        self._leaving: dict[tuple[int, int], _Leaving] = {}
        self._arriving: tuple[list[tuple[Any, int, Bytes]], ...] = tuple([] for _ in range(QUEUES))
        self._any_source = mpi.any_source(self._comm, None)
        self._status = mpi.module().Status()

    def send(self, rank: int, parts: Sequence[Buffer], queue: int = REQUESTS) -> bool:
        """Send the concatenated ``parts`` to ``rank``, unless too much is in transit to it. Non-blocking.

        Args:
            rank: the receiver, in the team.
            parts: contiguous buffers of any size; they are copied and may change when the call returns.
            queue: REQUESTS or REPLIES.

        Returns:
            False if nothing was sent, because the budget for this rank and queue is used up. It becomes free again
            when the receiver polls.
        """
        leaving = self._leaving.get((queue, rank))
        if leaving is None:
            leaving = self._leaving[queue, rank] = _Leaving()
        if not leaving.has_room(sum(memoryview(part).nbytes for part in parts)):
            return False
        parcel = np.frombuffer(b"".join(parts), np.uint8)
        leaving.add(self._comm.Issend(mpi.message(self._comm, parcel), rank, queue), parcel)
        return True

    def poll(self, queue: int = REQUESTS) -> tuple[int, memoryview] | None:
        """Return the sender and the bytes of a parcel that has arrived, or None. Non-blocking; makes MPI's progress.

        A large parcel may need several calls until it has arrived; others are returned meanwhile.
        """
        arriving = self._arriving[queue]
        if arriving and (parcel := self._arrived(queue)) is not None:
            return parcel
        message = self._comm.Improbe(self._any_source, queue, self._status)
        if message is None:
            return None
        array = np.empty(mpi.message_size(self._status), np.uint8)
        request = message.Irecv(mpi.message(self._comm, array))
        arriving.append((request, int(self._status.source), array))
        return self._arrived(queue)

    def _arrived(self, queue: int) -> tuple[int, memoryview] | None:
        arriving = self._arriving[queue]
        for place, (request, source, array) in enumerate(arriving):
            if request.Test():
                del arriving[place]
                return source, array.data
        return None

    def pending(self, rank: int, queue: int = REQUESTS) -> int:
        """Return how many parcels to ``rank`` are in transit. Local; makes MPI's progress."""
        leaving = self._leaving.get((queue, rank))
        return 0 if leaving is None else leaving.discard_received()

    @property
    def idle(self) -> bool:
        """Whether no parcel of this rank is in transit, and none partly received. Makes MPI's progress."""
        return not any(self._arriving) and not any(leaving.discard_received() for leaving in self._leaving.values())

    def free(self) -> None:
        """Free the communicator. Collective over team; every rank must be idle."""
        self._comm.Free()


class _Leaving:
    """The parcels in transit to one rank in one queue, oldest first, with their bytes, which MPI reads."""

    __slots__ = ("nbytes", "sends")

    def __init__(self) -> None:
        self.sends: deque[tuple[Any, Bytes]] = deque()
        self.nbytes = 0

    def add(self, request: Any, parcel: Bytes) -> None:
        self.sends.append((request, parcel))
        self.nbytes += parcel.nbytes

    def discard_received(self) -> int:
        """Drop the parcels that have been received; return how many are left."""
        while self.sends and self.sends[0][0].Test():
            self.nbytes -= self.sends.popleft()[1].nbytes
        return len(self.sends)

    def has_room(self, nbytes: int) -> bool:
        """Return whether a parcel of ``nbytes`` may be sent; MPI is polled only if the budget seems used up."""
        return self._fits(nbytes) or (self.discard_received() >= 0 and self._fits(nbytes))

    def _fits(self, nbytes: int) -> bool:
        return not self.sends or (len(self.sends) < MOST_PARCELS and self.nbytes + nbytes <= MOST_BYTES)
