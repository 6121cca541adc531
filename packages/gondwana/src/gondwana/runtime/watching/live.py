"""What a rank tells a live view (`gondwana.liveview`): what it knows anyway, when the view asks. Local."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from gondwana.runtime import files
from gondwana.runtime.watching import sockets, waits
from gondwana.runtime.watching.channel import Channel

VARIABLE = "GONDWANA_LIVE"
"""Variable with the secret of a live view, as hexadecimal digits, and the addresses at which it awaits rank 0."""

VIEWED = 3.0
"""Seconds after a question during which the view counts as open."""
GLANCE = 0.25
"""Seconds between two glances at what the program does, while the view is open."""

_AUTHENTICATION_TIME = 5.0
_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_COMMUNICATING = ("calls", "futures", "sync", "teams", "transfer", f"runtime{os.sep}progress", f"runtime{os.sep}idle")
"""Rooms and modules whose calls communicate, or wait for others."""


class Steps(NamedTuple):
    """The state of a progress bar.

    Attributes:
        label: name of the work.
        done: steps done.
        total: steps of the whole work.
        first: steps done before.
        begun: when it began, by `time.monotonic`.
        speed: the program's own words on its speed, "" without any.
    """

    label: str
    done: int
    total: int
    first: int
    begun: float
    speed: str


class _State:
    steps: Steps | None = None
    asked = 0
    glances = communicating = 0


_state = _State()
_values: dict[str, tuple[int, Any]] = {}


def note_steps(steps: Steps) -> None:
    """Take note of the latest state of a progress bar. Local."""
    _state.steps = steps


def is_due(name: str) -> bool:
    """Return whether the view has asked since a value of this name was given. Local."""
    return name not in _values or _values[name][0] != _state.asked


def give(name: str, value: Any) -> None:
    """Take note of a value for the next answer: a text, or the part of a picture. Local."""
    _values[name] = _state.asked, value


def glance() -> None:
    """Look whether the main thread communicates, so that a share of many glances is one of its time. Local."""
    _state.glances += 1
    _state.communicating += waits.in_compiled_code() or _communicates()


def facts() -> dict[str, Any]:
    """Return what the view shows of this rank. Local."""
    _state.asked += 1
    found: dict[str, Any] = {
        "memory": files.memory_in_use(),
        "glances": _state.glances,
        "communicating": _state.communicating,
        "values": {name: value for name, (_, value) in list(_values.items())},
    }
    steps = _state.steps
    if steps is not None:
        seconds = max(time.monotonic() - steps.begun, 1e-9)
        rate = (steps.done - steps.first) / seconds
        left = (steps.total - steps.done) / rate if rate else None
        found["steps"] = {**steps._asdict(), "rate": rate, "left": left, "seconds": seconds}
    return found


def connect(place: str) -> Channel | None:
    """Connect rank 0 to a live view; return None if it is gone. Local; blocks.

    Args:
        place: the value of `VARIABLE`.
    """
    secret, *addresses = place.split()
    try:
        connected = sockets.connect_to_launcher(addresses)
    except OSError:
        return None
    channel = Channel(connected, bytes.fromhex(secret), 0)
    try:
        channel.authenticate(_AUTHENTICATION_TIME)
    except (OSError, ValueError):
        channel.close()
        return None
    return channel


def _communicates() -> bool:
    """Whether the calls of the library that the main thread is in, below its own code, are those that communicate."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and (kind := _kind(frame.f_code.co_filename)) != "program":
        if kind == "communicating":
            return True
        frame = frame.f_back
    return False


@functools.cache
def _kind(file: str) -> str:
    if file.startswith(_PACKAGE):
        return "communicating" if file.removeprefix(_PACKAGE).startswith(_COMMUNICATING) else "library"
    return (
        "library" if file.startswith(("<", os.path.dirname(os.__file__))) and "site-packages" not in file else "program"
    )
