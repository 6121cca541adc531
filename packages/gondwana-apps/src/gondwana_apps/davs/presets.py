"""Presets: settings, the points for runs without a file, and the expected results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """Points to generate: peaks of clusters and uniform background.

    Attributes:
        points: number of points, background included.
        clusters: number of clusters.
        background: share of background points.
        spread: standard deviation of members in units of sigma.
        mz: range of axis 0 [Th].
        time: range of axis 1 [s].
        widths: sigma: relative along axis 0, along axis 1.
        apart: smallest distance of two centres in units of sigma.
        clumped: whether masses lie where those of peptides do: close to multiples of 1.0005 over the charge.
        charge: label of all lines.
        geometric: sizes 1 + geometric instead of 2 + Poisson.
    """

    points: int
    clusters: int
    background: float = 0.15
    spread: float = 0.43
    mz: tuple[float, float] = (300.0, 2000.0)
    time: tuple[float, float] = (0.0, 7000.0)
    widths: tuple[float, float] = (5.98e-6, 2.35)
    apart: float = 6.0
    clumped: bool = False
    charge: int = 2
    geometric: bool = False


@dataclass(frozen=True)
class Preset:
    """A named run.

    Attributes:
        settings: keys that differ from the defaults.
        field: the points.
        least_ari: least adjusted Rand index that counts as verified.
        count_error: largest relative error of the number of clusters that does.
    """

    settings: dict[str, Any]
    field: Field
    least_ari: float = 0.99
    count_error: float = 0.01


COARSE: dict[str, Any] = {
    "InitialCoolingFactor1": 0.95,
    "InitialCoolingFactor2": 0.95,
    "FineCoolingFactor1": 0.95,
    "FineCoolingFactor2": 0.95,
    "WaitIterationsConverge": 1,
    "MaxNumberSplitClusters": 1_000_000,
    "TemperatureForClosenessTest": 1e12,
    "TooSmallToSplit": 2.5,
    "Tminimum": 0.5,
    "SelectedInputLabel": 2,
}
"""Coarser cooling than the original's, no limit on splits at one time, and copies are merged while they appear."""

_SMALL: dict[str, Any] = {"mz": (500.0, 509.0), "time": (0.0, 2350.0)}
_OVERLAP: dict[str, Any] = {
    "MinimumScaledWidthSquaredToSplit": 3.0,
    "MinimumCountForClusterCkWithSponge": 5.0,
    "ScaledSquaredDistanceAtClosenessTest": 2.0,
    "Tminimum": 2.0,
}
"""For members at one sigma: W is 2 for a whole cluster, and must not be a reason to split it."""

PRESETS: dict[str, Preset] = {
    "tiny": Preset(COARSE, Field(250, 20, 0.1, **_SMALL), count_error=0.05),
    "small": Preset(COARSE, Field(2_800, 280, 0.1, **_SMALL)),
    "overlap": Preset(
        {**COARSE, **_OVERLAP},
        Field(16_000, 400, 0.1, spread=1.0, mz=(500.0, 500.5), time=(0.0, 600.0), apart=4.0),
        least_ari=0.96,
        count_error=0.05,
    ),
    "charge6": Preset({**COARSE, "SelectedInputLabel": 6}, Field(5_000, 850, charge=6)),
    "charge5": Preset({**COARSE, "SelectedInputLabel": 5}, Field(16_747, 2_800, charge=5)),
    "charge5-clumped": Preset({**COARSE, "SelectedInputLabel": 5}, Field(16_747, 2_800, charge=5, clumped=True)),
    "charge2": Preset(COARSE, Field(241_605, 24_500)),
    "charge2-clumped": Preset(COARSE, Field(241_605, 24_500, clumped=True)),
    "original": Preset({"SelectedInputLabel": 5}, Field(16_747, 2_800, charge=5), count_error=0.05),
}
"""Presets by name.

Charge 2 and 5 have the numbers of points and clusters of the study (for charge 5 it prints 28k clusters, which is more
than points, and is read as 2.8k). The size of charge 6 is not published; this one is ours. `original` has the settings
of the original program.
"""
