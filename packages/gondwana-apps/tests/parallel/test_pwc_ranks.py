"""Pairwise clustering on several ranks and threads: the bits of one rank, files, and runs from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import gondwana as gw
from gondwana import results
from gondwana.errors import UsageError
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_apps.pwc import generators, matrix
from gondwana_apps.pwc.annealing import Annealing
from gondwana_apps.pwc.rows import EXCHANGES, Rows, divide
from gondwana_apps.pwc.saving import Saving
from gondwana_apps.pwc.settings import Settings
from support import jobs

pytestmark = pytest.mark.parallel

on_ranks = pytest.mark.ranks(2, 3, 4, 7, timeout=280)
on_threads = pytest.mark.ranks(2, threads=2, timeout=280, id="threads")
QUICK: dict[str, Any] = {
    "MinimumCountForClusterCk": 1.0, "InitialCoolingFactor": 0.6, "FineCoolingFactor": 0.9, "WaitIterations": 1,
    "FreezingLimit": 0.02, "EpsiMaxChange": 0.05,
}  # fmt: skip
"""Some hundred exchanges for a run: on few cores each takes a slice of time of the system."""


def part(d: Any, team: gw.Team) -> Any:
    return d[slice(*divide(len(d), team.size)[1][team.rank :][:2])]


def on_one_rank(work: Any, world: gw.Team) -> Any:
    """What rank 0 computes alone, on all ranks. Collective."""
    single = world.split(world.rank)
    return world.bcast(work(single) if world.rank == 0 else None)


@on_ranks
@on_threads
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("points", [5, 300])
def test_vectors_and_sums_have_the_bits_of_one_rank(points: int, exchange: str, world: gw.Team) -> None:
    random = np.random.default_rng(points)
    d, x = random.random((points, points)), random.standard_normal((3, points))

    def work(team: gw.Team) -> tuple[Any, ...]:
        rows = Rows(team, part(d, team), 0.25, exchange)
        own = x[:, rows.own]
        product = rows.multiply(rows.gather(own))
        return rows.gather(own), rows.gather(product), rows.total(own), rows.total(product * own)

    everyone, product, total, weighted = work(world)
    assert np.array_equal(everyone, x)
    np.testing.assert_allclose(product, 0.25 * x @ d.T, rtol=1e-12)
    np.testing.assert_allclose(total, x.sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(weighted, (product * x).sum(axis=1), rtol=1e-11)
    for found, expected in zip((product, total, weighted), on_one_rank(work, world)[1:], strict=True):
        assert np.array_equal(found, expected)


@on_ranks
@on_threads
@pytest.mark.parametrize(("exchange", "continuous"), [("ring", False), ("allgather", True)])
def test_runs_have_the_bits_of_one_rank(exchange: str, continuous: bool, world: gw.Team) -> None:
    d, truth = generators.genes(41, 3, seed=1)
    settings = Settings(MaxNcent=3, ContinuousClustering=continuous, **QUICK)

    def work(team: gw.Team) -> tuple[Any, ...]:
        annealing = Annealing(Rows(team, part(d, team), 1 / 32767, exchange), settings, 1 / 32767)
        found = annealing.run()
        return list(found.labels), list(found.centers), found.energy, found.verified, annealing.trace

    found = work(world)
    assert adjusted_rand_index(found[0], truth) == 1.0
    assert found[3]
    assert found == on_one_rank(work, world)


class StoppedError(Exception):
    """The end of a run that is to be continued."""


class Part(Saving):
    """Checkpoints of a run that ends after the first one.

    Attributes:
        closing: whether that was during the cooling at the end.
    """

    closing = False

    def __init__(self, settings: Settings, began: int) -> None:
        super().__init__(settings)
        self._began = began

    def keep(self, annealing: Annealing) -> None:
        if self._saved > self._began:
            self.closing = annealing.closing is not None
            raise StoppedError
        super().keep(annealing)


@pytest.mark.ranks(3, timeout=280)
def test_a_run_that_goes_on_has_the_bits_of_an_undisturbed_one(world: gw.Team, tmp_path: Path) -> None:
    """From checkpoints before the last split, and of the cooling at the end; also on one rank."""
    d, _ = generators.genes(41, 3, seed=1)
    keys = {**QUICK, "ContinuousClustering": True, "ConvergeIntermediateClusters": True}
    settings = Settings(MaxNcent=3, CheckpointFile=str(tmp_path / "c.bp"), CheckpointSteps=6, **keys)
    seldom = msgspec.structs.replace(settings, CheckpointSteps=10**6)

    def work(saving: Saving, team: gw.Team, goes_on: bool) -> Any:
        annealing = Annealing(Rows(team, part(d, team), 1 / 32767), settings, 1 / 32767, keep=saving.keep)
        if goes_on:
            saving.restore(annealing)
        found = [annealing.run(), *annealing.family.values()]
        return [list(map(np.ndarray.tolist, map(np.asarray, one))) for one in found], annealing.trace, annealing.steps

    expected, began, phases, found = work(Saving(seldom), world, False), 0, set(), None
    while found is None:
        saving = Part(settings, began)
        try:
            found = work(saving, world, began > 0)
        except StoppedError:
            began = saving._saved
            phases.add(saving.closing)
    assert found == expected
    assert phases == {False, True}, expected[-1]
    assert work(Saving(seldom), world.split(world.rank), True) == expected


@on_ranks
def test_few_points_on_many_ranks(world: gw.Team) -> None:
    x = np.array([[0.0], [0.1], [5.0], [5.1], [5.2]])
    rows = Rows(world, part(generators.squared_distances(x, x), world))
    found = Annealing(rows, Settings(MaxNcent=2, TooSmallToSplit=1.0, **QUICK)).run()
    assert adjusted_rand_index(found.labels, [0, 0, 1, 1, 1]) == 1.0
    assert sorted(found.centers)[1] == 3


@pytest.mark.ranks(2, timeout=280)
def test_ranks_share_the_work_of_an_estimator(world: gw.Team) -> None:
    from gondwana_apps.pwc import PairwiseClustering  # loads scikit-learn, on two ranks only

    x, truth = generators.blobs(30, 3, seed=1)
    assert adjusted_rand_index(PairwiseClustering(3).fit_predict(x), truth) == 1.0


@on_ranks
@pytest.mark.parametrize("mapped", [False, True])
def test_each_rank_reads_its_rows(mapped: bool, world: gw.Team, tmp_path: Path) -> None:
    d, _ = generators.genes(50, 3, missing=0.1, seed=3)
    if world.rank == 0:
        d.tofile(tmp_path / "d.bin")
    world.barrier()
    settings = Settings(DistanceMatrixFile=str(tmp_path / "d.bin"), IsMemoryMapped=mapped)
    rows = matrix.read(matrix.locate(settings), settings, world)
    known = part(d, world) != generators.MISSING
    assert np.array_equal(rows.d[known], part(d, world)[known])
    everything = rows.gather(np.ascontiguousarray(rows.d.T))
    assert np.array_equal(everything, everything.T)
    assert everything.min() == 0
    world.barrier()
    if world.rank == 0:
        d[49, 2] = 7
        d.tofile(tmp_path / "d.bin")
    world.barrier()
    with pytest.raises(UsageError, match=r"row (2, column 49|49, column 2) is \d+; legal is the same both ways"):
        matrix.read(matrix.locate(settings), settings, world)


def run(folder: Path, *words: str) -> Any:
    command = [sys.executable, "-m", "gondwana.cli.main", "run", *words]
    return jobs.run_command(command, timeout=200, cwd=folder)


def test_a_run_from_the_command_line(tmp_path: Path) -> None:
    d, truth = generators.genes(80, 3, seed=1)
    d.astype(">i2").tofile(tmp_path / "distance.bin")
    np.savetxt(tmp_path / "labels.txt", truth, fmt="%d")
    lines = [f"{key} = {value}" for key, value in QUICK.items()]
    (tmp_path / "run.toml").write_text("\n".join(["IsBigEndian = true", 'LabelFile = "labels.txt"', *lines]))
    words = ("-n", "2", "-t", "1", "pwc", "run.toml", "--set", "MaxNcent=3", "--json", "r.json")
    outcome = run(tmp_path, *words)
    assert outcome.status == 0, str(outcome)
    result = results.read(tmp_path / "r.json")[0]
    assert (result["ranks"], result["threads"], result["points"], result["clusters"]) == (2, 1, 80, 3)
    assert (result["verified"], result["ari"], result["sponge_fraction"]) == (True, 1.0, 0.0)
    assert result["config"]["Exchange"] == "ring"
    for name in "compute", "allreduce", "send_receive", "eigen_send_receive", "splitting":
        assert 0.0 < result[f"seconds_{name}"] < result["seconds"]
    labels = (tmp_path / "cluster-M3-C3.txt").read_text().splitlines()
    assert len(labels) == 80
    assert "verified" in outcome.stdout


def test_an_illegal_file_ends_a_job_with_one_line_and_nothing_written(tmp_path: Path) -> None:
    d = np.ones((20, 20), np.int16) - np.eye(20, dtype=np.int16)
    d[17, 3] = 2
    d.tofile(tmp_path / "distance.bin")
    outcome = run(tmp_path, "-n", "2", "pwc", "--json", "r.json")
    assert outcome.status == 2, str(outcome)
    assert outcome.stderr.count("\n") == 1
    assert "gondwana: error: distance.bin: row 3, column 17 is 1; legal is the same both ways" in outcome.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["distance.bin"]
