"""What a trace has of a plan of copies: its rounds, as spans and as arrows from rank to rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gondwana.compiler.types.arguments import WORD
from gondwana.runtime.tracing import part
from gondwana.runtime.tracing.recorders import Recorder, now, recorder
from gondwana.transfer.plans.pairs import Copies


class Rounds:
    """The rounds of one plan on one rank. Local.

    Args:
        one: the recorder.
        name: of the plan.
        number: of the plan on this rank, below `part.PLANS`.

    Attributes:
        started: number of the spans that begin a round.
        waited: number of those that end one.
        place: word of the part of the rank that counts the rounds.
        address: of that word.
    """

    def __init__(self, one: Recorder, name: str, number: int) -> None:
        self._recorder = one
        self.started = one.number_of(f"start {name}", "exchange", plan=number, starts=True)
        self.waited = one.number_of(f"wait for {name}", "wait", plan=number, starts=False)
        self.place = one.layout.plans + number
        self.address = one.address + WORD * self.place

    now = staticmethod(now)

    def begin(self, start: Callable[[], None]) -> None:
        """Start a round by a call. Local."""
        since = now()
        start()
        words = self._recorder.words
        words[self.place] += 1
        self._recorder.add(since, self.started, words[self.place])

    def end(self, since: int) -> None:
        """Note the end of a wait for a round. Local.

        Args:
            since: when it began.
        """
        self._recorder.add(since, self.waited, self._recorder.words[self.place])


def rounds_of(copies: Copies, key: int, stored: Iterable[int]) -> Rounds | None:
    """Return what records the rounds of a plan, None where nothing does, or after `part.PLANS` plans. Local.

    Args:
        copies: of the plan.
        key: the same on all of its ranks.
        stored: ranks whose destinations this rank writes itself.
    """
    if recorder is None or not recorder.active:
        return None
    number = recorder.next_plan()
    if number >= part.PLANS:
        return None
    ranks = copies.team.world_ranks
    recorder.note(
        plan=number,
        key=key,
        to=[ranks[rank] for rank in copies.receivers],
        of=[ranks[rank] for rank in copies.incoming],
        stored={ranks[rank]: sum(pair.nbytes for pair in copies.to(rank)) for rank in stored if copies.to(rank)},
    )
    return Rounds(recorder, copies.what, number)
