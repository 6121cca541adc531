"""Time an example of the library and the same program by hand and with mpiarray, in turns in the same ranks.

gondwana run -n 2 -t 1 tests/support/by_hand/in_turns.py lattice_boltzmann 512 512 150 --json docs/results/examples.json
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from mpi4py import MPI

import gondwana as gw
from gondwana.results import VERSION, environment, units_of, write_json
from gondwana_bench.disturbance import undisturbed, watched
from gondwana_bench.rows import Row, beside, in_milliseconds

EXAMPLES = Path(__file__).parents[3] / "examples"
FEW, ROUNDS = 2, 7
RESULT = {"lattice_boltzmann": "f", "shallow_water": "h", "masked_diffusion": "T", "particles": "rho"}
"""The name of what an example computes, by the example."""
RIVALS = {"mpi4py and Numba": "", "mpiarray and Numba": "_mpiarray"}
"""The end of a rival's module, whose name begins with that of the example, by the rival."""


class Steps:
    """The numbers of the steps of a program, which times those after the first few: these compile."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seconds = 0.0

    def __iter__(self) -> Iterator[int]:
        yield from range(FEW)
        gw.world.barrier()
        start = time.perf_counter()
        yield from range(FEW, FEW + self.count)
        gw.world.barrier()
        self.seconds = (time.perf_counter() - start) / self.count


def ours(name: str, nx: int, ny: int, steps: Steps) -> Any:
    """Return the result of the example with other numbers of cells and steps, the same on all ranks."""
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    constants = re.search(r"^(NX, NY, [A-Z, ]*) = (.*?)(?= {2,}#|$)", source, re.M)
    if constants is None:
        source = source[: source.index("if __name__")] + f"T = run(({nx}, {ny}), None)"
    else:
        keys, values = (text.split(", ") for text in constants.groups())
        given = dict(zip(keys, values, strict=True)) | {"NX": str(nx), "NY": str(ny)}
        # What follows the steps are results that need all steps of the example.
        source = source[: source.index("if gw.world.rank == 0")]
        source = source.replace(constants[0], f"{constants[1]} = {', '.join(given.values())}")
    source, loops = re.subn(r"range\((steps|STEPS)\)", "numbers", source)
    assert loops == 1
    names: dict[str, Any] = {"__name__": "example", "numbers": steps}
    exec(compile(source, str(EXAMPLES / f"{name}.py"), "exec"), names)
    found = names[RESULT[name]]
    return np.stack([one.to_numpy() for one in found]) if isinstance(found, tuple) else found.to_numpy()


def theirs(module: ModuleType, nx: int, ny: int, steps: Steps) -> Any:
    """Return the result of a rival, the same on all ranks: each has computed some rows."""
    return np.concatenate(MPI.COMM_WORLD.allgather(module.run(nx, ny, steps)), axis=-2)


def programs(name: str) -> dict[str, ModuleType]:
    """Return the modules of the rivals that are installed; the first is the program by hand."""
    found = {}
    for rival, end in RIVALS.items():
        library = rival.partition(" ")[0]
        if importlib.util.find_spec(library) is None:
            if gw.world.rank == 0:
                print(f"{library} is not installed: left out")
        else:
            found[rival] = importlib.import_module(name + end)
    return found


def measured(name: str, nx: int, ny: int, count: int) -> Iterator[Row]:
    """Yield a row for each rival, which have all been measured in turns with ours."""
    rivals = programs(name)
    runs: dict[str, Callable[[Steps], Any]] = {"ours": functools.partial(ours, name, nx, ny)}
    runs |= {rival: functools.partial(theirs, module, nx, ny) for rival, module in rivals.items()}
    found = [run(Steps(8)) for run in runs.values()]
    verified = all(np.abs(one - found[0]).max() <= 1e-12 * np.abs(found[0]).max() for one in found)

    def in_turns(number: int) -> dict[str, float]:
        order = list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]
        times = {}
        for who in order:
            steps = Steps(count)
            runs[who](steps)
            times[who] = steps.seconds
        return times

    rounds = undisturbed(in_turns, ROUNDS, gw.world)
    for rival in rivals:
        yield {
            "example": name,
            "rival": rival,
            "cells": f"{nx} x {ny}",
            "ranks": gw.world.size,
            "steps": count,
            **beside(
                [times[rival] for times in rounds],
                [times["ours"] for times in rounds],
                "rival_",
                {"verified": verified},
                milliseconds=in_milliseconds,
            ),
        }


def merged(path: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the collection in a file with a result of these rows, in place of one of the same measurement."""

    def measurement(result: dict[str, Any]) -> list[Any]:
        return [result["panels"]["examples"][0][key] for key in ("example", "cells", "ranks")]

    command = ["gondwana", "run", "-n", str(gw.world.size), "-t", "1", *sys.argv]
    result = {
        "schema": VERSION, "benchmark": "examples", "command": command,
        "verified": all(row["verified"] for row in rows), "complete": True, "environment": environment(), "device": {},
        "units": units_of("examples", rows), "panels": {"examples": list(rows)}, "notes": [], "failures": [],
    }  # fmt: skip
    before = json.loads(path.read_text("utf-8"))["results"] if path.exists() else []
    kept = [one for one in before if measurement(one) != measurement(result)]
    return {"schema": VERSION, "collection": "examples beside the same programs by hand", "results": [*kept, result]}


def main() -> None:
    """Print the milliseconds of a step of ours and of each rival, and the ratio ours / rival with its interval."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("example", choices=RESULT)
    for name in ("nx", "ny", "steps"):
        parser.add_argument(name, type=int)
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    rows = list(watched(measured(given.example, given.nx, given.ny, given.steps), gw.world))
    if gw.world.rank == 0:
        for row in rows:
            ratio = "{:.2f} ({:.2f} to {:.2f})".format(*(1 / row[f"ratio{end}"] for end in ("", "_high", "_low")))
            times = f"{row['milliseconds']:.3f} ms, {row['rival']} {row['rival_milliseconds']:.3f} ms, ratio {ratio}"
            end = f"load of others {row['foreign_load']}, {'right' if row['verified'] else 'WRONG'}"
            print(f"{row['example']} {row['cells']}, {row['ranks']} ranks: ours {times}, {end}", flush=True)
        if given.json is not None:
            write_json(given.json, merged(given.json, rows))


if __name__ == "__main__":
    main()
