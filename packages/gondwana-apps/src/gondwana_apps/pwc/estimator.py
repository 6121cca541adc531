"""Pairwise clustering with the conventions of scikit-learn, which may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.estimators import BaseEstimator, ClusterMixin, validate_data
from gondwana_apps.pwc import matrix
from gondwana_apps.pwc.annealing import Annealing
from gondwana_apps.pwc.generators import squared_distances
from gondwana_apps.pwc.rows import Rows, divide
from gondwana_apps.pwc.settings import Settings

METRICS = ("sqeuclidean", "euclidean", "precomputed")


def _dissimilarities(x: npt.NDArray[np.float64], small: float) -> npt.NDArray[np.float64]:
    """Return checked dissimilarities, with zeros in place of values that differ from 0 by rounding."""
    if x.min() < -small:
        raise UsageError("Negative values in data: dissimilarities are 0 or more")
    square = x.shape[0] == x.shape[1]
    if not square or (np.abs(x.diagonal()) > small).any() or not np.allclose(x, x.T, atol=1e-8 * x.max()):
        raise UsageError(f"X {list(x.shape)}: give a square of symmetric numbers, 0 on the diagonal")
    x = np.maximum(x, 0.0)
    np.fill_diagonal(x, 0.0)
    return x


class PairwiseClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster samples by deterministic annealing of their dissimilarities. Local to create.

    The result does not depend on random numbers: clusters split at the temperatures at which they become unstable.
    scikit-learn is used if it is installed, and is not needed.

    Args:
        n_clusters: the largest number of clusters.
        metric: "sqeuclidean" or "euclidean" distances of samples, or "precomputed": `fit` gets dissimilarities.
        min_cluster_size: clusters with fewer samples are removed.

    Attributes:
        labels_: the cluster of each sample, from 0.
        n_clusters_: number of clusters found.
        medoid_indices_: for each cluster, the sample with the least mean dissimilarity to the others.
        energy_: half the sum over clusters of size times mean dissimilarity; with "sqeuclidean" the inertia of k-means.
        temperatures_: temperature, clusters and lowest eigenvalue by the largest one, at each test for splits.

    Example:
        >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0], [9.1], [9.2]])
        >>> PairwiseClustering(3, min_cluster_size=1).fit_predict(x).tolist()
        [0, 0, 0, 2, 2, 1, 1, 1]
    """

    def __init__(self, n_clusters: int = 8, *, metric: str = "sqeuclidean", min_cluster_size: float = 2) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.min_cluster_size = min_cluster_size

    def fit(self, X: npt.ArrayLike, y: None = None) -> PairwiseClustering:  # noqa: N803
        """Find the clusters. Collective over the world: in a job all ranks give the same data, and share the work.

        Args:
            X: samples [N, features], or dissimilarities [N, N] if the metric is "precomputed".
            y: ignored.

        Raises:
            UsageError: a parameter or the data are illegal; it is a ValueError.
        """
        if self.metric not in METRICS or self.n_clusters < 1:
            legal = f"legal are metric={' or '.join(METRICS)} and n_clusters of 1 or more"
            raise UsageError(f"metric={self.metric!r}, n_clusters={self.n_clusters!r}: {legal}")
        x = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        own = slice(*divide(len(x), gw.world.size)[1][gw.world.rank :][:2])
        if self.metric == "precomputed":
            x = _dissimilarities(x, matrix.rounding(getattr(X, "dtype", x.dtype), x.max()))
            d = np.ascontiguousarray(x[own])
        else:
            with np.errstate(over="ignore"):  # refused below
                d = squared_distances(x[own], x)
            d = np.sqrt(d) if self.metric == "euclidean" else d
        matrix.check_range("X", gw.world.allreduce(float(d.max(initial=0.0)), gw.MAX))
        most, least = self.n_clusters, self.min_cluster_size
        settings = Settings(MaxNcent=most, MinimumCountForClusterCk=least, TooSmallToSplit=1.0)
        annealing = Annealing(Rows(gw.world, d), settings)
        found = annealing.run()
        self.labels_, self.n_clusters_ = found.labels, len(found.sizes)
        self.medoid_indices_, self.energy_ = found.centers, found.energy
        self.temperatures_ = annealing.trace
        return self

    def __sklearn_tags__(self) -> Any:
        """Describe the data that `fit` takes, to scikit-learn. Local."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.metric == "precomputed"
        return tags
