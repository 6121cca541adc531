"""MG on one rank against plain NumPy, and what is decided before anything runs."""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.mg import app, charges
from gondwana_apps.npb.mg.blocks import VARIANTS
from gondwana_apps.npb.mg.division import Division, Plan, process_grid
from gondwana_apps.npb.mg.multigrid import Multigrid
from gondwana_apps.npb.mg.pipelined import Pipelined
from gondwana_apps.npb.mg.problem import PROBLEMS, SMOOTHER_A, SMOOTHER_B, MGProblem
from support import npb_mg_oracle as oracle


def solver_of(kind, cells, smoother=SMOOTHER_A, variant="6msg"):
    problem = MGProblem("U", cells, 2, smoother)
    timers = Sections(gw.world, app.BENCHMARK.sections, enabled=True)
    return kind(problem, gw.world, Plan.of(problem.levels, 1, 4), variant, timers)


@pytest.mark.parametrize("kind", [Multigrid, Pipelined])
@pytest.mark.parametrize(("smoother", "weights"), [(SMOOTHER_A, oracle.S_A), (SMOOTHER_B, oracle.S_B)])
@pytest.mark.parametrize("cells", [4, 8, 32])
def test_u_and_r_are_those_of_plain_numpy(kind, smoother, weights, cells) -> None:
    solver = solver_of(kind, cells, smoother)
    v = oracle.charges(cells)
    solver.start()
    assert np.array_equal(solver.levels[0].v.local.shrink(1).numpy(), v)
    solver.first_residual()
    for _ in range(3):
        solver.iterate()
    u, r = oracle.solve(v, weights, 3)
    finest = solver.levels[0]
    np.testing.assert_allclose(finest.u.local.shrink(1).numpy(), u, rtol=0, atol=1e-13)
    np.testing.assert_allclose(finest.r.local.shrink(1).numpy(), r, rtol=0, atol=1e-13)
    assert solver.norm() == pytest.approx(oracle.norm(r), rel=1e-10)


def test_fused_sweeps_have_the_same_bits() -> None:
    found = []
    for kind in (Multigrid, Pipelined):
        solver = solver_of(kind, 16)
        solver.start()
        solver.first_residual()
        solver.iterate()
        found.append([x.local.numpy().tobytes() for level in solver.levels for x in (level.u, level.r)])
    assert found[0] == found[1]


def test_one_rank_needs_no_variant() -> None:
    norms = []
    for variant in VARIANTS:
        solver = solver_of(Multigrid, 8, variant=variant)
        solver.start()
        solver.first_residual()
        solver.iterate()
        norms.append(solver.norm())
    assert norms[0] == norms[1]


@pytest.mark.parametrize("cells", [8, 16])
def test_charges_do_not_depend_on_the_division(cells) -> None:
    ordered = sorted(charges.extremes(gw.RectDomain((0,) * 3, (cells,) * 3), cells))
    parts = [
        one for box in gw.RectDomain((0,) * 3, (cells,) * 3).blocks((3, 1, 2)) for one in charges.extremes(box, cells)
    ]
    assert [sorted(parts)[n] for n in (*range(10), *range(-10, 0))] == ordered
    v = np.zeros((cells,) * 3)
    for n, (_, point) in enumerate(ordered):
        v[point] = -1.0 if n < 10 else 1.0
    assert np.array_equal(v, oracle.charges(cells))
    assert oracle.norm(v) == pytest.approx(math.sqrt(20 / cells**3))


def test_extremes_of_tiny_and_empty_boxes() -> None:
    box = gw.RectDomain((1, 2, 3), (3, 4, 5))
    assert sorted(point for _, point in charges.extremes(box, 8)) == sorted(map(tuple, box))
    assert charges.extremes(gw.RectDomain((0,) * 3, (0,) * 3), 8) == []


def test_process_grids_are_the_official_ones_for_powers_of_two() -> None:
    official = {1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2), 16: (4, 2, 2), 32: (4, 4, 2), 64: (4, 4, 4)}
    assert {ranks: process_grid(ranks) for ranks in official} == official
    assert process_grid(3) == (3, 1, 1)
    assert math.prod(process_grid(6)) == 6


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 6, 7, 8, 12, 16])
def test_blocks_cover_each_level_and_a_coarse_cell_lies_with_its_fine_ones(ranks) -> None:
    plan = Plan.of(6, ranks, 4)
    divisions = [Division(1 << k, plan.grid, 1 << plan.coarsest) for k in range(6, plan.coarsest - 1, -1)]
    for fine, coarse in itertools.pairwise(divisions):
        for rank in range(plan.ranks):
            assert fine.owned(rank) == gw.RectDomain(coarse.owned(rank).lo * 2, coarse.owned(rank).hi * 2)
    for division in divisions:
        boxes = [division.owned(rank) for rank in range(plan.ranks)]
        assert all(boxes)
        assert sum(box.size for box in boxes) == division.cells**3
        assert division.owned(plan.ranks).is_empty


def test_ranks_without_work() -> None:
    assert Plan.of(3, 8, 4).ranks == 8
    assert Plan.of(3, 9, 4).ranks == 8  # nine blocks of eight cells a side would be too thin
    assert Plan.of(3, 12, 4).ranks == 8
    assert Plan.of(2, 6, 4) == Plan((1, 1, 1), 1)


def test_levels_of_one_rank() -> None:
    assert Plan.of(8, 2, 4).coarsest == 2  # levels 8 to 3 are divided: 8 cells in two parts of 4
    assert Plan.of(8, 2, 64).coarsest == 6
    assert Plan.of(8, 8, 2).coarsest == 1


def test_problems_and_their_rule() -> None:
    assert [problem.letter for problem in PROBLEMS.values()] == list("SWABCDEF")
    assert PROBLEMS["A"].levels == 8
    assert round(app.BENCHMARK.mops(PROBLEMS["B"]), 1) == 19461.6
    norm = PROBLEMS["S"].norm
    assert norm is not None
    assert PROBLEMS["S"].verified(norm * (1 + 0.9e-8))
    assert not PROBLEMS["S"].verified(norm * (1 + 1.1e-8))
    assert PROBLEMS["S"].verified(math.nan) is False
    assert replace(PROBLEMS["S"], norm=None).verified(1.0) is None


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("--class Q", "there is no --class Q: legal are S, W, A, B, C, D, E, F"),
        ("--variant 7msg", "there is no --variant 7msg: legal are 6msg, 26msg"),
        ("--side 1", "--side 1: legal are 2 to 32"),
        ("--class S --side 33", "--side 33: legal are 2 to 32"),
        ("--class F", "--class F needs"),
    ],
)
def test_what_cannot_run_is_one_line(arguments, what) -> None:
    with pytest.raises(UsageError, match=what) as error:
        app.check(arguments.split(), 2)
    assert "\n" not in str(error.value)


def test_memory_is_that_of_the_arrays() -> None:
    options = argparse.Namespace(side=4)
    needs = app.BENCHMARK.needs(PROBLEMS["C"], options, 1)
    assert 3.5e9 < needs < 3.9e9
