"""The speed at which the threads of a process initialise an array, beside OpenMP, threads in C, and NumPy."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gondwana import Array, foreach, jit, parallel, set_threads, threads
from gondwana.errors import UsageError
from gondwana_bench.build import library
from gondwana_bench.measure import Variant, interleave, timed
from gondwana_bench.rows import Row, beside_c, check_numbers, columns, in_milliseconds

NBYTES = 50_000_000
HUGE_PAGES = "fresh, huge pages"
MEMORIES = ("touched", "fresh", HUGE_PAGES)
"""Touched before; new from the system; the same with huge pages asked for, as Gondwana and NumPy allocate arrays."""
REST_SECONDS = 0.1
RIVAL = "OpenMP in C"
"""The rival."""

COLUMNS = columns(
    "memory nbytes threads variant ms gb_per_s c_ms ratio verified",
    c_ms="OpenMP", ratio="OpenMP/variant (95 %)",
)  # fmt: skip

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
    return len(MEMORIES) * len(sizes) * len(counts) * (len(_fills(1)) - 1)


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
    fills = _fills(count)
    values = np.empty(nbytes // 8)
    right = {name: _fills_all(fill, values, float(number)) for number, (name, fill) in enumerate(fills.items(), 1)}
    variants: dict[str, Variant] = {
        name: _of_touched(fill, values) if memory == "touched" else _of_fresh(fill, nbytes, memory == HUGE_PAGES)
        for name, fill in fills.items()
    }
    timing: dict[str, Any] = {"batch_seconds": batch_seconds, "rest_seconds": REST_SECONDS if count > 1 else 0.0}
    samples = interleave(variants, repeat=repeat, discard=repeat // 10, **timing)
    for name in fills:
        if name != RIVAL:
            yield row_of(memory, nbytes, count, name, samples, verified=right[name] and right[RIVAL])


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


def _fills(count: int) -> dict[str, Fill]:
    """Return the variants by name; NumPy's has one thread, whatever the count."""
    in_c = library("fill.c", ["-fopenmp", "-pthread"])

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
        "pthread in C": native("fill_threads"),
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
