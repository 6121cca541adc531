"""DAVS on several ranks and threads: the same bits as on one rank, in both ways to hold clusters; and its restart."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.davs import exchange, mixture, presets, run, settings, validity
from gondwana_apps.davs.annealing import Annealing
from gondwana_apps.davs.generator import generate
from gondwana_apps.davs.splitting import MATURE
from gondwana_apps.timers import Timers
from support import davs_oracle

COOLING = dict.fromkeys(
    ("InitialCoolingFactor1", "InitialCoolingFactor2", "FineCoolingFactor1", "FineCoolingFactor2"), 0.8
)
FIELD = presets.Field(150, 15, 0.1, mz=(500.0, 500.5), time=(0.0, 1200.0))
POINTS = generate(FIELD).points


def alone() -> gw.Team:
    team = gw.world.split(gw.world.rank)
    assert team is not None
    return team


def quick(**keys):
    return settings.resolve({**presets.COARSE, **COOLING, "ConvergenceLoopLimit": 4, **keys})


@pytest.mark.ranks(1, 2, 3, 4, 7, timeout=280)
@pytest.mark.ranks(2, threads=2, timeout=280)
@pytest.mark.parametrize(
    "keys",
    [
        {"ClusterLimitForDistribution": -1},
        {"TemperatureLimitForDistribution": 1e12, "ClusterLimitForDistribution": -1},
        {"TemperatureLimitForDistribution": 30.0, "ClusterLimitForDistribution": -1, "MaxNumberSplitClusters": 3},
    ],
    ids=["replicated", "divided early", "divided late"],
)
def test_clusters_and_labels_have_the_same_bits_as_on_one_rank(keys) -> None:
    s, team = quick(**keys), gw.world
    expected = run.run(POINTS, msgspec.structs.replace(s, ClusterLimitForDistribution=-1), alone())
    found = run.run(POINTS if team.rank == 0 else None, s, team)
    assert np.array_equal(found.rows, expected.rows)
    assert len(found.rows) >= 12
    assert found.progress.divided == (team.size > 1 and "TemperatureLimitForDistribution" in keys)
    assert replace(found.progress, divided=False) == expected.progress
    if team.rank == 0:
        assert np.array_equal(found.labels, expected.labels)


@pytest.mark.ranks(1, 2, 3, 4, 7, timeout=280)
@pytest.mark.parametrize("count", [3, 200])
def test_an_iteration_of_divided_clusters_is_that_of_dense_matrices(count: int) -> None:
    """With fewer points than ranks, too: some ranks have neither points nor clusters."""
    team, generator = gw.world, np.random.default_rng(1)
    x = np.column_stack([np.sort(generator.uniform(0.0, 30.0, count)), generator.uniform(0.0, 5.0, count)])
    s = settings.resolve({"SigmaMethod": 1, "SigmaVectorParameters": (1.0, 1.0), "TargetNcentPerPoint": 64,
                          "ExpArgumentCut1": 200.0, "ExpArgumentCut2": 50.0})  # fmt: skip
    own, total = run.scatter(x if team.rank == 0 else None, 2, team)
    found = mixture.Mixture(own, total, s, team, Timers())
    found.rows = np.column_stack([x[::2], generator.dirichlet(np.ones(len(x[::2]))), np.full(len(x[::2]), MATURE)])
    found.clusters = len(found.rows)
    model = davs_oracle.Model(found.rows[:, :2], found.rows[:, 2], np.ones(2), False, 0.3, 2.0, 0.01)
    conditions = mixture.Conditions(0.3, (1.0, 1.0), 2.0, 0.01)
    found.divide()
    for _ in range(3):
        found.choose(conditions)
        found.iterate(conditions)
        model = model.iterated(x)
        rows = found.everything()
        order = np.lexsort((*model.Y.T[::-1],))
        assert len(rows) == found.clusters == len(model.Y)
        assert np.allclose(rows[np.lexsort((*rows[:, :2].T[::-1],))][:, :2], model.Y[order], rtol=1e-10)
    assert team.allreduce(len(found.rows)) == found.clusters
    moments = found.moments(conditions)
    mass = team.allreduce(float(moments.counts[found.home].sum())) + moments.sponge_count
    assert math.isclose(mass, total, rel_tol=1e-10)
    assert math.isclose(moments.free_energy, model.free_energy(x), rel_tol=1e-9)


@pytest.mark.ranks(1, 2, 3, 4, 7, timeout=280)
def test_clusters_go_home_and_sums_come_back() -> None:
    """Whatever each rank starts with, and however far a window reaches: over several ranks, or none."""
    team, random = gw.world, np.random.default_rng(gw.world.rank)
    parts = exchange.Exchange(team, Timers())
    parts.divide(np.array([[team.rank + 0.5, 0.0]]))
    rows = np.column_stack([random.uniform(-1.0, team.size + 1.0, 5 * team.rank), random.random(5 * team.rank)])
    everything = parts.everything(rows)
    assert len(everything) == sum(5 * rank for rank in range(team.size))
    assert np.array_equal(everything, exchange.in_order(everything))
    ends = np.array([-np.inf, *range(1, team.size), np.inf])
    for reach in (0.0, 0.4, 2.5):
        low, high = ends[:-1] - reach, ends[1:] + reach
        window, links = parts.window(rows, reach, relative=False)
        inside = (everything[:, 0] >= low[team.rank]) & (everything[:, 0] < high[team.rank])
        assert np.array_equal(window, everything[inside])
        rows = window[parts.home(window)]
        assert (np.searchsorted(ends[1:-1], rows[:, 0], "right") == team.rank).all()
        assert team.allreduce(len(rows)) == len(everything)
        assert np.array_equal(parts.own(window), rows)
        sums = np.ones((len(window) + 1, 2), np.int64)
        room, spent = np.empty(2 * len(everything) * team.size, np.int64), np.zeros(2, np.int64)
        gw.parallel(exchange.add, links, sums[None], sums, room, spent, threads=1)
        holders = [sum((low <= y) & (y < high)) for y in window[:, 0]]
        assert sums.tolist() == [[n, n] for n in (*holders, team.size)]


@pytest.mark.ranks(3, timeout=280)
def test_a_chain_of_copies_is_merged_alike_wherever_it_is_cut() -> None:
    x = np.column_stack([np.linspace(0.0, 3.0, 40), np.zeros(40)])
    s = settings.resolve({"SigmaMethod": 1, "SigmaVectorParameters": (1.0, 1.0), "TemperatureForClosenessTest": 1e9})
    results = []
    for team in (alone(), gw.world):
        own, total = run.scatter(x if team.rank == 0 else None, 2, team)
        found = mixture.Mixture(own, total, s, team, Timers())
        found.rows = np.column_stack([np.linspace(0.2, 2.8, 9), np.zeros(9), np.full(9, 1 / 9), np.full(9, MATURE)])
        found.clusters = 9
        if team.size > 1:
            found.divide()
        conditions = mixture.Conditions(0.5, (1.0, 1.0), None, 0.0)
        found.choose(conditions)
        validity.remove(found, found.moments(conditions), conditions)
        results.append((found.clusters, found.everything()))
    assert results[0][0] == results[1][0] < 9
    assert np.array_equal(results[0][1], results[1][1])


@pytest.mark.ranks(3, timeout=280)
def test_a_run_continues_on_another_number_of_ranks(tmp_path: Path) -> None:
    s = quick(CheckpointFile=str(tmp_path / "davs.bp"), CheckpointSteps=20)
    pair = gw.world.split(0 if gw.world.rank < 2 else None)
    if pair is not None:
        own, total = run.scatter(POINTS if pair.rank == 0 else None, 2, pair)
        annealing = Annealing(mixture.Mixture(own, total, s, pair, Timers()))
        while annealing.progress.steps < 45:
            annealing.step()
            if annealing.progress.steps == 40:
                run._save(annealing)
    gw.world.barrier()
    whole = POINTS if gw.world.rank == 0 else None
    again = run.run(whole, msgspec.structs.replace(s, Restart=True, CheckpointSteps=10**6), gw.world)
    expected = run.run(POINTS, quick(), alone())
    assert np.array_equal(again.rows, expected.rows)
    assert again.progress.steps == expected.progress.steps
    with pytest.raises(UsageError, match="was made with points"):
        run.run(POINTS[:-1] if gw.world.rank == 0 else None, msgspec.structs.replace(s, Restart=True), gw.world)
