"""Verification: means printed by the original program, and the conservation of heat in the last step."""

from __future__ import annotations

from typing import NamedTuple

from gondwana_apps.heat.settings import OPTIONS, Settings
from gondwana_apps.heat.simulation import Balance

TOLERANCE = 1e-10
"""Relative difference from the original program: its sums have another order."""
BALANCE = 1e-10
"""Largest deviation of the heat from conservation, relative to all heat that is or was there."""

GOLDEN = {
    (20, 10): 28910001.659627,
    (20, 100): 101705231.273039,
    (20, 1000): 226372573.760934,
    (20, 10000): 132848459.167244,
    (100, 10): 5808348.947955,
    (100, 100): 21452388.032534,
    (100, 1000): 58583907.520696,
    (100, 10000): 135304050.230331,
    (200, 10): 2905829.475261,
    (200, 100): 10799013.696056,
    (200, 1000): 30229622.441892,
    (200, 10000): 77422551.027710,
}
"""Output of the original at the last step for cubes of an edge, by edge and N; all else at its default."""


class Verdict(NamedTuple):
    """Whether a run is right.

    Attributes:
        verified: True or False.
        reason: one line for people.
    """

    verified: bool
    reason: str


def verify(settings: Settings, value: float, balance: Balance) -> Verdict:
    """Compare a run with the original program's, if that is known, and with the conservation of heat. Local.

    Args:
        settings: settings of the run.
        value: 10^9 times the mean temperature before the last step.
        balance: balance of the last step.
    """
    if not balance.error <= BALANCE:
        return Verdict(
            False, f"WRONG: the last step adds {balance.after - balance.before:.12g}, not {balance.added:.12g}"
        )
    conserved = f"the last step conserves heat to {balance.error:.1e}"
    expected = golden(settings)
    if expected is None:
        return Verdict(True, f"verified: {conserved}; the original's value for these settings is not known")
    if not abs(value - expected) <= TOLERANCE * expected:
        return Verdict(False, f"WRONG: the mean is {value:.6f}, the original program's is {expected:.6f}")
    return Verdict(True, f"verified: the mean agrees with the original program's to {TOLERANCE:g}; {conserved}")


def golden(settings: Settings) -> float | None:
    """Return the output of the original program at the last step, None if unknown. Local.

    Example:
        >>> golden(Settings(X=20, Y=20, Z=20, N=10))
        28910001.659627
    """
    defaults = Settings()
    physics = [name for name in OPTIONS if name not in ("X", "Y", "Z", "N", "I")]
    cube = settings.X == settings.Y == settings.Z
    same = all(getattr(settings, name) == getattr(defaults, name) for name in physics)
    return GOLDEN.get((settings.X, settings.N)) if cube and same else None
