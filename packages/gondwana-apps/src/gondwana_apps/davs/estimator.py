"""`VectorSponge`: the clustering as an estimator with the conventions of scikit-learn, on one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.davs import quality
from gondwana_apps.davs.presets import COARSE
from gondwana_apps.davs.run import run
from gondwana_apps.davs.settings import resolve
from gondwana_apps.estimators import BaseEstimator, ClusterMixin, check_is_fitted, validate_data


class VectorSponge(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of known width, and a sponge for points outside of all clusters. Local.

    The number of clusters is found by deterministic annealing (Rose 1998; Fox, Mani and Pyne 2013). Needs neither MPI
    nor scikit-learn; if that is installed, this is one of its estimators.

    Args:
        widths: standard deviation of clusters along each axis, or one number for all axes.
        relative: whether the first width is a share of the position along the first axis, as for m/z.
        sponge: distance in units of the widths from which points go to the sponge; None: no sponge.
        settings: other keys of the application's `Settings`, such as {"Tminimum": 2.0}.

    Attributes:
        labels_: the cluster of each point, -1 for the sponge.
        cluster_centers_: positions of the clusters, in order of the first axis.
        weights_: share of each cluster in all points.
        n_iter_: iterations of expectation and maximisation.
        history_: temperature, clusters, energy and share of the sponge at each equilibrium.

    Example:
        >>> import numpy as np
        >>> X = np.array([[1.0, 1.0], [1.1, 1.0], [0.9, 1.1], [1.0, 0.9], [8.0, 8.0], [8.1, 8.0], [8.0, 7.9], [40, 3]])
        >>> VectorSponge(widths=0.5).fit_predict(X).tolist()
        [0, 0, 0, 0, 1, 1, 1, -1]
    """

    def __init__(
        self,
        widths: float | Sequence[float] = 1.0,
        *,
        relative: bool = False,
        sponge: float | None = 3.0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.widths, self.relative, self.sponge, self.settings = widths, relative, sponge, settings

    def fit(self, X: npt.ArrayLike, y: Any = None) -> Self:  # noqa: N803
        """Find clusters. Local.

        Args:
            X: points, N x D.
            y: ignored.

        Raises:
            UsageError: a parameter or the points are not legal, or the job has several ranks.
        """
        if gw.world.size > 1:
            raise UsageError("VectorSponge works on one rank: start a job of several by gondwana run -n N davs")
        points = np.ascontiguousarray(validate_data(self, X, dtype=np.float64))
        self._settings = self._resolve(points.shape[1])
        if self.relative and not (points[:, 0] > 0.0).all():
            raise UsageError("relative=True needs positions above 0 along the first axis")
        order = np.lexsort(points.T[::-1])
        result = run(points[order], self._settings, gw.world)
        self._found = result.rows, len(points), result.conditions
        self.labels_ = np.empty(len(points), np.int64)
        self.labels_[order] = result.labels
        self.cluster_centers_ = result.rows[:, : points.shape[1]]
        self.weights_ = result.rows[:, points.shape[1]]
        self.n_iter_ = result.progress.iterations
        self.history_ = list(result.progress.history)
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:  # noqa: N803
        """Return the cluster of each point, -1 for the sponge, as `fit` labels its own. Local.

        Args:
            X: points, N x D.

        Raises:
            UsageError: the points are not legal, or `fit` was not called.
        """
        check_is_fitted(self)
        points = np.ascontiguousarray(validate_data(self, X, dtype=np.float64, reset=False))
        order = np.lexsort(points.T[::-1])
        rows, total, conditions = self._found
        labels = np.empty(len(points), np.int64)
        labels[order] = quality.assign(points[order], rows, total, self._settings, conditions)[0]
        return labels

    def _resolve(self, dimension: int) -> Any:
        widths = [float(self.widths)] * dimension if isinstance(self.widths, float | int) else list(self.widths)
        if len(widths) != dimension:
            raise UsageError(f"widths has {len(widths)} numbers and the points {dimension} axes: give one for each")
        never = {"CreateSpongeScaledSquaredWidth": -1.0, "SpongeTemperature1": -1.0}
        ramp = {} if self.sponge is None else {"SpongeFactor1": 4.0 * self.sponge, "SpongeFactor2": self.sponge}
        method = {"SigmaMethod": 2 if self.relative else 1, "SigmaVectorParameters": tuple(map(float, widths))}
        return resolve({**COARSE, **(ramp or never), **method, **(self.settings or {})})
