"""DAVS: clustering of peaks by deterministic annealing, with a sponge for points outside of all clusters.

`VectorSponge` is the estimator for programs in Python; `gondwana run davs` the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gondwana_apps.davs.estimator import VectorSponge as VectorSponge


def __getattr__(name: str) -> Any:
    # The estimator imports scikit-learn if it is installed; the application does without it.
    if name == "VectorSponge":
        from gondwana_apps.davs.estimator import VectorSponge

        return VectorSponge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
