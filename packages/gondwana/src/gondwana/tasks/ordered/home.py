"""The scheduler of a thread where the order of events is recorded or repeated."""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Iterator
from typing import Any

from gondwana.runtime import ordering, progress
from gondwana.tasks.scheduler import Home, yield_task


class OrderedHome(Home):
    """The tasks of one thread where events are recorded or repeated: see `runtime.ordering`."""

    __slots__ = ("_log",)

    def __init__(self, log: ordering.Log) -> None:
        super().__init__()
        self._log = log
        log.catch_up = (lambda: progress.catch_up(self._repeat)) if log.replaying else log.catch_up

    def suspends(self) -> bool:
        """Return whether the present wait is to run others; that it comes so far is accidental, so it is an event."""
        suspends = self._log.next_of(ordering.SUSPEND) is not None if ordering.repeats() else self.has_tasks()
        if suspends:
            self._log.happens(ordering.SUSPEND)
        return suspends

    def wait_until(self, *how: Any, **more: Any) -> None:
        """Run others until a condition holds: see `Home.wait_until`."""
        with self._outside():
            super().wait_until(*how, **more)

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        """Let others run that are not inside the call that does it, which begins a step then."""
        nested, self._log.nested = self._log.nested, False
        try:
            yield
        finally:
            self._log.nested = nested
            self._log.words[ordering.STEP] += ordering.TURN

    def _repeat(self) -> bool:
        """Make progress for a call that has not waited, but may have run others in the recorded run."""
        if self._log.next_of(ordering.YIELD) is not None:
            self._give_way()
        elif self._log.next_of(ordering.SUSPEND) is not None:
            self._log.happens(ordering.SUSPEND)
            self.wait_until(lambda: True, "what it has waited for in the recorded run", None, None, True)
        else:
            return self._poll()
        return True

    def run_others(self) -> bool:
        """Let those run that are ready, or were in the recorded run; whether there are any is an event."""
        log = self._log
        self._wake_waiting()
        if not (log.next_of(ordering.YIELD) is not None if ordering.repeats() else self.ready):
            return False
        self._give_way()
        return True

    def _give_way(self) -> None:
        self._log.happens(ordering.YIELD)
        with self._outside():
            yield_task()

    def _make_progress(self) -> None:
        self._log.words[ordering.STEP] += ordering.TURN
        super()._make_progress()
        try:
            self._log.catch_up()
        except BaseException as error:
            self._pass_on(error)

    def _wake_waiting(self) -> None:
        log = self._log
        if ordering.repeats():
            self._repeat_wakes()
            return
        for strand in [strand for strand in self._polled if self._holds(strand)]:
            log.happens(ordering.WAKE, self._polled.index(strand))
            self._polled.remove(strand)
            self.ready.append(strand)
        while self._timers and self._timers[0][0] <= time.monotonic():
            self._ring_timer(0)

    def _repeat_wakes(self) -> None:
        """Make strands ready as in the recorded run: no other conditions are asked, since asking may take something."""
        log = self._log
        while (place := log.waking()) is not None and place < len(self._polled):
            strand = self._polled[place]
            if not self._holds(strand):
                return
            log.happens(ordering.WAKE, place)
            del self._polled[place]
            self.ready.append(strand)
        while (number := log.next_of(ordering.TIMER)) is not None:
            places = [place for place, timer in enumerate(self._timers) if timer[1] == number]
            if not places:
                raise log.differs()
            self._ring_timer(places[0])

    def _ring_timer(self, place: int) -> None:
        _, number, *timer = self._timers[place]
        del self._timers[place]
        heapq.heapify(self._timers)
        before = len(self.ready)
        self._ring(*timer)  # type: ignore[arg-type]
        if len(self.ready) > before:  # else the strand has not waited for it any more
            self._log.happens(ordering.TIMER, number)
