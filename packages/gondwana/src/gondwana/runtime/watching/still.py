"""Whether this rank stands still: it waits for acts of other ranks, and nothing else of it can run. Local."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from pathlib import Path

from gondwana.runtime import exits, idle, progress
from gondwana.runtime.watching import waits
from gondwana.runtime.watching.waits import Standing, Wait

_LAUNCHED = re.compile(r"gondwana-\d+")
"""Names of the threads that run parts of compiled code."""
_OWN_THREAD = re.compile(r"gondwana-(watchdog|\d+)")
"""Names of the threads that act by themselves never: the watchdog, and those that compiled code launches."""

_PACKAGE = str(Path(__file__).resolve().parents[2])
_ESTABLISHED = 0x01


def standing() -> Standing | None:
    """Return how this rank stands still, None if it does not, or if data of it are under way."""
    found = waits.standing(_worked)
    if found is None or idle.works() or _has_other_activity() or _has_data_under_way():
        return None
    return found


def wait() -> Wait | None:
    """Return what this rank waits for, None if it does not wait."""
    with contextlib.suppress(RuntimeError, OSError):  # what the tasks wait for changes just now
        return waits.current()
    return None


def _worked() -> tuple[int, int]:
    """Return the nanoseconds that the main thread has run, and those of the threads of compiled code."""
    launched = [thread.native_id for thread in threading.enumerate() if _LAUNCHED.fullmatch(thread.name)]
    return _ran(threading.main_thread().native_id), sum(map(_ran, launched))


def _ran(thread: int | None) -> int:
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0])


def _has_other_activity() -> bool:
    """Return whether anything but the waiting main thread could act: threads, processes, a timer, tasks at the end."""
    known = {thread.ident for thread in threading.enumerate() if _OWN_THREAD.fullmatch(thread.name)}
    known.add(threading.main_thread().ident)
    for ident, frame in sys._current_frames().items():
        while frame.f_back is not None:
            frame = frame.f_back
        if ident not in known and not frame.f_code.co_filename.startswith(_PACKAGE):
            return True
    if any(thread.name.startswith("gondwana-") and thread.ident not in known for thread in threading.enumerate()):
        return True  # progress threads, and those of pools
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0.0 or (exits.leaving() and progress.has_tasks()):
        return True
    try:
        return any(Path(f"/proc/self/task/{task}/children").read_text() for task in os.listdir("/proc/self/task"))
    except OSError:
        return False


def _has_data_under_way() -> bool:
    """Return whether a TCP connection of this process has data that the other side has not got, or it has not read."""
    own: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(entry.path)
                if name.startswith("socket:["):
                    own.add(name[8:-1])
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                queues = words[4].split(":")
                if words[9] in own and int(words[3], 16) == _ESTABLISHED and any(int(queue, 16) for queue in queues):
                    return True
    return False
