"""The threads of the rank: started once, they spin between launches for a moment and then sleep.

A launch costs about a microsecond while the workers spin. Each thread always gets the same part of a domain, so memory
that it touched first stays near it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from dataclasses import dataclass, field

from gondwana.compiler.native import Native
from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana.runtime import cores
from gondwana.runtime.races import reporter

LINE = 128
"""Bytes between objects that different threads write."""
FLUSH_SUBNORMALS = 1
"""Flag of `run`: treat subnormal numbers as zero on all threads."""
_SPINS = 2000
_worker = Native("gondwana.compiler.multithreading.pool_native", "worker", 2)
_run = Native("gondwana.compiler.multithreading.pool_native", "run", 6)


@dataclass
class _Pool:
    """The workers of this process and the memory through which they get their jobs."""

    size: int
    process: int = field(default_factory=os.getpid)
    workers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory = ctypes.create_string_buffer(LINE * (self.size + 5))
        self.address = -(-ctypes.addressof(self._memory) // LINE) * LINE
        crowded = cores.crowded(self.size)
        settings = (ctypes.c_int64 * 2).from_address(self.address + 3 * LINE)
        settings[0], settings[1] = 0 if crowded else _SPINS, not crowded and self.size <= cores.count()
        self.run = _run.call if reporter is None else self._run_and_report
        work = _worker.call if self.size > 1 else None
        for thread in range(1, self.size):
            name = f"gondwana-{thread}"
            self.workers.append(threading.Thread(target=work, args=(self.address, thread), name=name, daemon=True))
            self.workers[-1].start()
        main = os.getpid()  # in a forked process the thread object still has its number from the parent
        cores.pin([main, *(worker.native_id or main for worker in self.workers)])

    def _run_and_report(self, address: int, size: int, function: int, block: int, count: int, flags: int) -> None:
        threads = [worker.ident or 0 for worker in self.workers[: count - 1]] if function else []
        assert reporter is not None
        with reporter.launching(threads, sys._getframe()):
            _run.call(address, size, function, block, count, flags)

    def stop(self) -> None:
        if self.workers and os.getpid() == self.process:
            self.run(self.address, self.size, 0, 0, self.size, 0)
            for worker in self.workers:
                worker.join()
            self.workers.clear()


_pool: _Pool | None = None
_wanted: int | None = None
_lock = threading.Lock()


def threads() -> int:
    """Return how many threads of this rank run kernels. Local.

    Set by `set_threads`, else by `GONDWANA_THREADS` (which `gondwana run -t` sets), else the cores that this process
    may use divided by the ranks that share them.
    """
    if _wanted is not None:
        return _wanted
    named = os.environ.get("GONDWANA_THREADS")
    if named is None:
        return max(1, cores.count() // cores.ranks())
    count = whole_number(named)
    if count is None or count < 1:
        raise UsageError(f"GONDWANA_THREADS is {named!r}: give a whole number of threads, 1 or more")
    return count


def set_threads(count: int) -> None:
    """Set how many threads of this rank run kernels from now on. Local.

    Results of `foreach` do not depend on it; those of `reduce` do only for the operation "sum".

    Args:
        count: threads, 1 or more; more than there are cores is allowed and slow.

    Raises:
        UsageError: `count` is not a positive whole number.

    Example:
        >>> import gondwana as gw
        >>> gw.set_threads(1)
        >>> gw.threads()
        1
    """
    global _wanted
    _wanted = checked_count(count, f"set_threads({count!r})")


def checked_count(count: int, call: str) -> int:
    """Return a number of threads. Local.

    Raises:
        UsageError: the number is not a positive whole number.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UsageError(f"{call}: give a whole number of threads, 1 or more")
    return count


def run(function: int, block: int, count: int, flags: int) -> None:
    """Run machine code on `count` threads with `(block, thread, count)`; return when all are done. Local.

    Calls from several Python threads take turns.
    """
    with _lock:
        pool = _pool if _pool is not None and _pool.size >= count and _pool.process == os.getpid() else _renew(count)
        pool.run(pool.address, pool.size, function, block, count, flags)


def _renew(count: int) -> _Pool:
    """A pool of at least `count` threads, of this process."""
    global _pool
    if _pool is not None:
        _pool.stop()
    _pool = _Pool(count)
    return _pool


def _stop() -> None:
    if _pool is not None:
        _pool.stop()


def _after_fork() -> None:
    """Make a new lock in a child: its threads are gone, and the old lock may be held by a thread of the parent."""
    global _lock
    _lock = threading.Lock()


atexit.register(_stop)
os.register_at_fork(after_in_child=_after_fork)
