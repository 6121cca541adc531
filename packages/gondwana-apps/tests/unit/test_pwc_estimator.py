"""Pairwise clustering as an estimator: scikit-learn's rules and data, and without scikit-learn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.base import clone, is_clusterer
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_clustering, estimator_checks_generator

from gondwana.errors import UsageError
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_apps.pwc import PairwiseClustering
from support import jobs

OMITTED = "check_array_api_input"
"""SciPy's array API is off unless a variable of the environment turns it on."""


@pytest.mark.parametrize("metric", ["sqeuclidean", "precomputed"])
def test_rules_of_scikit_learn(metric: str) -> None:
    """All of them, but for a clusterer of dissimilarities those of 2016 that give it coordinates."""
    made = PairwiseClustering(3, metric=metric)
    checks = estimator_checks_generator(made, legacy=metric == "sqeuclidean")
    named = [(getattr(check, "func", check).__name__, estimator, check) for estimator, check in checks]
    assert len(named) > (35 if metric == "sqeuclidean" else 10)
    for name, estimator, check in named:
        if name != OMITTED:
            check(estimator)
    if metric == "sqeuclidean":
        check_clustering("PairwiseClustering", made)


@pytest.mark.parametrize(("name", "clusters"), [("iris", 3), ("wine", 3)])
def test_real_data_reach_the_inertia_of_k_means(name: str, clusters: int) -> None:
    data = getattr(datasets, f"load_{name}")()
    x = StandardScaler().fit_transform(data.data)
    found = PairwiseClustering(clusters, min_cluster_size=5).fit(x)
    best = KMeans(clusters, n_init=50, random_state=0).fit(x)
    assert found.n_clusters_ == clusters
    assert found.energy_ <= 1.001 * best.inertia_
    assert adjusted_rand_index(found.labels_, best.labels_) > 0.95
    assert adjusted_rand_index(found.labels_, data.target) > 0.6
    assert [found.labels_[medoid] for medoid in found.medoid_indices_] == list(range(clusters))


def test_digits_are_told_apart() -> None:
    data = datasets.load_digits(n_class=4)
    found = PairwiseClustering(4, metric="euclidean").fit(data.data[:200])
    assert adjusted_rand_index(found.labels_, data.target[:200]) > 0.8


def test_all_metrics_are_the_same_clustering() -> None:
    x, _ = datasets.make_blobs(90, centers=3, random_state=1)
    d = ((x[:, None] - x) ** 2).sum(axis=2)
    squared = PairwiseClustering(3).fit(x)
    assert np.array_equal(PairwiseClustering(3, metric="precomputed").fit_predict(d), squared.labels_)
    plain = PairwiseClustering(3, metric="euclidean").fit(x)
    assert np.array_equal(PairwiseClustering(3, metric="precomputed").fit_predict(np.sqrt(d)), plain.labels_)
    assert is_clusterer(squared)
    assert clone(squared).get_params() == {"metric": "sqeuclidean", "min_cluster_size": 2, "n_clusters": 3}
    assert adjusted_rand_index(make_pipeline(StandardScaler(), clone(squared)).fit_predict(x), squared.labels_) > 0.9


@pytest.mark.parametrize(
    ("parameters", "data", "part"),
    [
        ({"metric": "cosine"}, np.eye(3), "metric='cosine', n_clusters=8: legal are metric=sqeuclidean or"),
        ({"n_clusters": 0}, np.eye(3), "n_clusters=0: legal are"),
        ({"metric": "precomputed"}, np.ones((3, 2)), "give a square of symmetric numbers"),
        ({"metric": "precomputed"}, np.eye(3), "0 on the diagonal"),
        ({"metric": "precomputed"}, np.array([[0.0, -1.0], [-1.0, 0.0]]), "dissimilarities are 0 or more"),
        ({"metric": "precomputed"}, np.array([[0.0, 1.0], [2.0, 0.0]]), "give a square of symmetric numbers"),
    ],
)
def test_what_cannot_be_clustered_is_refused(parameters: dict[str, Any], data: Any, part: str) -> None:
    with pytest.raises(UsageError) as refusal:
        PairwiseClustering(**parameters).fit(data)
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from gondwana_apps.pwc import PairwiseClustering
x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0], [9.1], [9.2]])
made = PairwiseClustering().set_params(n_clusters=3, min_cluster_size=1)
print(made.fit_predict(x).tolist(), made.get_params())
for wrong in (lambda: made.set_params(clusters=3)), (lambda: made.fit([1.0])), (lambda: made.fit(x * np.nan)):
    try:
        wrong()
    except ValueError as error:
        print(error)
"""


def test_correlations_are_dissimilarities() -> None:
    """`1 - corrcoef` has 2e-16 on its diagonal, and -2e-16 between equal samples."""
    x = np.repeat(np.random.default_rng(1).standard_normal((3, 40)), 5, axis=0)
    d = 1.0 - np.corrcoef(x)
    d[np.diag_indices(15)] += np.resize([2e-16, -2e-16], 15)
    d[0, 1] = d[1, 0] = -2e-16
    found = PairwiseClustering(3, metric="precomputed", min_cluster_size=1).fit_predict(d)
    assert adjusted_rand_index(found, np.repeat(np.arange(3), 5)) == 1.0
    for wrong in d - 1e-3, d + 1e-3 * np.eye(15):
        with pytest.raises(UsageError, match=r"0 or more|0 on the diagonal"):
            PairwiseClustering(3, metric="precomputed").fit(wrong)


@pytest.mark.parametrize(("metric", "factor"), [("sqeuclidean", 1e-160), ("sqeuclidean", 1e200), ("euclidean", 1e-155)])
def test_units_that_leave_the_range_of_numbers_are_refused(metric: str, factor: float) -> None:
    x = np.random.default_rng(1).standard_normal((20, 3))
    with pytest.raises(UsageError, match=r"X: the largest dissimilarity is .*; legal is 0, or from 1e-100"):
        PairwiseClustering(3, metric=metric).fit(x * factor)


def test_scikit_learn_is_not_needed(tmp_path: Path) -> None:
    program = tmp_path / "without.py"
    program.write_text(WITHOUT)
    outcome = jobs.run_command([sys.executable, str(program)], timeout=60)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.splitlines() == [
        "[0, 0, 0, 2, 2, 1, 1, 1] {'n_clusters': 3, 'metric': 'sqeuclidean', 'min_cluster_size': 1}",
        "no parameter 'clusters'; legal are n_clusters, metric, min_cluster_size",
        "data of shape (1,): give finite numbers [samples, features], 2 samples or more",
        "data of shape (8, 1): give finite numbers [samples, features], 2 samples or more",
    ]
