"""DAVS on one rank: passes against dense matrices, rules of annealing, recovery, files and errors."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path
from unittest import SkipTest

import msgspec
import numpy as np
import pytest

import gondwana as gw
from gondwana import results
from gondwana.errors import UsageError
from gondwana.results import code_lines
from gondwana_apps.davs import (
    app,
    mixture,
    outputs,
    points,
    presets,
    quality,
    run,
    settings,
    validity,
)
from gondwana_apps.davs.annealing import Annealing, Phase, annealed_width, cooling_factor, least_temperature
from gondwana_apps.davs.generator import generate
from gondwana_apps.davs.splitting import MATURE
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_apps.timers import Timers
from support import davs_oracle, jobs

TINY = presets.PRESETS["tiny"].field
FAST = {**presets.COARSE, **dict.fromkeys(("InitialCoolingFactor1", "InitialCoolingFactor2", "FineCoolingFactor1",
                                           "FineCoolingFactor2"), 0.85)}  # fmt: skip
"""Some hundred temperatures less than the presets have."""
PLAIN = {**FAST, "SigmaMethod": 0, "SpongeTemperature1": -1.0, "CreateSpongeScaledSquaredWidth": -1.0}
WIDE = {"ExpArgumentCut1": 200.0, "ExpArgumentCut2": 200.0, "TargetNcentPerPoint": 64}
"""Lists with all clusters."""


def small_problem(seed=3, clusters=7, **keys):
    """Points, settings, conditions and clusters somewhere among them, and the same for the oracle."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(500.0, 500.02, 200))
    x = np.column_stack([x, generator.uniform(0.0, 20.0, 200)])
    s = settings.resolve({**WIDE, "SigmaVectorParameters": (5.98e-6, 2.35), "FinalTargetSigma0": 5.98e-6, **keys})
    rows = np.column_stack([x[:: 200 // clusters][:clusters], generator.dirichlet(np.ones(clusters))])
    conditions = mixture.Conditions(4.0, s.SigmaVectorParameters, 5.0, 0.1 / clusters)
    model = davs_oracle.Model(
        rows[:, :2], rows[:, 2], np.array(s.SigmaVectorParameters), True, 4.0, 5.0, 0.1 / clusters
    )
    return x, s, conditions, np.column_stack([rows, np.full(clusters, MATURE)]), model


def mixture_of(x, s, rows):
    found = mixture.Mixture(x, len(x), s, gw.world, Timers())
    found.rows, found.clusters = rows.copy(), len(rows)
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sponge", [True, False])
def test_iterations_and_moments_are_those_of_dense_matrices(sponge: bool, threads: int) -> None:
    x, s, conditions, rows, model = small_problem()
    if not sponge:
        conditions.sponge, model = None, model._replace(f=None)
    before = gw.threads()
    gw.set_threads(threads)
    try:
        ours = mixture_of(x, s, rows)
        ours.choose(conditions)
        moments = ours.moments(conditions)
        m, _ = model.memberships(x)
        assert np.allclose(moments.counts, m[:, :-1].sum(axis=0), rtol=1e-10)
        assert np.allclose(moments.freezing, (m * (1 - m))[:, :-1].sum(axis=0) / moments.counts, rtol=1e-8)
        assert np.allclose(moments.scatter, model.scatter(x), rtol=1e-9, atol=1e-9)
        assert math.isclose(moments.counts.sum() + moments.sponge_count, len(x), rel_tol=1e-10)
        assert math.isclose(moments.free_energy, model.free_energy(x), rel_tol=1e-9)
        assert math.isclose(moments.energy, model.energy(x), rel_tol=1e-9)
        assert moments.occupied.sum() == (m.argmax(axis=1) < len(rows)).sum()
        before_memberships = np.zeros_like(m)
        for _ in range(3):
            _, change, _ = ours.iterate(conditions)
            m, _ = model.memberships(x)
            assert math.isclose(change, np.abs(m - before_memberships).sum() / len(x), rel_tol=1e-8)
            model, before_memberships = model.iterated(x), m
            assert np.allclose(ours.rows[:, :2], model.Y, rtol=1e-12)
            assert np.allclose(ours.rows[:, 2], model.P, rtol=1e-10)
    finally:
        gw.set_threads(before)


def test_lists_have_the_nearest_clusters() -> None:
    x, s, conditions, rows, model = small_problem(clusters=40, TargetNcentPerPoint=6, ExpArgumentCut2=3.0)
    ours = mixture_of(x, s, rows)
    ours.choose(conditions)
    d2 = model._replace(Y=ours.rows[:, :2]).squares(x)
    for i, own in enumerate(d2):
        limit = own.min() + 2.0 * conditions.temperature * s.ExpArgumentCut2
        expected = [k for k in np.argsort(own[:-1], kind="stable") if own[k] <= limit][:6]
        assert ours._lists[i, : ours._listed[i]].tolist() == expected


def test_the_free_energy_never_rises_at_a_fixed_temperature() -> None:
    x, s, conditions, rows, _ = small_problem(SigmaMethod=1, SigmaVectorParameters=(3e-3, 2.35))
    conditions.widths = s.SigmaVectorParameters
    ours = mixture_of(x, s, rows)
    ours.choose(conditions)
    ours.iterate(conditions)
    energies = []
    for _ in range(40):
        energies.append(ours.moments(conditions).free_energy)
        ours.iterate(conditions)
    assert all(b <= a + 1e-10 * abs(a) for a, b in itertools.pairwise(energies)), energies
    assert energies[-1] < energies[0] - 1.0


def test_converged_clusters_are_a_stationary_point_of_the_free_energy() -> None:
    x, s, conditions, rows, model = small_problem(SigmaMethod=1, SigmaVectorParameters=(3e-3, 2.35))
    conditions.widths = s.SigmaVectorParameters
    ours = mixture_of(x, s, rows)
    ours.choose(conditions)
    for _ in range(3000):
        ours.iterate(conditions)
    model = model._replace(
        Y=ours.rows[:, :2], P=ours.rows[:, 2], relative=False, sigma=np.array(conditions.widths),
        P_sponge=conditions.sponge_weight,
    )  # fmt: skip
    for k in range(len(rows)):
        for axis in range(2):
            step = np.zeros_like(model.Y)
            step[k, axis] = 1e-4 * conditions.widths[axis]
            up, down = (model._replace(Y=model.Y + sign * step).free_energy(x) for sign in (1, -1))
            assert abs(up - down) / 2e-4 < 1e-3 * len(x), (k, axis)


def test_the_first_split_is_at_the_largest_eigenvalue_of_the_covariance() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[3.0, 1.0], [0.0, 1.5]])
    x = x[np.argsort(x[:, 0])]
    s = settings.resolve({**PLAIN, "SigmaVectorParameters": (1.0, 1.0), "InitialCoolingFactor1": 0.98,
                          "InitialCoolingFactor2": 0.98})  # fmt: skip
    annealing = Annealing(mixture_of(x, s, np.empty((0, 4))))
    critical = np.linalg.eigvalsh(np.cov(x.T, bias=True))[-1]
    while annealing.mixture.clusters == 1:
        annealing.step()
    assert critical * 0.98 <= annealing.progress.temperature < critical
    parents = annealing.mixture.rows[:, :2]
    direction = np.linalg.eigh(np.cov(x.T, bias=True))[1][:, -1]
    assert abs((parents[1] - parents[0]) @ direction) == pytest.approx(np.linalg.norm(parents[1] - parents[0]))


def test_annealing_finds_the_best_of_all_partitions() -> None:
    """Where there are two groups; of points without any structure it finds the best partition in 3 of 4 cases."""
    hits, generator = 0, np.random.default_rng(5)
    s = settings.resolve({**PLAIN, "SigmaVectorParameters": (1.0, 1.0), "MaxNcentTotal": 2, "Tminimum": 0.01,
                          "MinimumScaledWidthSquaredToSplit": 0.0, "TooSmallToSplit": 1.5})  # fmt: skip
    for _ in range(20):
        x = generator.normal(size=(9, 2))
        x[:4] += (5.0, 2.0)
        x = x[np.argsort(x[:, 0])]
        result = run.run(x, s, gw.world)
        parts = [x[result.labels == k] for k in set(result.labels.tolist())]
        inertia = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts) / 2.0
        hits += inertia <= davs_oracle.least_inertia(x, 2) * (1 + 1e-9)
    assert hits >= 19


def test_the_sponge_takes_what_is_farther_than_its_distance() -> None:
    heavy = np.column_stack([np.zeros(30), np.linspace(-0.3, 0.3, 30)])
    for distance, inside in ((2.8, True), (3.2, False)):
        x = np.concatenate([heavy, [[distance, 0.0]]])
        s = settings.resolve({**FAST, "SigmaMethod": 1, "SigmaVectorParameters": (1.0, 1.0)})
        labels = run.run(x[np.argsort(x[:, 0])], s, gw.world).labels
        assert (labels[-1] == 0) == inside
        assert (labels[:-1] == 0).all()


@pytest.mark.parametrize(("factor", "share"), [(1e-6, 1.0), (1e5, 0.0)])
def test_the_sponge_takes_all_or_nothing_at_the_limits_of_its_distance(factor: float, share: float) -> None:
    x, _ = generate(TINY)
    s = settings.resolve({**FAST, "SpongeFactor1": factor, "SpongeFactor2": factor, "UseSponge": True,
                          "FinalTargetSigma0": 5.98e-6})  # fmt: skip
    assert (run.run(x, s, gw.world).labels == quality.SPONGE).mean() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("clumped", [False, True])
def test_generated_clusters_are_found(clumped: bool) -> None:
    preset = presets.PRESETS["small"]
    field = replace(preset.field, points=600, clusters=60, clumped=clumped)
    x, truth = generate(field, seed=2)
    s = settings.resolve({**preset.settings, "FineCoolingFactor1": 0.9, "FineCoolingFactor2": 0.9})
    result = run.run(x, s, gw.world)
    ari, purity = app.agreement(result.labels, truth)
    assert ari is not None
    assert ari >= 0.99
    assert purity is not None
    assert purity >= 0.99
    assert abs(len(result.rows) - 60) <= 2
    # A point of the background falls within the radius of some cluster with probability 1 - exp(-pi f^2 K / A).
    area = math.log(field.mz[1] / field.mz[0]) / field.widths[0] * (field.time[1] - field.time[0]) / field.widths[1]
    expected = field.background * math.exp(-math.pi * 9.0 * field.clusters / area)
    assert (result.labels == quality.SPONGE).mean() == pytest.approx(expected, abs=0.02)


def test_shifted_and_repeated_points_have_the_same_clusters() -> None:
    x, _ = generate(TINY)
    s = settings.resolve({**FAST})
    first = run.run(x, s, gw.world)
    shifted = run.run(x + (0.0, 4096.0), s, gw.world)
    assert adjusted_rand_index(first.labels, shifted.labels) == 1.0
    twice = run.run(np.repeat(x, 2, axis=0), msgspec.structs.replace(s, TooSmallToSplit=5.0,
                    MinimumCountForClusterCkWithSponge=3.0, MinimumCountForClusterCk=1.0), gw.world)  # fmt: skip
    assert adjusted_rand_index(first.labels, twice.labels[::2]) == 1.0
    assert np.array_equal(twice.labels[::2], twice.labels[1::2])


def test_presets_find_overlapping_clusters_better_than_density_does() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    preset = presets.PRESETS["overlap"]
    field = replace(preset.field, points=6400, clusters=160, mz=(500.0, 500.2))
    x, truth = generate(field, seed=1)
    s = settings.resolve({**preset.settings, "FineCoolingFactor1": 0.9, "FineCoolingFactor2": 0.9})
    result = run.run(x, s, gw.world)
    ari, _ = app.agreement(result.labels, truth)
    assert ari is not None
    assert abs(len(result.rows) - 160) <= 8
    scaled = outputs.scaled(x, s)
    rivals = [app.agreement(cluster.DBSCAN(eps=eps, min_samples=count).fit_predict(scaled), truth)[0]
              for eps in (0.5, 0.7, 1.0, 1.5, 2.0) for count in (2, 4, 6)]  # fmt: skip
    assert ari >= max(rival for rival in rivals if rival is not None) + 0.05


def test_copies_of_a_cluster_are_merged() -> None:
    x, s, conditions, rows, _ = small_problem(ScaledSquaredDistanceAtClosenessTest=0.5, TemperatureForClosenessTest=1e9)
    rows = np.concatenate([rows[:3], rows[:2]])
    rows[3:, 1] += 0.5
    ours = mixture_of(x, s, rows)
    ours.choose(conditions)
    moments = ours.moments(conditions)
    weight = ours.rows[:, 2].sum()
    kept, removed = validity.remove(ours, moments, conditions)
    assert removed == 2
    assert len(kept) == 3 == ours.clusters == len(ours.rows)
    assert ours.rows[:, 2].sum() == pytest.approx(weight)


def test_the_width_reaches_its_final_value_at_its_temperature() -> None:
    s = settings.Settings()
    width, temperature = s.SigmaVectorParameters[0], 1e6
    while temperature > s.FinalTargetTemperature:
        expected = math.exp(np.interp(math.log(temperature), np.log([12.0, 1e6]), np.log([5.98e-6, 5.98e-4])))
        assert width == pytest.approx(expected)
        width = annealed_width(s, width, temperature, 0.9 * temperature)
        temperature *= 0.9
    assert width == s.FinalTargetSigma0


def test_cooling_is_fine_between_the_first_and_the_last_split() -> None:
    s = settings.Settings()
    factors = [cooling_factor(s, t, fine=fine) for fine in (True, False) for t in (20.0, 10.0)]
    assert factors == [0.9975, 0.999375, 0.9875, 0.99375]
    assert least_temperature(settings.Settings(Tminimum=-1000.0), 5e3) == 5.0


def test_annealing_ends_with_the_final_sponge_and_width() -> None:
    x, _ = generate(TINY)
    annealing = Annealing(mixture_of(x, settings.resolve(FAST), np.empty((0, 4))))
    phases = []
    while annealing.step():
        phases.append(annealing.progress.phase)
    progress = annealing.progress
    assert [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] != p] == [Phase.ANNEAL, Phase.LAST, Phase.FINAL]
    assert (progress.sponge, progress.width) == (3.0, 5.98e-6)
    assert progress.unconverged <= progress.steps // 10


def test_a_run_starts_from_the_centres_of_an_earlier_one(tmp_path: Path) -> None:
    x, truth = generate(TINY)
    s = settings.resolve({**FAST, "ClusterFile": str(tmp_path / "out.txt")})
    result = run.run(x, s, gw.world)
    peaks = points.Points(x, truth, np.arange(len(x)), np.full(len(x), 2))
    about = quality.measure(x, result.labels, result.rows, len(x), s, result.conditions)
    path = outputs.write(s, peaks, result.labels, result.rows, about, result.progress)[0]
    start = points.restart_rows(path, s)
    assert np.array_equal(start[:, :2], result.rows[:, :2])
    again = run.run(x, msgspec.structs.replace(s, RestartClusterFile=path, RestartTemperature=2.0), gw.world, start)
    assert adjusted_rand_index(again.labels, result.labels) == 1.0
    assert again.progress.steps < result.progress.steps / 2


def test_the_status_table_counts_what_is_near(tmp_path: Path) -> None:
    x, _ = generate(replace(TINY, background=0.4))
    s = settings.resolve(FAST)
    result = run.run(x, s, gw.world)
    about = quality.measure(x, result.labels, result.rows, len(x), s, result.conditions)
    model = davs_oracle.Model(result.rows[:, :2], result.rows[:, 2], np.array([5.98e-6, 2.35]), True, 1.0)
    d2, labels = model.squares(x)[:, :-1], result.labels
    near = d2 < result.conditions.sponge_square
    own = labels[:, None] == np.arange(len(result.rows))
    assert np.array_equal(about.counts[:, 0], own.sum(axis=0))
    assert np.array_equal(about.counts[:, 1], (near & (labels == quality.SPONGE)[:, None]).sum(axis=0))
    assert np.array_equal(about.counts[:, 2], (near & ~own & (labels != quality.SPONGE)[:, None]).sum(axis=0))
    assert about.widths[:, 1] == pytest.approx(np.where(own, d2, 0.0).max(axis=0))
    between = model.squares(result.rows[:, :2])[:, :-1]
    np.fill_diagonal(between, np.inf)
    assert np.array_equal(about.nearest[0][:, 0], between.argmin(axis=0))
    assert about.sizes.sum() == len(result.rows)


def test_raw_and_cluster_files_are_read_back_sorted(tmp_path: Path) -> None:
    x, truth = generate(TINY)
    peaks = points.Points(x, truth, np.arange(len(x)), np.full(len(x), 2))
    lines = outputs.raw(peaks, 2).splitlines()
    path = tmp_path / "peaks.txt"
    path.write_text("\n".join([lines[0], *lines[:0:-1], "", "77\t500.5\t3.0\t3\tother charge"]), encoding="utf-8")
    found = points.read(str(path), settings.Settings(), kind=0, selected=2)
    assert np.array_equal(found.points, x)
    assert found.truth is not None
    assert np.array_equal(found.truth, truth)
    assert len(points.read(str(path), settings.Settings(), kind=0, selected=-2).points) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line is selected"),
        ("0\t500.0\t1.0\t3\n", r"no line is selected by SelectedInputLabel 2; labels \(lines\) of the file: 3 \(1\)"),
        ("0\t500.0\tnan\t2\n", "line 1: \"nan\" is not a number"),
        ("0\t500.0\t1.0\t2\n1\t500.\n", "line 2 is \"1\\\\t500.\"; a point has 4 or more columns"),
        ("0\t500.0\t1.0\t2\n1\t50o.0\t2.0\t2\n", "line 2: \"50o.0\" is not a number"),
        ("0\t-500.0\t1.0\t2\n", "line 1: -500.0 is not above 0"),
        ("x\t500.0\t1.0\t2\n", "column 1 is the number of the point"),
        ("\xff\xfe0\t5", "not UTF-8 at line 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "peaks.txt"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=message) as caught:
        points.read(str(path), settings.Settings(), kind=0, selected=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "charge7"], "there is no preset \"charge7\""),
        (["--set", "Tminimun=1"], "did you mean Tminimum"),
        (["--set", "Tminimum"], "write --set KEY=VALUE"),
        (["--set", "Tminimum=cold"], "--set: Tminimum is 'cold'; legal is a number from -1e\\+12 to 1e\\+12"),
        (["--set", "Tminimum=" + "9" * 5000], "--set: Tminimum is '999"),
        (["--set", "SigmaVectorParameters=" + "[" * 5000], "--set: SigmaVectorParameters is"),
        (["--set", "Tminimum=0"], "Tminimum is 0"),
        (["--set", "MagicIndex=0"], "has no use here"),
        (["--set", "FinalTargetSigma0=1.0"], "FinalTargetSigma0 is 1"),
        (["--set", "SpongeFactor2=50.0"], "SpongeFactor2 is 50, above"),
        (["--set", "SpongeTemperature1=1.0"], "below SpongeTemperature2"),
        (["--set", "Restart=true"], "needs a CheckpointFile"),
        (["--set", "RestartClusterFile=a.txt"], "needs RestartTemperature"),
        (["--set", "SigmaVectorParameters=[1.0]"], "two axes"),
        (["--points", "nowhere.txt"], r"nowhere.txt: cannot be read \(No such file or directory\)"),
        (["--pictures", "nowhere"], "this is no folder"),
        (["--set", "ClusterFile=nowhere/out.txt"], "its folder does not exist"),
        (["--seed", "-1"], "give 0 or more"),
        (["--json", "nowhere/a.json"], "--json nowhere/a.json"),
        (["--set", "Replicate=1000", "--preset", "charge2"], "of memory"),
        (["nowhere.toml"], "nowhere.toml"),
    ],
)  # fmt: skip
def test_settings_that_cannot_run_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        app.check(words, 1)
    assert "\n" not in str(caught.value)


def test_a_settings_file_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "davs.toml"
    path.write_text('preset = "tiny"\nTminimum = 0.25\n', encoding="utf-8")
    name, found = settings.load(str(path), None, ["SpongeFactor1=20.0"])
    assert (name, found.Tminimum, found.SpongeFactor1) == ("tiny", 0.25, 20.0)
    path.write_text("Tminimum = 0.25\nTminimum = 0.5\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not TOML"):
        settings.load(str(path), None)


def test_a_run_from_the_command_line_writes_its_files(tmp_path: Path) -> None:
    words = ["run", "davs", "--preset", "tiny", "--set", "ClusterFile=out.txt", "--json", "r.json", "--pictures", ".",
             "--write-points", "points.txt"]  # fmt: skip
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], timeout=200, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    result = results.read(tmp_path / "r.json")[0]
    assert result.keys() >= {"app", "verified", "ranks", "threads", "points", "clusters", "sponge_fraction", "ari",
                             "seconds", "seconds_compute", "seconds_allreduce", "seconds_send_receive",
                             "seconds_splitting"}  # fmt: skip
    assert (result["app"], result["verified"], result["points"]) == ("davs", True, 250)
    names = {path.name for path in tmp_path.iterdir()}
    count = result["clusters"]
    tags = ("", "-Scaled", "-Status", "-Temperatures")
    assert names == {"r.json", "points.txt", "davs-plane.png", "davs-temperatures.png",
                     *(f"out{tag}-M200000-C{count}.txt" for tag in tags)}  # fmt: skip
    lines = (tmp_path / f"out-M200000-C{count}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 250 + count
    assert sum(line.endswith(f"\t{count}") for line in lines) == round(result["sponge_fraction"] * 250)
    (tmp_path / "points.txt").write_text("0\t500.0\n", encoding="utf-8")
    words = ["run", "davs", "--points", "points.txt", "--json", "no.json"]
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], timeout=200, cwd=tmp_path)
    assert outcome.status == 2
    assert not (tmp_path / "no.json").exists()


OF_OTHER_AXES = {
    "check_dtype_object", "check_estimators_dtypes", "check_estimators_overwrite_params",
    "check_n_features_in_after_fitting",
}  # fmt: skip
"""Checks whose points have numbers of axes that no other check has: everything is compiled for each number."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.more)])
def test_the_estimator_follows_the_conventions_of_scikit_learn(others: bool) -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    from gondwana_apps.davs import VectorSponge  # imports scikit-learn

    factors = ("InitialCoolingFactor1", "InitialCoolingFactor2", "FineCoolingFactor1", "FineCoolingFactor2")
    quick = VectorSponge(settings=dict.fromkeys(factors, 0.9))
    chosen = []
    for estimator, check in checks.estimator_checks_generator(quick):
        name = getattr(check, "func", check).__name__
        if others == (name in OF_OTHER_AXES):
            with contextlib.suppress(SkipTest):  # some are for types and libraries that the estimator does not know
                check(estimator)
            chosen.append(name)
    assert {*chosen} == OF_OTHER_AXES if others else len(chosen) > 30


def test_the_estimator_labels_new_points_as_its_own() -> None:
    from gondwana_apps.davs import VectorSponge

    x, truth = generate(TINY)
    order = np.random.default_rng(0).permutation(len(x))
    found = VectorSponge(widths=(5.98e-6, 2.35), relative=True).fit(x[order])
    assert np.array_equal(found.predict(x[order]), found.labels_)
    ari, _ = app.agreement(found.labels_, truth[order])
    assert ari == 1.0
    assert found.predict(x[:1] + (0.0, 1e6)).tolist() == [-1]
    everyone = VectorSponge(widths=(5.98e-6, 2.35), relative=True, sponge=None).fit(x)
    assert (everyone.labels_ >= 0).all()
    with pytest.raises(UsageError, match="2 axes"):
        VectorSponge(widths=[1.0]).fit(x)
    with pytest.raises(UsageError, match="did you mean Tminimum"):
        VectorSponge(settings={"Tminimun": 1.0}).fit(x)


def test_the_estimator_works_without_scikit_learn() -> None:
    program = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from gondwana_apps.davs import VectorSponge
x = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [50.0]])
found = VectorSponge(widths=0.5)
print(found.fit_predict(x).tolist(), found.predict(x).tolist())
try:
    found.predict(np.zeros((2, 3)))
except ValueError as error:
    print(error)
"""
    outcome = jobs.run_command([sys.executable, "-c", program], timeout=100)
    assert outcome.status == 0, str(outcome)
    labels = "[0, 0, 0, 1, 1, 1, -1]"
    assert f"{labels} {labels}" in outcome.stdout
    assert "points have 3 axes, those of fit had 1" in outcome.stdout


def test_the_application_is_short() -> None:
    files = Path(app.__file__).parent.glob("*.py")
    assert sum(len(code_lines(file.read_text(encoding="utf-8"))) for file in files) <= 1845
