"""The result file and the log of a run, with the keys of HPCG 3.1 in their order."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from gondwana.results import write_text
from gondwana_apps.hpcg import model, verdict
from gondwana_apps.hpcg.phases import Outcome
from gondwana_apps.hpcg.validation import EXPECTED_PLAIN, EXPECTED_PRECONDITIONED
from gondwana_apps.hpcg.verdict import Rates, over

Value: TypeAlias = "str | float | list[tuple[str, Value]]"
Item: TypeAlias = "tuple[str, Value]"

RELEASE = "March 28, 2019"
_KERNELS = {"DDOT": "dot", "WAXPBY": "combine", "SpMV": "multiply", "MG": "precondition"}
_SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"


def lines(outcome: Outcome, rates: Rates) -> list[str]:
    """Return the lines of the result file. Local.

    Args:
        outcome: outcome of the phases.
        rates: rates of the outcome.
    """
    sections: list[Item] = [
        ("version", "3.1"),
        ("Release date", RELEASE),
        *_machine(outcome),
        *_problem(outcome),
        *_memory(outcome),
        *_tests(outcome),
        *_performance(outcome, rates),
        ("User Optimization Overheads", [
            ("Optimization phase time (sec)", outcome.seconds_optimise),
            ("Optimization phase time vs reference SpMV+MG time", outcome.seconds_optimise / outcome.seconds_reference),
        ]),
        ("DDOT Timing Variations", [
            ("Min DDOT MPI_Allreduce time", min(outcome.reductions)),
            ("Max DDOT MPI_Allreduce time", max(outcome.reductions)),
            ("Avg DDOT MPI_Allreduce time", sum(outcome.reductions) / len(outcome.reductions)),
        ]),
        ("Final Summary", verdict.summary(outcome, rates)),
    ]  # fmt: skip
    return ["HPCG-Benchmark", *_flat(sections)]


def log(outcome: Outcome) -> list[str]:
    """Return the lines of the log. Local."""
    found = []
    for number, (iterations, residual) in enumerate(outcome.spectral.plain):
        found.append("WARNING: PERFORMING UNPRECONDITIONED ITERATIONS")
        found.append(f"Call [{number}] Number of Iterations [{iterations}] Scaled Residual [{residual:.6g}]")
    for number, (iterations, residual) in enumerate(outcome.spectral.preconditioned):
        found.append(f"Call [{number}] Number of Iterations [{iterations}] Scaled Residual [{residual:.6g}]")
    symmetry = outcome.symmetry
    found.append(f"Departure from symmetry (scaled) for SpMV abs(x'*A*y - y'*A*x) = {symmetry.multiply:.6g}")
    found.append(f"Departure from symmetry (scaled) for MG abs(x'*Minv*y - y'*Minv*x) = {symmetry.precondition:.6g}")
    found += [f"SpMV call [{number}] Residual [{symmetry.residual:.6g}]" for number in range(2)]
    found += [f"Call [{n}] Scaled Residual [{residual:.6g}]" for n, residual in enumerate(outcome.residuals)]
    return found


def write(outcome: Outcome, rates: Rates) -> Path:
    """Write the result and the log into the current folder. Local.

    Returns:
        The name of the result file.

    Raises:
        ResultError: the files cannot be written.
    """
    now = datetime.datetime.now()
    result = Path(f"HPCG-Benchmark_3.1_{now:%Y-%m-%d_%H-%M-%S}.txt")
    write_text(result, "\n".join(lines(outcome, rates)) + "\n")
    write_text(f"hpcg{now:%Y%m%dT%H%M%S}.txt", "\n".join(log(outcome)) + "\n")
    return result


def _flat(items: list[Item], prefix: str = "") -> Iterator[str]:
    for key, value in items:
        if isinstance(value, list):
            yield f"{prefix}{key}="
            yield from _flat(value, f"{prefix}{key}::")
        else:
            yield f"{prefix}{key}={value:.6g}" if isinstance(value, float) else f"{prefix}{key}={value}"


def _banner(title: str) -> Item:
    return f"########## {title} ##########", ""


def _machine(outcome: Outcome) -> list[Item]:
    geometry = outcome.geometry
    zones = geometry.zones
    heights: list[tuple[int, int, int]] = [(0, min(zones.ranks, geometry.grid[2]) - 1, zones.lower)]
    if zones.ranks < geometry.grid[2]:
        heights.append((zones.ranks, geometry.grid[2] - 1, zones.upper))
    local: list[Item] = [("nx", str(geometry.local[0])), ("ny", str(geometry.local[1]))]
    for low, high, height in heights:
        local += [("Lower ipz", str(low)), ("Upper ipz", str(high)), ("nz", str(height))]
    return [
        ("Machine Summary", [
            ("Distributed Processes", str(len(outcome.reductions))),
            ("Threads per processes", str(outcome.threads)),
        ]),
        ("Global Problem Dimensions", [
            (f"Global n{axis}", str(n)) for axis, n in zip("xyz", geometry.shape, strict=True)
        ]),
        ("Processor Dimensions", [(f"np{axis}", str(n)) for axis, n in zip("xyz", geometry.grid, strict=True)]),
        ("Local Domain Dimensions", local),
    ]  # fmt: skip


def _problem(outcome: Outcome) -> list[Item]:
    coarse: list[Item] = []
    for number, level in enumerate(outcome.sizes[1:], 1):
        coarse += [("Grid Level", str(number)), *_equations(level)]
        coarse += [("Number of Presmoother Steps", "1"), ("Number of Postsmoother Steps", "1")]
    return [
        _banner("Problem Summary "),
        ("Setup Information", [("Setup Time", outcome.seconds_setup)]),
        ("Linear System Information", _equations(outcome.sizes[0])),
        ("Multigrid Information", [
            ("Number of coarse grid levels", str(len(outcome.sizes) - 1)),
            ("Coarse Grids", coarse),
        ]),
    ]  # fmt: skip


def _equations(level: model.Sizes) -> list[Item]:
    return [("Number of Equations", str(level.rows)), ("Number of Nonzero Terms", str(level.nonzeros))]


def _memory(outcome: Outcome) -> list[Item]:
    ranks = len(outcome.reductions)
    used = model.memory(outcome.sizes, ranks, outcome.sent, len(outcome.residuals))
    total = sum(used) + outcome.optimised_bytes
    coarse: list[Item] = []
    for number, size in enumerate(used[1:], 1):
        coarse += [("Grid Level", str(number)), ("Memory used", size / 1e9)]
    return [
        _banner("Memory Use Summary "),
        ("Memory Use Information", [
            ("Total memory used for data (Gbytes)", total / 1e9),
            ("Memory used for OptimizeProblem data (Gbytes)", outcome.optimised_bytes / 1e9),
            ("Bytes per equation (Total memory / Number of Equations)", total / outcome.sizes[0].rows),
            ("Memory used for linear system and CG (Gbytes)", used[0] / 1e9),
            ("Coarse Grids", coarse),
        ]),
    ]  # fmt: skip


def _tests(outcome: Outcome) -> list[Item]:
    spectral, symmetry, norms = outcome.spectral, outcome.symmetry, outcome.norms
    sets = len(outcome.residuals)
    return [
        _banner("V&V Testing Summary "),
        ("Spectral Convergence Tests", [
            ("Result", _passed(spectral.passed)),
            ("Unpreconditioned", _counts(spectral.most(spectral.plain), EXPECTED_PLAIN)),
            ("Preconditioned", _counts(spectral.most(spectral.preconditioned), EXPECTED_PRECONDITIONED)),
        ]),
        (_SYMMETRY, [
            ("Result", _passed(symmetry.passed)),
            ("Departure for SpMV", symmetry.multiply),
            ("Departure for MG", symmetry.precondition),
        ]),
        _banner("Iterations Summary "),
        ("Iteration Count Information", [
            ("Result", _passed(outcome.reached)),
            ("Reference CG iterations per set", str(model.OFFICIAL_ITERATIONS)),
            ("Optimized CG iterations per set", str(outcome.iterations)),
            ("Total number of reference iterations", str(sets * model.OFFICIAL_ITERATIONS)),
            ("Total number of optimized iterations", str(sets * outcome.iterations)),
        ]),
        _banner("Reproducibility Summary "),
        ("Reproducibility Information", [
            ("Result", _passed(norms.passed)),
            ("Scaled residual mean", norms.mean),
            ("Scaled residual variance", norms.variance),
        ]),
    ]  # fmt: skip


def _counts(most: int, expected: int) -> list[Item]:
    return [("Maximum iteration count", str(most)), ("Expected iteration count", str(expected))]


def _passed(passed: bool) -> str:
    return "PASSED" if passed else "FAILED"


def _performance(outcome: Outcome, rates: Rates) -> list[Item]:
    total, done, counted = outcome.times["total"], rates.operations, rates.convergence
    kernels = [(name, outcome.times[part], getattr(done, part)) for name, part in _KERNELS.items()]
    moved = rates.read + rates.written
    overheads = "Total with convergence and optimization phase overhead"
    return [
        _banner("Performance Summary (times in sec)"),
        ("Benchmark Time Summary", [
            ("Optimization phase", outcome.seconds_optimise),
            *((name, seconds) for name, seconds, _ in kernels),
            ("Total", total),
        ]),
        ("Floating Point Operations Summary", [
            *((f"Raw {name}", amount) for name, _, amount in kernels),
            ("Total", done.total),
            ("Total with convergence overhead", done.total * counted),
        ]),
        ("GB/s Summary", [
            ("Raw Read B/W", over(rates.read, total)),
            ("Raw Write B/W", over(rates.written, total)),
            ("Raw Total B/W", over(moved, total)),
            (overheads, over(moved * counted, rates.charged)),
        ]),
        ("GFLOP/s Summary", [
            *((f"Raw {name}", over(amount, seconds)) for name, seconds, amount in kernels),
            ("Raw Total", rates.raw),
            ("Total with convergence overhead", rates.raw * counted),
            (overheads, rates.rating),
        ]),
    ]  # fmt: skip
