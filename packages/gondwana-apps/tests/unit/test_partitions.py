"""Measures of agreement between partitions, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from gondwana.errors import UsageError
from gondwana_apps.partitions import adjusted_rand_index, purity


@pytest.mark.parametrize("seed", range(20))
def test_measures_are_those_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.integers(-3, random.integers(-2, 40), 200)
    b = np.where(random.random(200) < 0.1 * (seed % 10), a, random.integers(0, 7, 200))
    assert adjusted_rand_index(a, b) == pytest.approx(metrics.adjusted_rand_score(a, b), abs=1e-14)
    assert purity(a, b) == metrics.cluster.contingency_matrix(a, b).max(axis=1).sum() / 200


@pytest.mark.parametrize(
    ("a", "b", "index", "share"),
    [
        ([5], [6], 1.0, 1.0),
        ([1, 1, 1], [2, 2, 2], 1.0, 1.0),
        ([1, 2, 3], [3, 1, 2], 1.0, 1.0),
        ([1, 1, 1], [1, 2, 3], 0.0, 1 / 3),
        (["x", "x", "y"], [0, 0, 1], 1.0, 1.0),
    ],
)
def test_extremes(a: list[object], b: list[object], index: float, share: float) -> None:
    assert adjusted_rand_index(a, b) == index
    assert purity(a, b) == pytest.approx(share, rel=1e-15)


def test_many_clusters_need_no_table_of_all_pairs() -> None:
    labels = np.arange(200_000) // 3
    assert adjusted_rand_index(labels, -labels) == 1.0
    assert purity(labels, labels + 7) == 1.0


@pytest.mark.parametrize(("a", "b"), [([], []), ([1], [1, 2]), ([[1, 2]], [[1, 2]])])
def test_what_is_no_pair_of_partitions_is_refused(a: list[int], b: list[int]) -> None:
    for measure in adjusted_rand_index, purity:
        with pytest.raises(UsageError, match="give one label for each point"):
            measure(a, b)
