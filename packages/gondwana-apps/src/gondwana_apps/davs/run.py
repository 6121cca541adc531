"""A run on all ranks: points are scattered, clusters annealed, labels gathered."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

import gondwana as gw
from gondwana.io import checkpoint
from gondwana.io.stop import StopRequest
from gondwana_apps.davs import quality
from gondwana_apps.davs.annealing import Annealing, Progress, least_temperature
from gondwana_apps.davs.exchange import Floats, Integers
from gondwana_apps.davs.mixture import Conditions, Mixture
from gondwana_apps.davs.settings import Settings
from gondwana_apps.davs.splitting import MATURE
from gondwana_apps.davs.validity import remove
from gondwana_apps.timers import Timers

_BAR = 1000
_WARM = 1e-9
"""A temperature at which copies are merged."""
_BEYOND = 0.1
"""Annealing ends at about this share of the temperature at which splitting does."""


class Result(NamedTuple):
    """The result of a run.

    Attributes:
        rows: all clusters in order: position, weight, age; the same on all ranks.
        labels: cluster of each point on rank 0, nothing on the others.
        conditions: conditions at the end.
        progress: progress of the run.
        moved: numbers of points that moved to a cluster and to the sponge at the end.
        seconds: duration of annealing and labelling.
        timers: seconds of the parts on this rank.
        stopped: reason for an early end, or None; then there are no labels.
        status: exit status for that.
    """

    rows: Floats
    labels: Integers
    conditions: Conditions
    progress: Progress
    moved: Integers
    seconds: float
    timers: Timers
    stopped: str | None
    status: int


def run(points: Floats | None, settings: Settings, team: gw.Team, start: Floats | None = None) -> Result:
    """Cluster points. Collective over the team.

    Args:
        points: all points on rank 0, sorted along axis 0; ignored on the others.
        settings: settings of the run.
        team: the ranks.
        start: positions and weights of clusters to start from, on all ranks; None: one cluster.
    """
    own, total = scatter(points, settings.dimension, team)
    _compile(own, total, settings, team)
    timers, began = Timers(), time.perf_counter()
    mixture = Mixture(own, total, settings, team, timers)
    if start is not None:
        mixture.rows, mixture.clusters = np.column_stack([start, np.full(len(start), MATURE)]), len(start)
    annealing = _restored(mixture) if settings.Restart else Annealing(mixture)
    stopped, status = _anneal(annealing)
    rows, conditions = mixture.everything(), annealing.conditions
    labels, moved = np.zeros(0, np.int64), np.zeros(2, np.int64)
    if stopped is None:
        with timers("compute"):
            labels, moved = quality.assign(mixture.points, rows, total, settings, conditions)
        labels = gather(labels, team)
        moved = np.asarray(sum(team.allgather(tuple(moved.tolist())), ()), np.int64).reshape(-1, 2).sum(axis=0)
    seconds = time.perf_counter() - began
    return Result(rows, labels, conditions, annealing.progress, moved, seconds, timers, stopped, status)


def _compile(own: Floats, total: int, settings: Settings, team: gw.Team) -> None:
    """Compile everything that a run needs by doing all of it once, with one cluster. Collective over the team."""
    mixture = Mixture(own, total, settings, team, Timers())
    mixture.rows, mixture.clusters = np.concatenate([mixture.centroid(), [1.0, MATURE]])[None], 1
    conditions = Conditions(_WARM, mixture.widths, None, 0.0)
    mixture.choose(conditions)
    mixture.iterate(conditions)
    remove(mixture, mixture.moments(conditions), conditions)
    quality.assign(own, mixture.everything(), total, settings, conditions)


def share(total: int, team: gw.Team) -> list[int]:
    """Return the number of points of each rank: the first ones have one more. Local."""
    return [total // team.size + (rank < total % team.size) for rank in range(team.size)]


def scatter(points: Floats | None, dimension: int, team: gw.Team) -> tuple[Floats, int]:
    """Give each rank its part of the points of rank 0. Collective over the team.

    Returns:
        The part, and the number of all points.
    """
    total = int(team.bcast(0 if points is None else len(points)))
    counts = [n * dimension for n in share(total, team)]
    own = np.empty(counts[team.rank])
    flat = None if points is None or team.rank else (np.ascontiguousarray(points).reshape(-1), counts)
    team.Scatterv(flat, own)
    return own.reshape(-1, dimension), total


def gather(labels: Integers, team: gw.Team) -> Integers:
    """Return the labels of all points on rank 0, nothing on the others. Collective over the team."""
    counts = team.allgather(len(labels))
    found = np.empty(sum(counts) if team.rank == 0 else 0, np.int64)
    team.Gatherv(labels, (found, counts) if team.rank == 0 else None)
    return found


def _anneal(annealing: Annealing) -> tuple[str | None, int]:
    """Step until the end or a request to stop, with checkpoints."""
    s, p, team = annealing.settings, annealing.progress, annealing.mixture.team
    reserved = checkpoint.reserve(s.CheckpointFile, team=team) if s.CheckpointFile else nullcontext()
    with reserved, StopRequest(team=team) as stop, gw.ProgressBar(team, "davs", _BAR) as bar:
        while annealing.step():
            reason = stop.agreed()
            # Without any cluster there is nothing to save.
            if s.CheckpointFile and annealing.mixture.clusters and (reason or p.steps % s.CheckpointSteps == 0):
                _save(annealing)
            if reason:
                return reason, stop.status
            bar.show(_share_done(p, s), f"T={p.temperature:.4g}, {annealing.mixture.clusters} clusters")
        bar.show(_BAR, f"T={p.temperature:.4g}, {annealing.mixture.clusters} clusters")
    return None, 0


def _share_done(progress: Progress, settings: Settings) -> int:
    end = _BEYOND * least_temperature(settings, progress.first)
    whole = math.log(max(progress.first / end, 2.0))
    return min(max(round(_BAR * math.log(progress.first / progress.temperature) / whole), 0), _BAR - 1)


def _save(annealing: Annealing) -> None:
    """Write a checkpoint. Collective over the team."""
    mixture, s = annealing.mixture, annealing.settings
    arrays = {"clusters": mixture.everything(), "best": mixture.exchange.everything(annealing.best)}
    state = {**asdict(annealing.progress), "shapes": [list(array.shape) for array in arrays.values()]}
    shared = {name: gw.from_numpy(array, team=mixture.team) for name, array in arrays.items()}
    checkpoint.save(
        s.CheckpointFile, shared, step=annealing.progress.steps, state=state, settings=_identity(mixture),
        team=mixture.team,
    )  # fmt: skip


def _restored(mixture: Mixture) -> Annealing:
    """Continue from the last checkpoint. Collective over the team."""
    team, path = mixture.team, mixture.settings.CheckpointFile
    shapes, error = None, None
    if team.rank == 0:
        try:
            shapes = checkpoint.newest(path).state["shapes"]
        except Exception as problem:
            error = problem
    team.agree(error)
    shared = {
        name: gw.zeros(gw.RectDomain((0, 0), tuple(shape)), team=team)
        for name, shape in zip(("clusters", "best"), team.bcast(shapes), strict=True)
    }
    found = checkpoint.load(path, shared, settings=_identity(mixture), team=team)
    state = {key: value for key, value in found.state.items() if key != "shapes"}
    mixture.rows = np.ascontiguousarray(shared["clusters"].to_numpy())
    mixture.clusters = len(mixture.rows)
    return Annealing(mixture, Progress(**state), np.ascontiguousarray(shared["best"].to_numpy()))


def _identity(mixture: Mixture) -> dict[str, object]:
    """The values that a checkpoint and its continuation must share: settings, and the identity of the points."""
    return {**mixture.settings.physics(), "points": mixture.total, "centroid": mixture.centroid().tolist()}
