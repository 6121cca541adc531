"""Statistics of timings: median, spread, and confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gondwana.errors import UsageError

RESAMPLES = 1000


@dataclass(frozen=True)
class Summary:
    """Statistics of a sample, in the unit of its values.

    The median, the mean and the measures of scatter leave out the values that are further than 1.5 interquartile
    ranges from the central half (Tukey 1977; quartiles by linear interpolation); the minimum and the percentiles are
    those of all values.

    Attributes:
        n: number of values that were kept.
        removed: number of values that were left out.
        median: median of the values; the figure to quote, because other processes disturb the mean.
        low: lower end of the 95 % bootstrap interval of the median.
        high: upper end of that interval.
        mean: the average.
        sd: standard deviation (n - 1); 0 for a single value.
        cv: coefficient of variation, sd/mean.
        median_of_all: median with all values.
        minimum: the smallest value.
        p5: 5th percentile.
        p95: 95th percentile.
        p99: 99th percentile.
    """

    n: int
    removed: int
    median: float
    low: float
    high: float
    mean: float
    sd: float
    cv: float
    median_of_all: float
    minimum: float
    p5: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Ratio:
    """The quotient of two paired samples: its median and the median's 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def summarize(values: Sequence[float]) -> Summary:
    """Compute the statistics of a sample. Local.

    Args:
        values: at least one positive number, for example seconds a call.

    Returns:
        The same statistics for the same values: the bootstrap draws from a fixed seed.

    Example:
        >>> summarize([1.0, 3.0, 2.0]).median
        2.0
    """
    sample = _checked(values)
    kept = without_outliers(sample)
    low, high = _interval_of_median(kept)
    mean = float(kept.mean())
    sd = float(kept.std(ddof=1)) if kept.size > 1 else 0.0
    p5, p95, p99 = np.percentile(sample, [5.0, 95.0, 99.0])
    return Summary(
        n=kept.size,
        removed=sample.size - kept.size,
        median=float(np.median(kept)),
        low=low,
        high=high,
        mean=mean,
        sd=sd,
        cv=sd / mean,
        median_of_all=float(np.median(sample)),
        minimum=float(sample.min()),
        p5=float(p5),
        p95=float(p95),
        p99=float(p99),
    )


def without_outliers(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values within 1.5 interquartile ranges of the central half of a sample. Local.

    Example:
        >>> without_outliers(np.array([1.0, 2.0, 3.0, 4.0, 100.0]))
        array([1., 2., 3., 4.])
    """
    lower, upper = np.percentile(sample, [25.0, 75.0])
    reach = 1.5 * (upper - lower)
    kept: NDArray[np.float64] = sample[(sample >= lower - reach) & (sample <= upper + reach)]
    return kept


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """Return the quotient of two samples that were measured interleaved. Local.

    The quotient is taken round by round, so what slows a whole round (another job, a lower clock) cancels.

    Args:
        numerator: one value a round, positive.
        denominator: the values of the same rounds.

    Example:
        >>> ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
        Ratio(value=2.0, low=2.0, high=2.0)
    """
    above, below = _checked(numerator), _checked(denominator)
    if above.size != below.size:
        raise UsageError(f"ratio of {above.size} and {below.size} values: give one value of each in every round")
    quotients = above / below
    low, high = _interval_of_median(quotients)
    return Ratio(float(np.median(quotients)), low, high)


def _checked(values: Sequence[float]) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.all(np.isfinite(sample) & (sample > 0.0)):
        raise UsageError("statistics need a list of at least one finite positive number")
    return sample


def _interval_of_median(sample: NDArray[np.float64]) -> tuple[float, float]:
    draws = np.random.default_rng(0).integers(0, sample.size, (RESAMPLES, sample.size))
    low, high = np.percentile(np.median(sample[draws], axis=1), [2.5, 97.5])
    return float(low), float(high)
