"""`gondwana run gray-scott SETTINGS`: from a settings file to a dataset, checkpoints and a verdict."""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

import gondwana as gw
from gondwana.errors import GondwanaError
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.stop import StopRequest
from gondwana.results import check_writable, write_application
from gondwana_apps.grayscott import devices, resources
from gondwana_apps.grayscott.fields import Fields
from gondwana_apps.grayscott.kernels import Rates, react_and_diffuse
from gondwana_apps.grayscott.pace import Pace
from gondwana_apps.grayscott.settings import Settings, load, notices
from gondwana_apps.grayscott.simulation import Simulation, Summary
from gondwana_apps.grayscott.sweeps import noises_of
from gondwana_apps.grayscott.verify import Verdict, verify
from gondwana_apps.options import Parser, on_first_rank
from gondwana_apps.run_files import RunFiles, going_on, reserved, steps_to_next
from gondwana_apps.sentences import say
from gondwana_apps.settings_files import settings_parser
from gondwana_apps.timers import over_ranks

ARRAYS_MOVED = 4
"""U and V are read and written once a step: the basis of T_eff (S. Omlin, L. Raess, arXiv:2211.15634)."""

DEVICES = ("host", "cuda")
"""Devices of the kernels."""

INSPECTED_CELLS = 130
"""Cells along each side of the arrays for which the kernel is inspected: as many as a long row of a run."""


def _parser() -> Parser:
    file = "a JSON object (name ends in .json)"
    parser = settings_parser(Settings, "gray-scott", "Simulate the Gray-Scott reaction in a cube.", file, nargs=None)
    parser.add_argument("--device", choices=DEVICES, help="where the kernels run [the key device]")
    return parser


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments and settings that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `gray-scott` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    options = _parser().parse_args(argv)
    if options.json is not None:
        check_writable(options.json)
    settings = _load(options)
    if ranks is not None:
        resources.check_ranks(settings, ranks)
    resources.check_memory(settings, on_gpus=devices.check(settings))
    resources.check_files(settings)


def main(argv: list[str]) -> int:
    """Run the simulation. Collective over the world.

    Args:
        argv: arguments after `gray-scott` on the command line.

    Returns:
        The exit status: 1 if the result is wrong, that of a signal if one has stopped the run, else 0.
    """
    options = _parser().parse_args(argv)
    team = gw.world
    settings = on_first_rank(team, lambda: _load(options))
    with reserved(settings, team):
        return _run(settings, team, options.json)


def inspected(argv: list[str]) -> tuple[Any, gw.RectDomain, tuple[Any, ...]]:
    """Return the kernel of a step, and a domain and arguments of the types that a run with these settings has. Local.

    Args:
        argv: as for `check`.

    Raises:
        UsageError: one line that says what to change.
    """
    settings = _load(_parser().parse_args(argv))
    box = gw.RectDomain((0, 0, 0), (INSPECTED_CELLS,) * 3)
    fields = [gw.Array.zeros(box, settings.precision.lower(), order="F") for _ in Fields._fields]
    rates = Rates(settings.F, settings.k, settings.Du, settings.Dv, settings.dt)
    return react_and_diffuse, box.shrink(1), (*fields, rates, noises_of(settings, 0)[0])


def _run(settings: Settings, team: gw.Team, result_file: str | None) -> int:
    """Simulate, verify and print. Collective over team; returns the exit status."""
    kind = devices.choose(settings, team)
    devices.check_memory(settings, team, kind)
    simulation = Simulation(settings, team, kind)
    if team.rank == 0:
        _announce(simulation)
    if settings.restart:
        simulation.restore()
    pace, stopped, status = _simulate(simulation)
    summary = simulation.summary()
    if not all(map(math.isfinite, summary)):
        raise GondwanaError(f"the fields are not finite after step {simulation.steps}: choose a smaller dt")
    verdict = verify(settings, simulation.steps, summary)
    first, others = (over_ranks(seconds, team) for seconds in (pace.first, pace.seconds_per_step()))
    if team.rank == 0:
        if os.environ.get("GONDWANA_TIMING"):
            _print_timing(simulation, pace)
        spreads = {"first_step_seconds_over_ranks": first, "step_seconds_over_ranks": others}
        result = _result(simulation, pace, summary, verdict) | spreads
        _print_result(result, verdict, stopped)
        if result_file is not None:
            write_application(result_file, result)
    return 1 if verdict.verified is False else status


def _simulate(simulation: Simulation) -> tuple[Pace, str | None, int]:
    """Do the steps, with output and checkpoints. Collective over the team.

    Returns:
        The time of the steps; the reason for an early stop, if any; and the exit status for that.
    """
    s, team = simulation.settings, simulation.team
    pace, reason = Pace(simulation), None
    with (
        RunFiles(s, simulation.fields, _attributes(simulation), simulation.steps, team) as files,
        StopRequest(s.stop_after_seconds, team=team) as stop,
        gw.ProgressBar(team, "gray-scott", s.steps, done=simulation.steps) as progress,
    ):
        if s.write_initial and simulation.steps == 0:
            files.write(0, simulation.fields)
        while simulation.steps < s.steps and reason is None:
            pace.advance(steps_to_next(s, simulation.steps, s.steps - simulation.steps))
            if files.takes(simulation.steps):
                pace.pause()
                files.write(simulation.steps, simulation.fields)
            if pace.is_time_to_look():
                reason = stop.agreed()
            if s.checkpoint and (simulation.steps % s.checkpoint_freq == 0 or reason):
                pace.pause()
                files.save(simulation.steps, simulation.fields, s.physics())
            rate = s.L**3 / pace.seconds_per_step()
            progress.show(simulation.steps, f"{rate / 1e6:.1f} Mcells/s")
            gw.live(**simulation.fields, T_eff=f"{ARRAYS_MOVED * s.itemsize * rate * 1e-9:.2f} GB/s")
        pace.pause()
    return pace, reason, stop.status


def _attributes(simulation: Simulation) -> dict[str, Any]:
    """The dataset's description of itself."""
    s, team = simulation.settings, simulation.team
    names = list(simulation.fields)
    constants = {name: float(getattr(s, name)) for name in ("F", "k", "dt", "Du", "Dv", "noise")}
    about = {"L": s.L, "steps": s.steps, "seed": s.seed, "precision": s.precision, "preset": s.preset}
    return {
        "gondwana_device": "host" if simulation.device is None else simulation.device.name,
        **provenance(team, {**constants, **about}, s.resolved(), grid=simulation.u.grid),
        **fides(names),
        **(vtk_image(names, (s.L,) * 3) if s.mesh_type == "image" else {}),
    }


def _load(options: argparse.Namespace) -> Settings:
    settings = load(options.settings, options.set, options.device)
    return going_on(settings, settings.steps)


def _announce(simulation: Simulation) -> None:
    s, team = simulation.settings, simulation.team
    sweeps = ", two steps a sweep" if simulation.fuse_steps == 2 else ""
    where = "the host" if simulation.device is None else simulation.device.name
    say(
        f"gray-scott: {s.L}^3 cells in {s.precision}, {s.boundary} boundary, F={s.F:g} k={s.k:g} "
        f"Du={s.Du:g} Dv={s.Dv:g} dt={s.dt:g} noise={s.noise:g}, {s.steps} steps{sweeps}, "
        f"on {where}, ranks x threads = {team.size} x {gw.threads()}"
    )
    say(f"needs {resources.needs(s, on_gpus=simulation.device is not None)}")
    for line in notices(s):
        say(f"note: {line}")


def _print_timing(simulation: Simulation, pace: Pace) -> None:
    say(
        f"gondwana: gray-scott: {simulation.seconds_preparing:.2f} s to compile and tune for devices, "
        f"{pace.first:.2f} s to the end of the first step, {pace.seconds - pace.first:.2f} s for the others",
        "stderr",
    )


def _result(simulation: Simulation, pace: Pace, summary: Summary, verdict: Verdict) -> dict[str, Any]:
    s, device = simulation.settings, simulation.device
    rate = s.L**3 / pace.seconds_per_step() if pace.steps else 0.0
    return {
        "app": "gray-scott",
        "verified": verdict.verified,
        "device": "host" if device is None else "cuda",
        "device_name": None if device is None else device.name,
        "fuse_steps": simulation.fuse_steps,
        "seconds": pace.seconds,
        "seconds_first_step": pace.first,
        "steps": simulation.steps,
        "L": s.L,
        **summary._asdict(),
        "cells_per_s": rate,
        "t_eff_gb_s": ARRAYS_MOVED * s.itemsize * rate * 1e-9,
        "grid": list(simulation.u.grid),
        "config": s.resolved(),
    }


def _print_result(result: dict[str, Any], verdict: Verdict, stopped: str | None) -> None:
    if stopped:
        say(f"stopped after step {result['steps']}: {stopped}")
    for field in "u", "v":
        low, high, sum_ = (result[f"{field}_{what}"] for what in ("min", "max", "sum"))
        say(f"{field.upper()}: min {low:.12g}, max {high:.12g}, sum {sum_:.12g}")
    say(
        f"{result['steps']} steps, {result['seconds']:.2f} s in this run "
        f"(first step {result['seconds_first_step']:.2f} s), "
        f"{result['cells_per_s'] / 1e6:.1f} Mcells/s, T_eff {result['t_eff_gb_s']:.2f} GB/s"
    )
    say(verdict.reason)
