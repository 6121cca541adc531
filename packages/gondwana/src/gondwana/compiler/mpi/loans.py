"""What is kept alive while requests of compiled code use it, where compiled code knows no owner.

An array that compiled code has made is held by its request (see `loans_overloads`). Memory of Python's objects comes to
compiled code as an address: there a request is only counted, with the period in which it starts, and `keep` keeps the
arguments of the call until no request of that period is under way. A period ends when arguments are kept for it, so
that a request which nobody waits for keeps those of few calls.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gondwana.compiler.mpi import table

PLACES = 256
"""Periods that may have requests under way at the same time; when there are more, the last does not end."""

_counts = np.zeros(PLACES, np.int64)
_words = _counts.data
_periods = [0] * PLACES
"""Number of the last period of each place."""
_kept: dict[int, list[tuple[Any, ...]]] = {}
"""Arguments that are kept, by the place of their period."""
_lock = threading.RLock()
_place = 0
_period = 0


def _begin(place: int) -> None:
    """Have requests that start from now on counted at a place."""
    global _place, _period
    _place, _period = place, _period + 1
    _periods[place] = _period
    table.set_loans(_counts[place:].ctypes.data)


_begin(0)


def period() -> int:
    """Return the number of the present period, to give to `keep` after a call of compiled code. Local."""
    return _period


def keep(since: int, arguments: tuple[Any, ...]) -> None:
    """Keep the arguments of a call that has returned as long as requests that it has started may use them. Local.

    Args:
        since: the period in which the call began. What another thread has started meanwhile keeps them, too.
        arguments: of the call.
    """
    if _kept:
        release()
    if since != _period or _words[_place] != 0:
        with _lock:
            _keep(since, arguments)


def release() -> None:
    """Drop what was kept for requests that are complete. Local."""
    with _lock:
        released = [_kept.pop(place, None) for place in list(_kept) if _words[place] == 0]
    released.clear()  # outside of the lock: what goes away may run code of users


def _keep(since: int, arguments: tuple[Any, ...]) -> None:
    for place in np.flatnonzero(_counts).tolist():
        if _periods[place] >= since:
            _kept.setdefault(place, []).append(arguments)
    if _place in _kept:
        free = np.flatnonzero(_counts == 0).tolist()
        if free:
            _begin(free[0])
