"""Parcels: byte messages between ranks of different nodes, bounded on the way, for remote procedure calls.

They travel on a communicator of their own, so nothing that the program sends can be mistaken for one. A send completes
when the receiver has begun to receive (MPI's synchronous mode): what is unanswered towards a rank is bounded by the
sender alone, and no credits travel back.
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

LANES = 2
REQUESTS, REPLIES = range(LANES)
"""The two lanes: what is full or unread in one does not hold up the other."""

MOST_PARCELS = 64
MOST_BYTES = 4 * 2**20
"""How much may be on the way to one rank in one lane; one parcel always may."""


class Parcels:
    """Byte messages among the ranks of a team. Collective over team to make; blocking.

    All other methods are local. Parcels arrive once; in which order, is not said. Nothing moves but inside ``send`` and
    ``poll`` and other calls of MPI: there are no hidden threads. One thread may send while another polls; the caller
    lets no two send, and no two poll, at once.

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
            raise UsageError(f"parcels over {team!r}: its one rank has nobody to send to, and MPI is not in use")
        self.team = team
        self._comm = team.comm.Dup()
        self._leaving: dict[tuple[int, int], _Leaving] = {}
        self._arriving: tuple[list[tuple[Any, int, Bytes]], ...] = tuple([] for _ in range(LANES))
        self._anybody = mpi.any_source(self._comm, None)
        self._status = mpi.module().Status()

    def send(self, rank: int, parts: Sequence[Buffer], lane: int = REQUESTS) -> bool:
        """Send the concatenated ``parts`` to ``rank``, unless too much is on the way to it. Non-blocking.

        Args:
            rank: the receiver, in the team.
            parts: contiguous buffers of any size; they are copied and may change when the call returns.
            lane: REQUESTS or REPLIES.

        Returns:
            False if nothing was sent: the budget for this rank and lane is used up. It is regained when the receiver
            polls.
        """
        leaving = self._leaving.get((lane, rank))
        if leaving is None:
            leaving = self._leaving[lane, rank] = _Leaving()
        if not leaving.has_room(sum(memoryview(part).nbytes for part in parts)):
            return False
        parcel = np.frombuffer(b"".join(parts), np.uint8)
        leaving.add(self._comm.Issend(mpi.message(self._comm, parcel), rank, lane), parcel)
        return True

    def poll(self, lane: int = REQUESTS) -> tuple[int, memoryview] | None:
        """Return the sender and the bytes of a parcel that has arrived, or None. Non-blocking; drives MPI's progress.

        A large parcel may need several calls until it is there; others are returned meanwhile.
        """
        arriving = self._arriving[lane]
        if arriving and (parcel := self._arrived(lane)) is not None:
            return parcel
        message = self._comm.Improbe(self._anybody, lane, self._status)
        if message is None:
            return None
        array = np.empty(mpi.message_size(self._status), np.uint8)
        request = message.Irecv(mpi.message(self._comm, array))
        arriving.append((request, int(self._status.source), array))
        return self._arrived(lane)

    def _arrived(self, lane: int) -> tuple[int, memoryview] | None:
        arriving = self._arriving[lane]
        for place, (request, source, array) in enumerate(arriving):
            if request.Test():
                del arriving[place]
                return source, array.data
        return None

    def pending(self, rank: int, lane: int = REQUESTS) -> int:
        """Return how many parcels to ``rank`` are on the way. Local; drives MPI's progress."""
        leaving = self._leaving.get((lane, rank))
        return 0 if leaving is None else leaving.settle()

    @property
    def idle(self) -> bool:
        """Whether no parcel of this rank is on the way, and none half received. Drives MPI's progress."""
        return not any(self._arriving) and not any(leaving.settle() for leaving in self._leaving.values())

    def free(self) -> None:
        """Give the communicator back to MPI. Collective over team; every rank must be idle."""
        self._comm.Free()


class _Leaving:
    """The parcels on the way to one rank in one lane, oldest first, with their bytes, which MPI reads."""

    __slots__ = ("nbytes", "sends")

    def __init__(self) -> None:
        self.sends: deque[tuple[Any, Bytes]] = deque()
        self.nbytes = 0

    def add(self, request: Any, parcel: Bytes) -> None:
        self.sends.append((request, parcel))
        self.nbytes += parcel.nbytes

    def settle(self) -> int:
        """Forget the parcels that have been received; return how many are left."""
        while self.sends and self.sends[0][0].Test():
            self.nbytes -= self.sends.popleft()[1].nbytes
        return len(self.sends)

    def has_room(self, nbytes: int) -> bool:
        """Tell whether a parcel of ``nbytes`` may leave; it is asked of MPI only when the budget seems used up."""
        return self._fits(nbytes) or (self.settle() >= 0 and self._fits(nbytes))

    def _fits(self, nbytes: int) -> bool:
        return not self.sends or (len(self.sends) < MOST_PARCELS and self.nbytes + nbytes <= MOST_BYTES)
