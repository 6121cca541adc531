"""What a run is worth: the last lines of the result file, and the result as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import gondwana as gw
from gondwana_apps.hpcg import model
from gondwana_apps.hpcg.parameters import Parameters
from gondwana_apps.hpcg.phases import Outcome
from gondwana_apps.hpcg.rates import Rates, over

OFFICIAL_SECONDS = 1800


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
        "version": gw.__version__,
        "ranks": len(outcome.reductions),
        "threads": gw.threads(),
        "threads_working": outcome.threads,
        "device": "host",
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
        "seconds_by_kernel": asdict(times),
        "gflops_by_kernel": {
            "dot": over(done.dot, times.dot),
            "combine": over(done.combine, times.combine),
            "multiply": over(done.multiply, times.multiply),
            "precondition": over(done.precondition, times.precondition),
        },
        "seconds_setup": outcome.seconds_setup,
        "seconds_optimise": outcome.seconds_optimise,
        "seconds_compile": outcome.seconds_compile,
        "scaled_residual_reference": outcome.reference_residual,
        "scaled_residual": outcome.residuals[-1],
        "symmetry_relative": outcome.symmetry.strict,
        "config": asdict(parameters),
    }
