"""The benchmark of pools of workers: ours, as processes and as ranks of a job, beside others in the same rounds."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

from gondwana.errors import UsageError
from gondwana_bench.measure import in_turns
from gondwana_bench.pools.programs import Program
from gondwana_bench.processes import StartNative
from gondwana_bench.rows import Row, beside, both, check_cases, columns

COLUMNS = columns(
    "case workers unit name ours goal rival theirs ratio processor rival_processor",
    name="pool", processor="ours CPU", rival_processor="theirs CPU",
)  # fmt: skip

RIVALS = {
    "ours": ("ProcessPoolExecutor", "multiprocessing.Pool", "Dask"),
    "ours in a job": ("MPIPoolExecutor",),
}
"""The rivals of each of ours: pools that start processes, and pools over ranks."""

TASKS = 100_000
SECONDS = {"us": 1e-6, "s": 1.0}

Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Case:
    """A use of pools.

    Attributes:
        name: name of the operation.
        what: its name in `candidates.perform`.
        workers: number of workers of each pool.
        share: fraction of all tasks that a sample does.
        goal: microseconds that it may take; None: no goal.
    """

    name: str
    what: str
    workers: int
    share: float
    goal: float | None = None


CASES = (
    Case("null task, submit to result, median", "call", 1, 0.01, 12.0),
    Case("the same with 15 idle workers", "call", 16, 0.01, 15.6),
    Case("null task of map, one by one", "each", 2, 0.1),
    Case("null task of map, in batches", "batched", 2, 1.0, 5.0),
    Case("1 ms task of 2 workers, ideal 500", "work", 2, 0.01, 500 / 0.97),
)
STARTS = {"first start": None, "second start": 1.0}
"""Starts of a pool in one program, with the seconds that they may take."""
JOB = "start of the job"
STARTED = 4
"""Workers of the pools whose start is timed."""


def measure(
    native: StartNative,
    note: Callable[[str], None],
    *,
    cases: Sequence[str] | None = None,
    tasks: int = TASKS,
    repeat: int = 5,
) -> Iterator[Row]:
    """Measure the pools, one case after the other. Local: starts a program for each pool.

    Args:
        native: starts programs of MPI that are not ours.
        note: function that is called with each case that was left out, and the reason.
        cases: parts of the names of the cases to measure; None: all.
        tasks: null tasks of a map.
        repeat: rounds.

    Returns:
        A row for each of ours and each of its rivals.

    Raises:
        UsageError: one of ours does not work.
    """
    if not _has_dask():
        note("left out Dask: the package distributed is not installed")
    for workers in dict.fromkeys(case.workers for case in CASES if _is_among(case.name, cases)):
        with contextlib.ExitStack() as stack:
            programs = _all_programs(stack, workers, native, note)
            for case in CASES:
                if case.workers == workers and _is_among(case.name, cases):
                    n = max(1, round(tasks * case.share))
                    yield from _rows(case.name, workers, "us", case.goal, *_use(programs, case.what, n, repeat))
    if any(_is_among(name, cases) for name in STARTS):
        samples = _starts(native, repeat)
        for number, (name, goal) in enumerate(STARTS.items()):
            yield from _rows(name, STARTED, "s", goal, *samples[2 * number : 2 * number + 2])
    if _is_among(JOB, cases):
        yield from _rows(JOB, STARTED, "s", None, *_jobs(native, repeat))


def check(cases: Sequence[str] | None) -> None:
    """Check parts of names of cases. Local.

    Raises:
        UsageError: a part is in none of the names.
    """
    check_cases(cases, [*(case.name for case in CASES), *STARTS, JOB])


def total(cases: Sequence[str] | None) -> int:
    """Return how many rows `measure` yields if all pools work. Local."""
    in_processes, in_jobs = (len(_rivals(name)) for name in RIVALS)
    used = sum(_is_among(case.name, cases) for case in CASES)
    started = len(STARTS) * any(_is_among(name, cases) for name in STARTS)
    return used * (in_processes + in_jobs) + started * in_processes + _is_among(JOB, cases) * in_jobs


def _is_among(name: str, parts: Sequence[str] | None) -> bool:
    return parts is None or any(part in name for part in parts)


def _has_dask() -> bool:
    return importlib.util.find_spec("distributed") is not None


def _rivals(name: str) -> list[str]:
    """Return the rivals of one of ours that can run here."""
    return [rival for rival in RIVALS[name] if rival != "Dask" or _has_dask()]


def _all_programs(
    stack: contextlib.ExitStack, workers: int, native: StartNative, note: Callable[[str], None]
) -> dict[str, Program]:
    """Start all candidates; leave out rivals that do not work here."""
    programs: dict[str, Program] = {}
    for name in [name for ours in RIVALS for name in (ours, *_rivals(ours))]:
        try:
            programs[name] = stack.enter_context(Program(name, workers, native))
        except UsageError as error:
            if name in RIVALS:
                raise
            note(f"left out {name} with {workers} workers: {error}")
    return programs


def _use(programs: Mapping[str, Program], what: str, n: int, repeat: int) -> list[Samples]:
    """Return the seconds of a task, and those of processors, one sample a round, by name."""
    for program in programs.values():
        program.ask(what, max(1, n // 10))  # caches, and what our pool learns of the length of tasks

    def once(program: Program) -> list[float]:
        seconds, processor = program.ask(what, n)
        return [seconds, processor / n]

    return _interleaved({name: partial(once, program) for name, program in programs.items()}, repeat)


def _starts(native: StartNative, repeat: int) -> list[Samples]:
    """Return the seconds of first and second starts, each with those of processors, each round in a new program."""

    def both(name: str) -> list[float]:
        with Program(name, STARTED, native, "starts") as program:
            return [figure for _ in STARTS for figure in program.ask("start", STARTED)]

    return _interleaved({name: partial(both, name) for name in ("ours", *_rivals("ours"))}, repeat)


def _jobs(native: StartNative, repeat: int) -> list[Samples]:
    """Return the seconds from the command until every rank has run a task, and those of processors."""

    def once(name: str) -> list[float]:
        with Program(name, STARTED, native) as program:
            return list(program.start)

    return _interleaved({name: partial(once, name) for name in ("ours in a job", "MPIPoolExecutor")}, repeat)


def _interleaved(variants: Mapping[str, Callable[[], list[float]]], repeat: int) -> list[Samples]:
    """Call all variants in turns; return the samples of each of their figures."""
    found = in_turns(variants, repeat)
    figures = range(len(next(iter(found.values()))[0]))
    return [{name: [figure[i] for figure in rounds] for name, rounds in found.items()} for i in figures]


def _rows(
    case: str, workers: int, unit: str, goal: float | None, samples: Samples, processor: Samples
) -> Iterator[Row]:
    """Yield the rows of a case from seconds a task, and seconds of processors, one sample a round."""

    def in_unit(seconds: float) -> float:
        return seconds / SECONDS[unit]

    for name in RIVALS:
        if name in samples:
            for rival in (*(rival for rival in RIVALS[name] if rival in samples),) or (None,):
                theirs, worked = (None, None) if rival is None else (samples[rival], mean(processor[rival]))
                more = both(mean(processor[name]), worked, "rival_", processor=in_unit) | {"verified": True}
                compared = beside(theirs, samples[name], more=more)
                yield {
                    "case": case,
                    "workers": workers,
                    "unit": unit,
                    "name": name,
                    "ours": in_unit(compared["seconds"]["median"]),
                    "goal": goal,
                    "rival": rival,
                    "theirs": None if rival is None else in_unit(compared["rival_seconds"]["median"]),
                    **compared,
                }
