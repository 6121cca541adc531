"""Round trips between ranks 0 and 1 in all ways, by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana_bench.measure import Variant, in_seconds
from gondwana_bench.native.messages import Messages
from gondwana_bench.rma.candidates import Between, Bytes, Candidate, absent

C, COMPILED, PYTHON = "C", "compiled", "Python"
MPI4PY, MPI4PY_OBJECTS, PYTHON_OBJECTS = "mpi4py", "mpi4py objects", "Python objects"
ONE_SIDED, PYTHON_ONE_SIDED = "compiled put + signal", "Python copy + notify"


class RoundTrips:
    """Messages, and transfers that are notified, there and back. Collective over team to create, else local.

    Args:
        team: at least two MPI ranks, on one or several nodes.
        nbytes: the largest message.
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        self._team, self._pair = team, Between(team)
        self._c = Messages(team)
        self._segment = gw.Segment(team, max(8, nbytes))
        self._exposed = self._segment.view(team.rank)
        self._sent, self._received = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        self._signal = gw.Signal(team)

    def two_sided(self, size: int) -> dict[str, Candidate]:
        """Return round trips of messages of `size` bytes. Local."""
        team, pair, here, back = self._team, self._pair, self._sent[:size], self._received[:size]
        runs: dict[str, Variant] = {
            C: partial(self._c.ping_pong, here, back),
            COMPILED: in_seconds(messages, team, here, back),
            MPI4PY: pair.sending(team.comm.Send, team.comm.Recv, here, back),
            PYTHON: pair.sending(team.Send, team.Recv, here, back),
            MPI4PY_OBJECTS: self._objects(team.comm.send, team.comm.recv, here, back),
            PYTHON_OBJECTS: self._objects(team.send, team.recv, here, back),
        }
        return {name: pair.moving(run, pair.there_and_back(here, back)) for name, run in runs.items()}

    def one_sided(self, size: int) -> dict[str, Candidate]:
        """Return round trips of `size` bytes that are put into the memory of the peer and notified. Local."""
        team, pair, here, there = self._team, self._pair, self._sent[:size], self._exposed[:size]
        target, signal = self._segment.pointer(self._pair.peer, "u1"), self._signal
        runs = {
            ONE_SIDED: in_seconds(puts, team, here, target, signal),
            PYTHON_ONE_SIDED: pair.notifying(here, target, signal),
        }
        return {name: pair.moving(run, pair.both_ways(here, there)) for name, run in runs.items()}

    def _objects(
        self,
        send: Callable[[object, int], object],
        receive: Callable[..., bytes],
        here: Bytes,
        back: Bytes,
    ) -> Variant:
        """Return round trips of bytes objects, which are pickled; the last one is copied so that it can be compared."""

        def variant(calls: int) -> float:
            message = here.tobytes()
            start = time.perf_counter()
            for _ in range(calls):
                if first:
                    send(message, 1)
                    message = receive(source=1)
                else:
                    message = receive(source=0)
                    send(message, 0)
            seconds = time.perf_counter() - start
            (back if first else here)[:] = np.frombuffer(message, np.uint8)
            return seconds

        first = self._team.rank == 0
        return variant if self._team.rank < 2 else absent


# Compiled loops: like those in C they begin at a barrier, and return the nanoseconds after it.


@gw.jit
def messages(team: Any, sent: Any, received: Any, calls: int) -> int:
    """Send `sent` of rank 0 to `sent` of rank 1 and back to `received`."""
    rank = team.rank
    gw.barrier(team)
    start = gw.clock()
    for _ in range(calls if rank < 2 else 0):
        if rank == 0:
            gw.send(team, sent, 1)
            gw.recv(team, received, 1)
        else:
            gw.recv(team, sent, 0)
            gw.send(team, sent, 0)
    return gw.clock() - start


@gw.jit
def puts(team: Any, source: Any, target: Any, arrivals: Any, calls: int) -> int:
    """Put `source` into the memory of the other of ranks 0 and 1, which is notified, there and back."""
    rank = team.rank
    gw.barrier(team)
    start = gw.clock()
    for _ in range(calls if rank < 2 else 0):
        if rank == 1:
            gw.wait(arrivals)
        gw.put(source, target, notify=arrivals)
        if rank == 0:
            gw.wait(arrivals)
    return gw.clock() - start
