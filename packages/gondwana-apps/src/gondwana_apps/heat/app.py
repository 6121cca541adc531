"""`gondwana run heat`: heat conduction, step by step, with the output of the original program and a verdict."""

from __future__ import annotations

import math
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.errors import GondwanaError, UsageError
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.stop import StopRequest
from gondwana.results import check_writable, write_application, write_text
from gondwana_apps import gpus, run_files
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.heat import division
from gondwana_apps.heat.settings import Settings, load, parser
from gondwana_apps.heat.simulation import Balance, Simulation
from gondwana_apps.heat.steps import Record
from gondwana_apps.heat.verify import Verdict, verify
from gondwana_apps.options import on_first_rank
from gondwana_apps.sentences import say
from gondwana_apps.timers import spread

DEVICES = ("host", "cuda")
"""Devices of the kernels."""

DISCARDED = 10
"""Steps at the start whose times do not count."""

_PRINTED = 1e9
"""The original prints the mean temperature times this."""


class Printed(NamedTuple):
    """A line of output, as the original has it.

    Attributes:
        step: number of the step.
        value: 10^9 times the mean temperature before it.
        seconds: duration of all steps so far on rank 0.
        since: duration of the steps since the previous line.
    """

    step: int
    value: float
    seconds: float
    since: float


@dataclass
class Outcome:
    """The results of a run.

    Attributes:
        first: number of its first step.
        lines: printed lines.
        nanoseconds: durations of the steps on this rank, some at a time.
        balance: balance of the last step; None if the run stopped earlier.
        stopped: reason for an early stop.
        status: exit status for that.
    """

    first: int
    lines: list[Printed] = field(default_factory=list)
    nanoseconds: list[NDArray[np.int64]] = field(default_factory=list)
    balance: Balance | None = None
    stopped: str | None = None
    status: int = 0


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse settings that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `heat` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    _open(parser().parse_args(argv), ranks)


def main(argv: list[str]) -> int:
    """Run the simulation. Collective over the world.

    Args:
        argv: arguments after `heat` on the command line.

    Returns:
        The exit status: 1 if the result is wrong, that of a signal if one has stopped the run, else 0.
    """
    options, team = parser().parse_args(argv), gw.world
    settings = on_first_rank(team, lambda: _open(options, team.size))
    with run_files.reserved(settings, team):
        simulation = Simulation(settings, team)
        if team.rank == 0:
            _announce(simulation)
        if settings.restart:
            simulation.restore()
        outcome = _run(simulation)
    verdict = None
    if outcome.balance is not None:
        verdict = verify(settings, outcome.lines[-1].value, outcome.balance)
    record = _gathered(np.concatenate([np.zeros(0, np.int64), *outcome.nanoseconds]), team)
    if team.rank == 0 and record is not None:
        if outcome.stopped:
            say(f"stopped after {simulation.step} steps: {outcome.stopped}")
        if verdict is not None:
            say(verdict.reason)
        if options.record is not None:
            write_text(options.record, _as_csv(record, outcome.first), f"--record {options.record}")
        if options.json is not None:
            write_application(options.json, _result(simulation, outcome, record, verdict))
    return 1 if verdict is not None and not verdict.verified else outcome.status


def _open(options: Namespace, ranks: int | None) -> Settings:
    """Read the settings, and check memory and the files of results."""
    for option in "json", "record":
        file = getattr(options, option)
        if file is not None:
            check_writable(file, f"--{option} {file}")
    settings = load(options)
    settings = run_files.going_on(settings, settings.N)
    if ranks is not None:
        division.layout(settings, ranks, 2 if settings.fuse_steps == 2 else 1)
    gpus.will_be_used(settings.device, '"host"')
    ghosts = 2 if settings.fuse_steps == 1 else 4  # at both ends of an axis
    needed, free = 2 * 8 * math.prod(side + ghosts for side in settings.shape), available_memory()
    if settings.device == "host" and needed > free:
        raise UsageError(
            f"heat: {'x'.join(map(str, settings.shape))} cells need {in_gib(needed)} of memory and {in_gib(free)} are "
            "free: choose a smaller box, or use more nodes"
        )
    field_bytes = 8 * settings.cells
    outputs = (settings.N + 1) // settings.plotgap + settings.write_initial if settings.output else 0
    # A new checkpoint is complete before the oldest is removed.
    kept = min(settings.checkpoint_keep, (settings.N + 1) // settings.checkpoint_freq) + 1 if settings.checkpoint else 0
    run_files.check(settings, outputs * field_bytes, kept * field_bytes, ("N", settings.N))
    return settings


def _announce(simulation: Simulation) -> None:
    s = simulation.settings
    steps = f"steps 0 to {s.N}{', two steps a sweep' if simulation.fuse_steps == 2 else ''}"
    say(
        f"heat: {'x'.join(map(str, s.shape))} cells, {steps}, {s.variant}{', overlap' if s.overlap else ''}, "
        f"mean in every {s.reduce}, on {s.device}, ranks x threads = {simulation.team.size} x {gw.threads()}, "
        f"blocks {'x'.join(map(str, simulation.T.grid))}"
    )


def _run(simulation: Simulation) -> Outcome:
    """Do all steps, with output and checkpoints, and print. Collective over the team of the simulation."""
    s, team = simulation.settings, simulation.team
    outcome = Outcome(first=simulation.step)
    before = last = 0.0
    with (
        run_files.RunFiles(s, simulation.fields, _attributes(simulation), simulation.step, team) as files,
        StopRequest(s.stop_after_seconds or None, team=team) as stop,
        gw.ProgressBar(team, "heat", s.N + 1, done=simulation.step) as bar,
    ):
        if s.write_initial and simulation.step == 0:
            files.write(0, simulation.fields)
        while simulation.step <= s.N and outcome.stopped is None:
            begun = simulation.step
            record = _advance(simulation, outcome)
            outcome.nanoseconds.append(record.nanoseconds)
            if begun % s.I == 0 or begun == s.N:
                now = before + float(record.nanoseconds[0]) * 1e-9
                outcome.lines.append(Printed(begun, _PRINTED * float(record.sums[0]) / s.cells, now, now - last))
                last = now
                _print_line(outcome.lines[-1], team)
            before += float(record.nanoseconds.sum()) * 1e-9
            done = simulation.step
            if files.takes(done):
                files.write(done, simulation.fields)
            outcome.stopped = stop.agreed() if done <= s.N else None
            if s.checkpoint and (done % s.checkpoint_freq == 0 or outcome.stopped):
                files.save(done, simulation.fields, s.physics())
            bar.show(done, f"{s.cells * len(record.sums) / record.nanoseconds.sum() * 1e3:.0f} Mcells/s")
            gw.live(T=simulation.T)
    outcome.status = stop.status
    return outcome


def _advance(simulation: Simulation, outcome: Outcome) -> Record:
    """Do the steps up to the next line, output, checkpoint or the last step, which is checked."""
    s, done = simulation.settings, simulation.step
    if done == s.N:
        record, outcome.balance = simulation.last()
        return record
    to_line = s.I - done % s.I
    return simulation.advance(min(to_line, run_files.steps_to_next(s, done, s.N - done)))


def _print_line(line: Printed, team: gw.Team) -> None:
    if not math.isfinite(line.value):
        raise GondwanaError(f"the temperature is not finite before step {line.step}: choose a smaller dt")
    if team.rank == 0:
        print("{:d} T={:.6f} Time ({:.6f} {:.6f})".format(*line), flush=True)


def _attributes(simulation: Simulation) -> dict[str, Any]:
    """The dataset's description of itself."""
    s = simulation.settings
    about = provenance(simulation.team, s.physics(), msgspec.to_builtins(s), grid=simulation.T.grid)
    # ParaView takes the contiguous axis, z, as its first.
    return {**about, **fides(["T"]), **vtk_image(["T"], s.shape[::-1])}


def _gathered(nanoseconds: NDArray[np.int64], team: gw.Team) -> NDArray[np.float64] | None:
    """The seconds of each step (rows) on each rank (columns), on rank 0. Collective over team."""
    every = np.empty((team.size, len(nanoseconds)), np.int64) if team.rank == 0 else None
    team.Gather(nanoseconds, every)
    return None if every is None else np.multiply(every.T, 1e-9, dtype=np.float64)


def _as_csv(record: NDArray[np.float64], first: int) -> str:
    rows = [["step", *(f"rank_{rank}_s" for rank in range(record.shape[1]))]]
    rows += ([str(step), *(f"{seconds:.9f}" for seconds in row)] for step, row in enumerate(record.tolist(), first))
    return "".join(",".join(row) + "\n" for row in rows)


def _result(
    simulation: Simulation, outcome: Outcome, record: NDArray[np.float64], verdict: Verdict | None
) -> dict[str, Any]:
    s = simulation.settings
    warm = record[DISCARDED:] if len(record) > DISCARDED else record
    counted, per_rank = warm.max(axis=1), warm.mean(axis=0) if len(warm) else np.zeros(record.shape[1])
    places = {"p1": 1, "p25": 25, "median": 50, "p75": 75, "p99": 99} if len(counted) else {}
    return {
        "app": "heat",
        "verified": None if verdict is None else verdict.verified,
        "device": s.device,
        "variant": s.variant,
        "fuse_steps": simulation.fuse_steps,
        "grid": list(simulation.T.grid),
        "seconds": float(record.max(axis=1).sum()),
        "value": outcome.lines[-1].value if outcome.lines else None,
        "steps": len(record),
        "lines": [line._asdict() for line in outcome.lines],
        "step_seconds": {name: float(np.percentile(counted, place)) for name, place in places.items()},
        "step_seconds_over_ranks": spread(per_rank.tolist()),
        "config": msgspec.to_builtins(s),
    }
