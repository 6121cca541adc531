"""HPCG on all ranks: exchange, kernels against dense matrices, and the whole benchmark. One JSON line per check."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

import numpy as np
from checks import run_checks

sys.path.insert(0, str(Path(__file__).parents[5] / "tests"))

from gondwana.teams import world
from gondwana_apps.hpcg import phases, problem
from gondwana_apps.hpcg.grid import choose_grid, geometry
from gondwana_apps.hpcg.parameters import Parameters
from gondwana_apps.hpcg.reference import Reference, update
from gondwana_apps.hpcg.solver import Optimised
from support import hpcg_oracle

GRID = choose_grid(world.size)
SIDE = 8
SYSTEM = problem.build(world, geometry(world.rank, GRID, (SIDE, SIDE, SIDE)))


def numbers(level, rank=world.rank):
    """The global numbers of the rows of a rank."""
    place = geometry(rank, GRID, (SIDE >> level,) * 3)
    return hpcg_oracle.numbers(place)


@functools.cache
def outside(level):
    """The global numbers of what comes from other ranks: all points that touch own ones, by rank and number."""
    own = numbers(level)
    touched = np.flatnonzero(hpcg_oracle.stencil(SYSTEM.levels[level].geometry.shape)[own].any(axis=0))
    touched = np.setdiff1d(touched, own)
    owners, _ = SYSTEM.levels[level].geometry.locate(touched)
    return touched[np.lexsort((touched, owners))]


def check_exchanges_in_a_row():
    """Nobody overwrites what another rank has not read: ranks dawdle in turns, and levels are mixed."""
    generator = np.random.default_rng(5)
    order = generator.integers(0, problem.LEVELS, 60)
    sleepers = generator.integers(0, world.size, 60)
    for turn, (level, sleeper) in enumerate(zip(order, sleepers, strict=True)):
        expected = 1000.0 * turn + outside(int(level))
        own = 1000.0 * turn + numbers(level)
        vector = np.concatenate([own, np.zeros(len(expected))])
        if sleeper == world.rank and turn % 3 == 0:
            time.sleep(0.003)
        update(SYSTEM.levels[level].halo, vector)
        assert np.array_equal(vector[len(own) :], expected), (turn, level)


def check_product_and_cycle_against_dense_matrices():
    generator = np.random.default_rng(7)
    dense, blocks, fine = [], [], [np.empty(0, int)]
    for level in range(problem.LEVELS):
        dense.append(hpcg_oracle.stencil(SYSTEM.levels[level].geometry.shape))
        blocks.append([numbers(level, rank) for rank in range(world.size)])
    for level in range(1, problem.LEVELS):
        under = np.zeros(len(dense[level]), int)
        for rank in range(world.size):
            place = geometry(rank, GRID, (SIDE >> level,) * 3)
            x, y, z = np.unravel_index(numbers(level, rank), place.shape, order="F")
            under[numbers(level, rank)] = np.ravel_multi_index(
                (2 * x, 2 * y, 2 * z), tuple(2 * side for side in place.shape), order="F"
            )
        fine.append(under)
    right = generator.random(len(dense[0]))
    own = numbers(0)
    cases = {"multiply": dense[0] @ right, "precondition": hpcg_oracle.cycle(dense, blocks, fine, right)}
    for path in Reference(SYSTEM), Optimised(SYSTEM), Optimised(SYSTEM, 2):
        for name, expected in cases.items():
            x = np.zeros(SYSTEM.levels[0].columns if isinstance(path, Reference) else len(own))
            y = np.zeros_like(x)
            x[: len(own)] = right[own]
            if name == "multiply":
                path.multiply(x, y[: len(own)])
            else:
                path.precondition(x[: len(own)], y)
            difference = np.abs(y[: len(own)] - expected[own]).max()
            assert difference < 1e-12, (type(path).__name__, name, difference)


def check_conjugate_gradients_without_preconditioner_are_those_of_one_rank():
    """The preconditioner works inside of ranks, so only without it the iterations are the same for any number."""
    a = hpcg_oracle.stencil(SYSTEM.levels[0].geometry.shape)
    r = a.sum(axis=1)
    p, first, rtr = r.copy(), r @ r, r @ r
    for _ in range(12):
        ap = a @ p
        alpha = rtr / (p @ ap)
        r = r - alpha * ap
        before, rtr = rtr, r @ r
        p = r + rtr / before * p
    expected = (rtr / first) ** 0.5
    for path in Reference(SYSTEM), Optimised(SYSTEM):
        x = np.zeros(SYSTEM.levels[0].columns)
        x = x if isinstance(path, Reference) else x[: SIDE**3]
        found = path.solve(SYSTEM.right, x, 12, preconditioned=False).scaled
        assert abs(found / expected - 1.0) < 1e-10, (type(path).__name__, found, expected)


def check_the_whole_benchmark_is_valid():
    outcome = phases.run(Parameters((16, 16, 16), 0), world)
    assert outcome.valid, outcome
    assert outcome.verified, outcome
    assert outcome.iterations in (50, 51, 52), outcome.iterations
    assert len(outcome.reductions) == world.size
    everywhere = world.allgather((outcome.iterations, outcome.residuals, outcome.reference_residual))
    assert all(found == everywhere[0] for found in everywhere)


if __name__ == "__main__":
    run_checks(globals())
