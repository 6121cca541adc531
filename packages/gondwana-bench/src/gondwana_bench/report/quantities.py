"""Figures with their units as people write them, and ratios in words."""

from __future__ import annotations

import math

SECONDS = "s"
BYTES = "B"

MOST = 1e200
"""Upper bound of figures; larger ones overflow when they are scaled."""

_FACTORS = {
    "ms": (1e-3, SECONDS), "us": (1e-6, SECONDS), "ns": (1e-9, SECONDS),
    "KiB": (2.0**10, BYTES), "MiB": (2.0**20, BYTES), "GiB": (2.0**30, BYTES),
    "KiB/s": (2.0**10, "B/s"), "MiB/s": (2.0**20, "B/s"), "GiB/s": (2.0**30, "B/s"),
    **{
        f"{prefix}{rate}": (factor, rate)
        for rate in ("B/s", "flop/s", "op/s", "cells/s")
        for factor, prefix in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
    },
}  # fmt: skip
"""Factor and larger unit of each unit of a result that takes prefixes."""

_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))


def base(value: float, unit: str) -> tuple[float, str]:
    """Return a figure in the unit that takes prefixes. Local.

    Example:
        >>> base(3.0, "us"), base(2.0, "GB/s"), base(5.0, "cells")
        ((3e-06, 's'), (2000000000.0, 'B/s'), (5.0, 'cells'))
    """
    factor, of = _FACTORS.get(unit, (1.0, unit))
    return value * factor, of


def quantity(value: float, unit: str) -> str:
    """Return a figure with its unit, with three digits. Local.

    Example:
        >>> quantity(2.5e-6, "s"), quantity(4096, "B"), quantity(12.3456, "GB/s"), quantity(128, "cells")
        ('2.5 µs', '4 KiB', '12.3 GB/s', '128 cells')
    """
    if not -MOST < value < MOST:
        return "not a number" if value != value else f"beyond {MOST:g}"
    scaled, of = base(float(value), unit)
    if of in ("1", "unit of the row"):
        return digits(scaled)
    prefixes = {SECONDS: _SMALL, BYTES: _BINARY}.get(of, _LARGE if of.endswith("/s") else ())
    size = abs(scaled)
    for factor, prefix in prefixes:
        if size >= factor * 0.9995:
            return f"{digits(scaled / factor)} {prefix}{of}"
    return f"{digits(scaled)} {of}"


def digits(value: float) -> str:
    """Return a number with three digits, whole ones as they are up to six digits. Local.

    Example:
        >>> digits(0.123456), digits(1024), digits(1.0), digits(123456789), digits(1e-7)
        ('0.123', '1024', '1', '1.23e8', '1e-7')
    """
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if value and not 1e-3 <= abs(value) < 9.995e5:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    text = f"{value:.3g}"
    return str(int(float(text))) if "e" in text else text


def span(low: float, high: float) -> str:
    """Return a range of numbers. Local.

    Example:
        >>> span(0.81, 0.863), span(2.0, 2.0001)
        ('0.81-0.86', '2')
    """
    one, other = two_digits(low), two_digits(high)
    return one if one == other else f"{one}-{other}"


def two_digits(value: float) -> str:
    """Return a ratio as it is quoted: two digits after the point near 1, two in all below 0.1 and above 100. Local.

    Example:
        >>> two_digits(0.8345), two_digits(12.34), two_digits(548.2), two_digits(0.00187), two_digits(1.0)
        ('0.83', '12.3', '548', '0.0019', '1')
    """
    size = abs(value)
    if not math.isfinite(value) or size >= 9.995e5 or 0.0 < size < 1e-4:
        return digits(value)
    if size == 0.0 or size >= 0.1:
        places = 0 if size >= 100 else 1 if size >= 10 else 2
    else:
        places = 1 - math.floor(math.log10(size))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def times_as_fast(ratio: float, low: float, high: float, rival: str, who: str = "ours") -> str:
    """Return our speed relative to a rival's in words. Local.

    Args:
        ratio: our speed over theirs, positive.
        low: lower end of its interval.
        high: upper end.
        rival: name of the rival.
        who: name of the program that is compared with it.

    Example:
        >>> times_as_fast(1.2, 1.16, 1.23, "C")
        'ours is 1.2 times as fast as C (1.16-1.23)'
    """
    value, interval = two_digits(ratio), span(low, high)
    return f"{who} is {value} times as fast as {rival}" + ("" if interval == value else f" ({interval})")
