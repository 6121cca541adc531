"""The scheduler: strands of control that take turns on a thread, without a hub between them.

Each thread has its own. A strand that must wait registers with the object that will wake it and switches directly to
the next ready one; if none is ready it makes progress in place, on its own stack, until one is. A strand of greenlets
runs one task after the other, so that a task that never waits costs no switch.
"""

from __future__ import annotations

import heapq
import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from greenlet import getcurrent, greenlet

from gondwana.runtime import idle, ordering, progress
from gondwana.runtime.later import find
from gondwana.runtime.tracing import traced
from gondwana.runtime.watching import waits
from gondwana.tasks import reports

if TYPE_CHECKING:
    from gondwana.tasks.task import Task

_TURNS = 400
"""Switches after which running tasks make way for progress: some 200 us."""

_MOST_SPARE = 64
"""The most strands without a task that are kept for reuse: the first use of a stack costs twenty times a switch."""

_thread = progress.thread

_IDLE_POLLS = 200
"""Failed polls before a wait for something impossible is refused."""


class Registry(Protocol):
    """An object that a strand is registered with while it waits."""

    def forget(self, strand: Strand) -> bool:
        """Remove the strand; return whether it was still to be woken."""


class Strand:
    """One flow of control: the program of a thread, or a greenlet that runs its tasks one after the other.

    Calling it makes it ready, from any thread. The caller has removed it from its registry.

    Attributes:
        home: tasks of its thread.
        ready: strands of its thread that can run.
        switch: runs it until it waits; called by the running strand.
        greenlet: greenlet that executes it.
        task: task that it runs; None: the program, or none at present.
        waits: registry that it waits in, or did before it became ready.
        item: item from the strand that wakes it.
        error: error to raise where it waits.
        pending: error to raise where it waits next.
        bell: whether the end of its polled wait happens on this rank or rings its bell.
        condition: returns whether its wait is over, if that is polled.
        turn: number of its last wait with a time limit.
        why: describes its wait if only other ranks can end it.
    """

    __slots__ = (
        "bell", "condition", "error", "greenlet", "home", "item", "pending", "ready", "switch", "task", "turn", "waits",
        "why",
    )  # fmt: skip

    def __init__(self, home: Home, own: greenlet) -> None:
        self.home = home
        self.ready = home.ready
        self.greenlet = own
        self.switch = own.switch
        self.task: Task[Any] | None = None
        self.waits: Registry | None = None
        self.item: Any = None
        self.error: BaseException | None = None
        self.pending: BaseException | None = None
        self.bell = True
        self.condition: Callable[[], bool] = bool
        self.turn = 0
        self.why: waits.Why | None = None

    def __call__(self, _: object = None) -> None:
        """Make it ready."""
        self.ready.append(self)

    def throw(self, error: BaseException) -> None:
        """Raise an error where this strand waits; if its wait has just ended, where it waits next. Its thread only."""
        if self.waits is not None and self.waits.forget(self):
            self.error = error
            self.ready.append(self)
        else:
            self.pending = error


class Home:
    """The tasks of one thread.

    Attributes:
        ready: strands that can run, and tasks that have not started, in the order in which they run.
        current: the running strand.
        program: the strand of the program, which is not a task.
        strands: all other strands that are alive.
    """

    __slots__ = (
        "__weakref__", "_asleep", "_numbers", "_nursery", "_polled", "_spare", "_stale", "_timers", "_turns",
        "current", "program", "ready", "strands",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: deque[Strand | Task[Any]] = deque()
        self.program = self.current = Strand(self, getcurrent())
        self._nursery = greenlet(self._begin_strands)
        self._nursery.switch()
        self.strands: set[Strand] = set()
        self._spare: list[Strand] = []
        self._polled: list[Strand] = []
        self._asleep: set[Strand] = set()
        self._timers: list[tuple[float, int, Strand, int, float | None, str]] = []
        self._numbers = itertools.count()
        self._stale = 0
        self._turns = _TURNS

    def has_tasks(self) -> bool:
        """Return whether any tasks have not ended."""
        return bool(self.ready) or len(self.strands) > len(self._spare)

    # -- switching -----------------------------------------------------------------------------------------------
    # An item is taken from `ready` by subscripts: a signal handler runs after a call, and `popleft` could lose it then.

    def pause(self, me: Strand) -> None:
        """Run others until the running strand, which is registered somewhere, is woken.

        Raises:
            BaseException: exception thrown into it.
        """
        ready = self.ready
        try:
            if me.pending is not None:
                raise self._taken(me)
            self._turns -= 1
            if not ready or self._turns < 0:
                self._refill()
            following = ready[0]
            del ready[0]
            if following is not me:
                following.switch()
                self.current = me
            if me.error is not None:
                raise me.error
        except BaseException:
            self._leave(me)
            raise

    def pause_for(self, me: Strand, what: str, seconds: float | None) -> None:
        """Run others until the running strand is woken, at most for some time.

        Args:
            me: the running strand, registered with an object that wakes it.
            what: description of what it waits for, for the message.
            seconds: time limit; None: no limit.

        Raises:
            TimeoutError: it was not woken within that time.
        """
        if seconds is None:
            self.pause(me)
            return
        me.turn += 1
        self._call_at(time.monotonic() + seconds, me, seconds, what)
        try:
            self.pause(me)
        finally:
            me.turn += 1
            self._one_stale_timer()

    def sleep(self, seconds: float) -> None:
        """Run others for some time."""
        me = self.current
        me.turn += 1
        me.waits = self
        self._asleep.add(me)
        self._call_at(time.monotonic() + seconds, me, None, "")
        try:
            self.pause(me)
        except BaseException:
            me.turn += 1
            self._one_stale_timer()
            raise

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        seconds: float | None,
        source: progress.Source | None,
        bell: bool,
        why: waits.Why | None,
    ) -> None:
        """Run others until a condition holds: see `progress.wait_until`."""
        me = self.current
        me.why = why
        if source is None:
            me.waits, me.condition, me.bell = self, condition, bell
            self._polled.append(me)
        else:
            me.waits = source
            source.at_once(me)
        try:
            self.pause_for(me, what, seconds)
        finally:
            me.waits, me.condition, me.why = None, bool, None  # they may be the last references to an array

    def forget(self, strand: Strand) -> bool:
        """Remove a strand that sleeps or whose condition is polled; return whether it was to be woken."""
        if strand in self._asleep:
            self._asleep.remove(strand)
        elif strand in self._polled:
            self._polled.remove(strand)
        else:
            return False
        return True

    def throw_into_program(self, error: BaseException) -> None:
        """Raise an error in the program of this thread, before anything else runs."""
        program = self.program
        self._leave(program)
        program.error = program.pending = error  # whether it waits or gives way
        self.ready.appendleft(program)

    def _leave(self, strand: Strand) -> None:
        """Remove a strand from its registry and from the ready ones, because an error is raised in it."""
        if strand.pending is strand.error:
            strand.pending = None
        strand.error = None
        if strand.waits is not None:
            strand.waits.forget(strand)
        while strand in self.ready:
            self.ready.remove(strand)

    @staticmethod
    def _taken(strand: Strand) -> BaseException:
        error, strand.pending, strand.error = strand.pending, None, None
        assert error is not None
        return error

    # -- strands of tasks ----------------------------------------------------------------------------------------

    def start(self, task: Task[Any]) -> None:
        """Run a task on a strand of its own until it waits."""
        if self._spare:
            strand = self._spare.pop()
            strand.task = task
            strand.switch()
        else:
            own = greenlet(lambda: self._run_tasks(strand), self.program.greenlet)
            strand = Strand(self, own)
            self.strands.add(strand)
            strand.task = task
            self._nursery.switch(strand)

    def _begin_strands(self) -> NoReturn:
        """Begin strands here, in a greenlet that is not deep in recursion: they continue its stack."""
        strand = self.program
        while True:
            strand = strand.switch()

    def _run_tasks(self, me: Strand) -> None:
        """Run the task of a strand, then those that are ready, until another strand is: then wait for more tasks."""
        ready, spare = self.ready, self._spare
        self.current = me
        while True:
            assert me.task is not None
            me.task.run(me)
            me.task = None
            self._turns -= 1
            if not ready or self._turns < 0:
                self._refill()
            following = ready[0]
            del ready[0]
            if not isinstance(following, Strand):
                me.task = following
                continue
            if len(spare) >= _MOST_SPARE:
                self.strands.remove(me)
                me.greenlet.parent = following.greenlet  # the end of this greenlet leads there
                return
            spare.append(me)
            following.switch()
            self.current = me

    # -- progress ------------------------------------------------------------------------------------------------

    def run_others(self) -> bool:
        """Poll the conditions of strands, and let those that are ready run; return whether there were any."""
        self._wake_waiting()
        if not self.ready:
            return False
        yield_task()
        return True

    def _refill(self) -> None:
        """Make progress, until some strand is ready."""
        self._turns = _TURNS
        self._make_progress()
        while not self.ready:
            self._guard(self._idle)

    def _make_progress(self) -> None:
        self._guard(self._poll)

    def _guard(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:
            self._pass_on(error)

    def _pass_on(self, error: BaseException) -> None:
        """Raise in the program an exception of a signal handler, a callback or a call of another rank."""
        if self.current is self.program:
            raise error
        self.throw_into_program(error)

    def _poll(self) -> bool:
        done = progress.serve_others()
        self._wake_waiting()
        return done

    @traced("wait", "no task is ready")
    def _idle(self) -> None:
        """Make progress until some strand is ready; once a wait, refuse to wait for something impossible."""
        failed, ready = 0, self.ready
        bell = len(_homes) == 1 and all(strand.bell for strand in self._polled)
        idleness = idle.Idle(bell, self._timers[0][0] if self._timers else None, lambda: reports.standing(self))
        while not ready:
            if self._poll():
                failed = 0
                idleness.reset()
                continue
            failed += 1
            if failed == _IDLE_POLLS and not ready and not self._timers:
                reports.refuse_deadlock(self)
            if not ready:
                idleness.pause(self._look)
        idleness.reset()

    def _look(self) -> bool:
        return self._poll() or bool(self.ready)

    def waiting(self) -> list[Strand]:
        """Return the strands that wait, or give way, while another runs: the program, and those with a task."""
        return [self.program, *(strand for strand in self.strands if strand.task is not None)]

    def tasks(self) -> list[Task[Any]]:
        """Return the tasks that have been scheduled and have not ended."""
        started = [strand.task for strand in self.strands if strand.task is not None]
        return started + [task for task in self.ready if not isinstance(task, Strand) and not task.done()]

    def _wake_waiting(self) -> None:
        """Make strands ready whose condition holds by now, or whose time is over."""
        if self._polled:
            for strand in [strand for strand in self._polled if self._holds(strand)]:
                self._polled.remove(strand)
                self.ready.append(strand)
        if self._timers:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                self._ring(*heapq.heappop(self._timers)[2:])

    @staticmethod
    def _holds(strand: Strand) -> bool:
        try:
            return strand.condition()
        except BaseException as error:
            strand.error = error
            return True

    # -- time limits ---------------------------------------------------------------------------------------------

    def _call_at(self, end: float, strand: Strand, seconds: float | None, what: str) -> None:
        heapq.heappush(self._timers, (end, next(self._numbers), strand, strand.turn, seconds, what))

    def _ring(self, strand: Strand, turn: int, seconds: float | None, what: str) -> None:
        """Wake a strand that sleeps, or raise in it because it has waited for long enough."""
        if strand.turn != turn:
            self._stale -= 1
        elif strand.waits is not None and strand.waits.forget(strand):
            if seconds is not None:
                strand.error = TimeoutError(f"waited {seconds:g} s for {what}: give a longer timeout=, or None")
            self.ready.append(strand)

    def _one_stale_timer(self) -> None:
        """Count a timer that need not ring, and drop those when they are the majority."""
        self._stale += 1
        if self._stale > 64 and 2 * self._stale > len(self._timers):
            self._timers = [timer for timer in self._timers if timer[2].turn == timer[3]]
            heapq.heapify(self._timers)
            self._stale = 0


_homes: weakref.WeakSet[Home] = weakref.WeakSet()


def home() -> Home:
    """Return the tasks of this thread. Local."""
    found: Home | None = progress.thread.flow.tasks
    if found is None:
        new = Home() if ordering.log is None else find("gondwana.tasks.ordered.home:OrderedHome")(ordering.log)
        found = progress.thread.flow.tasks = new
        _homes.add(found)
    return found


def homes() -> list[Home]:
    """Return the tasks of all threads. Local."""
    return list(_homes)


def yield_task() -> None:
    """Let the other tasks of this thread that can run do so first. Local; makes progress now and then.

    Raises:
        ProgressError: called inside a callback.

    Example:
        >>> import gondwana as gw
        >>> task = gw.Task(print, "first").schedule()
        >>> gw.yield_task()
        first
    """
    # All in one function: to call one more costs a tenth of a switch.
    flow = _thread.flow
    if flow.depth:
        progress.refuse_in_callback("other tasks")
    here: Home = flow.tasks or home()
    ready, me = here.ready, here.current
    here._turns -= 1
    if here._turns < 0:
        here._turns = _TURNS
        here._make_progress()
    if ready:
        ready.append(me)
        following = ready[0]
        del ready[0]
        following.switch()
        here.current = me
    if me.pending is not None:
        raise here._taken(me)


def register(registry: Registry, waiters: deque[Any], item: Any = None) -> Strand:
    """Append the running strand to waiters, and return it; it must pause next. Local.

    Args:
        registry: registry that can remove it again.
        waiters: waiters of the registry.
        item: item that it holds for the strand that wakes it.

    Raises:
        ProgressError: called inside a callback.
    """
    flow = progress.thread.flow
    if flow.depth:
        progress.refuse_in_callback(repr(registry))
    me: Strand = (flow.tasks or home()).current
    me.item = item
    me.waits = registry
    waiters.append(me)
    return me


def has_tasks() -> bool:
    """Return whether the calling thread has tasks that have not ended. Local."""
    found: Home | None = progress.thread.flow.tasks
    return found is not None and found.has_tasks()


class _Everywhere:
    """The scheduler as progress sees it, for any calling thread."""

    def wait_until(self, *given: Any) -> None:
        home().wait_until(*given)

    def alive(self) -> bool:
        return any(found.has_tasks() for found in homes())

    def run_others(self) -> bool:
        found: Home | None = progress.thread.flow.tasks
        return found is not None and found.run_others()


# With a log there are ordered homes only.
progress.suspend_by(_Everywhere(), None if ordering.log is None else lambda: home().suspends())  # type: ignore[attr-defined]
