"""A run of the benchmark: its phases in their order (HPCG 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

import gondwana as gw
from gondwana_apps.hpcg import model, problem, validation
from gondwana_apps.hpcg.grid import Geometry, Triple, geometry
from gondwana_apps.hpcg.parameters import SMALLEST, Parameters
from gondwana_apps.hpcg.reference import Reference
from gondwana_apps.hpcg.solution import PARTS
from gondwana_apps.hpcg.solver import Optimised

MOST_ITERATIONS = 500
REORDERING = 1.0 + 1e-6
"""Factor by which the residual of an optimised path may exceed that of the reference."""
_REPETITIONS = 10


@dataclass
class Outcome:
    """The results of the phases.

    Attributes:
        sizes: sizes of all levels.
        sent: entries that this rank sends on each level.
        geometry: geometry of this rank.
        quick: whether every phase is done once.
        seconds_compile: time to compile or load the kernels, which no phase counts.
        seconds_setup: duration of the set-up of the problem.
        threads: threads of a rank that work in the optimised path.
        stored: rows of each level in the optimised path, of all ranks, including those that fill waves up.
        seconds_optimise: duration of the conversion for the optimised path.
        seconds_reference: duration of one product and one cycle of the reference.
        optimised_bytes: memory of the optimised path, of all ranks.
        reference_residual: scaled residual after the iterations of the reference.
        spectral, symmetry, norms: results of the tests.
        reached: whether the optimised path came to the residual of the reference.
        iterations: iterations of a set.
        residuals: scaled residual of each set.
        times: seconds of each of `PARTS`, of all sets.
        reductions: seconds in reductions, of every rank.
    """

    sizes: list[model.Sizes]
    sent: list[int]
    geometry: Geometry
    quick: bool
    seconds_compile: float
    seconds_setup: float
    threads: int = 1
    stored: list[int] = field(default_factory=list)
    seconds_optimise: float = 0.0
    seconds_reference: float = 0.0
    optimised_bytes: int = 0
    reference_residual: float = 0.0
    spectral: validation.Spectral = field(default_factory=validation.Spectral)
    symmetry: validation.Symmetry = field(default_factory=validation.Symmetry)
    norms: validation.Norms = field(default_factory=validation.Norms)
    reached: bool = False
    iterations: int = model.OFFICIAL_ITERATIONS
    residuals: list[float] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    reductions: list[float] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """Whether the benchmark calls the run valid."""
        return self.spectral.passed and self.symmetry.passed and self.norms.passed and self.reached

    @property
    def verified(self) -> bool:
        """Whether it also passes our own tests: real symmetry, and the exact product for the exact solution."""
        return self.valid and self.symmetry.strict <= validation.STRICT and self.symmetry.residual == 0.0


def run(parameters: Parameters, team: gw.Team) -> Outcome:
    """Run all phases. Collective over team.

    Args:
        parameters: parameters of the run.
        team: all ranks.
    """
    grid = parameters.grid_of(team.size)
    seconds_compile = _warm_up(team, grid)
    started = perf_counter()
    system = problem.build(team, geometry(team.rank, grid, parameters.local, parameters.zones))
    team.barrier()
    outcome = Outcome(
        model.sizes(system.levels),
        [len(level.halo.sent) for level in system.levels],
        system.levels[0].geometry,
        parameters.seconds == 0,
        seconds_compile,
        perf_counter() - started,
    )
    _run_reference(system, outcome)
    started = perf_counter()
    solver = Optimised(system)
    solver.choose_threads(gw.threads())
    team.barrier()
    outcome.seconds_optimise = perf_counter() - started
    outcome.threads = solver.threads
    outcome.stored = [team.allreduce(int(rows)) for rows in np.diff(solver.matrices.first)]
    outcome.optimised_bytes = team.allreduce(solver.nbytes)
    outcome.spectral = validation.spectral(solver)
    outcome.symmetry = validation.symmetry(solver)
    sets = _choose_sets(solver, outcome, parameters.seconds)
    _run_sets(solver, outcome, sets)
    outcome.norms = validation.norms(outcome.residuals)
    return outcome


def _warm_up(team: gw.Team, grid: Triple) -> float:
    """Compile or load all kernels by a small run; return the seconds."""
    started = perf_counter()
    system = problem.build(team, geometry(team.rank, grid, (SMALLEST, SMALLEST, SMALLEST)))
    Reference(system).solve(system.right, np.zeros(system.levels[0].columns), 1)
    Optimised(system, gw.threads()).solve(system.right, np.zeros(system.levels[0].rows), 1)
    team.barrier()
    return perf_counter() - started


def _run_reference(system: problem.System, outcome: Outcome) -> None:
    """Time a product and a cycle of the reference, then solve with it."""
    reference, finest = Reference(system), system.levels[0]
    repetitions = 1 if outcome.quick else _REPETITIONS
    generator = np.random.default_rng(finest.geometry.rank)
    x, y, z = 1.0 + generator.random(finest.columns), np.zeros(finest.rows), np.zeros(finest.columns)
    started = perf_counter()
    for _ in range(repetitions):
        reference.multiply(x, y)
        reference.precondition(y, z)
    outcome.seconds_reference = (perf_counter() - started) / repetitions
    x[:] = 0.0
    outcome.reference_residual = reference.solve(system.right, x, model.OFFICIAL_ITERATIONS).scaled


def _choose_sets(solver: Optimised, outcome: Outcome, seconds: int) -> int:
    """Solve once to the residual of the reference; return the number of sets that fill the timed phase."""
    system = solver.system
    tolerance = outcome.reference_residual * REORDERING
    solution = solver.solve(system.right, np.zeros(system.levels[0].rows), MOST_ITERATIONS, tolerance)
    outcome.reached = solution.scaled <= tolerance
    outcome.iterations = max(solution.iterations, model.OFFICIAL_ITERATIONS)
    slowest: float = max(system.team.allgather(solution.times["total"]))
    return int(seconds / slowest) + 1 if seconds else 1


def _run_sets(solver: Optimised, outcome: Outcome, sets: int) -> None:
    system = solver.system
    x = np.zeros(system.levels[0].rows)
    with gw.ProgressBar(system.team, "hpcg: sets", sets) as progress:
        for number in range(sets):
            x[:] = 0.0
            solution = solver.solve(system.right, x, outcome.iterations)
            for part in PARTS:
                outcome.times[part] += solution.times[part]
            outcome.residuals.append(solution.scaled)
            progress.show(number + 1)
    outcome.reductions = system.team.allgather(outcome.times["reduce"])
