"""Teams of threads: a compiled function that the threads of a rank run together, with barriers and shared words."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gondwana.compiler import linker
from gondwana.compiler.debugging.errors import as_seen_by_users, raise_from_block
from gondwana.compiler.function import RESULT_WORDS, JitFunction, bind, check_host, obtain, unpack_result
from gondwana.compiler.mpi import objects
from gondwana.compiler.multithreading import pool
from gondwana.compiler.multithreading.pool import LINE
from gondwana.compiler.types.arguments import WORD, Spec, describe, working_precision
from gondwana.errors import KernelError, UsageError
from gondwana.runtime import cores
from gondwana.runtime.tracing import source, traced

R = TypeVar("R")

HEADER_WORDS = 4
"""Words of the argument block before the arguments: two unused, address of the result, address of the memory."""
ARRIVED, TURN, SLEEPERS, SETTINGS, ENDS, THREADS = (line * LINE for line in range(6))
"""Memory of a team, in lines so that words that are written often are alone: threads that have arrived at the barrier;
barriers so far; sleeping threads, the futex on which they sleep and the core of the thread that woke them last;
constants; failures and returns; and from `THREADS` on a line for each thread, then one for each slot."""
BELL, WAKER = SLEEPERS + WORD, SLEEPERS + 2 * WORD
SPINS, SLOTS = SETTINGS, SETTINGS + WORD
FAILED, RETURNED = ENDS, ENDS + WORD
STATUS, VALUES = 0, 2 * WORD
"""In the line of a thread: status and exception, then two numbers for reductions, which take turns."""
_SPINS = 1000
"""Failed polls before a waiting thread yields the processor, where every thread has a core."""

_Entry = tuple[Any, int, tuple[str, ...] | str]


class ThreadTeam:
    """The threads that run a function of `gw.parallel` together: its first argument, in compiled code only.

    Helper functions (`@gw.jit`) take it as an argument. All methods are local to the rank. A thread that waits raises
    RuntimeError, instead of waiting for ever, when another thread has raised an exception; in a barrier also when
    one has returned, in `wait_for` when all others have.

    Slots are integers of 64 bits that all threads share, 0 at first, each on a cache line of its own.

    Attributes:
        index: number of this thread; 0 is the thread that called `gw.parallel`.
        size: number of threads.
    """

    index: int
    size: int

    def barrier(self) -> None:
        """Return when all threads have called it. Blocks; earlier writes of any of them are visible after it."""
        raise _error()

    def share(self, first: int, last: int) -> tuple[int, int]:
        """Return the begin and the end of this thread's part of the range from `first` to `last` (excluded).

        Parts follow each other in the order of the threads and differ by one element at most.
        """
        raise _error()

    def sum(self, value: float) -> float:
        """Return the sum of the values of all threads, on every thread. Collective over the threads; blocks.

        The order is that of the threads, so that the result is the same in every run. Integers are added as 64-bit
        integers. A barrier, too: earlier writes of any thread are visible after it.

        Args:
            value: a real number, of the same type on all threads.
        """
        raise _error()

    def min(self, value: float) -> float:
        """Return the smallest of the values of all threads, NaN if one is NaN: otherwise as `sum`."""
        raise _error()

    def max(self, value: float) -> float:
        """Return the largest of the values of all threads, NaN if one is NaN: otherwise as `sum`."""
        raise _error()

    def broadcast(self, value: float) -> float:
        """Return the value that thread 0 gives, on every thread: otherwise as `sum`."""
        raise _error()

    def fetch_add(self, slot: int, value: int) -> int:
        """Add to a slot in one step and return its previous value. Sequentially consistent; does not block.

        Raises:
            IndexError: the slot does not exist.
        """
        raise _error()

    def publish(self, slot: int, value: int) -> None:
        """Set a slot (release): a thread that sees this value sees all earlier writes of this thread. Does not block.

        Raises:
            IndexError: the slot does not exist.
        """
        raise _error()

    def wait_for(self, slot: int, value: int) -> None:
        """Return when a slot holds `value` or more (acquire): see `publish`. Blocks.

        Raises:
            IndexError: the slot does not exist.
        """
        raise _error()


def _error() -> RuntimeError:
    return RuntimeError("teams of threads are for compiled code: see gw.parallel")


@traced("compiled", lambda function, *_args, **_kwargs: getattr(function, "__qualname__", "?"), about=source)
def parallel(function: Callable[..., R], *args: Any, threads: int | None = None, slots: int | None = None) -> R:
    """Run a compiled function on several threads of this rank as a team; return when all have returned. Local; blocks.

    Every thread calls `function(team, *args)` with a `gw.ThreadTeam` by which they share work and wait for
    each other. The threads are those that run kernels; the calling thread is number 0. Calls from several
    Python threads take turns. A waiting thread spins, then yields the processor, then sleeps, so that more threads than
    cores are slow and nothing worse. With one thread it is a call of `function`.

    The GIL is released. As in any compiled function, calls of other ranks (`gw.rpc`) are not served meanwhile, and
    Ctrl-C takes effect when the function returns. Inside, `gw.put`, `gw.get`, `gw.signal` and atomic operations may be
    called by any thread, `gw.wait` by one thread for each channel, messages and collectives (`gw.send`, `gw.allreduce`,
    `gw.barrier`) by one thread at a time: simplest by thread 0 alone.

    Args:
        function: decorated with `@gw.jit`; its first parameter is the team.
        args: the further arguments of `function`.
        threads: number of threads, 1 or more; None: `gw.threads()`.
        slots: number of shared integers; None: one for each thread.

    Returns:
        What thread 0 returned: a number, a tuple of numbers or None.

    Raises:
        UsageError: `function` is not decorated, or `threads` or `slots` is out of range.
        KernelError: `function` cannot be compiled; it calls `gw.parallel` itself, for instance.
        Exception: exception of a thread. The others do not wait for it for ever: see `ThreadTeam`.

    Example:
        >>> import numpy as np
        >>> import gondwana as gw
        >>> @gw.jit
        ... def norm(threads, x):
        ...     first, last = threads.share(0, len(x))
        ...     part = 0.0
        ...     for i in range(first, last):
        ...         part += x[i] * x[i]
        ...     return threads.sum(part) ** 0.5
        >>> gw.parallel(norm, np.full(10_000, 2.0), threads=2)
        200.0
    """
    if not isinstance(function, JitFunction):
        raise UsageError(f"gw.parallel({function!r}, ...): give a function that is decorated with @gw.jit")
    size = pool.threads() if threads is None else pool.checked_count(threads, f"gw.parallel(..., threads={threads!r})")
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 0):
        raise UsageError(f"gw.parallel(..., slots={slots!r}): give a whole number, 0 or more")
    positional = bind(function.py_func, (None, *args), {})[1:]
    try:
        described = [describe(value) for value in positional]
        specs = tuple(spec for spec, _ in described)
        found, key = function.entries(), ("team", specs)
        entry, address, results = found.get(key) or found.setdefault(key, _compile(function, specs))
    except KernelError as error:
        raise as_seen_by_users(error) from None
    memory, place = _memory(size, size if slots is None else slots)
    out = (ctypes.c_int64 * RESULT_WORDS)()
    head = struct.pack(f"{HEADER_WORDS}q", 0, 0, ctypes.addressof(out), place)
    block = ctypes.create_string_buffer(head + b"".join(data for _, data in described))
    since = objects.period()
    try:
        if size == 1:
            entry(ctypes.addressof(block), 0, 1)
        else:
            pool.run(address, ctypes.addressof(block), size, 0)
    finally:
        objects.keep(since, positional)
    failed = int(memory[FAILED // WORD])
    if failed:
        raise_from_block(ctypes.c_void_p(place + THREADS + (failed - 1) * LINE + STATUS), function.py_func.__qualname__)
    result: R = unpack_result(bytes(out), results)
    return result


def _memory(size: int, slots: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    """The memory of a team (see `ARRIVED`) from a boundary of lines on, and its address."""
    words = (THREADS + (size + slots) * LINE) // WORD
    room = np.zeros(words + LINE // WORD, np.int64)
    memory = room[-room.ctypes.data % LINE // WORD :][:words]
    crowded = cores.crowded(size) or size > cores.count()
    memory[SPINS // WORD] = 0 if crowded else _SPINS
    memory[SLOTS // WORD] = slots
    return memory, memory.ctypes.data


def _compile(function: JitFunction[..., Any], specs: tuple[Spec, ...]) -> _Entry:
    check_host(function.py_func.__qualname__, specs)

    def build() -> Any:
        from gondwana.compiler.multithreading.team_overloads import compile_team_call

        precision = working_precision(specs)
        return compile_team_call(function.py_func, specs, precision, reassociate=function.reassociate)

    made_by = (
        "gondwana.compiler.multithreading.team_overloads.compile_team_call",
        "gondwana.compiler.types.arguments.working_precision",
    )
    code = obtain(("team", function.fingerprint(), repr(specs)), build, *made_by)
    results: Any = code.about["results"]
    address = linker.link(code)
    return linker.callable_at(address, 3), address, results if isinstance(results, str) else tuple(results)
