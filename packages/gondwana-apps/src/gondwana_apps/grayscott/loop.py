"""The time loop: steps, and between them output, checkpoints and a check whether to stop."""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.stop import StopRequest
from gondwana_apps.grayscott.pace import Pace
from gondwana_apps.grayscott.simulation import Simulation
from gondwana_apps.run_files import RunFiles, steps_to_next


def run(simulation: Simulation) -> tuple[Pace, str | None, int]:
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
            progress.show(simulation.steps, f"{s.L**3 / pace.seconds_per_step() / 1e6:.1f} Mcells/s")
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
