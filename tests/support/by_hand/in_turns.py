"""Time an example of the library and the same program by hand and with mpiarray, in turns in the same ranks.

mpiarray is no part of the project: without it the programs by hand remain. All of docs/results/examples.json:

for n in 1 2; do for of in "lattice_boltzmann 512 512 100" "shallow_water 480 320 400" "masked_diffusion 480 240 1500" \
    "masked_diffusion 240 120 4000" "masked_diffusion 96 48 8000" "particles 128 32 15"; do
    gondwana run -n $n -t 1 tests/support/by_hand/in_turns.py $of --json docs/results/examples.json; done; done
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import recording
from mpi4py import MPI

import gondwana as gw
from gondwana_bench.rows import Row

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

    def timed(run: Callable[[Steps], Any]) -> float:
        steps = Steps(count)
        run(steps)
        return steps.seconds

    times = recording.in_turns({who: functools.partial(timed, run) for who, run in runs.items()}, ROUNDS)
    case = {"example": name, "cells": f"{nx} x {ny}", "steps": count}
    for rival in rivals:
        yield recording.row(case, rival, times[rival], times["ours"], verified)


def main() -> None:
    """Measure an example with some numbers of cells and steps."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("example", choices=RESULT)
    for name in ("nx", "ny", "steps"):
        parser.add_argument(name, type=int)
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    rows = measured(given.example, given.nx, given.ny, given.steps)
    recording.record(rows, "examples", ("example", "cells", "ranks"), given.json)


if __name__ == "__main__":
    main()
