"""Locks: one rank holds a lock at a time, in the order of requests."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np

from gondwana.errors import GondwanaError, UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment
from gondwana.runtime import ordering, progress
from gondwana.runtime.races import reporter
from gondwana.runtime.watching import waits
from gondwana.sync.atomics import AtomicDomain
from gondwana.teams import Team

_WORD = np.dtype(np.int64)
_TAIL, _NEXT, _STATE, _TURN, _LINE = 0, 64, 128, 192, 256
_NOBODY = 0
"""Ranks are stored as rank + 1."""
_OUTSIDE, _WAITING, _GRANTED, _GONE, _LEAVING = range(5)
"""State of a rank: not queued; queued; holding the lock; queued, but it has given up; being removed from the queue."""


class Lock:
    """A lock that one rank of a team holds at a time; ranks get it in the order of their requests.

    Collective over team to create (blocking). Everything else is local. It is a queue lock (Mellor-Crummey and Scott):
    a waiting rank polls memory of its own, so waiting costs the others nothing, on the node and between nodes. What a
    rank wrote on the node while it held the lock is visible to the next holder; data put to another node must be
    complete (`put(...).wait()`) before the release.

    A lock belongs to a rank, not to a thread, and cannot be acquired twice. Of the tasks of a rank, one holds it at a
    time. It is a context manager.

    Args:
        team: the ranks that share it.

    Example:
        >>> import gondwana as gw
        >>> lock = gw.Lock(gw.world)
        >>> counter = gw.Segment(gw.world, 8).pointer(rank=0, dtype="i8")
        >>> with lock:
        ...     gw.put(gw.get(counter).result() + 1, counter).wait()
        >>> gw.world.barrier()
        >>> int(gw.get(counter).result()) == gw.world.size
        True
    """

    def __init__(self, team: Team) -> None:
        self.team = team
        self._segment = Segment(team, _LINE)
        self._words = AtomicDomain(_WORD, ("load", "store", "exchange", "compare_exchange"), team)
        self._words.reported = False  # the lock itself is
        self._me = team.rank + 1
        self._tail = self._segment.pointer(0, _WORD, _TAIL)
        self._turn = self._segment.pointer(0, _WORD, _TURN)
        self._held = False
        self._left = False
        self._taken = False  # by a task of this rank that holds it or waits for it, or by the program
        self._task: object = None

    @ordering.counted
    def acquire(self, timeout: float | None = None) -> None:
        """Wait until this rank holds the lock. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            TimeoutError: another rank still holds it after `timeout` seconds.
            ProgressError: called inside a callback while another rank holds it.
            UsageError: this rank holds it already.
        """
        timeout = self._take_among_tasks(timeout)
        try:
            self._acquire_among_ranks(timeout)
        finally:
            self._taken = self._held

    def _acquire_among_ranks(self, timeout: float | None) -> None:
        if not self._left or not self._return_to_queue():
            self._enqueue()
        try:
            progress.wait_until(self._granted, repr(self), timeout, why=self._standing)
        except BaseException as error:
            # The lock may have been granted meanwhile. Else this rank stays queued as _GONE until its turn comes.
            self._left = self._swap(self._state(self._me), _WAITING, _GONE) == _WAITING
            if self._left:
                raise
            if not isinstance(error, TimeoutError | progress.ProgressError):
                self._held = True
                self.release()
                raise
        self._held = True
        self._report_acquired()

    def try_acquire(self) -> bool:
        """Acquire the lock if no rank holds it or waits for it; return whether it did. Local; does not wait.

        Raises:
            UsageError: this rank holds it already.
        """
        self._refuse_twice()
        if self._taken:
            return False  # another task of this rank has it or waits for it
        if self._left and self._load(self._state(self._me)) != _OUTSIDE:
            return False  # since this rank gave up waiting, others have been queued before it
        self._left = False
        self._store(self._next(self._me), _NOBODY)
        self._held = self._taken = self._swap(self._tail, _NOBODY, self._me) == _NOBODY
        if self._held:
            self._store(self._state(self._me), _GRANTED)  # for those who ask which rank holds it
        self._task = progress.current_task()
        if self._held:
            self._report_acquired()
        return self._held

    def release(self) -> None:
        """Pass the lock to the rank that has waited longest. Local; waits at most for a rank that is just queueing.

        Raises:
            UsageError: this rank does not hold it.
        """
        if not self._held:
            raise UsageError(f"rank {self.team.rank} releases {self!r}, but does not hold it: acquire it first")
        if reporter is not None:  # by the number of the turn, which whoever holds the lock may change
            turn = self._load(self._turn) + 1
            reporter.post((self._segment.key, turn))
            self._store(self._turn, turn)
        self._held = False
        place = self._me
        try:
            while True:
                follower = self._follower(place)
                self._store(self._state(place), _OUTSIDE)
                if follower == _NOBODY or self._grant(follower):
                    return
                place = follower
        finally:
            self._taken = False  # not before this rank is out of the queue

    @property
    def held(self) -> bool:
        """Whether this rank holds the lock. Local."""
        return self._held

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _report_acquired(self) -> None:
        """Tell the race detector that this rank goes on behind the release of the last holder."""
        if reporter is not None and (turn := self._load(self._turn)):
            reporter.take((self._segment.key, turn), site=reporter.site("acquire"))

    # -- the queue -----------------------------------------------------------------------------------------------

    def _enqueue(self) -> None:
        """Append this rank to the queue."""
        self._store(self._next(self._me), _NOBODY)
        self._store(self._state(self._me), _WAITING)
        before = self._words.exchange(self._tail, self._me).result()
        if before == _NOBODY:
            self._store(self._state(self._me), _GRANTED)
        else:
            self._store(self._next(before), self._me)

    def _return_to_queue(self) -> bool:
        """Resume waiting at the place that this rank has given up; return whether it was still queued."""
        self._left = False
        state = self._swap(self._state(self._me), _GONE, _WAITING)
        if state == _LEAVING:
            _spin(lambda: self._load(self._state(self._me)) == _OUTSIDE)
        return state == _GONE

    def _standing(self) -> waits.Wait:
        """Describe the wait for the holder, as far as its memory is mapped here."""
        for place, rank in enumerate(self.team.world_ranks):
            with contextlib.suppress(GondwanaError):
                if self._segment.view(place)[_STATE : _STATE + 8].view(_WORD)[0] == _GRANTED:
                    return waits.Wait(f"for {self!r}, which rank {rank} holds", waits.LOCK, (rank,))
        return waits.Wait(f"for {self!r}", waits.LOCK)

    def _taken_here(self) -> waits.Wait:
        return waits.Wait(f"for {self!r}, which another task of this rank has", waits.LOCK)

    def _granted(self) -> bool:
        return self._load(self._state(self._me)) == _GRANTED

    def _follower(self, place: int) -> int:
        """Return the successor of a place that is being removed, `_NOBODY` if the queue is empty then."""
        follower = self._load(self._next(place))
        if follower == _NOBODY and self._swap(self._tail, place, _NOBODY) != place:
            # A rank has become the tail of the queue and is about to link itself here.
            _spin(lambda: self._load(self._next(place)) != _NOBODY)
            follower = self._load(self._next(place))
        return follower

    def _grant(self, place: int) -> bool:
        """Grant the lock to a queued rank and return True; False if it has given up: the caller removes its place."""
        while True:
            if self._swap(self._state(place), _WAITING, _GRANTED) == _WAITING:
                return True
            if self._swap(self._state(place), _GONE, _LEAVING) == _GONE:
                return False

    def _take_among_tasks(self, timeout: float | None) -> float | None:
        """Wait until no other task of this rank holds or awaits the lock; return what is left of the time."""
        self._refuse_twice()
        end = None if timeout is None else time.monotonic() + timeout
        while self._taken:
            progress.wait_until(lambda: not self._taken, repr(self), timeout, why=self._taken_here)
            timeout = None if end is None else max(0.0, end - time.monotonic())
        self._taken, self._task = True, progress.current_task()
        return timeout

    def _refuse_twice(self) -> None:
        if self._held and self._task is progress.current_task():
            raise UsageError(f"rank {self.team.rank} holds {self!r} already: release it first")

    # -- words ---------------------------------------------------------------------------------------------------

    def _next(self, place: int) -> GlobalPtr:
        return self._segment.pointer(place - 1, _WORD, _NEXT)

    def _state(self, place: int) -> GlobalPtr:
        return self._segment.pointer(place - 1, _WORD, _STATE)

    def _load(self, word: GlobalPtr) -> int:
        value: int = self._words.load(word).result()
        return value

    def _store(self, word: GlobalPtr, value: int) -> None:
        self._words.store(word, value).wait()

    def _swap(self, word: GlobalPtr, expected: int, value: int) -> int:
        old: int = self._words.compare_exchange(word, expected, value).result()
        return old

    def __repr__(self) -> str:
        return f"Lock {self._segment.key & 0xFFFFFFFF} of {self.team.name}"


def _spin(ready: Callable[[], bool]) -> None:
    """Wait for a rank that is between two steps, without running user code."""
    while not ready():
        progress.advance()
        os.sched_yield()
