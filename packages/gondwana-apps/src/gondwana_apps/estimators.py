"""The parts of scikit-learn that estimators use, and their replacements if it is not installed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError

try:
    from sklearn.base import BaseEstimator as BaseEstimator, ClusterMixin as ClusterMixin
    from sklearn.utils.validation import check_is_fitted as check_is_fitted, validate_data as validate_data
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters are the arguments of the constructor, as in scikit-learn."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name. Local."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **parameters: Any) -> BaseEstimator:
            """Replace some parameters. Local."""
            if unknown := parameters.keys() - self.get_params().keys():
                raise UsageError(f"no parameter {min(unknown)!r}; legal are {', '.join(self.get_params())}")
            vars(self).update(parameters)
            return self

    class ClusterMixin:  # type: ignore[no-redef]
        """Adds `fit_predict`, as in scikit-learn."""

        def fit_predict(self, X: npt.ArrayLike, y: Any = None) -> Any:  # noqa: N803
            """Find clusters, and return the cluster of each sample. As `fit`, local or collective."""
            return self.fit(X).labels_  # type: ignore[attr-defined]

    def check_is_fitted(estimator: Any) -> None:
        """Refuse an estimator without labels. Local."""
        if not hasattr(estimator, "labels_"):
            raise UsageError(f"{type(estimator).__name__}: call fit before predict")

    def validate_data(estimator: Any, X: Any, *, dtype: Any, reset: bool = True, ensure_min_samples: int = 1) -> Any:  # noqa: N803
        """Return finite numbers with two axes, as many along the second as for `fit` unless `reset`. Local."""
        array = np.asarray(X, dtype)
        if array.ndim != 2 or len(array) < ensure_min_samples or not array.size or not np.isfinite(array).all():
            legal = f"finite numbers [samples, features], {ensure_min_samples} samples or more"
            raise UsageError(f"data of shape {array.shape}: give {legal}")
        if reset:
            estimator.n_features_in_ = array.shape[1]
        elif array.shape[1] != estimator.n_features_in_:
            raise UsageError(f"points have {array.shape[1]} axes, those of fit had {estimator.n_features_in_}")
        return array
