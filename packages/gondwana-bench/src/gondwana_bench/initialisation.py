"""The speed at which threads of a process, or processes of a node, initialise an array.

Threads are beside OpenMP, threads in C, and NumPy. Worker processes, beside OpenMP, are all ranks of a job, or those of
a pool that rank 0 uses. The study of Julia took the time of work that nobody had waited for: the rows of `UNWAITED`
have that, and those of the same pool the time of the work.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Array, Team, foreach, jit, parallel, set_threads, threads
from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.measure import Variant, interleave, timed
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside_c, check_numbers, columns, in_milliseconds, relative
from gondwana_bench.tasks.between import others_asleep

NBYTES = 50_000_000
HUGE_PAGES = "fresh, huge pages"
MEMORIES = ("touched", "fresh", HUGE_PAGES)
"""Touched before; new from the system; the same with huge pages asked for, as Gondwana and NumPy allocate arrays."""
REST_SECONDS = 0.1
RIVAL, THREADS = "OpenMP in C", "pthread in C"
"""The rival, and another way of C."""

COLUMNS = columns(
    "memory nbytes threads compiler variant ms gb_per_s c_ms ratio verified",
    c_ms="OpenMP", ratio="OpenMP/variant (95 %)",
)  # fmt: skip

UNWAITED = "pool, not waited for: what the study measured"
UNWAITED_FACTOR = "unwaited_factor"
COLUMNS_OF_WORKERS = columns(
    f"memory nbytes workers variant ms gb_per_s c_ms ratio {UNWAITED_FACTOR} verified",
    c_ms="OpenMP", ratio="OpenMP/variant (95 %)", unwaited_factor="OpenMP/unwaited (95 %)",
)  # fmt: skip

_REMOVE = 9
"""Linux's MADV_REMOVE, which `mmap` lacks: a file in memory gives its pages back."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

Values: TypeAlias = NDArray[np.float64]
Fill: TypeAlias = Callable[[Values], Callable[[float], object]]
"""Takes an array, and returns a function that sets all of its elements to a value; the first call is not timed."""


@foreach
def set_cell(p: Any, a: Any, value: float) -> None:
    """Set one element."""
    a[p] = value


@jit
def set_share(team: Any, a: Any, value: float) -> None:
    """Set the elements of this thread."""
    first, last = team.share(0, len(a))
    for i in range(first, last):
        a[i] = value


def thread_counts(cores: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of cores. Local.

    Example:
        >>> thread_counts(6)
        [1, 2, 4, 6]
    """
    return sorted({1 << power for power in range(cores.bit_length())} | {cores})


def check(sizes: Sequence[int], counts: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    if not sizes or any(nbytes < 8 or nbytes % 8 for nbytes in sizes):
        raise UsageError(f"--sizes {','.join(map(str, sizes))}: legal are bytes of whole doubles, multiples of 8")
    check_numbers("--threads", counts, "numbers of at least 1, such as 1,2")


def total(sizes: Sequence[int], counts: Sequence[int]) -> int:
    """Return how many rows `measure` yields. Local."""
    return len(MEMORIES) * len(sizes) * len(counts) * (len(_fills(1)) - 1) * len(build.compilers())


def measure(
    sizes: Sequence[int] = (NBYTES,),
    counts: Sequence[int] = (1,),
    *,
    repeat: int = 100,
    batch_seconds: float = 0.001,
) -> Iterator[Row]:
    """Initialise arrays of doubles in every combination and yield a row for each variant as soon as it is done. Local.

    Args:
        sizes: bytes of the array.
        counts: threads of this process that share the array, ours and those in C.
        repeat: rounds; each times every variant once. A tenth as many before them do not count.
        batch_seconds: length of one sample [s]; one call if that takes longer.

    Returns:
        Rows with GB/s (10^9 bytes of the array), the speed relative to OpenMP with its interval (above 1: faster), and
        whether the variant and OpenMP have set every element.
    """
    check(sizes, counts)
    before = threads()
    try:
        for memory in MEMORIES:
            for nbytes in sizes:
                for count in counts:
                    set_threads(count)
                    yield from _rows(memory, nbytes, count, repeat, batch_seconds)
    finally:
        set_threads(before)


def _rows(memory: str, nbytes: int, count: int, repeat: int, batch_seconds: float) -> Iterator[Row]:
    compilers = build.compilers(count)
    fills = _fills(count)
    for compiler, called in compilers.items():
        fills |= {_by(compiler, name, called): _fills(count, compiler)[name] for name in (RIVAL, THREADS)}
    values = np.empty(nbytes // 8)
    right = {name: _fills_all(fill, values, float(number)) for number, (name, fill) in enumerate(fills.items(), 1)}
    variants: dict[str, Variant] = {
        name: _of_touched(fill, values) if memory == "touched" else _of_fresh(fill, nbytes, memory == HUGE_PAGES)
        for name, fill in fills.items()
    }
    timing: dict[str, Any] = {"batch_seconds": batch_seconds, "rest_seconds": REST_SECONDS if count > 1 else 0.0}
    samples = interleave(variants, repeat=repeat, discard=repeat // 10, **timing)
    for compiler, called in compilers.items():
        for variant in _fills(count):
            name, rival = (_by(compiler, one, called) if one in (RIVAL, THREADS) else one for one in (variant, RIVAL))
            pair = {variant: samples[name], RIVAL: samples[rival]}
            if variant != RIVAL:
                row = row_of(memory, nbytes, count, variant, pair, verified=right[name] and right[rival])
                yield row | {"compiler": called}


def _by(compiler: str, name: str, called: str) -> str:
    """The name of a variant in C by one of the compilers."""
    return name if compiler == build.FIRST else f"{name}, {called}"


def row_of(
    memory: str, nbytes: int, count: int, name: str, samples: Mapping[str, Sequence[float]], *, verified: bool
) -> Row:
    """Return the row of a variant from seconds a call, one sample a round. Local."""
    pair = {"ours": samples[name], "c": samples[RIVAL]}
    return {
        "memory": memory,
        "nbytes": nbytes,
        "threads": count,
        "variant": name,
        **beside_c(pair, verified, ms=in_milliseconds, gb_per_s=lambda seconds: nbytes / seconds / 1e9),
    }


def _fills(count: int, compiler: str = build.FIRST) -> dict[str, Fill]:
    """Return the variants by name; NumPy's has one thread, whatever the count."""
    in_c = build.library("fill.c", [*build.openmp(compiler), "-pthread"], compiler)

    def native(name: str) -> Fill:
        function = in_c[name]
        function.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_double, ctypes.c_int]

        def fill(values: Values) -> Callable[[float], object]:
            address, size = values.ctypes.data, values.size
            return lambda value: function(address, size, value, count)

        return fill

    return {
        "foreach": _by_kernel,
        "parallel": lambda values: lambda value: parallel(set_share, values, value, threads=count),
        RIVAL: native("fill_openmp"),
        THREADS: native("fill_threads"),
        "NumPy": lambda values: values.fill,
    }


def _by_kernel(values: Values) -> Callable[[float], object]:
    array = Array(values)
    domain = array.domain
    return lambda value: set_cell(domain, array, value)


def _fills_all(fill: Fill, values: Values, value: float) -> bool:
    """Return whether a variant sets all elements to a value that none has before."""
    values.fill(-value)
    fill(values)(value)
    return bool((values == value).all())


def _of_touched(fill: Fill, values: Values) -> Variant:
    """Return a variant that initialises the same memory every time."""
    return timed(partial(fill(values), 1.0))


def _of_fresh(fill: Fill, nbytes: int, huge: bool) -> Variant:
    """Return a variant that initialises memory without pages, which the system provides while the clock runs."""

    def variant(calls: int) -> float:
        seconds = 0.0
        for _ in range(calls):
            with mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
                if huge:
                    memory.madvise(mmap.MADV_HUGEPAGE)
                values = np.frombuffer(memory)
                set_all = fill(values)
                start = time.perf_counter()
                set_all(1.0)
                seconds += time.perf_counter() - start
                del set_all, values  # memory with an array on it cannot be given back
        return seconds

    return variant


# -- worker processes --------------------------------------------------------------------------------------------


class _Way(NamedTuple):
    """How workers set all elements to a value.

    Attributes:
        act: does it, and is timed.
        right: returns whether all elements have a value.
        before: makes the memory ready.
        after: waits for what still works.
    """

    act: Callable[[float], object]
    right: Callable[[float], bool]
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None

    def call(self, value: float) -> float:
        """Set them once, and return the seconds."""
        self.before()
        start = time.perf_counter()
        self.act(value)
        seconds = time.perf_counter() - start
        self.after()
        return seconds


_shared: list[Values] = []
"""The array that the workers of a job share."""


def total_of_workers(sizes: Sequence[int], counts: Sequence[int]) -> int:
    """Return how many rows the jobs of all numbers of workers yield. Local."""
    return len(sizes) * len(counts) * (2 * 2 + 1 + 2 * 2)


def measure_by_workers(
    team: Team, *, sizes: Sequence[int], in_pool: bool, cores: Sequence[int], repeat: int, batch_seconds: float
) -> Iterator[Row]:
    """Initialise arrays by processes and yield a row for each memory and variant. Collective over team.

    Args:
        team: the world, on one node.
        sizes: bytes of the array.
        in_pool: whether the workers are a pool of rank 0; else they are all ranks.
        cores: those of the job: a rank may be bound to one, which threads of C would share.
        repeat: rounds; each times every variant once. A tenth as many before them do not count.
        batch_seconds: length of one sample [s]; one call if that takes longer.
    """
    os.sched_setaffinity(0, cores)
    workers = team.size - in_pool
    timing: dict[str, Any] = {"repeat": repeat, "discard": repeat // 10, "batch_seconds": batch_seconds}
    timing["rest_seconds"] = REST_SECONDS if workers > 1 else 0.0
    for nbytes in sizes:
        shared = gw.SharedArray(nbytes // 8)
        _shared[:] = [shared.numpy()]
        rival = _fills(workers)[RIVAL]
        found: list[Row] = []
        for memory in MEMORIES[:2] if in_pool else MEMORIES:
            huge = memory == HUGE_PAGES
            in_c = _of_touched(rival, _shared[0]) if memory == "touched" else _of_fresh(rival, nbytes, huge)
            right = [team.rank > 0 or _fills_all(rival, _shared[0], 7.0)]
            if in_pool:
                with gw.WorkerPool() as pool:  # rank 0 alone runs the body
                    ways = _of_pool(pool, workers, memory)
                    found += _rows_of_workers(memory, nbytes, workers, ways, in_c, right, None, timing)
            else:
                ways = _of_blocks(team, nbytes) if huge else _of_ranks(team, memory)
                found += _rows_of_workers(memory, nbytes, workers, ways, others_asleep(in_c), right, team, timing)
        yield from team.bcast(found)
        _shared.clear()
        shared.close()


def _rows_of_workers(
    memory: str,
    nbytes: int,
    workers: int,
    ways: Mapping[str, _Way],
    in_c: Variant,
    right: list[bool],
    team: Team | None,
    timing: Mapping[str, Any],
) -> Iterator[Row]:
    for number, way in enumerate(ways.values()):
        way.call(float(number))
        right.append(way.right(float(number)))

    def variant(way: _Way, calls: int) -> float:
        return sum(way.call(1.0) for _ in range(calls))

    variants: dict[str, Variant] = {name: partial(variant, way) for name, way in ways.items()}
    samples = interleave({**variants, RIVAL: in_c}, team=team, **timing)
    verified = all(right if team is None else team.allgather(all(right)))
    for name in ways:
        row = row_of(memory, nbytes, workers, name, samples, verified=verified)
        kept, none = (UNWAITED_FACTOR, "ratio") if name == UNWAITED else ("ratio", UNWAITED_FACTOR)
        factors = relative(samples[RIVAL], samples[name], kept) | relative(None, samples[name], none)
        yield {"workers" if key == "threads" else key: value for key, value in row.items()} | factors


def _of_ranks(team: Team, memory: str) -> dict[str, _Way]:
    """All ranks set their shares of the array, and wait for each other."""
    mine = _by_kernel(_share(team.rank, team.size))

    def act(value: float) -> None:
        mine(value)
        team.barrier()

    def before() -> None:
        if memory != "touched" and team.rank == 0:
            _give_back()
        team.barrier()

    def loop(value: float) -> None:
        gw.pfor(partial(_set_share, value, team.size), range(team.size))

    return {"ranks": _Way(act, _all_are, before), "ranks, pfor": _Way(loop, _all_are, before)}


def _of_blocks(team: Team, nbytes: int) -> dict[str, _Way]:
    """All ranks set their blocks of a new global array, which the library gives huge pages at their first use."""
    made: list[gw.GlobalArray] = []

    def before() -> None:
        for array in made:
            array.close()
        made[:] = [gw.zeros(nbytes // 8)]
        team.barrier()

    def act(value: float) -> None:
        set_cell(made[0].owned, made[0], value)
        team.barrier()

    return {"ranks, global array": _Way(act, lambda value: bool((made[0].local.numpy() == value).all()), before)}


def _of_pool(pool: gw.WorkerPool, workers: int, memory: str) -> dict[str, _Way]:
    """Workers set their shares, when rank 0 has given them a task each."""
    started: list[Any] = []
    parts = range(workers)
    before = (lambda: None) if memory == "touched" else _give_back

    def pmap(value: float) -> None:
        list(pool.pmap(partial(_set_share, value, workers), parts, batch=1))

    def start(value: float) -> None:
        started[:] = [pool.submit(_set_share, value, workers, part) for part in parts]

    def wait() -> None:
        for future in started:
            future.result()

    return {"pool, pmap": _Way(pmap, _all_are, before), UNWAITED: _Way(start, _all_are, before, wait)}


def _share(part: int, parts: int) -> Values:
    values = _shared[0]
    return values[len(values) * part // parts : len(values) * (part + 1) // parts]


def _set_share(value: float, parts: int, part: int) -> None:
    _by_kernel(_share(part, parts))(value)


def _all_are(value: float) -> bool:
    return bool((_shared[0] == value).all())


def _give_back() -> None:
    """Give the pages of the shared array back to the system; who writes there gets new ones, of the usual size."""
    start, size = _shared[0].ctypes.data, mmap.PAGESIZE
    first, last = -(-start // size) * size, (start + _shared[0].nbytes) // size * size
    if last > first:  # pages at the ends belong to it in part
        _libc.madvise(first, last - first, mmap.MADV_NOHUGEPAGE)
        # The memory of a rank that is alone is private.
        if all(_libc.madvise(first, last - first, way) for way in (_REMOVE, mmap.MADV_DONTNEED)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(measure_on_ranks("init", COLUMNS_OF_WORKERS, measure_by_workers))
