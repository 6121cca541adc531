"""The pools that are compared. Each runs in a program of its own, which does the work that the benchmark asks for."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.pool import Pool
from typing import Any

import gondwana as gw
from gondwana_bench.pools import work

CHUNK, WORK_CHUNK = 1000, 10
"""Items in a message of rivals whose maps make no batches of their own accord: null tasks, and those of
a millisecond."""


Task = Callable[[int], int]
Items = Iterable[int]


@dataclass(frozen=True)
class Candidate:
    """The operations of a pool that are measured.

    Attributes:
        call: has a worker run a null task, and waits for its result.
        each: maps, with a message for each item.
        batched: maps null tasks, many in a message.
        work: maps tasks of a millisecond.
    """

    call: Callable[[], object]
    each: Callable[[Task, Items], Items]
    batched: Callable[[Task, Items], Items]
    work: Callable[[Task, Items], Items]


def of_futures(pool: Executor) -> Candidate:
    """Return a pool with the interface of `concurrent.futures`. Local."""
    in_chunks, at_work = (partial(pool.map, chunksize=size) for size in (CHUNK, WORK_CHUNK))
    return Candidate(lambda: pool.submit(work.null).result(), pool.map, in_chunks, at_work)


def of_ours(pool: gw.WorkerPool) -> Candidate:
    """Return our pool, whose `pmap` chooses the batches. Local."""
    return replace(of_futures(pool), batched=pool.pmap, work=pool.pmap)


def of_multiprocessing(pool: Pool) -> Candidate:
    """Return a `multiprocessing.Pool`. Local."""
    at_work = partial(pool.imap, chunksize=WORK_CHUNK)
    return Candidate(lambda: pool.apply(work.null), pool.imap, pool.map, at_work)


# -- how they start ----------------------------------------------------------------------------------------------


Opening = Callable[[int], AbstractContextManager[Candidate]]
"""Makes a pool of so many workers."""


def _opening(make: Callable[[int], AbstractContextManager[Any]], candidate: Callable[[Any], Candidate]) -> Opening:
    @contextlib.contextmanager
    def opened(workers: int) -> Iterator[Candidate]:
        with make(workers) as pool:
            yield candidate(pool)

    return opened


@contextlib.contextmanager
def _ours_in_a_job(workers: int) -> Iterator[Candidate]:
    with gw.WorkerPool() as pool:
        if pool.workers != workers:  # rank 0 alone comes here
            raise RuntimeError(f"a job with {pool.workers} workers, not {workers}")
        yield of_ours(pool)


def _mpi4py(workers: int) -> AbstractContextManager[Any]:
    return importlib.import_module("mpi4py.futures").MPIPoolExecutor(workers)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _dask(workers: int) -> Iterator[Candidate]:
    client = importlib.import_module("distributed").Client
    with client(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        yield of_futures(cluster.get_executor())


CANDIDATES: dict[str, Opening] = {
    "ours": _opening(gw.WorkerPool, of_ours),
    "ours in a job": _ours_in_a_job,
    "ProcessPoolExecutor": _opening(ProcessPoolExecutor, of_futures),
    "multiprocessing.Pool": _opening(multiprocessing.Pool, of_multiprocessing),
    "MPIPoolExecutor": _opening(_mpi4py, of_futures),
    "Dask": _dask,
}


# -- the measurements ------------------------------------------------------------------------------------------


def perform(candidate: Candidate, what: str, n: int) -> float:
    """Return the seconds of a task: the median of a call, or the mean of a map. Local.

    Raises:
        RuntimeError: a map has not returned its items.
    """
    if what == "call":
        return statistics.median(_seconds(candidate.call) for _ in range(n))
    function = work.millisecond if what == "work" else work.same
    start = time.perf_counter()
    results = getattr(candidate, what)(function, range(1, n + 1))
    if sum(results) != n * (n + 1) // 2:
        raise RuntimeError(f"{what} has not returned its items")
    return (time.perf_counter() - start) / n


def ready(candidate: Candidate, workers: int) -> None:
    """Wait until every worker has run a task. Local."""
    seen: set[int] = set()
    while len(seen) < workers:
        seen.update(candidate.each(work.hold, range(workers)))


def start(name: str, workers: int) -> float:
    """Return the seconds from the creation of a pool until every worker has run a task. Local."""
    begin = time.perf_counter()
    with CANDIDATES[name](workers) as candidate:
        ready(candidate, workers)
        return time.perf_counter() - begin


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _serve(requests: Any, answer: Callable[[str, int], float]) -> None:
    for line in requests:
        what, n = json.loads(line)
        requests.write(json.dumps(answer(what, n)) + "\n")
        requests.flush()


@contextlib.contextmanager
def _connected(path: str) -> Iterator[Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rw") as requests:
            yield requests


def main(argv: list[str]) -> None:
    """Answer requests: start pools, or make one and use it.

    Args:
        argv: the candidate, the number of workers, the path of the socket, and the request.
    """
    name, workers, path, purpose = argv[0], int(argv[1]), argv[2], argv[3]
    if purpose == "starts":
        with _connected(path) as requests:
            _serve(requests, lambda _, n: start(name, n))
        return
    with CANDIDATES[name](workers) as candidate, _connected(path) as requests:
        ready(candidate, workers)
        _serve(requests, lambda what, n: perform(candidate, what, n))


if __name__ == "__main__":
    main(sys.argv[1:])
