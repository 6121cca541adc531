"""Payloads: the long contents of calls and replies between nodes, each a message of MPI of its own.

What a record of a ring cannot hold follows it: the record says how long it is, and its receiver provides the memory
into which MPI then puts it. Records and payloads of a queue have the same order, so that no payload needs a name. They
have a communicator of their own, so no message of the program can match one. A send completes when the receiver has
begun to receive (MPI's synchronous mode): the sender alone limits what is in transit to a rank.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.teams import mpi
from gondwana.teams.team import Team

Bytes = npt.NDArray[np.uint8]

MOST_PAYLOADS = 64
MOST_BYTES = 4 * 2**20
"""Limits on what is in transit to one rank in one queue; one payload is always allowed."""


class Payloads:
    """The payloads that this rank sends and receives. Collective over team to create; everything else is local.

    They move only inside calls of MPI: there are no hidden threads. The caller ensures that no two threads send, and no
    two receive, at the same time.

    Args:
        team: the ranks that send and receive; it works through MPI.

    Attributes:
        coming: bit of each queue with payloads that have been announced and have not arrived.
    """

    def __init__(self, team: Team) -> None:
        self._comm = team.comm.Dup()
        self._leaving: dict[tuple[int, int], deque[tuple[Any, Bytes]]] = {}
        self._arriving: dict[int, list[tuple[Any, tuple[int, int, int], Bytes]]] = {}
        self.coming = 0

    def has_room(self, rank: int, queue: int, nbytes: int) -> bool:
        """Return whether a payload may be sent to a rank now. Local; makes MPI's progress if others are in transit."""
        leaving = self._leaving.setdefault((queue, rank), deque())
        while leaving and leaving[0][0].Test():
            leaving.popleft()
        total = nbytes + sum(payload.nbytes for _, payload in leaving)
        return not leaving or (len(leaving) < MOST_PAYLOADS and total <= MOST_BYTES)

    def send(self, rank: int, queue: int, payload: Bytes) -> None:
        """Send bytes that do not change until they have arrived, where there is room. Local."""
        request = self._comm.Issend(mpi.message(self._comm, payload), rank, queue)
        self._leaving[queue, rank].append((request, payload))

    def expect(self, queue: int, rank: int, tag: int, number: int, nbytes: int) -> None:
        """Provide memory for a payload that a rank has announced, of a message with a tag and a number. Local."""
        memory = np.empty(nbytes, np.uint8)
        request = self._comm.Irecv(mpi.message(self._comm, memory), rank, queue)
        self._arriving.setdefault(queue, []).append((request, (rank, tag, number), memory))
        self.coming |= 1 << queue

    def arrived(self, queue: int) -> tuple[int, int, int, memoryview] | None:
        """Return the sender, tag, number and bytes of a message whose payload has arrived. Local; MPI's progress."""
        if not self.coming >> queue & 1:
            return None
        arriving = self._arriving[queue]
        for place, (request, message, memory) in enumerate(arriving):
            if request.Test():
                del arriving[place]
                self.coming ^= int(not arriving) << queue
                return *message, memory.data
        return None
