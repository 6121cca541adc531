"""One job of the benchmark: on its ranks every variant does the same steps, one after the other.

The variants that C computes have the same compiled sweep, so that only the communication differs.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_double, c_int64, c_void_p
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.results import write_json
from gondwana_apps.heat import exchange
from gondwana_apps.heat.kernels import rates_of
from gondwana_apps.heat.settings import Settings
from gondwana_apps.heat.simulation import Simulation
from gondwana_apps.heat.steps import COMPILED, Record, compiled_loop, plan_of
from gondwana_bench import build
from gondwana_bench.processes import job_options

VARIANTS = {
    "C": "two-sided, all in C",
    "two-sided": "the loop compiled by Gondwana, the sweep of C",
    "one-sided": "the loop compiled by Gondwana, the sweep of C",
    "copy-notify": "the loop compiled by Gondwana, the sweep of C",
    "application": "the application, one-sided",
    "fused": "the application, one-sided, two steps a sweep",
}
"""The variants, and the program that computes each."""

_SWEEP = "f8(f8*, f8*, i8*, i8*, i8*, f8, f8, f8, f8)"
_REORDER = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]
"""Lets the C compiler make vectors of a loop that sums."""

Variant = Callable[[int], tuple[NDArray[np.int64], float]]
"""Does steps from the start; returns the nanoseconds of each on this rank, and the sum before the last."""


class Blocks(NamedTuple):
    """The arrays as the C functions take them: the box of this rank's block with its ghosts, and the box of all."""

    held: NDArray[np.int64]
    box: NDArray[np.int64]


def settings_of(size: int, team: gw.Team, steps: int) -> Settings:
    """Return the settings of a run with a cube of some size on each rank. Local."""
    x, y, z = (size * count for count in gw.Layout.divide((size * team.size,) * 3, team.size, ghost=1).grid)
    return Settings(X=x, Y=y, Z=z, N=steps - 1, fuse_steps=1)


def variants(size: int, steps: int, team: gw.Team) -> dict[str, Variant]:
    """Return the variants, compiled. Collective over team.

    Args:
        size: cells a side of the cube of each rank.
        steps: number of steps to come.
        team: the ranks.

    Raises:
        UsageError: no C compiler, or no header of MPI, was found.
    """
    library = build.library_with_mpi("heat.c", team, _REORDER)
    settings = settings_of(size, team, steps)
    application = Simulation(settings, team)
    T = gw.zeros(application.T.layout, team=team)
    other = gw.zeros_like(T)
    blocks = Blocks(*(exchange.as_rows([box])[0] for box in (T.local.domain, T.domain)))
    sweep = _sweep_of(library)
    fused = Simulation(msgspec.structs.replace(settings, fuse_steps=2), team)
    found = {
        "C": _in_c(library, settings, T, other, blocks),
        "application": _application(application),
        "fused": _application(fused),
    }
    for name, (begin, finish, ghosts_of) in COMPILED.items():
        ghosts = ghosts_of(T), ghosts_of(other)
        found[name] = _compiled(compiled_loop(begin, finish, sweep), settings, T, other, ghosts, blocks)
    return {name: found[name] for name in VARIANTS}


def _application(simulation: Simulation) -> Variant:
    def run(steps: int) -> tuple[NDArray[np.int64], float]:
        _clear(*simulation.arrays)
        simulation.step = 0
        record = simulation.advance(steps)
        return record.nanoseconds, float(record.sums[-1])

    return run


def _compiled(
    loop: Any, settings: Settings, T: gw.GlobalArray, other: gw.GlobalArray, handles: Any, blocks: Blocks
) -> Variant:
    plan = plan_of(settings, T)._replace(box=blocks)  # as C takes it

    def run(steps: int) -> tuple[NDArray[np.int64], float]:
        _clear(T, other)
        record = Record(np.zeros(steps, np.int64), np.zeros(steps))
        arrays = T.local.numpy(), other.local.numpy()  # as C takes them
        gw.parallel(loop, *arrays, *handles, plan, 0, record, threads=1)
        return record.nanoseconds, float(record.sums[-1])

    return run


def _sweep_of(library: Any) -> Any:
    """The sweep of the C program, for compiled loops of one thread."""
    function = gw.extern(library._name, "heat_sweep", _SWEEP)

    @gw.jit
    def sweep(threads: Any, T_next: Any, T: Any, parts: Any, blocks: Any, k: Any, summed: bool) -> float:
        total = 0.0
        for part in range(len(parts)):
            total += function(T_next, T, blocks.held, blocks.box, parts[part], k.dt, k.q, k.sigma, k.P)
        return total

    return sweep


def _in_c(library: Any, settings: Settings, T: gw.GlobalArray, other: gw.GlobalArray, blocks: Blocks) -> Variant:
    faces = exchange.faces(T.layout, T.team.rank)
    ranks = np.array([face.rank for face in faces], np.int64)
    boxes = [exchange.as_rows(boxes) for boxes in ([f.cells for f in faces], [f.ghosts for f in faces])]
    owned = exchange.as_rows([T.owned])

    def run(steps: int) -> tuple[NDArray[np.int64], float]:
        _clear(T, other)
        nanoseconds, sums = np.zeros(steps, np.int64), np.zeros(steps)
        arrays = T.local.numpy(), other.local.numpy(), blocks.held, owned, blocks.box
        library.heat_run(
            T.team.comm.py2f(), *map(_address, arrays), c_int64(len(faces)), *map(_address, (ranks, *boxes)),
            c_int64(steps), c_int64(settings.N // 2), *map(c_double, rates_of(settings)),
            _address(nanoseconds), _address(sums),
        )  # fmt: skip
        return nanoseconds, float(sums[-1])

    return run


def _address(array: NDArray[Any]) -> c_void_p:
    return c_void_p(array.ctypes.data)


def _clear(T: gw.GlobalArray, other: gw.GlobalArray) -> None:
    T.fill(0.0)
    other.fill(0.0)
    T.team.barrier()


def main(options: dict[str, Any]) -> None:
    """Run the variants in the order given and write their records. Collective over the world.

    Args:
        options: `size`, `steps`, the names of `variants` in their order, and the `file` for the result.
    """
    team = gw.world
    made = variants(options["size"], options["steps"], team)
    for name in options["variants"]:
        made[name](2)  # what is done once in a process
    found = {}
    for name in options["variants"]:
        nanoseconds, total = made[name](options["steps"])
        everyone = np.empty((team.size, len(nanoseconds)), np.int64) if team.rank == 0 else None
        team.Gather(nanoseconds, everyone)
        if everyone is not None:
            found[name] = {"nanoseconds": everyone.tolist(), "sum": total}
    if team.rank == 0:
        write_json(options["file"], found)


if __name__ == "__main__":
    main(job_options())
