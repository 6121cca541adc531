"""`gondwana run heat`: heat conduction, step by step, with what the original program prints and a verdict."""

from __future__ import annotations

import csv
import io
import math
import os
from argparse import Namespace
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.free_memory import available_memory, in_gib
from gondwana.apps.heat import division
from gondwana.apps.heat.settings import Settings, load, parser
from gondwana.apps.heat.simulation import Simulation
from gondwana.apps.heat.verify import Verdict, verify
from gondwana.apps.options import on_first_rank
from gondwana.errors import GondwanaError, UsageError
from gondwana.io.stop import StopRequest
from gondwana.results import check_writable, environment, write_json, write_text

DEVICES = ("host", "cuda")
"""Where the kernels can run."""

DISCARDED = 10
"""Steps at the start whose times do not count."""

_PRINTED = 1e9
"""The original prints the mean temperature times this."""


class Printed(NamedTuple):
    """A line of output, as the original has it.

    Attributes:
        step: its number.
        value: 10^9 times the mean temperature before it.
        seconds: of all steps so far on rank 0.
        since: of those since the line before.
    """

    step: int
    value: float
    seconds: float
    since: float


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse what cannot run, before any rank starts. Local.

    Args:
        argv: what follows `heat` on the command line.
        ranks: number of ranks that will run, where the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    _open(parser().parse_args(argv), ranks)


def main(argv: list[str]) -> int:
    """Run the simulation. Collective over the world.

    Args:
        argv: what follows `heat` on the command line.

    Returns:
        The exit status: 1 if the result is wrong, that of a signal if one has stopped the run, else 0.
    """
    options, team = parser().parse_args(argv), gw.world
    settings = on_first_rank(team, lambda: _open(options, team.size))
    simulation = Simulation(settings, team)
    if team.rank == 0:
        _announce(simulation)
    lines, nanoseconds, verdict, status = _run(simulation)
    record = _gathered(nanoseconds, team)
    if team.rank == 0 and record is not None:
        if verdict is not None:
            print(verdict.reason, flush=True)
        if options.record is not None:
            write_text(options.record, _as_csv(record), f"--record {options.record}")
        if options.json is not None:
            write_json(options.json, _result(simulation, lines, record, verdict))
    return 1 if verdict is not None and not verdict.verified else status


def _open(options: Namespace, ranks: int | None) -> Settings:
    """Read the settings, and look at memory and at where results go."""
    for option in "json", "record":
        file = getattr(options, option)
        if file is not None:
            check_writable(file, f"--{option} {file}")
    settings = load(options)
    if ranks is not None:
        division.layout(settings, ranks)
    if settings.device == "cuda" and "SLURM_JOB_ID" not in os.environ and not gw.device_count():
        raise UsageError('device: "cuda" cannot be had: no device is visible; set device to "host"')
    needed, free = 2 * 8 * math.prod(side + 2 for side in settings.shape), available_memory()
    if settings.device == "host" and needed > free:
        raise UsageError(
            f"heat: {'x'.join(map(str, settings.shape))} cells need {in_gib(needed)} of memory and {in_gib(free)} are "
            "free: choose a smaller box, or use more nodes"
        )
    return settings


def _announce(simulation: Simulation) -> None:
    s = simulation.settings
    print(
        f"heat: {'x'.join(map(str, s.shape))} cells, steps 0 to {s.N}, {s.variant}{', overlap' if s.overlap else ''}, "
        f"mean in every {s.reduce}, on {s.device}, ranks x threads = {simulation.team.size} x {gw.threads()}, "
        f"blocks {'x'.join(map(str, simulation.T.grid))}",
        flush=True,
    )


def _run(simulation: Simulation) -> tuple[list[Printed], NDArray[np.int64], Verdict | None, int]:
    """Do all steps; print and return the lines, the nanoseconds of the steps, and the verdict if it came to the end."""
    s, team = simulation.settings, simulation.team
    lines: list[Printed] = []
    records: list[NDArray[np.int64]] = []
    before = last = 0.0
    with StopRequest(team=team) as stop, gw.ProgressBar(team, "heat", s.N + 1) as bar:
        while True:
            printed = simulation.step
            if printed == s.N:
                record, balance = simulation.last()
            else:
                record = simulation.advance(min(s.I, s.N - printed))
            records.append(record.nanoseconds)
            mean = record.sums[0] / s.cells
            if not math.isfinite(mean):
                raise GondwanaError(f"the temperature is not finite before step {printed}: choose a smaller dt")
            now = before + record.nanoseconds[0] * 1e-9
            lines.append(Printed(printed, _PRINTED * mean, now, now - last))
            before, last = before + float(record.nanoseconds.sum()) * 1e-9, now
            if team.rank == 0:
                print("{:d} T={:.6f} Time ({:.6f} {:.6f})".format(*lines[-1]), flush=True)
            bar.show(simulation.step, f"{s.cells * len(records[-1]) / records[-1].sum() * 1e3:.0f} Mcells/s")
            if printed == s.N:
                return lines, np.concatenate(records), verify(s, lines[-1].value, balance), 0
            reason = stop.agreed()
            if reason:
                if team.rank == 0:
                    print(f"stopped before step {simulation.step}: {reason}", flush=True)
                return lines, np.concatenate(records), None, stop.status


def _gathered(nanoseconds: NDArray[np.int64], team: gw.Team) -> NDArray[np.float64] | None:
    """The seconds of each step (rows) on each rank (columns), on rank 0. Collective over team."""
    every = np.empty((team.size, len(nanoseconds)), np.int64) if team.rank == 0 else None
    team.Gather(nanoseconds, every)
    return None if every is None else np.multiply(every.T, 1e-9, dtype=np.float64)


def _as_csv(record: NDArray[np.float64]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *(f"rank_{rank}_s" for rank in range(record.shape[1]))])
    writer.writerows([step, *(f"{seconds:.9f}" for seconds in row)] for step, row in enumerate(record.tolist()))
    return text.getvalue()


def _result(
    simulation: Simulation, lines: list[Printed], record: NDArray[np.float64], verdict: Verdict | None
) -> dict[str, Any]:
    s = simulation.settings
    slowest = record.max(axis=1)
    counted = slowest[DISCARDED:] if len(slowest) > DISCARDED else slowest
    return {
        "app": "heat",
        "version": gw.__version__,
        "verified": None if verdict is None else verdict.verified,
        "ranks": simulation.team.size,
        "threads": gw.threads(),
        "device": s.device,
        "variant": s.variant,
        "grid": list(simulation.T.grid),
        "seconds": float(slowest.sum()),
        "value": lines[-1].value,
        "steps": len(record),
        "lines": [line._asdict() for line in lines],
        "step_seconds": {
            name: float(np.percentile(counted, place))
            for name, place in (("p1", 1), ("p25", 25), ("median", 50), ("p75", 75), ("p99", 99))
        },
        "config": msgspec.to_builtins(s),
        "environment": environment(),
    }
