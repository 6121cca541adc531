"""CG on one rank: its matrix, its product and its iteration against plain Python and NumPy, and what it refuses."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import gondwana as gw
from gondwana import results, solvers
from gondwana.errors import UsageError
from gondwana.solvers import slices
from gondwana_apps.npb.cg import app
from gondwana_apps.npb.cg.grid import Grid
from gondwana_apps.npb.cg.makea import make_matrix
from gondwana_apps.npb.cg.problem import PROBLEMS, CGProblem
from support import npb_cg_oracle as oracle

TRACE = {1: 9.998644157914, 2: 8.573327920322, 3: 8.595451037406, 4: 8.596997234074, 15: 8.5971775078648}
"""Zeta of class S by iteration, as published outputs have it."""
NEAR = {"rtol": 1e-13, "atol": 1e-13}


@functools.cache
def whole(letter: str) -> np.ndarray:
    return oracle.dense(PROBLEMS[letter])


def as_dense(a: solvers.Slices, block: tuple[gw.RectDomain, gw.RectDomain]) -> np.ndarray:
    """What a block holds, read without the code under test."""
    rows, columns = (domain.axes[0] for domain in block)
    dense = np.zeros((len(rows), len(columns)))
    row, start, base, value, column = (array.numpy() for array in a[2:])
    for part in range(a.panels * a.slices):
        for k in range(start[part], start[part + 1]):
            r = row[part * slices.ABREAST + (k - start[part]) % slices.ABREAST] - rows.start
            dense[r, base[part] + column[k] - columns.start] += value[k]
    return dense


def test_the_oracle_is_the_benchmark() -> None:
    zetas = oracle.zetas(whole("S"), PROBLEMS["S"])
    for iteration, zeta in TRACE.items():
        assert zetas[iteration - 1] == pytest.approx(zeta, rel=1e-11)


@pytest.mark.parametrize("panel", [2**15, 600, 333])
def test_the_matrix_is_that_of_the_benchmark(panel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "WIDEST", panel)
    block = Grid(1400, 0, 1).block
    a, nonzeros = make_matrix(PROBLEMS["S"], block)
    assert a.panels == math.ceil(1400 / panel)
    assert nonzeros == PROBLEMS["S"].nonzeros == np.count_nonzero(whole("S"))
    np.testing.assert_allclose(as_dense(a, block), whole("S"), **NEAR)


@pytest.mark.parametrize("letter", ["W", "A"])
def test_it_has_as_many_nonzeros_as_published(letter: str) -> None:
    problem = PROBLEMS[letter]
    assert make_matrix(problem, Grid(problem.n, 0, 1).block)[1] == problem.nonzeros


@pytest.mark.parametrize("panel", [2**15, 600])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_blocks_of_the_matrix_and_their_products(ranks: int, panel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "WIDEST", panel)
    rank = ranks - 1
    rows, columns = block = Grid(1400, rank, ranks).block
    a, _ = make_matrix(PROBLEMS["S"], block)
    part = whole("S")[np.ix_(rows.axes[0], columns.axes[0])]
    np.testing.assert_allclose(as_dense(a, block), part, **NEAR)
    p, w = gw.Array(np.random.default_rng(1).random(columns.size), columns), gw.Array.full(rows, 7.0)
    solvers.multiply_slices(a, p, w)
    np.testing.assert_allclose(w.numpy(), part @ p.numpy(), rtol=1e-12, atol=1e-12)


def test_the_matrix_is_the_same_bits_in_any_block() -> None:
    blocks = Grid(1400, 0, 1).block, Grid(1400, 5, 8).block
    one, part = (as_dense(make_matrix(PROBLEMS["S"], block)[0], block) for block in blocks)
    rows, columns = blocks[1]
    assert np.array_equal(one[np.ix_(rows.axes[0], columns.axes[0])], part)


def test_rows_and_elements_that_are_not_there() -> None:
    tiny = CGProblem("T", 5, 2, 1, 10.0, 1.0)
    rows, columns = gw.RectDomain((2,), (2,)), gw.RectDomain((1,), (4,))
    a, nonzeros = make_matrix(tiny, (rows, columns))
    assert (nonzeros, a.slices, a.value.size) == (0, 0, 0)
    block = Grid(5, 0, 1).block
    np.testing.assert_allclose(as_dense(make_matrix(tiny, block)[0], block), oracle.dense(tiny), **NEAR)


@pytest.mark.parametrize("ranks", range(1, 33))
@pytest.mark.parametrize("n", [1400, 75000, 37])
def test_the_grid(n: int, ranks: int) -> None:
    grids = [Grid(n, rank, ranks) for rank in range(ranks)]
    rows, columns = grids[0].rows, grids[0].columns
    assert rows * columns == ranks
    assert columns in ((rows, 2 * rows) if ranks.bit_count() == 1 else (ranks,))
    assert [i for row in range(rows) for i in grids[0].row_block(row).axes[0]] == list(range(n))
    assert [i for column in range(columns) for i in grids[0].column_block(column).axes[0]] == list(range(n))
    for grid in grids:
        partner = grids[grid.partner]
        assert partner.partner == grid.rank
        assert partner.block[1] & grid.block[0] == partner.block[1]
        assert grid.block[1] & partner.block[0] == grid.block[1]


def test_blocks_of_class_w_on_two_four_and_eight_ranks() -> None:
    assert [str(domain.axes) for domain in Grid(7000, 1, 2).block] == ["(range(0, 7000),)", "(range(3500, 7000),)"]
    assert [str(domain.axes) for domain in Grid(7000, 1, 4).block] == ["(range(0, 3500),)", "(range(3500, 7000),)"]
    assert [str(domain.axes) for domain in Grid(7000, 6, 8).block] == ["(range(3500, 7000),)", "(range(3500, 5250),)"]


def test_operations_and_estimates() -> None:
    totals = {"S": 66.7, "W": 420.6, "A": 1496.5, "B": 54708.8, "C": 143347.5, "D": 3642900, "E": 33089400}
    for letter, total in totals.items():
        assert PROBLEMS[letter].operations() == pytest.approx(total, rel=1e-3)
        assert CGProblem.expected_nonzeros(PROBLEMS[letter]) > 0
    problem = PROBLEMS["W"]
    a, _ = make_matrix(problem, Grid(problem.n, 0, 1).block)
    held = sum(array.nbytes for array in a[2:])
    # While the matrix is made, its elements are in two places.
    assert 2 * held <= app.BENCHMARK.needs(problem, None, 1) <= 3 * held  # type: ignore[arg-type]


def test_what_is_refused() -> None:
    app.check(["--class", "W", "--variant", "mpi"], 7)
    for arguments, ranks, words in [
        (["--class", "Q"], 1, "Q"),
        (["--variant", "pigeons"], 1, "flags, barrier, mpi"),
        (["--class", "S"], 1401, "1400 columns, too few for 1401 ranks"),
        (["--class", "F"], 1, "needs"),
    ]:
        with pytest.raises(UsageError, match=words):
            app.check(arguments, ranks)


def test_the_study_counted_the_same_kinds_of_lines() -> None:
    counted = results.count_lines(app.BENCHMARK.lines())
    assert set(counted) == {"communication", "computation", "declarations"}
    assert all(counted.values())
