"""What all ways to carry out a plan have in common, and what a trace has of its rounds: spans, and arrows."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NoReturn, Self

from gondwana.compiler.types.arguments import WORD
from gondwana.errors import UsageError
from gondwana.memory.segment import Segment
from gondwana.runtime import ordering, progress
from gondwana.runtime.tracing import part
from gondwana.runtime.tracing.recorders import Recorder, now, recorder
from gondwana.runtime.watching import waits
from gondwana.runtime.watching.rollcall import name_ranks
from gondwana.teams import PersistentRequest, mpi
from gondwana.transfer.plans.pairs import Copies

Launch = tuple[Callable[..., None], bool]
"""What `prepared` of a kernel returns, and whether it is given the time of a round."""


class Plan(ABC):
    """Copies that are made together, again and again: each round is started by `start` and finished by `wait`.

    Made by `gw.plan`, and by `gw.exchange` for ghosts. A round is collective over the ranks that own a source or a
    destination of the plan; the other ranks of its team need not take part.

    Between `start` and `wait` the sources of this rank must not change, and its destinations must be neither read nor
    written; no rank writes a destination before its owner has started the round. After `wait` the destinations hold
    what their sources held, and both may be read and changed. Rounds of several plans may be under way together.

    Attributes:
        moved: bytes that this rank writes to destinations of other ranks in one round.
    """

    def __init__(self, copies: Copies) -> None:
        self._pending = False
        self._what = copies.what
        self._copies = copies  # keeps the memory of all ends
        self._rounds: Rounds | None = None
        self._early: list[Launch] = []
        self._late: list[Launch] = []
        self._time: float | None = None
        self._timed = False
        self.moved = sum(pair.nbytes for rank in copies.receivers for pair in copies.to(rank))

    def start(self, time: float | None = None) -> Self:
        """Begin a round. Collective over the ranks with copies; does not wait for them. Internal progress.

        Callable in compiled code, where it returns nothing.

        Args:
            time: time for walls whose values depend on it; needed if there are any.

        Raises:
            RuntimeError: the last round was not waited for.
            UsageError: a time that is missing, or that no wall depends on.
        """
        if self._timed is (time is None):
            check_time(time, needed=self._timed)
        if self._pending:
            raise self._still_under_way()
        self._pending, self._time = True, time
        _under_way.append(self)
        if self._rounds is None:
            self._begin()
        else:
            self._rounds.begin(self._begin)
        if self._early:
            self._launch(self._early)
        return self

    def _still_under_way(self) -> RuntimeError:
        call = {"exchange": "exchange", "accumulation": "accumulate"}.get(self._what, "start")
        return RuntimeError(
            f"this {self._what} is still under way: call wait() on what {call}() returned before the next {call}"
        )

    @ordering.counted
    def wait(self) -> None:
        """Return when all copies to and from this rank are made. Blocks; user-level progress.

        Callable in compiled code, where it makes no progress but its own; either waits for what the other has started.
        """
        if not self._pending and not self._take_over():
            return
        rounds = self._rounds
        since = 0 if rounds is None else rounds.now()
        if len(_under_way) == 1 and self._soon():
            self._finish()
        else:  # a neighbour may wait first for another plan of its, or for a call that this rank is to serve
            what = "an exchange of ghosts" if self._what == "exchange" else "a plan of copies"
            progress.wait_until(self.test, what, why=self._why)
        if rounds is not None:
            rounds.end(since)

    def test(self) -> bool:
        """Return whether `wait` would return at once. Local; internal progress."""
        if not self._pending and not self._take_over():
            return True
        for other in _under_way:
            if other is not self:
                other._advance()
        if self._advance():
            self._finish()
        return not self._pending

    def _take_over(self) -> bool:
        """Go on with a round that compiled code has started; return whether there is one."""
        if self._goes_on():
            self._pending = True
            _under_way.append(self)
        return self._pending

    def _goes_on(self) -> bool:
        """Return whether compiled code has a round under way."""
        return False

    def _why(self) -> waits.Wait:
        """Describe the wait for the neighbours of this rank."""
        ranks = self._copies.team.world_ranks
        what = "this exchange of ghosts" if self._what == "exchange" else f"this {self._what}"
        late = tuple(sorted(ranks[rank] for rank in self._late_neighbours()))
        return waits.Wait(f"for {name_ranks(late)} to come to {what}", waits.EXCHANGE, late, self.moved)

    def _late_neighbours(self) -> list[int]:
        """Return the neighbours for which this rank may wait."""
        return self._copies.neighbours

    def _finish(self) -> None:
        try:
            self._end()
            if self._late:
                self._launch(self._late)
        finally:  # a kernel at a wall may raise
            self._pending = False
            _under_way.remove(self)

    def _with_kernels(self, early: list[Launch], late: list[Launch], *, timed: bool = False) -> None:
        """Have kernels run in each round. Local; once, before the first round.

        Args:
            early: kernels that run when it begins.
            late: kernels that run when all has arrived.
            timed: whether some of them need the time.
        """
        self._early, self._late, self._timed = early, late, timed

    def _launch(self, launches: list[Launch]) -> None:
        for kernel, timed in launches:
            kernel(self._time) if timed else kernel()

    def _record(self, key: int, stored: Iterable[int]) -> None:
        """Record the rounds of this plan, if this process records. Local.

        Args:
            key: of a segment of the plan, the same on all of its ranks.
            stored: the ranks whose destinations this one writes itself; what goes to others is counted on its way.
        """
        self._rounds = rounds_of(self._copies, key, stored)

    def __repr__(self) -> str:
        state = ", under way" if self._pending else ""
        return f"<Plan of {self._what}: {self.moved} bytes to other ranks in a round{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a plan cannot be sent: it belongs to the ranks that have made it")

    def __gondwana_argument__(self) -> NoReturn:
        """Compiled code takes plans in host memory only."""
        raise UsageError(
            "compiled code takes plans of copies in host memory; this one has ends on devices: call start() and wait() "
            "in Python"
        )

    @abstractmethod
    def _begin(self) -> None:
        """Start a round."""

    @abstractmethod
    def _soon(self) -> bool:
        """Poll for a while, if that is of use, whether all of this rank's part is done but `_end`."""

    @abstractmethod
    def _advance(self) -> bool:
        """Do what can be done now, and return whether all of this rank's part is done but `_end`."""

    def _end(self) -> None:  # noqa: B027
        """Do what remains when all has arrived."""


def under_way() -> list[Copies]:
    """Return the copies of the plans that this rank has started and not finished. Local."""
    return [plan._copies for plan in _under_way]


def _refuse(self: Plan, *_given: float | None) -> NoReturn:
    """Stand in a forked copy of a rank for what uses the counters of the rank."""
    raise UsageError(
        f"a process that a rank has made by os.fork, as multiprocessing does, uses the {self._what} of the rank, but "
        "it is no rank: communicate in the rank itself"
    )


def _leave() -> None:
    if mpi.is_running():
        for kind in (Plan, *Plan.__subclasses__()):
            for name in ("start", "wait", "__gondwana_argument__"):
                setattr(kind, name, _refuse)


os.register_at_fork(after_in_child=_leave)


def check_time(time: float | None, *, needed: bool) -> None:
    """Refuse a time that is missing, or that nothing depends on. Local.

    Raises:
        UsageError: so it is.
    """
    if needed is (time is None):
        missing = "exchange: a wall of these arrays depends on the time: call exchange(time=...)"
        extra = f"exchange(time={time!r}): no wall of these arrays depends on the time: leave it out"
        raise UsageError(missing if needed else extra)


_FIRST_TAG, _TAGS = 30_002, 2000

_under_way: list[Plan] = []
"""What this rank has started and not finished: all of it continues while this rank waits for any."""


def message_tag(segment: Segment) -> int:
    """Return the tag of the messages of a plan: plans that are under way together must not take those of each other.

    Local.

    Args:
        segment: that the ranks of the plan have made for it.
    """
    tag: int = _FIRST_TAG + (segment.key & 0xFFFFFFFF) % _TAGS
    return tag


def free_requests(requests: list[PersistentRequest]) -> None:
    """Free the requests of a plan, but not those that MPI still works on. Local; at exit, too, or MPI complains."""
    for request in requests:
        if request.handle.Test():  # compiled code may have started it
            request.free()


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
