"""The slowest of many ranks: a law of the times of steps relative to their median, and the expected maximum.

Steps are taken as independent between ranks. Below a threshold the law is the record itself, above it a generalised
Pareto law, whose scale and shape come from probability-weighted moments (Hosking, Wallis: Parameter and quantile
estimation for the generalized Pareto distribution, 1987).
"""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gondwana.errors import UsageError
from gondwana.inputs import printable, read_text
from gondwana_bench.model.machine import Noise, Tail

TAIL = 0.05
"""Share of the draws that the tail is fitted to."""

FEWEST = 400
"""The fewest draws that determine a tail."""

WARM_UP = 10
"""First steps of a record that do not count."""

_BODY = 64
_LARGEST = 1 << 30
"""Bytes of a record."""


def fit(excess: NDArray[np.float64]) -> Noise:
    """Fit the law to draws. Local.

    Args:
        excess: seconds of a step by their median, less 1.

    Raises:
        UsageError: too few draws.
    """
    if len(excess) < FEWEST:
        raise UsageError(
            f"the record of steps has {len(excess)} draws: at least {FEWEST} are needed; record more steps"
        )
    ordered = np.sort(np.asarray(excess, float))
    above = max(int(TAIL * len(ordered)), 10)
    threshold = float(max(ordered[-above - 1], 0.0))
    over = np.maximum(ordered[-above:] - threshold, 0.0)
    body = np.quantile(ordered[:-above], np.linspace(0.0, 1.0, _BODY))
    scale, shape = _moments(over)
    tail = Tail(share=above / len(ordered), threshold=threshold, scale=scale, shape=shape)
    return Noise(body=tuple(map(float, body)), tail=tail)


@functools.lru_cache(maxsize=1024)
def slowest(noise: Noise | None, ranks: int) -> float:
    """Return the expected maximum of so many independent draws, at least 0. Local.

    E[max] is the integral of the quantile function Q(u^(1/n)) over u from 0 to 1.

    Example:
        >>> tail = Tail(share=0.5, threshold=0.0, scale=1.0, shape=0.0)
        >>> law = Noise(body=(0.0, 0.0), tail=tail)
        >>> round(slowest(law, 1), 3), slowest(None, 8)
        (0.5, 0.0)
    """
    if noise is None:
        return 0.0
    # Where u is close to 1 the quantile grows fastest: with v = -log(1 - u) the integrand is smooth.
    v = np.linspace(0.0, 60.0, 60_001)
    middle = (v[1:] + v[:-1]) / 2
    rest = -np.expm1(np.log1p(-np.exp(-middle)) / ranks)
    weights = np.exp(-v[:-1]) - np.exp(-v[1:])
    return max(0.0, float(np.sum(weights * _quantile(noise, rest))))


def read_record(path: str | Path) -> NDArray[np.float64]:
    """Return the relative excess of every step on every rank of a record (`heat --record`). Local.

    Raises:
        UsageError: the file is not such a record.
    """
    text = read_text(path, f"--record {path}", _LARGEST, "give a file of `heat --record`")
    try:
        lines = [[float(cell) for cell in row[1:]] for row in list(csv.reader(text.splitlines()))[1 + WARM_UP :]]
        seconds = np.array(lines, float)
    except (ValueError, csv.Error) as error:
        raise UsageError(printable(f"--record {path}: {error}; give a file of `heat --record`")) from None
    if seconds.ndim != 2 or not seconds.size or not np.all(np.isfinite(seconds)) or not np.all(seconds > 0):
        raise UsageError(f"--record {path}: no seconds of steps; give a file of `heat --record` with more steps")
    relative: NDArray[np.float64] = (seconds / np.median(seconds, axis=0) - 1.0).ravel()
    return relative


def _quantile(noise: Noise, rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """The excess that is surpassed with each of these probabilities."""
    tail = noise.tail
    share = max(tail.share, 1e-300)
    places = np.linspace(0.0, 1.0, len(noise.body))
    inside = np.interp((1.0 - rest) / max(1.0 - tail.share, 1e-300), places, np.array(noise.body))
    ratio = np.minimum(rest / share, 1.0)
    over = -np.log(ratio) if abs(tail.shape) < 1e-9 else (ratio**-tail.shape - 1.0) / tail.shape
    return np.where(rest < tail.share, tail.threshold + tail.scale * over, inside)


def _moments(over: NDArray[np.float64]) -> tuple[float, float]:
    """Scale and shape from the mean and the mean weighted with the probability to be surpassed."""
    n = len(over)
    mean = float(np.mean(over))
    if mean <= 0.0:
        return 0.0, 0.0
    surpassed = 1.0 - (np.arange(1, n + 1) - 0.35) / n
    weighted = float(np.mean(over * surpassed))
    shape = 2.0 - mean / (mean - 2.0 * weighted)
    shape = min(max(shape, -1.0), 0.95)
    return mean * (1.0 - shape), shape
