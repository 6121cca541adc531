"""Gondwana's transfers in `gondwana bench rma`, from compiled code and from Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana_bench.measure import Variant
from gondwana_bench.native.transfers import WINDOW
from gondwana_bench.rma import loops as loops
from gondwana_bench.rma.candidates import WAYS, Between, Bytes, Candidate, absent, pattern

_WORD = 8


def compiled(loop: Callable[..., Any], *arguments: Any) -> Variant:
    """Return a variant of a compiled loop that takes the number of calls after the `arguments`. Local."""

    def variant(calls: int) -> float:
        start = time.perf_counter()
        loop(*arguments, calls)
        return time.perf_counter() - start

    return variant


class Ours:
    """A segment, a signal and atomics of ranks 0 and 1. Collective over team to create, else local.

    Args:
        team: at least two MPI ranks.
        nbytes: bytes of memory on each side.
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        self._team, self._pair = team, Between(team)
        self._peer = self._pair.peer
        self._segment = gw.Segment(team, nbytes)
        self._exposed = self._segment.view(team.rank)
        self._local = np.zeros(nbytes, np.uint8)
        self._signal = gw.Signal(team)
        self._adders = gw.AtomicDomain("i8", {"fetch_add"}, team)

    def places(self, size: int) -> int:
        """Return the number of places of a size that the operations of a flood use cyclically. Local."""
        return max(1, min(WINDOW, self._local.size // size))

    def ends(self, size: int) -> tuple[Bytes, Bytes, int]:
        """Return the source of a flood of a size, its target at a peer of this node, and its places. Local."""
        nbytes = size * self.places(size)
        return self._local[:nbytes], self._segment.view(self._peer)[:nbytes], self.places(size)

    def operations(self) -> dict[str, Candidate]:
        """Return the operations on 8 bytes, by name. Local."""
        return self._compiled_operations() | self._python_operations()

    def transfers(self, size: int) -> dict[str, Candidate]:
        """Return compiled transfers of `size` bytes, one after the other, by name. Local."""
        pair, here, there = self._pair, self._local[:size], self._exposed[:size]
        target, signal, first = self._pointer(), self._signal, self._team.rank == 0
        both = pair.both_ways(here, there)
        return {
            "compiled put": pair.moving(self._active(loops.put, here, target), pair.one_way(here, there)),
            "compiled get": pair.moving(self._active(loops.get, target, here), pair.one_way(here, there)[::-1]),
            "compiled put + signal": pair.moving(compiled(loops.put_signal, here, target, signal, first), both, 2),
        }

    def copies_with_signal(self, size: int) -> dict[str, Candidate]:
        """Return round trips of a copy of `size` bytes from Python that raises a signal, by name. Local."""
        pair, here, there = self._pair, self._local[:size], self._exposed[:size]
        run = pair.notifying(here.view(np.int64), self._pointer("i8"), self._signal)
        return {"Python copy + notify": pair.moving(run, pair.both_ways(here, there), 2)}

    def floods(self, size: int) -> dict[str, Candidate]:
        """Return windows of transfers, in one and in both directions, by name. Local."""
        pair = self._pair
        places = self.places(size)
        here, there = self._local[: size * places], self._exposed[: size * places]
        floods: dict[str, Candidate] = {}
        for ways, suffix in WAYS.items():
            ends = pair.ends_of(ways, here, there)
            window = self._python_window(size, places)
            put = self._active(loops.put_flood, here, self._pointer(), WINDOW, places, ways=ways)
            copy = pair.by_role(window, window if ways == 2 else None)
            floods["compiled put flood" + suffix] = pair.moving(put, ends, WINDOW)
            floods["Python copy flood" + suffix] = pair.moving(copy, ends, WINDOW)
        return floods

    def _compiled_operations(self) -> dict[str, Candidate]:
        pair, here, there = self._pair, self._local[:_WORD], self._exposed[:_WORD]
        target, signal, first = self._pointer("i8"), self._signal, self._team.rank == 0
        value = int(pattern(_WORD).view(np.int64)[0])
        get = self._getting(partial(loops.get_word, target, 0))
        fetch_add = self._active(loops.fetch_add, self._adders, target)
        return {
            "compiled put of a word": pair.moving(
                self._active(loops.put_word, value, target, 0), pair.one_way(here, there)
            ),
            "compiled get of a word": pair.moving(get, pair.one_way(here, there)[::-1]),
            "compiled signal": self._signalling(compiled(loops.signal, signal, self._peer, first)),
            "compiled send/recv": pair.moving(
                compiled(loops.send_recv, self._team, here, there, self._peer, first),
                pair.there_and_back(here, there),
                2,
            ),
            "compiled fetch_add": pair.counting(fetch_add, self._sum, int(self._team.rank == 1)),
        }

    def _python_operations(self) -> dict[str, Candidate]:
        pair, here, there = self._pair, self._local[:_WORD], self._exposed[:_WORD]
        target, signal, peer = self._pointer("i8"), self._signal, self._peer
        value = int(pattern(_WORD).view(np.int64)[0])

        def put() -> None:
            gw.put(value, target).wait()

        def get(calls: int) -> int:
            value = 0
            for _ in range(calls):
                value = gw.get(target).result()
            return value

        def fetch_add() -> None:
            self._adders.fetch_add(target, 1).result()

        def ping() -> None:
            gw.put(value, target).wait()
            signal.add(peer)
            signal.wait()

        def pong() -> None:
            signal.wait()
            gw.put(value, target).wait()
            signal.add(peer)

        return {
            "Python put": pair.moving(pair.by_role(put), pair.one_way(here, there)),
            "Python get": pair.moving(self._getting(get), pair.one_way(here, there)[::-1]),
            "Python fetch_add": pair.counting(pair.by_role(fetch_add), self._sum, int(self._team.rank == 1)),
            "Python put + signal": pair.moving(pair.by_role(ping, pong), pair.both_ways(here, there), 2),
            **self.copies_with_signal(_WORD),
        }

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _pointer(self, dtype: str = "u1") -> gw.GlobalPtr:
        """Return a pointer to the memory of the peer."""
        return self._segment.pointer(self._peer, dtype)

    def _sum(self) -> int:
        return int(self._exposed[:_WORD].view(np.int64)[0])

    def _active(self, loop: Callable[..., Any], *arguments: Any, ways: int = 1) -> Variant:
        """Return a compiled loop that only the first `ways` ranks run."""
        return compiled(loop, *arguments) if self._team.rank < ways else absent

    def _getting(self, get: Callable[[int], int]) -> Variant:
        """Return gets of a word by rank 0, of which the last is stored to be compared."""

        def variant(calls: int) -> float:
            start = time.perf_counter()
            value = get(calls)
            seconds = time.perf_counter() - start
            self._local[:_WORD].view(np.int64)[0] = value
            return seconds

        return variant if self._team.rank == 0 else absent

    def _signalling(self, run: Variant) -> Candidate:
        """Return whether every arrival was waited for."""

        def is_right() -> bool:
            run(3)
            self._team.barrier()
            return all(self._team.allgather(not self._signal.ready()))

        return Candidate(run, is_right, 2)

    def _python_window(self, size: int, places: int) -> Callable[[], None]:
        """Start a window of copies, then wait for all of them."""
        pairs = [(self._local[i % places * size :][:size], self._pointer() + i % places * size) for i in range(WINDOW)]

        def window() -> None:
            for future in [gw.copy(source, target) for source, target in pairs]:
                future.wait()

        return window
