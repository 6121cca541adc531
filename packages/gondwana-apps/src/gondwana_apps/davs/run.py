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
        labels = gw.migrate(labels, np.zeros(len(labels), np.int64), team)
        team.Allreduce(gw.IN_PLACE, moved)
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


def scatter(points: Floats | None, dimension: int, team: gw.Team) -> tuple[Floats, int]:
    """Give each rank its part of the points of rank 0. Collective over the team.

    Returns:
        The part, and the number of all points.
    """
    whole = np.empty((0, dimension)) if points is None or team.rank else points
    # The first ranks have one more, so that those without points come last.
    sizes = [len(whole) // team.size + (rank < len(whole) % team.size) for rank in range(team.size)]
    own = gw.migrate(whole, np.repeat(np.arange(team.size), sizes), team)
    return own, int(team.allreduce(len(own)))


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
    rows = {name: array if mixture.team.rank == 0 else array[:0] for name, array in arrays.items()}
    checkpoint.save(
        s.CheckpointFile, rows, step=annealing.progress.steps, state=asdict(annealing.progress),
        settings=_identity(mixture), team=mixture.team,
    )  # fmt: skip


def _restored(mixture: Mixture) -> Annealing:
    """Continue from the last checkpoint. Collective over the team."""
    like = dict.fromkeys(("clusters", "best"), mixture.rows)
    found = checkpoint.load(mixture.settings.CheckpointFile, like, settings=_identity(mixture), team=mixture.team)
    mixture.rows, best = (mixture.exchange.gather(found.rows[name]) for name in like)
    mixture.clusters = len(mixture.rows)
    if mixture.team.rank == 0:
        print(f"continuing after step {found.step}", flush=True)
    return Annealing(mixture, Progress(**found.state), best)


def _identity(mixture: Mixture) -> dict[str, object]:
    """The values that a checkpoint and its continuation must share: settings, and the identity of the points."""
    return {**mixture.settings.physics(), "points": mixture.total, "centroid": mixture.centroid().tolist()}
