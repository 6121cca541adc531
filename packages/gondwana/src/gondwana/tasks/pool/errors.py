"""What goes wrong with the workers of a pool."""

from __future__ import annotations

import errno
from concurrent.futures import BrokenExecutor

from gondwana.errors import GondwanaError


class WorkerLostError(GondwanaError, BrokenExecutor):
    """A worker ended while it had a task; the message names both. The pool goes on."""


class PoolBrokenError(GondwanaError, BrokenExecutor):
    """A pool has no workers and can start none: the system refuses, their initializer fails, or they end at once."""


def unstartable(error: OSError) -> str:
    """Return why no worker can be started, in words for a message, and what to change. Local."""
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}{_REMEDIES.get(error.errno or 0, '')}"


_REMEDIES = {
    errno.EAGAIN: ": the limit of processes (ulimit -u, or that of the control group) is reached: give fewer workers",
    errno.ENOMEM: ": there is no memory for it: give fewer workers",
    errno.EMFILE: ": each worker takes a descriptor: give fewer workers, or raise ulimit -n",
    errno.ENOENT: ": sys.executable is to name the interpreter of the workers",
}


class PoolClosedError(GondwanaError, RuntimeError):
    """A task was submitted to a pool that is shut down."""
