"""How temperature, width and sponge depend on each other: the rules of annealing, without any data."""

from __future__ import annotations

import math

from gondwana_apps.davs.settings import Settings

START = 1.5
"""The first temperature over the mean of d2 to the centroid; the first split comes below the variance of one axis."""


def least_temperature(settings: Settings, first: float) -> float:
    """Return the temperature where splitting ends. Local.

    Args:
        settings: of the run.
        first: the first temperature.
    """
    return settings.Tminimum if settings.Tminimum > 0.0 else first / -settings.Tminimum


def cooling_factor(settings: Settings, temperature: float, *, fine: bool) -> float:
    """Return what the temperature is multiplied with. Local.

    Args:
        settings: of the run.
        temperature: the present one.
        fine: from the first to the last split.
    """
    s = settings
    if temperature >= s.CoolingTemperatureSwitch:
        return s.FineCoolingFactor1 if fine else s.InitialCoolingFactor1
    return max(s.FineCoolingFactor1, s.FineCoolingFactor2) if fine else s.InitialCoolingFactor2


def sponge_factor(settings: Settings, temperature: float, present: float | None = None) -> float:
    """Return the distance f of the sponge: linear in T from f_1 at T_1 to f_2 at T_2, constant outside. Local.

    Args:
        settings: of the run.
        temperature: T.
        present: f now, which stays if the settings have no second temperature or factor.

    Example:
        >>> from gondwana_apps.davs.settings import Settings
        >>> [sponge_factor(Settings(), T) for T in (20.0, 9.0, 6.0, 3.0, 1.0)]
        [12.0, 12.0, 7.5, 3.0, 3.0]
    """
    s = settings
    if s.SpongeTemperature2 < 0.0 or s.SpongeFactor2 < 0.0:
        return s.SpongeFactor1 if present is None else present
    if temperature <= s.SpongeTemperature2:
        return s.SpongeFactor2
    if temperature >= s.SpongeTemperature1:
        return s.SpongeFactor1
    share = (temperature - s.SpongeTemperature2) / (s.SpongeTemperature1 - s.SpongeTemperature2)
    return s.SpongeFactor2 + (s.SpongeFactor1 - s.SpongeFactor2) * share


def annealed_width(settings: Settings, width: float, before: float, after: float) -> float:
    """Return the width of axis 0 after a step of the temperature: its logarithm is linear in that of T. Local.

    Args:
        settings: of the run.
        width: at the temperature before.
        before: that temperature.
        after: the next one.
    """
    final, end = settings.FinalTargetSigma0, settings.FinalTargetTemperature
    if settings.SigmaMethod != 3:
        return width
    if after <= end or before <= end:
        return final
    slope = math.log(final / width) / math.log(end / before)
    return max(final, width * math.exp(slope * math.log(after / before)))
