"""Dissimilarities with known clusters, for tests, examples and measurements."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError

FULL, MISSING = 32767, -32767
"""The integers for a dissimilarity of 1, and for one that is missing."""


def blobs(
    points: int, clusters: int, *, dimensions: int = 5, separation: float = 8.0, seed: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw points from normal distributions of standard deviation 1. Local.

    Args:
        points: number of points.
        clusters: number of distributions; each has as many points, but for a remainder.
        dimensions: number of coordinates of a point.
        separation: least distance of two centres.
        seed: the same seed gives the same points.

    Returns:
        Coordinates [points, dimensions] and the distribution of each point.

    Example:
        >>> x, truth = blobs(10, 3)
        >>> x.shape, np.bincount(truth).tolist()
        ((10, 5), [4, 3, 3])
    """
    random, side = np.random.default_rng(seed), 2.0 * separation
    truth = _classes(points, clusters, random)
    centers = np.zeros((0, dimensions))
    while len(centers) < clusters:
        side *= 1.02
        new = random.uniform(-0.5 * side, 0.5 * side, dimensions)
        if (((centers - new) ** 2).sum(axis=1) >= separation**2).all():
            centers = np.vstack([centers, new])
    return centers[truth] + random.standard_normal((points, dimensions)), truth


def squared_distances(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the squared Euclidean distances of some points [n, p] from others [N, p], as [n, N]. Local.

    Example:
        >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[25.0, 0.0]]
    """
    d = np.zeros((len(x), len(y)))
    for one, other in zip(x.T, y.T, strict=True):
        difference = one[:, None] - other
        d += difference * difference
    return d


def quantised(d: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Return dissimilarities as 16-bit integers, 32767 for the largest. Local.

    Example:
        >>> quantised(np.array([[0.0, 2.0], [2.0, 0.0]])).tolist()
        [[0, 32767], [32767, 0]]
    """
    return np.rint(d * (FULL / (d.max() or 1.0))).astype(np.int16)


def genes(
    points: int, clusters: int, *, length: int = 300, divergence: float = 0.4, mutation: float = 0.08,
    noise: float = 0.1, missing: float = 0.0, seed: int = 0,
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:  # fmt: skip
    """Return dissimilarities like those of aligned gene sequences, which no points in a space have. Local.

    Families descend from one sequence, members from that of their family; the dissimilarity is the share of letters
    that differ, with a random factor, the same in both directions.

    Args:
        points: number of sequences.
        clusters: number of families; each has as many members, but for a remainder.
        length: number of letters of a sequence.
        divergence: share of letters that are drawn anew between the common ancestor and that of a family.
        mutation: the same between the ancestor of a family and a member.
        noise: half the width of the random factor around 1.
        missing: share of the pairs without a value.
        seed: the same seed gives the same matrix.

    Returns:
        Integers [points, points], 32767 for 1 and -32767 for a missing value, and the family of each sequence.

    Example:
        >>> d, truth = genes(9, 3)
        >>> bool((d == d.T).all()), d.dtype.name, np.bincount(truth).tolist()
        (True, 'int16', [3, 3, 3])
    """
    random = np.random.default_rng(seed)
    truth = _classes(points, clusters, random)
    ancestor = np.tile(random.integers(0, 4, length), (clusters, 1))
    members = _mutated(_mutated(ancestor, divergence, random)[truth], mutation, random)
    letters = (members[:, :, None] == np.arange(4)).reshape(points, -1).astype(np.float32)
    factor = np.triu(random.uniform(1.0 - noise, 1.0 + noise, (points, points)), 1)
    d = (1.0 - (letters @ letters.T) / length) * (factor + factor.T)
    lost = np.triu(random.random(d.shape) < missing, 1)
    return np.where(lost | lost.T, MISSING, np.rint(FULL * np.minimum(d, 1.0))).astype(np.int16), truth


def _classes(points: int, clusters: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    if not 1 <= clusters <= points:
        raise UsageError(f"{clusters} clusters of {points} points: give from 1 to {points}")
    return random.permutation(np.arange(points) % clusters)


def _mutated(letters: npt.NDArray[Any], share: float, random: np.random.Generator) -> npt.NDArray[Any]:
    return np.where(random.random(letters.shape) < share, random.integers(0, 4, letters.shape), letters)
