"""Why a job stands still: who waits for whom, once all ranks only wait. Pure.

A report must not be wrong, so nothing here judges by time. It is asked when every rank of the job has been seen twice
in the same wait, with rounds of progress in between that found nothing, and nothing else of it could run: then nobody
acts any more. What may still be under way is data between two ranks that agree with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gondwana.runtime.watching import waits
from gondwana.runtime.watching.rollcall import name_ranks
from gondwana.runtime.watching.waits import ANY, Wait

ADVICE = {
    waits.RECEIVE: "Nobody has sent what is to be received: send it first on one of the ranks, or use sendrecv, and "
    "check ranks and tags.",
    waits.SEND: "Nobody receives what is sent: receive first on one of the ranks, or use sendrecv or isend.",
    waits.COLLECTIVE: "All ranks of a team call the same collectives, in the same order.",
    waits.SIGNAL: "Nobody is left to add to the signal: check that each rank that should add to it reaches its call, "
    "and with this channel and number.",
    waits.LOCK: "Release a lock before you wait for something else, and take several in the same order on all ranks.",
    waits.CHANNEL: "Nobody is left at the other end of the channel: put as much as is taken, or close it.",
    waits.FUTURE: "The other rank never makes what the future needs.",
    waits.EXCHANGE: "All neighbours start each exchange: call it on all ranks, as often and in the same order.",
    waits.ROOM: "The other rank makes no progress while it waits.",
    waits.TASKS: "Let one of the tasks do what another waits for.",
}
"""What to change, by what is waited for."""


class Deadlock(NamedTuple):
    """A deadlock in words.

    Attributes:
        reason: who waits for whom.
        advice: what to change.
    """

    reason: str
    advice: str


def explain(waiting: Mapping[int, Wait]) -> Deadlock | None:
    """Return why no rank of a job can go on, None if what they wait for may be under way. Local.

    Args:
        waiting: what each rank of the job waits for; those whose program has finished have `waits.END`.
    """
    finished = [rank for rank, wait in waiting.items() if wait.kind == waits.END]
    stuck = {rank: wait for rank, wait in waiting.items() if wait.kind != waits.END}
    if not stuck or any(_may_come(rank, stuck) for rank in stuck):
        return None
    cycle = _cycle(stuck)
    if any(set(wait.ranks) & set(finished) for wait in stuck.values()) or (finished and not cycle):
        wait, have = "waits" if len(stuck) == 1 else "wait", "has" if len(finished) == 1 else "have"
        reason = f"{name_ranks(sorted(stuck))} {wait} for {name_ranks(finished)}, which {have} finished"
        involved = sorted(stuck)
    elif cycle and len(cycle) > 1:
        involved = sorted(cycle)
        reason = f"deadlock: {name_ranks(involved)} wait for each other"
    else:
        involved = cycle or sorted(stuck)
        verb = "waits" if len(involved) == 1 else "wait"
        reason = f"deadlock: {name_ranks(involved)} {verb} for what no rank is left to do"
    kinds = dict.fromkeys(stuck[rank].kind for rank in involved)
    return Deadlock(reason, " ".join(ADVICE[kind] for kind in kinds))


def _cycle(stuck: Mapping[int, Wait]) -> list[int]:
    """Return ranks of which each waits for the next and the last for the first, or []: the shortest that is found."""
    found: list[int] = []
    for start in stuck:
        before: dict[int, int] = {}
        row = [start]
        while row and start not in before:
            nearest = {other: rank for rank in row for other in stuck[rank].ranks if other in stuck}
            row = [other for other in nearest if other not in before]
            before.update((other, nearest[other]) for other in row)
        if start in before:
            cycle, rank = [start], before[start]
            while rank != start:
                cycle.append(rank)
                rank = before[rank]
            if not found or len(cycle) < len(found):
                found = cycle
    return found


def _may_come(rank: int, stuck: Mapping[int, Wait]) -> bool:
    """Return whether another rank has done its part in what a rank waits for, so that it may be under way."""
    wait = stuck[rank]
    if wait.kind == waits.COLLECTIVE:
        others = wait.ranks or tuple(other for other in stuck if other != rank)
        return all(other in stuck and stuck[other].what == wait.what for other in others)
    if wait.kind not in (waits.SEND, waits.RECEIVE):
        return False
    opposite = waits.RECEIVE if wait.kind == waits.SEND else waits.SEND
    return any(
        other.kind == opposite
        and (not wait.ranks or wait.ranks[0] == place)
        and (not other.ranks or other.ranks[0] == rank)
        and (wait.tag == other.tag or ANY in (wait.tag, other.tag))
        for place, other in stuck.items()
    )
