"""Idleness: what a waiting rank does between two polls, and how other ranks of the node end its sleep.

A rank that waits polls at first, then yields the processor between polls, and then sleeps. If everything that it waits
for rings its bell, it sleeps until that happens. If something else may happen, such as progress of MPI, it sleeps for a
fixed share of the time that it has waited, so that it notices the event late by that share at most.

A bell is a word in memory that the ranks of the node share: 1 while its owner sleeps or is about to. A rank that has
written something for the owner resets the word and wakes the owner (a futex, Linux's primitive for that).
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

from gondwana.runtime import cores
from gondwana.runtime.watching import waits

_IDLE_POLLS = 50
"""Failed polls before a waiting rank yields the processor; it yields at once if ranks outnumber the cores."""
_YIELDS = 250
"""Failed polls before it sleeps between two polls: some tenths of a millisecond."""
_NAP = 2e-5
"""The shortest sleep [s]; waking up takes at least as long again."""
_SHARE = 1 / 64
"""Sleep as a share of the time waited, if some events ring no bell."""
_LONGEST_NAP = 2e-3
_LONGEST_SLEEP = 1e-2
"""The longest sleep with a bell [s]: it bounds the delay of events without a bell, such as timeouts and threads."""

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221, "riscv64": 98}.get(os.uname().machine, -1)
_FUTEX_WAIT, _FUTEX_WAKE, _FUTEX_WAKE_OP = 0, 1, 5
_SET_1 = 1 << 12 | 0xFFF
"""Operand of FUTEX_WAKE_OP: set a word to 1; wake nobody there, since the word never was -1."""

Poll = Callable[[], bool]

_polled: list[Poll] = []
_working: list[Poll] = []


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Bell:
    """The bell of this rank, once `install` has given it a word."""

    def __init__(self) -> None:
        self.word: memoryview | None = None
        self.address = 0
        self.armed = False

    def sleep(self, seconds: float, look: Poll) -> bool:
        """Sleep for a time, or until the bell rings, or return True: `look` finds something once the bell is armed."""
        if self.word is None:
            found = look()
            if not found:
                time.sleep(seconds)
            return found
        # The kernel writes the word, so that it is in memory before `look` reads: a store of this rank might not be.
        _syscall(_SYS_FUTEX, self.address + 4, _FUTEX_WAKE_OP, 0, 0, self.address, _SET_1)
        self.armed = True
        try:
            found = look()
            if not found:
                limit = _Timespec(0, int(seconds * 1e9))
                _syscall(_SYS_FUTEX, self.address, _FUTEX_WAIT, 1, ctypes.addressof(limit), 0, 0)
            return found
        finally:
            self.armed = False
            self.word[0] = 0


_syscall = ctypes.CDLL(None).syscall
_syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_long] * 2, *[ctypes.c_void_p] * 2, ctypes.c_long]
_bell = _Bell()


def sleep(seconds: float, look: Poll) -> bool:
    """Sleep for a time, or until the bell of this rank rings. Local.

    Args:
        seconds: time, below 1.
        look: polls once more once the bell is armed; if it finds something, there is no sleep.

    Returns:
        Whether it has found something.
    """
    return _bell.sleep(seconds, look)


def install(word: memoryview) -> None:
    """Give this rank a bell: one 64-bit integer in memory that the ranks of its node share. Local."""
    _bell.address = ctypes.addressof(ctypes.c_int64.from_buffer(word))
    _bell.word = word if _SYS_FUTEX >= 0 else None


def wake() -> None:
    """End the sleep of this rank: another thread has something for it. Local; cheap if it does not sleep."""
    if _bell.armed and _bell.word is not None:
        _bell.word[0] = 0
        _syscall(_SYS_FUTEX, _bell.address, _FUTEX_WAKE, 1, 0, 0, 0)


def poll_for(under_way: Poll) -> None:
    """Register a function that returns whether this rank has work under way whose end rings no bell. Local."""
    _polled.append(under_way)


def works_while(under_way: Poll) -> None:
    """Register a function that returns whether this rank has work of its own that goes on while it waits. Local."""
    _working.append(under_way)


def works() -> bool:
    """Return whether this rank has work of its own that goes on while it waits. Local."""
    return any(under_way() for under_way in _working)


def must_poll() -> bool:
    """Return whether this rank has work under way whose end rings no bell. Local."""
    return any(under_way() for under_way in _polled)


class Idle:
    """The idleness of one wait. Local.

    Args:
        bell: whether every awaited event rings the bell of this rank.
        end: time of the timeout, by `time.monotonic`; None: never.
        why: describes what the wait is for if only other ranks can end it: see `waits`.
    """

    __slots__ = ("_bell", "_crowded", "_end", "_failed", "_since", "_why")

    def __init__(self, bell: bool = False, end: float | None = None, why: waits.Why | None = None) -> None:
        self._bell, self._end, self._why = bell, end, why if end is None else None
        self._failed, self._since, self._crowded = 0, 0.0, cores.crowded()

    @property
    def is_brief(self) -> bool:
        """Whether the processor is free, and the wait so short that it does not yield it either."""
        return not self._crowded and self._failed < _IDLE_POLLS

    def reset(self) -> None:
        """Take note that a poll has found work, or that the wait is over. Local."""
        if self._failed > _YIELDS:
            waits.over()
        self._failed = 0

    def pause(self, look: Poll) -> None:
        """Take note of a failed poll; return at once, or yield the processor, or sleep. Local.

        Args:
            look: polls once more, and returns whether it found anything.
        """
        self._failed += 1
        if self._failed > _YIELDS:
            self._sleep(look)
        elif self._crowded or self._failed > _IDLE_POLLS:
            if self._failed == _YIELDS:
                self._since = time.monotonic()
            os.sched_yield()

    def _sleep(self, look: Poll) -> None:
        now = time.monotonic()
        if self._why is not None:
            waits.note(self._why, now)
        if self._bell and not must_poll():
            seconds = _LONGEST_SLEEP
        else:
            seconds = min(_SHARE * (now - self._since), _LONGEST_NAP)
            if self._crowded:
                seconds = max(seconds, _NAP)
        if self._end is not None:
            seconds = min(seconds, self._end - now)
        if seconds >= _NAP:
            if _bell.sleep(seconds, look):
                waits.over()
        else:
            os.sched_yield()
