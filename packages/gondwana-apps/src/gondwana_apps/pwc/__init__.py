"""Pairwise clustering by deterministic annealing: `gondwana run pwc`, and an estimator for programs without MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gondwana_apps.pwc.estimator import PairwiseClustering as PairwiseClustering


def __getattr__(name: str) -> Any:
    """Load the estimator, and with it scikit-learn, at first use. Local."""
    if name != "PairwiseClustering":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gondwana_apps.pwc.estimator import PairwiseClustering

    return PairwiseClustering
