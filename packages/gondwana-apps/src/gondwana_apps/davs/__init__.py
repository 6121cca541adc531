"""DAVS: clustering of peaks by deterministic annealing, with a sponge for what belongs to no cluster.

`VectorSponge` is the estimator for programs in Python; `gondwana run davs` the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gondwana_apps.davs.estimator import VectorSponge as VectorSponge


def __getattr__(name: str) -> Any:
    # The estimator imports scikit-learn where there is one, which the application does without.
    if name == "VectorSponge":
        from gondwana_apps.davs.estimator import VectorSponge

        return VectorSponge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
