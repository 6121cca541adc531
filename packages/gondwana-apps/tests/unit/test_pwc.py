"""Pairwise clustering on one rank: kernels, equations, splits and partitions against dense NumPy and scikit-learn."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.results import code_lines
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_apps.pwc import app, generators, matrix, output, splitting
from gondwana_apps.pwc.annealing import Annealing, Partition
from gondwana_apps.pwc.equations import Solution, alone, freezing, sweep
from gondwana_apps.pwc.rows import Rows, divide
from gondwana_apps.pwc.settings import Settings
from support import pwc_oracle as oracle

SMALL = Settings(MinimumCountForClusterCk=1.0, TooSmallToSplit=1.0, MaxNcent=4)
Array = npt.NDArray[Any]


def cluster(d: Array, settings: Settings, scale: float = 1.0) -> tuple[Partition, Annealing]:
    annealing = Annealing(Rows(gw.world, np.ascontiguousarray(d), scale), settings)
    return annealing.run(), annealing


def some_solution(rows: Rows, clusters: int, seed: int = 0) -> Solution:
    potential = np.random.default_rng(seed).random((clusters, rows.points))
    return alone(rows)._replace(potential=potential, weight=np.ones(clusters))


def blobs(points: int, clusters: int, **options: Any) -> tuple[Array, Array, Array]:
    x, truth = generators.blobs(points, clusters, **options)
    return x, generators.squared_distances(x, x), truth


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
@pytest.mark.parametrize("points", [1, 2, 7, 8, 9, 255, 256, 257, 513])
def test_products_are_those_of_numpy(points: int, dtype: str) -> None:
    random = np.random.default_rng(points)
    d = random.integers(0, 32768, (points, points)).astype(dtype)
    for vectors in (1, 2, 3) if points < 500 else (5, 8):
        x = random.standard_normal((vectors, points))
        found = []
        for threads in 1, 2, 3:
            gw.set_threads(threads)
            found.append(Rows(gw.world, d, 0.5).multiply(x))
        np.testing.assert_allclose(found[0], 0.5 * x @ d.astype(float).T, rtol=1e-12, atol=1e-9)
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[0], found[2])


def test_rows_of_a_part_have_the_bits_of_all_rows() -> None:
    d = np.random.default_rng(1).random((53, 53))
    x = np.random.default_rng(2).random((3, 53))
    everything = Rows(gw.world, d).multiply(x)
    for first, last in (0, 17), (17, 20), (20, 53):
        assert np.array_equal(Rows(gw.world, d[first:last]).multiply(x), everything[:, first:last])


@pytest.mark.parametrize("points", [1, 3, 256, 257, 1000, 100_000])
def test_blocks_of_points_belong_to_one_rank(points: int) -> None:
    for ranks in 1, 2, 7, 300:
        block, cuts = divide(points, ranks)
        assert (cuts[0], cuts[-1], len(cuts)) == (0, points, ranks + 1)
        assert all(first <= last for first, last in itertools.pairwise(cuts))
        assert all(cut % block == 0 for cut in cuts[:-1] if cut != points)


@pytest.mark.parametrize("clusters", [1, 3])
def test_a_sweep_is_that_of_the_equations(clusters: int) -> None:
    _, d, _ = blobs(90, 3, seed=3)
    rows = Rows(gw.world, d / d.max())
    before, copies = some_solution(rows, clusters), np.arange(1.0, clusters + 1)
    found, change = sweep(rows, before, 0.3, copies, False)
    m, size, b, potential = oracle.pairwise_sweep(d / d.max(), before.potential.T, 0.3, copies)
    for name, expected in (("membership", m.T), ("size", size), ("mean", b.T), ("potential", potential.T)):
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12)
    np.testing.assert_allclose(copies @ found.membership, 1.0, rtol=1e-12)
    assert copies @ found.size == pytest.approx(90.0, rel=1e-12)
    assert change == pytest.approx(np.abs(potential.T - before.potential).mean(axis=1).max(), rel=1e-12)
    assert ((freezing(rows, found) >= 0.0) & (freezing(rows, found) < 1.0)).all()


def test_weights_agree_with_sizes() -> None:
    _, d, _ = blobs(90, 3, seed=3)
    rows = Rows(gw.world, d)
    found, _ = sweep(rows, some_solution(rows, 3), 1.0, np.ones(3), True)
    np.testing.assert_allclose(found.weight, found.size / 90.0, atol=5e-3)
    assert found.weight.sum() == pytest.approx(1.0, rel=1e-12)


def test_an_empty_cluster_changes_nothing() -> None:
    _, d, _ = blobs(60, 2, seed=3)
    rows = Rows(gw.world, d)
    two = some_solution(rows, 2)
    far = two._replace(potential=np.vstack([two.potential, np.full((1, 60), 1e9)]), weight=np.ones(3))
    plain, empty = (sweep(rows, one, 1.0, np.ones(len(one.weight)), False)[0] for one in (two, far))
    assert np.array_equal(empty.potential[:2], plain.potential)
    assert np.array_equal(empty.potential[2], far.potential[2])
    assert empty.size[2] == 0.0


def test_squared_distances_give_vector_annealing() -> None:
    """The same memberships after every sweep, potentials that are squared distances, and a falling free energy."""
    x, d, _ = blobs(120, 4, dimensions=3, seed=5)
    rows = Rows(gw.world, d)
    temperature = d.mean()
    m = np.random.default_rng(1).random((120, 4))
    centers = (m / m.sum(axis=1, keepdims=True)).T @ x / (m / m.sum(axis=1, keepdims=True)).sum(axis=0)[:, None]
    solution = alone(rows)._replace(potential=((centers[:, None] - x) ** 2).sum(axis=2), weight=np.ones(4))
    for cooling in 0.7, 0.3, 0.1:
        last = np.inf
        for _ in range(15):
            solution, _ = sweep(rows, solution, cooling * temperature, np.ones(4), False)
            m, centers = oracle.vector_sweep(x, centers, cooling * temperature)
            np.testing.assert_allclose(solution.membership.T, m, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(
                solution.potential, ((centers[:, None] - x) ** 2).sum(axis=2), rtol=1e-10, atol=1e-10 * d.max()
            )
            free = oracle.free_energy(solution.energy, solution.membership, cooling * temperature)
            assert free <= last + 1e-10 * abs(free)
            last = free


def copies_of(rows: Rows, clusters: int, temperature: float) -> Solution:
    solution = some_solution(rows, clusters)
    for _ in range(5):
        solution, _ = sweep(rows, solution, temperature, np.ones(clusters), False)
    return solution._replace(membership=0.5 * solution.membership, size=0.5 * solution.size)


def test_curvature_and_its_eigenvalues_are_those_of_the_dense_matrix() -> None:
    _, d, _ = blobs(100, 3, dimensions=3, seed=5)
    d /= d.max()
    rows, strict = Rows(gw.world, d), Settings(EigenValueChange=1e-9, EigenVectorChange=1e-9, PowerIterationLimit=20000)
    copies = copies_of(rows, 3, 0.1)
    both = splitting.Curvature(rows, copies, 0.1)
    found = splitting.lowest(rows, copies, 0.1, strict)
    v = np.random.default_rng(4).standard_normal((3, 100))
    y = both.times(v, np.arange(3))
    for k in range(3):
        dense = oracle.curvature(d, copies.membership[k], copies.mean[k], copies.offset[k], 0.1)
        np.testing.assert_allclose(y[k], dense @ v[k], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(both.times(v[[k]], np.array([k]))[0], y[k], rtol=1e-12, atol=1e-14)
        values, vectors = np.linalg.eigh(dense)
        assert found.known[k]
        assert found.largest[k] == pytest.approx(values[-1], rel=1e-5)
        assert found.lowest[k] == pytest.approx(values[0], abs=1e-5)
        assert abs(found.vectors[k] @ vectors[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_a_cluster_is_unstable_below_twice_its_largest_variance() -> None:
    x, d, _ = blobs(150, 3, seed=7)
    critical = 2.0 * np.linalg.eigvalsh(np.cov(x.T, bias=True))[-1]
    rows = Rows(gw.world, d)
    whole = alone(rows)
    copies = whole._replace(membership=0.5 * whole.membership, size=0.5 * whole.size)
    for factor in 0.98, 1.02:
        found = splitting.lowest(rows, copies, factor * critical, Settings(EigenValueChange=1e-6))
        assert found.known[0]
        assert (found.lowest[0] < 0.0) == (factor < 1.0)


def test_a_negative_eigenvalue_that_is_largest_in_magnitude_is_found() -> None:
    _, d, _ = blobs(80, 2, separation=40.0, seed=7)
    rows = Rows(gw.world, d)
    whole = alone(rows)
    copies = whole._replace(membership=0.5 * whole.membership, size=0.5 * whole.size)
    found = splitting.lowest(rows, copies, 0.02 * d.mean(), Settings())
    dense = oracle.curvature(d, copies.membership[0], copies.mean[0], copies.offset[0], 0.02 * d.mean())
    assert found.known[0]
    assert found.largest[0] == 0.5
    assert found.lowest[0] == pytest.approx(np.linalg.eigvalsh(dense)[0], rel=1e-2)


def test_the_first_split_is_at_the_first_step_below_the_critical_temperature() -> None:
    x, d, _ = blobs(200, 4, seed=2)
    _, annealing = cluster(d, SMALL)
    critical = 2.0 * np.linalg.eigvalsh(np.cov(x.T, bias=True))[-1]
    alone_at = [step.temperature for step in annealing.trace if step.clusters == 1]
    assert alone_at[0] == pytest.approx(2.0 * d.sum() / (200 * 199), rel=1e-12)
    assert alone_at[-1] <= critical / 1.009
    assert all(temperature > critical / 1.011 for temperature in alone_at[:-1])


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_blobs_are_found(seed: int, continuous: bool) -> None:
    x, d, truth = blobs(240, 6, seed=seed)
    settings = Settings(MaxNcent=6, ContinuousClustering=continuous)
    found, _ = cluster(generators.quantised(d), settings, 1.0 / generators.FULL)
    assert found.verified
    assert adjusted_rand_index(found.labels, truth) == 1.0
    exact = oracle.partition_energy(d, found.labels)
    assert found.energy * d.max() == pytest.approx(exact, rel=1e-3)
    clusters = pytest.importorskip("sklearn.cluster")
    assert exact <= 1.001 * clusters.KMeans(6, n_init=50, random_state=seed).fit(x).inertia_
    assert found.sizes.tolist() == np.bincount(found.labels).tolist()


def test_a_partition_describes_its_clusters() -> None:
    _, d, _ = blobs(60, 3, seed=4)
    found, _ = cluster(d, Settings(MinimumCountForClusterCk=1.0, MaxNcent=3))
    for k in range(3):
        members = np.flatnonzero(found.labels == k)
        inner = d[np.ix_(members, members)]
        assert found.centers[k] == members[inner.mean(axis=1).argmin()]
        assert found.widths[k] == pytest.approx(inner.mean(), rel=1e-12)
        for j in range(3):
            related = d[np.ix_(members, found.labels == j)].mean() / np.sqrt(found.widths[k] * found.widths[j])
            assert found.related[k, j] == pytest.approx(related, rel=1e-10)
    assert found.energy == pytest.approx(oracle.partition_energy(d, found.labels), rel=1e-12)


def test_dissimilarities_that_no_points_have() -> None:
    d, kinds = generators.genes(240, 5, noise=0.1, missing=0.05, seed=6)
    present = np.where(d == generators.MISSING, 0, d)
    assert np.count_nonzero(d == generators.MISSING) == pytest.approx(0.05 * 240 * 239, rel=0.2)
    assert np.linalg.eigvalsh(-0.5 * _centred(present.astype(float)))[0] < -0.1
    assert np.bincount(kinds).tolist() == [48] * 5
    _, plain, kinds = blobs(240, 5, seed=6)
    factor = np.triu(np.random.default_rng(1).uniform(0.9, 1.1, plain.shape), 1)
    noisy, _ = cluster(plain * (factor + factor.T), Settings(MaxNcent=5))
    powered, _ = cluster(plain**1.5, Settings(MaxNcent=5))
    assert adjusted_rand_index(noisy.labels, kinds) >= 0.98
    assert adjusted_rand_index(powered.labels, kinds) == 1.0


def _centred(d: Array) -> Array:
    return d - d.mean(axis=0) - d.mean(axis=1)[:, None] + d.mean()


def test_order_scale_and_repetition_of_the_points() -> None:
    _, d, _ = blobs(90, 3, seed=8)
    settings = Settings(MaxNcent=3, MinimumCountForClusterCk=1.0)
    found, annealing = cluster(d, settings)
    order = np.random.default_rng(0).permutation(90)
    permuted, _ = cluster(d[np.ix_(order, order)], settings)
    assert adjusted_rand_index(permuted.labels, found.labels[order]) == 1.0
    assert permuted.energy == pytest.approx(found.energy, rel=1e-12)
    scaled, other = cluster(8.0 * d, settings)
    assert np.array_equal(scaled.labels, found.labels)
    assert [step.temperature / 8.0 for step in other.trace] == [step.temperature for step in annealing.trace]
    twice, _ = cluster(np.tile(d, (2, 2)), settings)
    assert np.array_equal(twice.labels[:90], twice.labels[90:])
    assert adjusted_rand_index(twice.labels[:90], found.labels) == 1.0
    assert twice.sizes.sum() == 180
    assert sorted(twice.sizes) == sorted(2 * found.sizes)


def test_small_problems_reach_the_least_energy() -> None:
    """Of random points, at least 19 of 20 times; of random numbers, which no points have, never below it."""
    optimal = 0
    settings = Settings(MinimumCountForClusterCk=0.0, TooSmallToSplit=0.5, MaxNcent=2)
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((8, 2)) + 4.0 * (np.arange(8) % 2)[:, None]
        d = generators.squared_distances(x, x)
        found, _ = cluster(d, settings)
        least = oracle.least_energy(d, 2)
        assert found.energy >= least * (1.0 - 1e-12)
        optimal += found.energy <= least * (1.0 + 1e-9)
    assert optimal >= 19


def test_copies_that_do_not_part_are_merged_and_small_clusters_removed() -> None:
    _, d, truth = blobs(500, 8, seed=1)
    found, annealing = cluster(generators.quantised(d), Settings(), 1.0 / generators.FULL)
    steps = [step.clusters for step in annealing.trace]
    assert adjusted_rand_index(found.labels, truth) == 1.0
    assert len(found.sizes) == 8
    assert max(steps) < 8
    few = np.flatnonzero((truth < 2) | ((truth == 2) & (np.cumsum(truth == 2) <= 10)))
    d = d[np.ix_(few, few)]
    assert len(cluster(d, Settings(MaxNcent=3))[0].sizes) == 2
    found, _ = cluster(d, Settings(MaxNcent=3, MinimumCountForClusterCk=1.0))
    assert adjusted_rand_index(found.labels, truth[few]) == 1.0


@pytest.mark.parametrize("d", [np.zeros((5, 5)), 1.0 - np.eye(6)])
def test_points_without_structure_end(d: Array) -> None:
    found, _ = cluster(d, Settings(MaxNcent=1))
    assert found.labels.tolist() == [0] * len(d)
    found, _ = cluster(d, SMALL)
    assert np.isfinite(found.energy)
    assert found.sizes.sum() == len(d)


def test_a_limit_that_is_reached_is_no_verified_result() -> None:
    _, d, _ = blobs(90, 3, seed=8)
    assert not cluster(d, Settings(MaxNcent=3, IterationAtEnd=1))[0].verified
    assert not cluster(d, Settings(MaxNcent=3, ConvergenceLoopLimit=1))[0].verified


def test_smaller_numbers_of_clusters_on_the_way() -> None:
    _, d, truth = blobs(160, 4, seed=3)
    found, annealing = cluster(d, Settings(MaxNcent=4, ConvergeIntermediateClusters=True))
    assert sorted(annealing.family) == [1, 2, 3]
    energies = [annealing.family[k].energy for k in (1, 2, 3)] + [found.energy]
    assert energies == sorted(energies, reverse=True)
    assert [len(annealing.family[k].sizes) for k in (1, 2, 3)] == [1, 2, 3]
    assert adjusted_rand_index(found.labels, truth) == 1.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(d: Array, **settings: Any) -> Rows:
    name = "d.npy" if d.dtype.kind == "f" or settings.pop("npy", False) else "d.bin"
    np.save(name, d) if name == "d.npy" else d.tofile(name)
    given = Settings(DistanceMatrixFile=name, **settings)
    return matrix.read(matrix.locate(given), given, gw.world)


def test_all_kinds_of_files_have_the_same_values(folder: Path) -> None:
    d, _ = generators.genes(40, 3, seed=1)
    for mapped in False, True:
        for big in False, True:
            rows = read(d.astype(">i2" if big else "<i2"), IsBigEndian=big, IsMemoryMapped=mapped)
            assert np.array_equal(rows.d, d)
            assert rows.scale == 1.0 / 32767
    for dtype in "<i2", ">i2":
        assert np.array_equal(read(d.astype(dtype), npy=True).d, d)
    for float_type in "f4", "f8", ">f8":
        rows = read((d / 32767).astype(float_type))
        np.testing.assert_allclose(rows.d, d / 32767, rtol=1e-6)
        assert rows.scale == 1.0
    assert np.array_equal(read(d, Repetitions=2, NumberDataPoints=80).d, np.tile(d, (2, 2)))


def test_what_is_missing_is_estimated_from_both_points(folder: Path) -> None:
    d = np.array([[0, 10, 20, -32767], [10, 0, 30, 44], [20, 30, 0, 50], [-32767, 44, 50, 0]], np.int16)
    expected = d.copy()
    expected[0, 3] = expected[3, 0] = 31  # the mean of (10 + 20) / 2 and (44 + 50) / 2
    for mapped in False, True:
        assert np.array_equal(read(d, IsMemoryMapped=mapped).d, expected)
    assert np.array_equal(np.fromfile("d.bin", np.int16), d.ravel()), "the file has changed"
    floats = np.where(d < 0, -1.0, d)
    assert read(floats).d[0, 3] == 31.0


@pytest.mark.parametrize("factor", [1e-320, 1e-105, 1e-100, 1e100, 1e150, 1e300])
def test_the_unit_of_dissimilarities_changes_nothing_or_is_refused(factor: float, folder: Path) -> None:
    """What would be squared to infinity, or is too small to have an inverse, is refused: it gave one cluster."""
    _, d, _ = blobs(90, 3, seed=3)
    d /= d.max()
    if 1e-100 <= factor <= 1e100:
        found, expected = cluster(read(d * factor).d, SMALL)[0], cluster(d, SMALL)[0]
        assert found.energy == pytest.approx(factor * expected.energy, rel=1e-9)
        assert np.array_equal(found.labels, expected.labels)
    else:
        with pytest.raises(UsageError, match=r"the largest dissimilarity is .*; legal is 0, or from 1e-100 to 1e\+100"):
            read(d * factor)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_correlations_leave_rounding_on_the_diagonal(dtype: str, folder: Path) -> None:
    """Of `1 - corrcoef` the diagonal is 2e-16 or -2e-16, and so are dissimilarities of equal points."""
    random = np.random.default_rng(1)
    x = np.repeat(random.standard_normal((12, 40)), 5, axis=0)
    d = (1.0 - np.corrcoef(x)).astype(dtype)
    d[np.diag_indices(60)] += np.resize([2e-16, -2e-16, 0.0], 60).astype(dtype)
    d[3, 4] = d[4, 3] = -2e-16
    assert d.diagonal().any()
    for mapped in False, True:
        found = read(d, IsMemoryMapped=mapped).d
        assert not found.diagonal().any()
        assert found.min() == 0.0
        np.testing.assert_allclose(found, d, atol=1e-6)


def _damaged(kind: str) -> Any:
    d = (np.ones((6, 6)) - np.eye(6)) * 0.5
    if kind == "nan":
        d[1, 2] = d[2, 1] = np.nan
    elif kind == "inf":
        d[1, 2] = d[2, 1] = np.inf
    elif kind == "negative":
        d[1, 2] = d[2, 1] = -0.25
    elif kind == "asymmetric":
        d[1, 2] = 0.25
    elif kind == "diagonal":
        d[3, 3] = 0.1
    elif kind == "alone":
        d[4] = d[:, 4] = -1.0
        d[4, 4] = 0.0
    made = {"flat": d.ravel, "oblong": lambda: d[:4], "text": lambda: d.astype(str), "whole": lambda: d.astype(int)}
    return made.get(kind, lambda: d)()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nan", "row 1, column 2 is nan; legal is 0 or more, or missing"),
        ("inf", "row 1, column 2 is inf; legal is 0 or more"),
        ("negative", "row 1, column 2 is -0.25; legal is 0 or more"),
        ("asymmetric", "row 1, column 2 is 0.25; legal is the same both ways"),
        ("diagonal", "row 3, column 3 is 0.1; legal is 0 from itself"),
        ("alone", "point 4 has no dissimilarity; remove the point"),
        ("flat", r"\(36,\) of float64; legal: a square of int16, float32 or float64"),
        ("oblong", r"\(4, 6\) of float64; legal: a square"),
        ("text", r"\(6, 6\) of <U32; legal: a square"),
        ("whole", r"\(6, 6\) of int64; legal: a square"),
    ],
)
def test_illegal_values_get_one_line(kind: str, message: str, folder: Path) -> None:
    np.save("d.npy", _damaged(kind))
    settings = Settings(DistanceMatrixFile="d.npy")
    with pytest.raises(UsageError, match=message) as refusal:
        matrix.read(matrix.locate(settings), settings, gw.world)
    assert "\n" not in str(refusal.value)


def test_an_illegal_integer_behind_the_first_tile_is_found(folder: Path) -> None:
    d = np.ones((1100, 1100), np.int16) - np.eye(1100, dtype=np.int16)
    d[1050, 1070] = 2
    with pytest.raises(UsageError, match="row 1050, column 1070 is 2; legal is the same both ways"):
        read(d)
    d[1050, 1070] = d[1070, 1050] = -32768
    with pytest.raises(UsageError, match="row 1050, column 1070 is -32768; legal is 0 or more"):
        read(d)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            "--set DistanceMatrixFile=none.bin",
            "none.bin: cannot be read (No such file or directory); check DistanceMatrixFile",
        ),
        ("--set DistanceMatrixFile=.", ".: this is a directory"),
        ("--set DistanceMatrixFile=short.bin", "short.bin: 70 bytes are no square matrix of 16-bit integers; give"),
        ("--set DistanceMatrixFile=short.bin --set NumberDataPoints=6", "which 6 points have in 72 bytes"),
        ("--set DistanceMatrixFile=empty.bin", "empty.bin: 0 bytes are no square"),
        ("--set DistanceMatrixFile=short.npy", "short.npy: no complete file of numpy.save"),
        ("--set DistanceMatrixFile=pickle.npy", "pickle.npy: no complete file of numpy.save"),
        ("--set NumberDataPoints=7", "distance.bin: 6 points, and NumberDataPoints is 7"),
        ("--set MaxNcent=0", "--set: MaxNcent is 0; legal is a whole number from 1 to 2147483647"),
        ("--set MaxNcent=two", "--set: MaxNcent is 'two'; legal is a whole number from 1 to 2147483647"),
        ("--set Maxncent=2", "--set: unknown key Maxncent; did you mean MaxNcent?"),
        ("--set Quick=2", "--set: unknown key Quick; legal keys are DistanceMatrixFile"),
        ("--set MaxNcent", "--set MaxNcent: there is no '='; write --set KEY=VALUE"),
        ("--set Exchange=mail", "--set: Exchange is 'mail'; legal is "),
        ("--set FineCoolingFactor=1.0", "--set: FineCoolingFactor is 1.0; legal is a number above 0 and below 1"),
        ("bad.toml", "bad.toml: not TOML: "),
        ("wrong.toml", "wrong.toml: EpsiMaxChange is 'small'; legal is a number"),
        ("none.toml", "none.toml: cannot be read (No such file or directory)"),
        ("--set LabelFile=labels.txt", "labels.txt: 3 labels for 6 points; give one line for each point"),
        ("--set ClusterFile=nowhere/c.txt", "nowhere/c-M8-C8.txt: the folder"),
        ("--json nowhere/r.json", "--json nowhere/r.json: the folder"),
        ("--plot nowhere/p.png", "--plot nowhere/p.png: the folder"),
        ("--set MaxNcent=2000000000", "of memory and"),
        ("--set Restart=true", "pwc: Restart needs a CheckpointFile"),
        ("--frobnicate", "pwc: unrecognized arguments: --frobnicate"),
    ],
)
def test_what_cannot_run_gets_one_line(words: str, part: str, folder: Path) -> None:
    Path("short.bin").write_bytes(bytes(70))
    Path("distance.bin").write_bytes(bytes(72))
    Path("empty.bin").touch()
    np.save("short.npy", np.zeros((6, 6)))
    Path("short.npy").write_bytes(Path("short.npy").read_bytes()[:-1])
    np.save("pickle.npy", np.array([[{}]]), allow_pickle=True)
    Path("bad.toml").write_text("MaxNcent == 2\n")
    Path("wrong.toml").write_text('EpsiMaxChange = "small"\n')
    Path("labels.txt").write_text("0 a\n1 a\n2 b\n")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(UsageError) as refusal:
        app.check(words.split(), 2)
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_run_writes_what_it_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    d, truth = generators.genes(150, 3, seed=2)
    d.tofile("distance.bin")
    np.savetxt("truth.txt", np.column_stack([np.arange(150), truth]), fmt="%d")
    Path("run.toml").write_text('LabelFile = "truth.txt"\nMaxNcent = 9\nMinimumCountForClusterCk = 10\n')
    words = ["run.toml", "--set", "MaxNcent=3", "--set", "ConvergeIntermediateClusters=true"]
    app.check([*words, "--json", "r.json", "--plot", "p.png"], 1)
    assert app.main([*words, "--json", "r.json", "--plot", "p.png"]) == 0
    result = json.loads(Path("r.json").read_text())
    assert (result["app"], result["verified"], result["points"], result["clusters"]) == ("pwc", True, 150, 3)
    assert (result["ari"], result["purity"], result["config"]["MaxNcent"]) == (1.0, 1.0, 3)
    assert result["sponge_fraction"] == 0.0
    parts = [result[f"seconds_{name}"] for name in ("compute", "allreduce", "send_receive", "eigen_send_receive")]
    assert sum(parts) == pytest.approx(result["seconds"])
    assert 0 < result["seconds_splitting"] < result["seconds"]
    assert result["files"] == [f"{stem}-M3-C{k}.txt" for k in (1, 2, 3) for stem in ("cluster", "centers")]
    members = np.loadtxt("cluster-M3-C3.txt", int)
    assert np.array_equal(members[:, 0], np.arange(150))
    assert adjusted_rand_index(members[:, 1], truth) == 1.0
    lines = Path("centers-M3-C3.txt").read_text().splitlines()
    assert len(lines) == 4
    for cluster_, points, center, *_ in (line.split("\t") for line in lines[1:]):
        assert members[int(center), 1] == int(cluster_)
        assert np.count_nonzero(members[:, 1] == int(cluster_)) == int(points)
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert "adjusted Rand index 1.0000" in capsys.readouterr().out


def test_no_files_are_written_where_none_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("d.npy", blobs(30, 1)[1])
    names = [f"--set={key}" for key in ("DistanceMatrixFile=d.npy", "ClusterFile=", "CenterFile=", "MaxNcent=1")]
    assert app.main([*names, "--json", "r.json"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["d.npy", "r.json"]
    result = json.loads(Path("r.json").read_text())
    assert (result["files"], result["sponge_fraction"], result["ari"], result["purity"]) == ([], 0.0, None, None)
    assert "Rand" not in capsys.readouterr().out
    assert output.names(Settings(ClusterFile="", CenterFile=""), 3) == []


def test_generators_are_reproducible_and_refuse_what_is_impossible() -> None:
    for make in generators.genes, generators.blobs:
        (one, kinds), (two, _), (other, _) = make(30, 4, seed=1), make(30, 4, seed=1), make(30, 4, seed=2)
        assert np.array_equal(one, two)
        assert not np.array_equal(one, other)
        assert sorted(np.bincount(kinds)) == [7, 7, 8, 8]
        with pytest.raises(UsageError, match="5 clusters of 4 points: give from 1 to 4"):
            make(4, 5)
    x, kinds = generators.blobs(400, 6, dimensions=2, separation=8.0, seed=3)
    centers = np.stack([x[kinds == k].mean(axis=0) for k in range(6)])
    distances = generators.squared_distances(centers, centers)
    assert distances[~np.eye(6, dtype=bool)].min() > 7.0**2


def test_a_split_halves_the_weight_and_moves_both_copies() -> None:
    _, d, _ = blobs(60, 2, seed=3)
    rows = Rows(gw.world, d)
    base, _ = sweep(rows, some_solution(rows, 2), 50.0, np.ones(2), True)
    copy = base.select([1])._replace(membership=0.5 * base.membership[[1]], size=0.5 * base.size[[1]])
    v = np.random.default_rng(2).standard_normal(60)
    v /= np.sqrt((v * v).sum())
    for temperature in 1e-3, 1e9:
        found = splitting.split(base, 1, copy, v, temperature)
        assert found.weight.tolist() == [base.weight[0], *[0.5 * base.weight[1]] * 2]
        assert np.array_equal(found.potential[0], base.potential[0])
        drift = abs((0.5 * base.membership[1] * v).sum()) / temperature
        step = min(0.1 * np.linalg.norm(base.potential[1]), 0.05 * base.size[1] / drift) * v
        np.testing.assert_allclose(found.potential[1:], base.potential[1] + np.stack([step, -step]), rtol=1e-12)


def test_the_application_is_short() -> None:
    files = Path(app.__file__).parent.glob("*.py")
    assert sum(len(code_lines(file.read_text(encoding="utf-8"))) for file in files) <= 840
