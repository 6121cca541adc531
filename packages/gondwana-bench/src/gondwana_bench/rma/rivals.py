"""The rivals of `gondwana bench rma`: MPI in C, mpi4py, and memcpy, which is an upper bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gondwana import Team
from gondwana.teams import mpi
from gondwana_bench.measure import Variant
from gondwana_bench.native.resources import CollectiveResource
from gondwana_bench.native.transfers import WINDOW, Transfers
from gondwana_bench.rma.candidates import WAYS, Between, Bytes, Candidate


def c_operations(pair: Between, c: Transfers) -> dict[str, Candidate]:
    """Return the operations on 8 bytes that only C has, by name; some need a node. Local."""
    local, exposed = c.local[:8], c.exposed[:8]
    word = exposed.view(np.int64)
    flags = int(pair.team.rank < 2)
    return {
        "C send/recv round trip": pair.moving(partial(c.move, "ping_pong", 8), pair.there_and_back(local, exposed)),
        "C flag": pair.counting(c.flag, lambda: c.flag_count, flags, 2),
        "C MPI_Fetch_and_op": pair.counting(c.fetch_add, lambda: int(word[0]), int(pair.team.rank == 1)),
    }


def c_transfers(pair: Between, c: Transfers, size: int) -> dict[str, Candidate]:
    """Return transfers of `size` bytes, one after the other, by name. Local."""
    local, exposed = c.local[:size], c.exposed[:size]
    return {
        "C send/recv": pair.moving(partial(c.move, "ping_pong", size), pair.there_and_back(local, exposed), 2),
        "C MPI_Put": pair.moving(partial(c.move, "put", size), pair.one_way(local, exposed)),
        "C MPI_Put + message": pair.moving(partial(c.move, "put_message", size), pair.both_ways(local, exposed), 2),
        "C MPI_Get": pair.moving(partial(c.move, "get", size), pair.one_way(local, exposed)[::-1]),
    }


def c_floods(pair: Between, c: Transfers, size: int, places: int) -> dict[str, Candidate]:
    """Return windows of puts and messages of `size` bytes, in one and in both directions, by name. Local.

    Args:
        pair: the ranks and their data.
        c: the C program.
        size: bytes of a transfer.
        places: consecutive places of the memory that the transfers take in turns.
    """
    local, exposed = c.local[: size * places], c.exposed[: size * places]
    floods: dict[str, Candidate] = {}
    for ways, suffix in WAYS.items():
        both, ends = ways == 2, pair.ends_of(ways, local, exposed)
        runs: dict[str, Variant] = {
            "C MPI_Put flood": partial(c.flood, "put_flood", size, places, both),
            "C Isend flood": partial(c.flood, "message_flood", size, places, both),
        }
        floods |= {name + suffix: pair.moving(run, ends, WINDOW) for name, run in runs.items()}
    return floods


def memcpy_floods(pair: Between, c: Transfers, source: Bytes, target: Bytes, places: int) -> dict[str, Candidate]:
    """Return windows of memcpy, in one and in both directions, by name. Local.

    Args:
        pair: the ranks and their data, all on one node.
        c: the C program.
        source: source of memcpy.
        target: target of memcpy: the peer's memory, as this process sees it.
        places: equal parts of source and target that the operations take in turns.
    """
    floods: dict[str, Candidate] = {}
    for ways, suffix in WAYS.items():
        seen_here = (source, target) if pair.team.rank < ways else (None, None)
        run = partial(c.copy, target, source, places, ways == 2)
        floods["C memcpy flood" + suffix] = pair.moving(run, seen_here, WINDOW)
    return floods


class Mpi4py(CollectiveResource):
    """Ranks 0 and 1 in Python with mpi4py. Collective over team.

    Args:
        team: a team of at least two MPI ranks.
        nbytes: bytes of memory on each side, at least 8.
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        self._pair, self._comm = Between(team), team.comm
        self._mpi = mpi.module()
        self._window = self._mpi.Win.Allocate(nbytes, 1, comm=self._comm)
        self._window.Lock_all()
        self._local = np.zeros(nbytes, np.uint8)
        self._exposed = np.frombuffer(self._window.tomemory(), np.uint8)
        self._received = 0

    def operations(self) -> dict[str, Candidate]:
        """Return the operations on 8 bytes, by name. Local."""
        pair, here, there = self._pair, self._local[:8], self._exposed[:8]
        word = there.view(np.int64)
        added = int(pair.team.rank == 1)
        flood = pair.by_role(self._send_window, self._receive_window)
        return {
            "mpi4py Put": pair.moving(self._flushed(self._window.Put), pair.one_way(here, there)),
            "mpi4py Get": pair.moving(self._flushed(self._window.Get), pair.one_way(here, there)[::-1]),
            "mpi4py Fetch_and_op": pair.counting(pair.by_role(self._fetch_add()), lambda: int(word[0]), added),
            "mpi4py pickle round trip": pair.counting(
                pair.by_role(self._ping, self._pong), lambda: self._received, int(pair.team.rank < 2)
            ),
            "mpi4py pickle flood": pair.counting(flood, lambda: self._received, added * WINDOW, WINDOW),
        }

    def messages(self, size: int) -> dict[str, Candidate]:
        """Return round trips of a message of `size` bytes, by name. Local."""
        pair, here, there = self._pair, self._local[:size], self._exposed[:size]
        message, back = (here, self._mpi.BYTE), (there, self._mpi.BYTE)
        run = pair.sending(self._comm.Send, self._comm.Recv, message, back)
        return {"mpi4py Send/Recv": pair.moving(run, pair.there_and_back(here, there), 2)}

    def floods(self, size: int, places: int) -> dict[str, Candidate]:
        """Return windows of puts of `size` bytes to a number of places, in one and both directions, by name. Local."""
        pair, here, there = self._pair, self._local[: size * places], self._exposed[: size * places]
        peer = pair.peer
        put, flush = self._window.Put, self._window.Flush
        starts = [i % places * size for i in range(WINDOW)]
        parts = [((here[at : at + size], self._mpi.BYTE), at) for at in starts]

        def window() -> None:
            for message, at in parts:
                put(message, peer, at)
            flush(peer)

        runs = {1: pair.by_role(window), 2: pair.by_role(window, window)}
        return {
            "mpi4py Put flood" + WAYS[ways]: pair.moving(run, pair.ends_of(ways, here, there), WINDOW)
            for ways, run in runs.items()
        }

    def close(self) -> None:
        """Free the window. Collective over team."""
        del self._exposed
        self._window.Unlock_all()
        self._window.Free()

    def _flushed(self, move: Callable[[object, int], object]) -> Variant:
        """Return transfers of 8 bytes between the memories of ranks 0 and 1, each to its end."""
        flush, message = self._window.Flush, (self._local[:8], self._mpi.BYTE)

        def call() -> None:
            move(message, 1)
            flush(1)

        return self._pair.by_role(call)

    def _fetch_add(self) -> Callable[[], None]:
        fetch_and_op, flush, add = self._window.Fetch_and_op, self._window.Flush, self._mpi.SUM
        one, old = (np.ones(1, np.int64), self._mpi.INT64_T), (np.zeros(1, np.int64), self._mpi.INT64_T)

        def call() -> None:
            fetch_and_op(one, old, 1, 0, add)
            flush(1)

        return call

    def _ping(self) -> None:
        self._comm.send(None, 1)
        self._comm.recv(source=1)
        self._received += 1

    def _pong(self) -> None:
        self._comm.recv(source=0)
        self._comm.send(None, 0)
        self._received += 1

    def _send_window(self) -> None:
        for _ in range(WINDOW):
            self._comm.send(None, 1)
        self._comm.recv(source=1)

    def _receive_window(self) -> None:
        for _ in range(WINDOW):
            self._comm.recv(source=0)
            self._received += 1
        self._comm.send(None, 0)
