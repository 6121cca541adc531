"""The agreement of two partitions of the same points."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError


def adjusted_rand_index(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return the adjusted Rand index of two partitions: 1 if they are the same, near 0 for unrelated ones. Local.

    It is the share of pairs of points on which both agree, corrected for chance (Hubert and Arabie 1985).

    Args:
        a: label of each point; any numbers or texts.
        b: the same for the other partition.

    Raises:
        UsageError: there are no points, or the lengths differ.

    Example:
        >>> adjusted_rand_index([0, 0, 1, 1], [7, 7, 3, 3])
        1.0
        >>> round(adjusted_rand_index([0, 0, 1, 1], [0, 0, 1, 2]), 3)
        0.571
    """
    _, joint, first, second = _contingency(a, b)
    both, one, other = (_pairs(counts) for counts in (joint, first, second))
    if both == one == other:
        return 1.0
    expected = one * other / _pairs(first.sum())
    return (both - expected) / (0.5 * (one + other) - expected)


def purity(labels: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the share of points that belong to the most frequent class of their cluster. Local.

    Args:
        labels: the cluster of each point.
        truth: class of each point.

    Raises:
        UsageError: there are no points, or the lengths differ.

    Example:
        >>> purity([0, 0, 0, 1], ["a", "a", "b", "b"])
        0.75
    """
    cluster, joint, first, _ = _contingency(labels, truth)
    largest = np.zeros(len(first), np.int64)
    np.maximum.at(largest, cluster, joint)
    return float(largest.sum() / first.sum())


def _contingency(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Any, Any, Any, Any]:
    """The pairs of labels that occur: index of the first label, and count; then the counts of each label."""
    if np.shape(a) != np.shape(b) or np.ndim(a) != 1 or not np.size(a):
        raise UsageError(
            f"partitions of shapes {np.shape(a)} and {np.shape(b)}: give one label for each point, and a point"
        )
    _, one, first = np.unique(a, return_inverse=True, return_counts=True)
    _, other, second = np.unique(b, return_inverse=True, return_counts=True)
    pairs, joint = np.unique(one.astype(np.int64) * len(second) + other, return_counts=True)
    return pairs // len(second), joint, first, second


def _pairs(counts: Any) -> int:
    """The pairs of points with the same label."""
    return int((counts * (counts - 1) // 2).sum())
