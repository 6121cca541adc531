"""Rates of a run, as the benchmark calculates them (HPCG 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from gondwana_apps.hpcg import model
from gondwana_apps.hpcg.phases import Outcome

_SHARE = 10.0
"""Set-up and optimisation count as if ten sets were solved with them."""


@dataclass(frozen=True)
class Rates:
    """Rates in GFLOP/s and GB/s, by kernel and in all.

    Attributes:
        operations: of all sets.
        read, written: bytes of all sets by the benchmark's model.
        convergence: the part of the iterations that counts.
        seconds: of all sets.
        charged: the same with the shares of set-up and optimisation.
        charged_old: with that of the optimisation only (version 2.4).
        moved: bytes that the optimised path moves at least, all ranks.
    """

    operations: model.Operations
    read: float
    written: float
    convergence: float
    seconds: float
    charged: float
    charged_old: float
    moved: float

    @property
    def rating(self) -> float:
        """The result of the benchmark [GFLOP/s]."""
        return self.operations.total * self.convergence / self.charged / 1e9

    @property
    def rating_old(self) -> float:
        """The result as version 2.4 had it [GFLOP/s]."""
        return self.operations.total * self.convergence / self.charged_old / 1e9

    @property
    def raw(self) -> float:
        """Operations over time [GFLOP/s]."""
        return self.operations.total / self.seconds / 1e9


def rates(outcome: Outcome) -> Rates:
    """Calculate the rates of a run. Local."""
    sets, iterations = len(outcome.residuals), outcome.iterations
    read, written = model.model_bytes(outcome.sizes, sets, iterations)
    seconds = outcome.times.total
    return Rates(
        model.operations(outcome.sizes, sets, iterations),
        read,
        written,
        model.OFFICIAL_ITERATIONS / iterations,
        seconds,
        seconds + sets * (outcome.seconds_optimise + outcome.seconds_setup) / _SHARE,
        seconds + sets * outcome.seconds_optimise / _SHARE,
        sets * iterations * model.moved_bytes(outcome.stored, [level.rows for level in outcome.sizes[1:]]),
    )


def over(amount: float, seconds: float) -> float:
    """Return 1e9 a second; 0 if no time was measured. Local."""
    return amount / seconds / 1e9 if seconds > 0.0 else 0.0
