"""Sparse matrices on ranks: products and diagonals of SciPy's, in any division of the rows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana import solvers
from gondwana.errors import UsageError

sparse = pytest.importorskip("scipy.sparse")

pytestmark = pytest.mark.parallel

on_ranks = pytest.mark.ranks(1, 2, 3, 4, 6)
on_nodes = pytest.mark.ranks(4, ranks_per_node=2)

EXAMPLE = Path(__file__).parents[4] / "examples" / "power_iteration.py"


def some_matrix(n: int, density: float, dtype: str, seed: int) -> Any:
    """Rows of all lengths, some of them empty, with unsorted columns and entries of equal place."""
    generator = np.random.default_rng(seed)
    count = round(density * n * n)
    rows, columns = generator.integers(0, n, (2, count)) * (generator.random(count) < 0.9)
    values = generator.normal(size=count).astype(dtype)
    if values.dtype.kind == "c":
        values *= 1.0 - 2.0j
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(n + 1))
    return sparse.csr_array((values[order], columns[order], starts), shape=(n, n))


def vectors(n: int, dtype: str, team: gw.Team) -> list[gw.GlobalArray]:
    """One of each division: even blocks, with ghosts, and uneven ones of which some are empty."""
    widths = [n // 2 if rank == 1 else n - n // 2 if rank == team.size - 1 else 0 for rank in range(team.size)]
    if team.size < 3:
        widths = [0, n][-team.size :]
    return [
        gw.zeros(n, dtype, team=team),
        gw.zeros(n, dtype, team=team, ghost=1),
        gw.zeros(n, dtype, team=team, cuts=[widths]),
    ]


def parts_of(matrix: Any, like: gw.GlobalArray) -> Any:
    own = like.owned.axes[0]
    return matrix[own.start : own.stop]


@on_ranks
@on_nodes
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_products_are_those_of_scipy(dtype: str, world: gw.Team) -> None:
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    for n, density in ((1, 1.0), (7, 0.0), (40, 0.1), (301, 0.04)):
        matrix = some_matrix(n, density, dtype, seed=n)
        whole = np.random.default_rng(n).normal(size=n).astype(dtype)
        for number, x in enumerate(vectors(n, dtype, world)):
            x.values[...] = whole[np.array(x.owned.axes[0], int)]
            given = matrix if number == 0 else parts_of(matrix, x)
            a = solvers.SparseMatrix.from_scipy(given, like=x)
            assert (a.shape, a.dtype) == ((n, n), x.dtype)
            for _ in range(2):
                np.testing.assert_allclose((a @ x).to_numpy(), matrix @ whole, tolerance, tolerance)
            np.testing.assert_allclose(a.diagonal().to_numpy(), matrix.diagonal(), tolerance, tolerance)


@on_ranks
def test_panels_and_far_columns(world: gw.Team) -> None:
    """Long rows are divided into panels; where columns are far from each other they have 32 bits."""
    for n, band, dense in ((12_000, 0, 60), (90_000, 40_000, 2)):
        generator = np.random.default_rng(n)
        rows = np.repeat(np.arange(n), dense)
        columns = generator.integers(0, n, len(rows))
        matrix = sparse.coo_array((generator.normal(size=len(rows)), (rows, columns)), shape=(n, n)).tocsr()
        if band:
            matrix = matrix + sparse.diags_array([1.0, 2.0], offsets=[band, -band], shape=(n, n))
        x = gw.zeros(n, team=world)
        whole = generator.normal(size=n)
        x.values[...] = whole[np.array(x.owned.axes[0], int)]
        a = solvers.SparseMatrix.from_scipy(matrix, like=x)
        if world.size == 1:
            assert (a.local.own.panels, a.local.own.column.dtype.itemsize) == ((1, 4) if band else (3, 2))
        np.testing.assert_allclose((a @ x).to_numpy(), matrix @ whole, 1e-10, 1e-10)


@gw.jit
def five_points(row: int, columns: Any, values: Any, shape: Any, weights: Any) -> int:
    """Write a row of Laplace's operator on a box."""
    count = 0
    for step in (-shape[1], -1, 0, 1, shape[1]):
        column = row + step
        same_line = column // shape[1] == row // shape[1]
        if 0 <= column < shape[0] * shape[1] and (same_line or abs(step) == shape[1]):
            columns[count] = column
            values[count] = weights[0] if step == 0 else weights[1]
            count += 1
    return count


@gw.jit
def squared(threads: Any, a: Any, x: Any, y: Any, z: Any) -> None:
    solvers.multiply(threads, a, x, y)
    solvers.multiply(threads, a, y, z)


@on_ranks
def test_rows_of_a_kernel_solvers_and_compiled_code(world: gw.Team) -> None:
    shape = (9, 7)
    b = gw.ones(63, team=world)
    a = solvers.SparseMatrix.from_kernel(five_points, 5, shape, (4.0, -1.0), like=b)
    line, column = (sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in shape)
    matrix = sparse.kronsum(column, line, format="csr")
    d = a.diagonal()
    assert np.all(d.to_numpy() == 4.0)

    def jacobi(r: gw.GlobalArray, z: gw.GlobalArray) -> None:
        z[...] = r / d

    for method in (solvers.cg, solvers.bicgstab, solvers.gmres):
        found = method(a, b, rtol=1e-10, M=jacobi)
        assert found.converged
        np.testing.assert_allclose(matrix @ found.x.to_numpy(), 1.0, 1e-8)
    y, z = gw.zeros_like(b), gw.zeros_like(b)
    for threads in (1, 3):
        gw.parallel(squared, a, b, y, z, threads=threads)
        np.testing.assert_allclose(z.to_numpy(), matrix @ (matrix @ np.ones(63)), 1e-12, 1e-12)


@on_ranks
def test_what_is_refused_by_every_rank(world: gw.Team) -> None:
    b = gw.zeros(12, team=world)
    rows = np.array(b.owned.axes[0], int)
    starts, values = np.arange(len(rows) + 1), np.ones(len(rows))
    build, scipys, kernels = solvers.SparseMatrix, solvers.SparseMatrix.from_scipy, solvers.SparseMatrix.from_kernel
    # One rank has a wrong argument: all ranks raise.
    bad = world.rank == world.size - 1
    for given, words in (
        ((starts, rows + 12 * bad, values), "column .* of a matrix with 12 columns: give numbers from 0 to 11"),
        ((starts, rows - 12 * bad, values), "column -.* of a matrix"),
        ((starts[bad:], rows, values), "starts for .* rows of this rank"),
        ((starts[::-1] if bad else starts, rows, values), "ascending from 0"),
        ((starts, rows, values[bad:]), "values of shape"),
        ((starts, rows, values * (1j if bad else 1)), "values of .* complex128: .* can become elements of float64"),
        ((starts, rows * (1.5 if bad else 1), values), "columns of shape .* type float64: give integers"),
    ):
        with pytest.raises(UsageError, match=words):
            build(*given, like=b)
    with pytest.raises(UsageError, match=r"of shape .*: give the whole one, 12 x 12, or the rows of this rank"):
        scipys(sparse.csr_array((13 if bad else 12, 12)), like=b)
    with pytest.raises(UsageError, match="give a sparse matrix or array of SciPy"):
        scipys(np.eye(12), like=b)
    for like in (np.zeros(12), gw.zeros((3, 4), team=world), gw.zeros(12, "int64", team=world)):
        with pytest.raises(UsageError, match=r"like is .*: give a global array of floats with one axis"):
            build(starts, rows, values, like=like)
    for kernel, most in ((len, 3), (five_points, 0)):
        with pytest.raises(UsageError, match=r"from_kernel\(.*: give a function with @gw.jit, and its most entries"):
            kernels(kernel, most, like=b)
    with pytest.raises(UsageError, match=r"a row has [45] entries, and most=3"):
        kernels(five_points, 3, (3, 4), (4.0, -1.0), like=b)
    a = build(starts, rows, values, like=b)
    for x in (gw.zeros(13, team=world), gw.zeros(12, "float32", team=world)):
        with pytest.raises(UsageError, match=r"x is .*: give an array of float64 with the division of the rows"):
            _ = a @ x
    with pytest.raises(UsageError, match="give another array for the product"):
        a(b, b)


@on_ranks
def test_the_example_of_power_iteration(world: gw.Team) -> None:
    n = 9
    found, form = runpy.run_path(str(EXAMPLE))["lowest_tone"](n)
    points = [(i, j) for i, j in np.ndindex(n, n) if i < 4 or j < 4]
    far = np.abs(np.subtract.outer(*2 * [[i for i, _ in points]])) + np.abs(
        np.subtract.outer(*2 * [[j for _, j in points]])
    )
    eigenvalues, forms = np.linalg.eigh(np.select([far == 0, far == 1], [4.0, -1.0]))
    assert found == pytest.approx(eigenvalues[0] * 25, rel=1e-7)
    ours = form.to_numpy().reshape(n, n)
    expected = np.zeros((n, n))
    expected[tuple(np.transpose(points))] = abs(forms[:, 0])
    np.testing.assert_allclose(ours / np.linalg.norm(ours), expected, atol=1e-3)
