"""Verification: extremes and sums of known runs, from an independent implementation.

`reference.csv` has runs without noise, `reference_noisy.csv` with noise, both with Du = 0.2, Dv = 0.1 and printed to
about 12 digits. Relative differences of 1e-11 in float64 and 1e-4 in float32 are accepted (another order of the
additions makes 1e-13 and 3e-5 over 1000 steps), or half a unit of the last digit printed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal
from importlib import resources
from typing import NamedTuple

from gondwana_apps.grayscott.presets import PRESETS
from gondwana_apps.grayscott.settings import Settings
from gondwana_apps.grayscott.simulation import Summary

TOLERANCE = {"Float64": 1e-11, "Float32": 1e-4}
_DIFFUSION = (0.2, 0.1)
_FILES = ("reference.csv", "reference_noisy.csv")


class Verdict(NamedTuple):
    """Whether a run agrees with the reference; None without a reference run of these settings.

    Attributes:
        verified: True, False or None.
        reason: one line for people.
    """

    verified: bool | None
    reason: str


def verify(settings: Settings, steps: int, summary: Summary) -> Verdict:
    """Compare the state of a run with the reference run of the same settings, if there is one. Local.

    Args:
        settings: settings of the run.
        steps: time steps done.
        summary: summary of the fields at that time.
    """
    row = next((row for row in _rows() if _is_same_run(row, settings, steps)), None)
    if row is None:
        return Verdict(None, "nothing to verify: no reference run has these settings and steps")
    tolerance = TOLERANCE[settings.precision]
    for name, value in summary._asdict().items():
        expected = Decimal(row[name])
        allowed = max(tolerance * abs(float(expected)), 0.51 * 10.0 ** _last_digit(expected))
        if not abs(value - float(expected)) <= allowed:
            return Verdict(False, f"WRONG: {name} is {value:.12g}, the reference run has {row[name]}")
    return Verdict(True, f"verified: extremes and sums agree with the reference run to {tolerance:g}")


def _rows() -> Iterator[dict[str, str]]:
    for name in _FILES:
        yield from csv.DictReader(resources.files(__package__).joinpath(name).read_text().splitlines())


def _is_same_run(row: dict[str, str], settings: Settings, steps: int) -> bool:
    preset = next(preset for name, preset in PRESETS.items() if name == row["preset"])
    noise = float(row.get("noise", 0))
    return (
        (preset.boundary, preset.seed_width) == (settings.boundary, settings.seed_width)
        and (int(row["L"]), row["precision"], int(row["steps"])) == (settings.L, settings.precision, steps)
        and all(float(row[key]) == getattr(settings, key) for key in ("F", "k", "dt"))
        and (settings.Du, settings.Dv) == _DIFFUSION
        and noise == settings.noise
        and (noise == 0 or int(row["seed"]) == settings.seed)
    )


def _last_digit(value: Decimal) -> int:
    """Exponent of the last printed digit; far below anything for a printed zero."""
    return int(value.as_tuple().exponent) if value else -400
