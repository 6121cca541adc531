"""Checkpoints of an annealing: what the rest of a run needs, so that it continues with the same bits on any ranks."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

import gondwana as gw
from gondwana.io import checkpoint
from gondwana_apps.pwc.annealing import Annealing, Freezing, Partition, Step
from gondwana_apps.pwc.equations import Solution
from gondwana_apps.pwc.rows import Vectors
from gondwana_apps.pwc.settings import Settings

_FREE = {
    "DistanceMatrixFile", "ClusterFile", "CenterFile", "LabelFile", "NumberDataPoints", "IsMemoryMapped", "Exchange",
    "CheckpointFile", "CheckpointSteps", "Restart",
}  # fmt: skip
"""Settings that may change between a checkpoint and its continuation: they do not decide the clusters."""
_PLAIN = ("temperature", "steps", "waited", "failures", "converged")


class Saving:
    """The checkpoints of a run. Local to create.

    Args:
        settings: settings of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._saved = settings, 0

    def keep(self, annealing: Annealing) -> None:
        """Write a checkpoint if it is time. Collective over the team of the rows."""
        if self._settings.CheckpointFile and annealing.steps >= self._saved + self._settings.CheckpointSteps:
            self._saved = annealing.steps
            self._save(annealing)

    def _save(self, annealing: Annealing) -> None:
        closing, team = annealing.closing, annealing.rows.team
        solutions = {"clusters": annealing.solution, "best": closing.best if closing else annealing.solution}
        arrays = {name: np.column_stack(one) for name, one in solutions.items()}  # all ranks have the same
        state = {name: getattr(annealing, name) for name in _PLAIN} | {
            "trace": annealing.trace,
            "family": [[np.asarray(value).tolist() for value in one] for one in annealing.family.values()],
            "closing": closing and closing[1:],
        }
        checkpoint.save(
            self._settings.CheckpointFile, {name: x if team.rank == 0 else x[:0] for name, x in arrays.items()},
            step=annealing.steps, state=state, settings=self._identity(annealing), team=team,
        )  # fmt: skip

    def restore(self, annealing: Annealing) -> None:
        """Let an annealing that has not begun continue from the last checkpoint. Collective over the team of the rows.

        Raises:
            UsageError: there is no checkpoint, or it is of other settings or another matrix.
        """
        team, points = annealing.rows.team, annealing.rows.points
        like = dict.fromkeys(("clusters", "best"), np.empty((0, 3 * points + 3)))
        name, identity = self._settings.CheckpointFile, self._identity(annealing)
        found = checkpoint.load(name, like, settings=identity, team=team)
        annealing.solution, best = (_solution(_everything(found.rows[name], team), points) for name in like)
        for name in _PLAIN:
            setattr(annealing, name, found.state[name])
        annealing.trace.extend(Step(*one) for one in found.state["trace"])
        for one in found.state["family"]:
            values: list[Any] = [np.array(value) if isinstance(value, list) else value for value in one]
            partition = Partition(*values)
            annealing.family[len(partition.sizes)] = partition
        if found.state["closing"]:
            annealing.closing = Freezing(best, *found.state["closing"])
        self._saved = found.step
        if team.rank == 0:
            print(f"continuing after step {found.step}", flush=True)

    def _identity(self, annealing: Annealing) -> dict[str, Any]:
        """The values that a checkpoint and its continuation must share: settings, and the identity of the matrix."""
        physics = {name: value for name, value in msgspec.to_builtins(self._settings).items() if name not in _FREE}
        return {**physics, "points": annealing.rows.points, "first": annealing.first}


def _everything(rows: Vectors, team: gw.Team) -> Vectors:
    """Return the rows of all ranks. Collective over the team."""
    counts = team.allgather(rows.size)
    whole = np.empty((sum(counts) // rows.shape[1], rows.shape[1]))
    team.Allgatherv(np.ascontiguousarray(rows), (whole, counts))
    return whole


def _solution(rows: Vectors, points: int) -> Solution:
    """The solution that has the values of each cluster in a row."""
    cuts = np.cumsum([points, points, 1, 1, points])
    potential, membership, weight, size, mean, offset = map(np.ascontiguousarray, np.split(rows, cuts, axis=1))
    return Solution(potential, membership, weight[:, 0], size[:, 0], mean, offset[:, 0])
