"""What the measuring programs of this folder share: rounds in turns, and results in a collection in docs/results."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gondwana as gw
from gondwana.results import VERSION, environment, units_of, write_json
from gondwana_bench.disturbance import undisturbed, watched
from gondwana_bench.rows import Row, beside, in_milliseconds


def seconds_of(act: Callable[[], object]) -> float:
    """Return the time of an act of all ranks. Collective."""
    gw.world.barrier()
    start = time.perf_counter()
    act()
    gw.world.barrier()
    return time.perf_counter() - start


def in_turns(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of runs, one a round; each round begins with another of them. Collective."""

    def take(number: int) -> dict[str, float]:
        order = list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]
        return {name: runs[name]() for name in order}

    found = undisturbed(take, rounds, gw.world)
    return {name: [times[name] for times in found] for name in runs}


def row(case: Mapping[str, Any], rival: str, theirs: Sequence[float], ours: Sequence[float], verified: bool) -> Row:
    """Return a row of a result: a case, on these ranks if it names no others, and the times of a rival beside ours."""
    found = beside(theirs, ours, "rival_", {"verified": verified}, milliseconds=in_milliseconds)
    return {"ranks": gw.world.size, **case, "rival": rival, **found}


def record(rows: Iterable[Row], benchmark: str, keys: Sequence[str], path: Path | None) -> None:
    """Measure, print what is found, and store it. Collective.

    Args:
        rows: rows that are measured as they are asked for.
        benchmark: name of the benchmark and of its panel.
        keys: keys that say what was measured: an earlier result with the same is replaced.
        path: collection of results; None: nothing is stored.
    """
    measured = list(watched(rows, gw.world))
    if gw.world.rank:
        return
    for one in measured:
        case = " ".join(str(one[key]) for key in keys if key != "ranks")
        times = f"ours {one['milliseconds']:.3f} ms, {one['rival']} {one['rival_milliseconds']:.3f} ms"
        end = f"load of others {one['foreign_load']}, {'right' if one['verified'] else 'WRONG'}"
        print(f"{case}, {one['ranks']} ranks: {times}, theirs / ours {ratio(one)}, {end}", flush=True)
    if path is not None:
        collection = f"{benchmark} beside the same by hand and by other libraries"
        verified = all(one["verified"] for one in measured)
        write_json(path, merged(path, measured, benchmark, keys, collection, verified=verified))


def ratio(of: Row) -> str:
    """Return a ratio, above 1 where ours is faster, with its interval, as the tables have it."""
    return "{:.2f} ({:.2f} to {:.2f})".format(*(of[f"ratio{end}"] for end in ("", "_low", "_high")))


def merged(
    path: Path, rows: list[Row], benchmark: str, keys: Sequence[str], collection: str, *, verified: bool
) -> dict[str, Any]:
    """Return the collection in a file with a result of these rows, in place of one with the same values of the keys."""

    def measurement(one: Row) -> list[Any]:
        return [one[key] for key in keys]

    job = ["gondwana", "run", "-n", str(gw.world.size), "-t", "1"]
    started = job if "gondwana.cli.rank" in sys.orig_argv else ["python"]
    result = {
        "schema": VERSION, "benchmark": benchmark, "command": [*started, *sys.argv],
        "verified": verified, "complete": True, "environment": environment(), "device": {},
        "units": units_of(benchmark, rows), "panels": {benchmark: rows}, "notes": [], "failures": [],
    }  # fmt: skip
    before = json.loads(path.read_text("utf-8"))["results"] if path.exists() else []
    kept = [one for one in before if measurement(one["panels"][benchmark][0]) != measurement(rows[0])]
    return {"schema": VERSION, "collection": collection, "results": [*kept, result]}
