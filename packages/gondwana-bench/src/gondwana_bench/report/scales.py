"""Axes of charts: where values lie, and where the ticks are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_TICKS = 7
_WIDENINGS = 3
"""How often a scale is widened to its next tick: ticks are wider apart on the wider scale, at most twice."""


@dataclass(frozen=True)
class Scale:
    """The positions of values along an axis.

    Attributes:
        low: value at the start.
        high: value at the end, larger than low.
        start: position of low.
        end: position of high.
        log: whether equal distances are equal ratios; low is positive then.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        """Return the position of a value; values outside are put on the edge. Local."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            part = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            part = (inside - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return values for ticks, at most `MOST_TICKS`, rising. Local.

        Example:
            >>> Scale(1.0, 30000.0, 0.0, 1.0, log=True).ticks()
            [1.0, 10.0, 100.0, 1000.0, 10000.0]
        """
        found = _marks(self.low, self.high, log=self.log)
        inside = [value for value in found if self.low * (1 - 1e-12) <= value <= self.high * (1 + 1e-12)]
        return inside[:: math.ceil(len(inside) / (MOST_TICKS + 1))]


def drawable(value: object, *, log: bool) -> bool:
    """Return whether a value has a place on an axis: a finite number, positive on a logarithmic one. Local."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Beyond these, ratios of two values overflow.
    return 1e-150 < value < 1e150 if log else -1e150 < value < 1e150


def over(values: Iterable[float], start: float, end: float, *, log: bool, margin: float = 0.04) -> Scale:
    """Return a scale that holds some values, with a margin as a part of their range. Local.

    Example:
        >>> over([1.0, 9.0], 0.0, 100.0, log=False, margin=0.125).low
        0.0
    """
    kept = [value for value in values if drawable(value, log=log)] or [1.0]
    low, high = min(kept), max(kept)
    if log:
        factor = max((high / low) ** margin, 1.05)
        return Scale(low / factor, high * factor, start, end, log)
    pad = (high - low) * margin or 0.05 * abs(high) or 1.0
    return Scale(low - pad, high + pad, start, end, log)


def covering(values: Iterable[float], start: float, end: float, *, log: bool) -> Scale:
    """Return a scale whose first and last tick have all values between them, as far as ticks are few enough. Local.

    Example:
        >>> covering([3.0, 70.0], 0.0, 100.0, log=True).ticks()
        [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    """
    scale = over(values, start, end, log=log, margin=0.0)
    for _ in range(_WIDENINGS):
        found = [value for value in _marks(scale.low, scale.high, log=log) if not log or value > 0.0]
        scale = Scale(min(scale.low, found[0]), max(scale.high, found[-1]), start, end, log)
    return scale


def from_zero(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a linear scale from zero to a little above the largest value. Local."""
    kept = [value for value in values if drawable(value, log=False)]
    return Scale(0.0, 1.05 * max(kept, default=1.0) or 1.0, start, end, log=False)


def _marks(low: float, high: float, *, log: bool) -> list[float]:
    """Places for ticks, from the last at or before low to the first at or after high."""
    found = _decades(low, high) if log else None
    return _steps(low, high) if found is None else found


def _decades(low: float, high: float) -> list[float] | None:
    """Powers of ten, with their multiples by 2 and 5 where they are few; None if less than two would be inside."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for mantissas in (tuple(map(float, range(1, 10))), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
        inside = [value for value in found if low <= value <= high]
        if len(inside) <= MOST_TICKS:
            break
    if len(inside) < 2:
        return None
    start = max(value for value in found if value <= low * (1 + 1e-9))
    end = min(value for value in found if value >= high * (1 - 1e-9))
    return [value for value in found if start <= value <= end]


def _steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12 - math.floor(math.log10(step))) for i in range(first, last + 1)]
