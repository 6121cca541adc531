"""Multigrid on ranks: the solutions of dense systems by NumPy, factors of convergence, symmetry, and one rank alone."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana import solvers
from gondwana.errors import UsageError
from support.outflow import outflow

pytestmark = pytest.mark.parallel

on_ranks = pytest.mark.ranks(1, 3, 4, 6)
on_nodes = pytest.mark.ranks(4, ranks_per_node=2)
on_gpus = pytest.mark.ranks(2, variables={"GONDWANA_CUDA": "emulated"}, id="gpus")

EXAMPLE = Path(__file__).parents[4] / "examples" / "multigrid.py"
D, N, P = gw.Dirichlet(0), gw.Neumann(0), gw.periodic
SIGNS = {D: -1.0, N: 1.0, gw.Reflect(-1): -1.0}


def second_difference(n: int, low: Any, high: Any) -> np.ndarray:
    """Minus the second difference along an axis of n cells between two walls, or around it."""
    matrix = 2.0 * np.eye(n)
    for i in range(n):
        for j, wall in ((i - 1, low), (i + 1, high)):
            if wall is P or 0 <= j < n:
                matrix[i, j % n] -= 1.0
            else:
                matrix[i, i] -= SIGNS[wall]
    return matrix


def laplacian(shape: tuple[int, ...], walls: list[tuple[Any, Any]], h: tuple[float, ...], shift: float) -> np.ndarray:
    """Minus the Laplacian plus a number, as a dense matrix."""
    total = shift * np.eye(int(np.prod(shape)))
    for axis, (n, pair, length) in enumerate(zip(shape, walls, h, strict=True)):
        part: Any = np.eye(1)
        for other, m in enumerate(shape):
            part = np.kron(part, second_difference(n, *pair) / length**2 if other == axis else np.eye(m))
        total += part
    return total


def whole(array: gw.GlobalArray) -> Any:
    return array.to_numpy()


def random_array(shape: tuple[int, ...], team: gw.Team, boundary: Any, seed: int = 3, **how: Any) -> gw.GlobalArray:
    """An array of random numbers, the same on any number of ranks."""
    array = gw.zeros(shape, ghost=1, boundary=boundary, team=team, **how)
    gw.copy(gw.from_numpy(np.random.default_rng(seed).normal(size=shape), team=team), array).wait()
    return array


def faces(walls: list[tuple[Any, Any]]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for axis, (low, high) in zip("xyz", walls, strict=False):
        named |= {axis: P} if low is P else {f"{axis}-": low, f"{axis}+": high}
    return named


SYSTEMS: list[tuple[tuple[int, ...], list[tuple[Any, Any]], tuple[float, ...], float]] = [
    ((139,), [(D, N)], (0.5,), 0.0),
    ((12, 17), [(D, D), (P, P)], (1.0, 1.0), 0.1),
    ((1, 20, 13), [(N, N), (P, P), (N, N)], (0.1, 2.0, 2.0), 0.0),  # singular
    ((9, 7, 11), [(P, P), (D, N), (gw.Reflect(-1), N)], (1.0, 1.0, 3.5), 0.0),
]


@on_ranks
@on_nodes
@pytest.mark.parametrize("smoother", ["red-black", "chebyshev"])
def test_solutions_are_those_of_dense_systems(smoother: Any, world: gw.Team) -> None:
    for shape, walls, h, shift in SYSTEMS:
        cuts = ((shape[0], *[0] * (world.size - 1)), *[None] * (len(shape) - 1)) if len(shape) == 2 else None
        b = random_array(shape, world, faces(walls), cuts=cuts)
        right = whole(b).ravel()
        matrix = laplacian(shape, walls, h, shift)
        expected = np.linalg.lstsq(matrix, right, rcond=1e-10)[0].reshape(shape)
        mg = solvers.Multigrid(b, h=h, shift=shift, smoother=smoother)
        norms: list[float] = []
        found = mg.solve(b, rtol=1e-11, callback=norms.append)
        assert found.converged
        assert found.iterations == len(norms) <= 25
        np.testing.assert_allclose(whole(found.x), expected, atol=1e-8 * abs(expected).max())
        again = mg.solve(b, found.x, rtol=1e-9)
        assert again[1:3] == (True, 0)
        assert again.x is found.x
        y = gw.zeros_like(b)
        mg.apply(found.x, y)
        np.testing.assert_allclose(whole(y).ravel(), matrix @ expected.ravel(), atol=1e-9 * abs(right).max())


@on_ranks
@pytest.mark.parametrize("smoother", ["red-black", "chebyshev"])
def test_preconditioner_is_symmetric_and_helps(smoother: Any, world: gw.Team) -> None:
    walls = {"x": D, "y": P, "z": N}
    u, v = (random_array((33, 23, 27), world, walls, seed) for seed in (1, 2))
    mg = solvers.Multigrid(u, smoother=smoother)
    mu, mv = gw.zeros_like(u), gw.zeros_like(u)
    mg(u, mu)
    mg(v, mv)
    assert (mu * v).sum() == pytest.approx((u * mv).sum(), rel=1e-10)
    for method in (solvers.cg, solvers.gmres):
        found = method(mg.apply, u, M=mg, rtol=1e-8)
        assert found.converged
        assert found.iterations <= 14


@on_ranks
def test_factor_of_a_cycle(world: gw.Team) -> None:
    """Below 0.2, and the norms of one rank alone."""
    alone = world.split(world.rank)
    assert alone is not None
    for shape, wall in (((64, 64), D), ((32, 32, 32), D), ((33, 47, 31), N), ((97, 61), N)):
        norms: dict[gw.Team, list[float]] = {}
        for team in (world, alone):
            b = random_array(shape, team, wall)
            norms[team] = []
            solvers.Multigrid(b).solve(b, rtol=1e-8, callback=norms[team].append)
        assert norms[world] == pytest.approx(norms[alone], rel=1e-3)
        assert max(after / before for before, after in itertools.pairwise(norms[world][1:])) < 0.2


@pytest.mark.ranks(1, 2, 3, 4, 6)
def test_uneven_and_empty_blocks(world: gw.Team) -> None:
    b = uneven(world)
    alone = world.split(world.rank)
    assert alone is not None
    found = [solvers.Multigrid(one).solve(one, rtol=1e-10) for one in (b, random_array(b.shape, alone, D))]
    np.testing.assert_allclose(whole(found[0].x), whole(found[1].x), atol=1e-7)


@pytest.mark.more  # everything is compiled for this type, too
@pytest.mark.ranks(2)
def test_single_precision(world: gw.Team) -> None:
    b = uneven(world)
    single = gw.zeros(b.shape, "float32", ghost=2, boundary=D, team=world)
    gw.copy(gw.from_numpy(whole(b).astype("float32"), team=world), single).wait()
    rough = solvers.Multigrid(single).solve(single, rtol=1e-4)
    assert rough.converged
    assert rough.x.dtype == np.float32
    np.testing.assert_allclose(whole(rough.x), whole(solvers.Multigrid(b).solve(b, rtol=1e-10).x), atol=1e-2)


def uneven(world: gw.Team) -> gw.GlobalArray:
    """Random numbers in blocks of 17 and 24 cells, and of none between."""
    n = 41
    widths = [0] * world.size
    widths[0] = 17
    widths[-1] += n - 17
    return random_array((n, 40, 10), world, D, cuts=(tuple(widths), None, None))


@on_ranks
@on_nodes
def test_the_example_of_wells(world: gw.Team) -> None:
    example = runpy.run_path(str(EXAMPLE))
    shape = (233, 161)
    found = example["pressure"](shape)
    assert found.converged
    assert found.iterations <= 30
    p = np.pad(whole(found.x), 1)
    for ghost, cell in ((0, 1), (-1, -2)):
        p[ghost, :], p[:, ghost] = -p[cell, :], p[:, cell]
    x, y = np.indices(shape)
    k = np.pad(example["permeability"](x, y), 1, mode="edge")
    wells = example["wells"](x, y)
    assert wells.any()
    assert np.linalg.norm(outflow(k, p) - wells) < 1e-8 * np.linalg.norm(wells)


@on_gpus
def test_on_gpus(world: gw.Team) -> None:
    walls = [(D, D), (P, P)]
    b = random_array((12, 9), world, faces(walls), kind=gw.cuda())
    expected = np.linalg.solve(laplacian((12, 9), walls, (1.0, 1.0), 0.0), whole(b).ravel())
    for smoother in ("red-black", "chebyshev"):
        found = solvers.Multigrid(b, smoother=smoother).solve(b, rtol=1e-8)
        np.testing.assert_allclose(whole(found.x).ravel(), expected, atol=1e-6)


@gw.jit
def of_neighbours(p: Any, x: Any, h: Any, k: Any) -> Any:
    return k[p] * (2.0 * x[p] - x[p - gw.X] - x[p + gw.X]) / h[0] ** 2


@pytest.mark.ranks(2)
def test_errors(world: gw.Team) -> None:
    b = random_array((20,), world, D)
    make: Callable[..., Any] = solvers.Multigrid
    for text, given in (
        ("like is", {"like": np.ones(3)}),
        ("like is", {"like": gw.ones(4, int)}),
        ("like is", {"like": gw.ones(4, complex)}),
        ("ghost=", {"like": gw.ones(4)}),
        ("give one ghost or more", {"like": gw.ones(4, ghost=1, boundary=gw.Dirichlet(1.0))}),
        ("for each face", {"like": gw.ones(4, ghost=1, boundary={"x-": D})}),
        ("4 axes", {"like": gw.ones((2,) * 4, ghost=1, periodic=True)}),
        ("operator=3", {"operator": 3}),
        ("h=0", {"h": 0}),
        ("h=\\(1, 2\\)", {"h": (1, 2)}),
        ("shift=-1", {"shift": -1}),
        ("shift=1", {"shift": 1, "operator": of_neighbours}),
        ("coefficients=", {"coefficients": (1.0,)}),
        ("a coefficient has ghost", {"operator": of_neighbours, "coefficients": (gw.ones(20),)}),
        ("another division", {"operator": of_neighbours, "coefficients": (gw.ones(21, ghost=1, boundary=N),)}),
        ("smoother='jacobi'", {"smoother": "jacobi"}),
    ):
        with pytest.raises(UsageError, match=text):
            make(**({"like": b} | given))
    mg: Any = make(b)
    other = random_array((21,), world, D)
    for act, wrong in ((mg.solve, (other,)), (mg.solve, (b, other)), (mg, (other, b)), (mg.apply, (b, other))):
        with pytest.raises(UsageError, match="give an array like that of the solver"):
            act(*wrong)
    with pytest.raises(UsageError, match="rtol=-1"):
        mg.solve(b, rtol=-1)
