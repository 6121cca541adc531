"""Remote procedure calls and active messages in `gondwana bench rma`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana.runtime import progress
from gondwana_bench.measure import Variant
from gondwana_bench.rma import loops as loops
from gondwana_bench.rma.candidates import Between, Candidate
from gondwana_bench.rma.ours import compiled

LONGEST_PAYLOAD = 2**15 - 32
"""Bytes that an active message holds at most between ranks of a node: `ActiveMessage.max_payload`."""


class _Arrivals:
    """The number of calls that have run on this rank."""

    answered = 0
    forgotten = 0


def calls(pair: Between) -> dict[str, Candidate]:
    """Return remote procedure calls from rank 0 to rank 1, by name. Local."""
    here = int(pair.team.rank == 1)
    flood = arriving(pair.team, _send_calls, _run_calls, _Arrivals.forgotten)
    return {
        "Python rpc round trip": pair.counting(pair.by_role(_call), lambda: _Arrivals.answered, here),
        "Python rpc_ff flood": pair.counting(flood, lambda: _Arrivals.forgotten, here),
    }


def active_messages(pair: Between) -> dict[str, Candidate]:
    """Return active messages from rank 0 to 1, sent and handled by compiled code, by name. Collective over team."""
    team, peer, here = pair.team, pair.peer, int(pair.team.rank == 1)
    requests, replies, messages = (np.zeros(1, np.int64) for _ in range(3))
    reply = gw.ActiveMessage(loops.on_message, context=(replies,), team=team)
    request = gw.ActiveMessage(loops.on_question, context=(requests, reply), team=team)
    message = gw.ActiveMessage(loops.on_message, context=(messages,), team=team)
    round_trip = arriving(team, partial(loops.ask, request, replies, peer), partial(loops.serve, requests))
    flood = arriving(team, partial(loops.send_messages, message, peer), partial(loops.serve, messages))
    return {
        "compiled AM round trip": pair.counting(round_trip, lambda: int(requests[0] + replies[0]), int(team.rank < 2)),
        "compiled AM flood": pair.counting(flood, lambda: int(messages[0]), here),
    }


class Payloads:
    """Active messages with payloads between ranks 0 and 1, in compiled code. Collective over team to create.

    Args:
        team: at least two MPI ranks of one node.
    """

    def __init__(self, team: Team) -> None:
        self._pair = Between(team)
        self._here, self._there = np.zeros((2, LONGEST_PAYLOAD), np.uint8)
        self._counts = np.zeros(2, np.int64)
        context = self._counts, self._there
        self._message = gw.ActiveMessage(loops.on_payload, context=context, team=team, payload=np.uint8)

    def transfer(self, size: int) -> Candidate:
        """Return messages of `size` bytes, one after the other. Local."""
        pair, here, there = self._pair, self._here[:size], self._there[:size]
        run = compiled(loops.send_payload, self._message, self._counts, here, pair.peer, pair.team.rank == 0)
        return pair.moving(run, pair.both_ways(here, there), 2)


def arriving(
    team: Team, send: Callable[[int], object], serve: Callable[[int], object], before: int = 0, each: int = 1
) -> Variant:
    """Return ends where rank 0 sends, and rank 1 serves until all messages have arrived, some in the barrier before.

    Args:
        team: the ranks.
        send: makes a number of calls.
        serve: serves until a number of messages have arrived.
        before: number of calls that have arrived so far.
        each: messages of a call.
    """
    due = before

    def variant(calls: int) -> float:
        nonlocal due
        due += each * calls
        start = time.perf_counter()
        if team.rank == 0:
            send(calls)
        elif team.rank == 1:
            serve(due)
        return time.perf_counter() - start

    return variant


def _answer() -> None:
    _Arrivals.answered += 1


def _forget() -> None:
    _Arrivals.forgotten += 1


def _call() -> None:
    gw.rpc(1, _answer).result()


def _send_calls(calls: int) -> None:
    for _ in range(calls):
        gw.rpc_ff(1, _forget)


def _run_calls(due: int) -> None:
    progress.wait_until(lambda: _Arrivals.forgotten >= due, "the calls of a flood")
