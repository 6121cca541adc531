"""Presets: settings, the points that go with them if no file is given, and what is expected of the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Field:
    """Points to generate: peaks of clusters and uniform background.

    Attributes:
        points: their number, background included.
        clusters: number of clusters.
        background: share of background points.
        spread: standard deviation of members in units of sigma.
        mz: range of axis 0 [Th].
        time: range of axis 1 [s].
        widths: sigma: relative along axis 0, along axis 1.
        apart: smallest distance of two centres in units of sigma.
        clumped: put masses where those of peptides are: close to multiples of 1.0005 over the charge.
        charge: the label of all lines.
        geometric: sizes 1 + geometric instead of 2 + Poisson.
        varying: factor between the spread of the widest and the narrowest clusters.
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
    varying: float = 1.0


@dataclass(frozen=True)
class Preset:
    """A named run.

    Attributes:
        settings: keys that differ from the defaults.
        field: the points.
        least_ari: the adjusted Rand index that counts as verified.
        count_error: the relative error of the number of clusters that does.
    """

    settings: dict[str, Any]
    field: Field
    least_ari: float = 0.99
    count_error: float = 0.01
    notes: tuple[str, ...] = field(default=())


_FAST: dict[str, Any] = {
    "InitialCoolingFactor1": 0.95,
    "InitialCoolingFactor2": 0.95,
    "FineCoolingFactor1": 0.95,
    "FineCoolingFactor2": 0.95,
    "WaitIterationsConverge": 1,
    "MaxNumberSplitClusters": 1_000_000,
    "TemperatureForClosenessTest": 1e9,
    "TooSmallToSplit": 2.5,
    "Tminimum": 0.5,
    "SelectedInputLabel": 2,
}
"""Coarser cooling than the original's, without its limits on splits at one time, and copies merged while they appear."""

PRESETS: dict[str, Preset] = {
    "tiny": Preset(_FAST, Field(250, 20, 0.1, mz=(500.0, 509.0), time=(0.0, 2350.0))),
    "small": Preset(_FAST, Field(2800, 280, 0.1, mz=(500.0, 509.0), time=(0.0, 2350.0))),
    "charge5": Preset({**_FAST, "SelectedInputLabel": 5}, Field(16_747, 2_800, charge=5)),
    "charge2": Preset(_FAST, Field(241_605, 24_500)),
}
"""By name."""
