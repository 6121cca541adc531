"""MPI's objects between Python and compiled code: teams and operations as arguments, and objects that requests keep.

Compiled code sees a team as the handle of its communicator, its rank and its size.

An array that compiled code has made is held by its request (see `mpi_overloads`). Memory of Python's objects comes to
compiled code as an address: there a request is only counted, in the period in which it starts, and `keep` holds the
arguments of the call until no request of that period is under way. A period ends when arguments are kept for it, so
that a request that is never waited for keeps the arguments of few calls.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gondwana.compiler.mpi import table
from gondwana.compiler.types.arguments import Described, describe_handle, register_describer
from gondwana.runtime.races import reporter
from gondwana.runtime.races.reporting import team_number
from gondwana.teams import Op, Team, addresses, mpi

PLACES = 256
"""The most periods that have requests under way at the same time; beyond that, the last one does not end."""

MESSAGE_AT = 24
"""Where in the block of a request of compiled code are the words that say what it is for: the place of its kind in
`waits.KINDS`, the address of the world ranks of its team, the place of the other rank, the tag, and the bytes."""

_counts = np.zeros(PLACES, np.int64)
_words = _counts.data
_periods = [0] * PLACES
"""Number of the last period of each place."""
_kept: dict[int, list[tuple[Any, ...]]] = {}
"""Kept arguments, by the place of their period."""
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
        since: the period in which the call began. Requests that other threads have started meanwhile keep them, too.
        arguments: arguments of the call.
    """
    if _kept:
        release()
    if since != _period or _words[_place] != 0:
        with _lock:
            _keep(since, arguments)


def release() -> None:
    """Drop the arguments kept for completed requests. Local."""
    with _lock:
        released = [_kept.pop(place, None) for place in list(_kept) if _words[place] == 0]
    released.clear()  # outside of the lock: destructors may run code of users


def _keep(since: int, arguments: tuple[Any, ...]) -> None:
    for place in np.flatnonzero(_counts).tolist():
        if _periods[place] >= since:
            _kept.setdefault(place, []).append(arguments)
    if _place in _kept:
        free = np.flatnonzero(_counts == 0).tolist()
        if free:
            _begin(free[0])


def _describe(team: Team) -> Described:
    """Spec and words of a team for compiled code.

    Handle of the communicator or 0, rank, size, memory on the node or 0, address of the ranks in the world.
    """
    table.link_delivery()
    if reporter is not None and team.size > 1:
        team_number(team)
    serial = mpi.is_serial(team.comm)
    handle = 0 if serial else addresses.handle(team.comm)
    memory = team.on_node.address if team.on_node is not None else 0
    words = handle, team.rank, team.size, memory, team.world_ranks_at
    return describe_handle("team", ("serial" if serial else "mpi",), words)


register_describer(Team, _describe)
register_describer(Op, lambda op: describe_handle("operation", (op.name,), ()))
