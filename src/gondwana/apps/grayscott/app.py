"""`gondwana run gray-scott SETTINGS`: from a settings file to a dataset, checkpoints and a verdict."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from typing import Any, NoReturn

import gondwana as gw
from gondwana.apps.grayscott import resources
from gondwana.apps.grayscott.progress import Progress
from gondwana.apps.grayscott.settings import Settings, load, notices
from gondwana.apps.grayscott.simulation import Simulation, Summary
from gondwana.apps.grayscott.verify import Verdict, verify
from gondwana.bench.report import check_writable, environment, write_json
from gondwana.errors import GondwanaError, UsageError
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.stop import StopRequest
from gondwana.io.writer import StepWriter

ARRAYS_MOVED = 4
"""U and V are read and written once a step: what T_eff counts (S. Omlin, L. Raess, arXiv:2211.15634)."""

_SECONDS_BETWEEN_LOOKS = 0.1
"""How often the ranks agree whether to stop."""


@dataclass
class _Timing:
    """Wall time of the time loop; the first step, which may compile, is kept apart."""

    first: float = 0.0
    others: float = 0.0
    steps: int = 0

    @property
    def total(self) -> float:
        return self.first + self.others

    def seconds_per_step(self) -> float:
        """Mean over the steps after the first; of the first if there is no other."""
        return self.others / (self.steps - 1) if self.steps > 1 else self.first


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"gray-scott: {message}; see gondwana run gray-scott --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gondwana run gray-scott", description="Simulate the Gray-Scott reaction in a cube.")
    parser.add_argument("settings", metavar="SETTINGS", help="settings file, a JSON object (name ends in .json)")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="replace a key of the file; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    return parser


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments and settings that cannot run, before any rank starts. Local.

    Args:
        argv: what follows `gray-scott` on the command line.
        ranks: number of ranks that will run, where the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    options = _parser().parse_args(argv)
    if options.json:
        check_writable(options.json)
    settings = load(options.settings, options.set)
    if ranks is not None:
        resources.check_ranks(settings, ranks)
    resources.check_memory(settings)
    resources.check_files(settings)


def main(argv: list[str]) -> int:
    """Run the simulation. Collective over the world.

    Args:
        argv: what follows `gray-scott` on the command line.

    Returns:
        The exit status: 0 if the result is verified or there is nothing to verify, else 1.
    """
    options = _parser().parse_args(argv)
    team = gw.world
    settings = _settings_of_rank_0(team, options)
    is_first = team.rank == 0
    if is_first:
        _announce(settings, team)
    simulation = Simulation(settings, team)
    if settings.restart:
        simulation.restore()
        if is_first:
            print(f"continuing after step {simulation.steps}")
    timing, stopped = _run(simulation)
    summary = simulation.summary()
    if not all(map(math.isfinite, summary)):
        raise GondwanaError(f"the fields are not finite after step {simulation.steps}: choose a smaller dt")
    verdict = verify(settings, simulation.steps, summary)
    if is_first:
        result = _result(simulation, timing, summary, verdict)
        _print_result(result, verdict, stopped)
        if options.json:
            write_json(options.json, result)
    return 1 if verdict.verified is False else 0


def _settings_of_rank_0(team: gw.Team, options: argparse.Namespace) -> Settings:
    """Rank 0 reads the file, so that all ranks run the same even if the file changes or is not there for the others."""
    settings, problem = None, None
    if team.rank == 0:
        try:
            settings = load(options.settings, options.set)
            resources.check_ranks(settings, team.size)
        except UsageError as error:
            problem = error
    team.agree(problem)
    shared: Settings = team.bcast(settings)
    return shared


def _announce(settings: Settings, team: gw.Team) -> None:
    s = settings
    print(
        f"gray-scott: {s.L}^3 cells in {s.precision}, {s.boundary} boundary, F={s.F:g} k={s.k:g} "
        f"Du={s.Du:g} Dv={s.Dv:g} dt={s.dt:g} noise={s.noise:g}, {s.steps} steps, "
        f"ranks x threads = {team.size} x {gw.threads()}"
    )
    print(f"needs {resources.needs(settings)}", flush=True)
    for line in notices(settings):
        print(f"note: {line}", flush=True)


def _run(simulation: Simulation) -> tuple[_Timing, str | None]:
    """Do the steps, with output and checkpoints; return the time they took and why the run stopped early, if it did."""
    s, team = simulation.settings, simulation.team
    timing, reason = _Timing(), None
    writer = _writer(simulation) if s.output else None
    look_every = 1
    try:
        with (
            StopRequest(s.stop_after_seconds, team=team) as stop,
            Progress(simulation.steps, s.steps, team) as progress,
        ):
            if writer and s.write_initial and simulation.steps == 0:
                _write(writer, simulation)
            while simulation.steps < s.steps and reason is None:
                start = time.perf_counter()
                simulation.advance()
                _count(timing, time.perf_counter() - start)
                if timing.steps == 2:
                    look_every = _look_every(team, timing)
                if writer and simulation.steps % s.plotgap == 0:
                    _write(writer, simulation)
                if timing.steps % look_every == 0:
                    reason = stop.agreed()
                if s.checkpoint and (simulation.steps % s.checkpoint_freq == 0 or reason):
                    _save(writer, simulation)
                progress.show(simulation.steps, s.L**3 / timing.seconds_per_step())
        if writer:
            writer.close()
    except BaseException:
        # What was handed over for writing is completed; closing would be collective, and the others may not come.
        if writer:
            writer.abandon()
        raise
    return timing, reason


def _count(timing: _Timing, seconds: float) -> None:
    if timing.steps == 0:
        timing.first = seconds
    else:
        timing.others += seconds
    timing.steps += 1


def _look_every(team: gw.Team, timing: _Timing) -> int:
    """Steps between two agreements about stopping, the same on all ranks."""
    steps: int = team.bcast(max(1, int(_SECONDS_BETWEEN_LOOKS / max(timing.seconds_per_step(), 1e-9))))
    return steps


def _writer(simulation: Simulation) -> StepWriter:
    s, team = simulation.settings, simulation.team
    fields = {"U": simulation.u, "V": simulation.v}
    constants = {name: float(getattr(s, name)) for name in ("F", "k", "dt", "Du", "Dv", "noise")}
    about = {"L": s.L, "steps": s.steps, "seed": s.seed, "precision": s.precision, "preset": s.preset}
    attributes = {
        **provenance(team, {**constants, **about}, s.resolved(), grid=simulation.u.grid),
        **fides(list(fields)),
        **(vtk_image(list(fields), (s.L,) * 3) if s.mesh_type == "image" else {}),
    }
    append_after = simulation.steps if s.restart else None
    assert s.output is not None
    return StepWriter(
        s.output, fields, attributes=attributes, append_after=append_after, background=s.async_write, team=team
    )


def _write(writer: StepWriter, simulation: Simulation) -> None:
    writer.write(simulation.steps, {"U": simulation.u, "V": simulation.v})


def _save(writer: StepWriter | None, simulation: Simulation) -> None:
    """Write a checkpoint; first the output up to here, since a run that continues from it will not write that again."""
    if writer:
        writer.flush()
    simulation.save()


def _result(simulation: Simulation, timing: _Timing, summary: Summary, verdict: Verdict) -> dict[str, Any]:
    s = simulation.settings
    rate = s.L**3 / timing.seconds_per_step() if timing.steps else 0.0
    return {
        "app": "gray-scott",
        "version": gw.__version__,
        "verified": verdict.verified,
        "ranks": simulation.team.size,
        "threads": gw.threads(),
        "device": "host",
        "seconds": timing.total,
        "seconds_first_step": timing.first,
        "steps": simulation.steps,
        "L": s.L,
        **summary._asdict(),
        "cells_per_s": rate,
        "t_eff_gb_s": ARRAYS_MOVED * s.itemsize * rate * 1e-9,
        "grid": list(simulation.u.grid),
        "config": s.resolved(),
        "environment": environment(),
    }


def _print_result(result: dict[str, Any], verdict: Verdict, stopped: str | None) -> None:
    if stopped:
        print(f"stopped after step {result['steps']}: {stopped}")
    for field in "u", "v":
        low, high, sum_ = (result[f"{field}_{what}"] for what in ("min", "max", "sum"))
        print(f"{field.upper()}: min {low:.12g}, max {high:.12g}, sum {sum_:.12g}")
    print(
        f"{result['steps']} steps, {result['seconds']:.2f} s in this run "
        f"(first step {result['seconds_first_step']:.2f} s), "
        f"{result['cells_per_s'] / 1e6:.1f} Mcells/s, T_eff {result['t_eff_gb_s']:.2f} GB/s"
    )
    print(verdict.reason, flush=True)
