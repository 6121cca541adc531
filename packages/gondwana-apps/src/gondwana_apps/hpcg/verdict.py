"""The rating of a run: rates as HPCG 3.1 calculates them, the last lines of the result file, the result as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gondwana_apps.hpcg import model
from gondwana_apps.hpcg.parameters import Parameters
from gondwana_apps.hpcg.phases import Outcome

OFFICIAL_SECONDS = 1800
_SHARE = 10.0
"""Set-up and optimisation count as if ten sets were solved with them."""


@dataclass(frozen=True)
class Rates:
    """Rates in GFLOP/s and GB/s, by kernel and in all.

    Attributes:
        operations: operations of all sets.
        read, written: bytes of all sets by the benchmark's model.
        convergence: share of the iterations that counts.
        seconds: duration of all sets.
        charged: duration with the shares of set-up and optimisation.
        charged_old: duration with that of the optimisation only (version 2.4).
        moved: least bytes that the optimised path moves, all ranks.
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
        """The result as version 2.4 defined it [GFLOP/s]."""
        return self.operations.total * self.convergence / self.charged_old / 1e9

    @property
    def raw(self) -> float:
        """Operations over time [GFLOP/s]."""
        return self.operations.total / self.seconds / 1e9


def rates(outcome: Outcome) -> Rates:
    """Calculate the rates of a run. Local."""
    sets, iterations = len(outcome.residuals), outcome.iterations
    read, written = model.model_bytes(outcome.sizes, sets, iterations)
    seconds = outcome.times["total"]
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


def summary(outcome: Outcome, rates: Rates) -> list[tuple[str, Any]]:
    """Return the last section of the result file. Local."""
    if not outcome.valid:
        return [
            ("HPCG result is", "INVALID."),
            ("Please review the YAML file contents", "You may NOT submit these results for consideration."),
        ]
    found: list[tuple[str, Any]] = [
        ("HPCG result is VALID with a GFLOP/s rating of", rates.rating),
        ("HPCG 2.4 rating for historical reasons is", rates.rating_old),
    ]
    if rates.seconds >= OFFICIAL_SECONDS:
        return [*found, ("Please upload results from the YAML file contents to", "http://hpcg-benchmark.org")]
    found.append(("Results are valid but execution time (sec) is", rates.seconds))
    if outcome.quick:
        return [
            *found,
            ("You have selected the QuickPath option", "Results are official for legacy installed systems with "
             "confirmation from the HPCG Benchmark leaders."),
            ("After confirmation please upload results from the YAML file contents to", "http://hpcg-benchmark.org"),
        ]  # fmt: skip
    return [*found, ("Official results execution time (sec) must be at least", str(OFFICIAL_SECONDS))]


def result(parameters: Parameters, outcome: Outcome, rates: Rates) -> dict[str, Any]:
    """Return the result as JSON has it. Local."""
    times, done = outcome.times, rates.operations
    return {
        "app": "hpcg",
        "threads_working": outcome.threads,
        "local": list(outcome.geometry.local),
        "grid": list(outcome.geometry.grid),
        "valid": outcome.valid,
        "verified": outcome.verified,
        "rating_gflops": rates.rating,
        "raw_gflops": rates.raw,
        "iterations_reference": model.OFFICIAL_ITERATIONS,
        "iterations_optimised": outcome.iterations,
        "bandwidth_gb_s": over(rates.moved, rates.seconds),
        "seconds": rates.seconds,
        "sets": len(outcome.residuals),
        "seconds_by_kernel": times,
        "gflops_by_kernel": {kernel: over(amount, times[kernel]) for kernel, amount in asdict(done).items()},
        "seconds_setup": outcome.seconds_setup,
        "seconds_optimise": outcome.seconds_optimise,
        "seconds_compile": outcome.seconds_compile,
        "scaled_residual_reference": outcome.reference_residual,
        "scaled_residual": outcome.residuals[-1],
        "symmetry_relative": outcome.symmetry.strict,
        "config": asdict(parameters),
    }
