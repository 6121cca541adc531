"""The time loop: steps, and between them output, checkpoints and a look whether to stop."""

from __future__ import annotations

import gondwana as gw
from gondwana.apps.grayscott.pace import Pace
from gondwana.apps.grayscott.simulation import Simulation
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.stop import StopRequest
from gondwana.io.writer import StepWriter


def run(simulation: Simulation) -> tuple[Pace, str | None, int]:
    """Do the steps, with output and checkpoints. Collective over the team.

    Returns:
        The time that the steps took; why the run stopped early, if it did; and the exit status for that.
    """
    s, team = simulation.settings, simulation.team
    pace, reason = Pace(simulation), None
    writer = _writer(simulation) if s.output else None
    try:
        with (
            StopRequest(s.stop_after_seconds, team=team) as stop,
            gw.ProgressBar(team, "gray-scott", s.steps, done=simulation.steps) as progress,
        ):
            if writer and s.write_initial and simulation.steps == 0:
                _write(writer, simulation)
            while simulation.steps < s.steps and reason is None:
                pace.advance(_steps_to_next(simulation))
                if writer and simulation.steps % s.plotgap == 0:
                    pace.pause()
                    _write(writer, simulation)
                if pace.is_time_to_look():
                    reason = stop.agreed()
                if s.checkpoint and (simulation.steps % s.checkpoint_freq == 0 or reason):
                    pace.pause()
                    _save(writer, simulation)
                progress.show(simulation.steps, f"{s.L**3 / pace.seconds_per_step() / 1e6:.1f} Mcells/s")
            pace.pause()
        if writer:
            writer.close()
    except BaseException:
        # What was handed over for writing is completed; closing would be collective, and the others may not come.
        if writer:
            writer.abandon()
        raise
    return pace, reason, stop.status


def _steps_to_next(simulation: Simulation) -> int:
    """Steps to the next output, checkpoint or the end."""
    s, done = simulation.settings, simulation.steps
    gaps = [s.plotgap] * bool(s.output) + [s.checkpoint_freq] * s.checkpoint
    return min([s.steps - done, *(gap - done % gap for gap in gaps)])


def _writer(simulation: Simulation) -> StepWriter:
    s, team = simulation.settings, simulation.team
    fields = {"U": simulation.u, "V": simulation.v}
    constants = {name: float(getattr(s, name)) for name in ("F", "k", "dt", "Du", "Dv", "noise")}
    about = {"L": s.L, "steps": s.steps, "seed": s.seed, "precision": s.precision, "preset": s.preset}
    device = "host" if simulation.device is None else simulation.device.name
    attributes = {
        "gondwana_device": device,
        **provenance(team, {**constants, **about}, s.resolved(), grid=simulation.u.grid),
        **fides(list(fields)),
        **(vtk_image(list(fields), (s.L,) * 3) if s.mesh_type == "image" else {}),
    }
    assert s.output is not None
    return StepWriter(
        s.output,
        fields,
        attributes=attributes,
        append_after=simulation.steps if s.restart else None,
        replace=s.overwrite,
        background=s.async_write,
        team=team,
    )


def _write(writer: StepWriter, simulation: Simulation) -> None:
    writer.write(simulation.steps, {"U": simulation.u, "V": simulation.v})


def _save(writer: StepWriter | None, simulation: Simulation) -> None:
    """Write a checkpoint; first the output up to here, since a run that continues from it will not write that again."""
    if writer:
        writer.flush()
    simulation.save()
