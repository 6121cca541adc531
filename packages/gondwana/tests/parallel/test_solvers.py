"""Krylov's methods on ranks: the solutions of dense systems by NumPy, and the same bits on any number of ranks."""

from __future__ import annotations

import runpy
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

EXAMPLE = Path(__file__).parents[4] / "examples" / "dielectric.py"
METHODS = (solvers.cg, solvers.bicgstab, solvers.gmres)
ZERO = gw.Fixed(0)


@gw.foreach
def diffusion(p: Any, y: Any, x: Any) -> None:
    y[p] = 4.1 * x[p] - x[p - gw.X] - x[p + gw.X] - x[p - gw.Y] - x[p + gw.Y]


@gw.foreach
def transport(p: Any, y: Any, x: Any) -> None:
    y[p] = 4.5 * x[p] - 1.5 * x[p - gw.X] - 0.5 * x[p + gw.X] - x[p - gw.Y] - 0.75 * x[p + gw.Y]


@gw.foreach
def damped_waves(p: Any, y: Any, x: Any) -> None:
    y[p] = (4.0 - 1.5j) * x[p] - x[p - gw.X] - 1j * x[p + gw.X] - x[p - gw.Y] - 0.5 * x[p + gw.Y]


@gw.foreach
def two_away(p: Any, y: Any, x: Any) -> None:
    y[p] = 2.0 * x[p] - x[p - 2 * gw.X] - x[p + 2 * gw.X]


@gw.foreach
def negative(p: Any, y: Any, x: Any) -> None:
    y[p] = -x[p]


@gw.foreach
def diagonal(p: Any, z: Any, r: Any) -> None:
    z[p] = 0.25 * r[p]


def dense(shape: tuple[int, int], centre: complex, weights: dict[tuple[int, int], complex]) -> np.ndarray:
    """The matrix of a stencil with zeros outside of the box."""
    n = shape[0] * shape[1]
    matrix = np.zeros((n, n), complex if isinstance(centre, complex) else float)
    for row, (i, j) in enumerate(np.ndindex(shape)):
        matrix[row, row] = centre
        for (di, dj), weight in weights.items():
            if 0 <= i + di < shape[0] and 0 <= j + dj < shape[1]:
                matrix[row, (i + di) * shape[1] + j + dj] = weight
    return matrix


SHAPE = (7, 6)
SYSTEMS: dict[str, tuple[Any, np.ndarray]] = {
    "diffusion": (diffusion, dense(SHAPE, 4.1, {(-1, 0): -1, (1, 0): -1, (0, -1): -1, (0, 1): -1})),
    "transport": (transport, dense(SHAPE, 4.5, {(-1, 0): -1.5, (1, 0): -0.5, (0, -1): -1, (0, 1): -0.75})),
    "waves": (damped_waves, dense(SHAPE, 4.0 - 1.5j, {(-1, 0): -1, (1, 0): -1j, (0, -1): -1, (0, 1): -0.5})),
}


def right_side(dtype: str, team: gw.Team, **kind: Any) -> tuple[gw.GlobalArray, np.ndarray]:
    whole = np.random.default_rng(3).normal(size=SHAPE).astype(dtype)
    b = gw.zeros(SHAPE, dtype, ghost=1, boundary=ZERO, team=team, **kind)
    gw.copy(gw.from_numpy(whole, team=team), b).wait()
    return b, whole.ravel()


@on_ranks
@on_nodes
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("method", METHODS)
def test_solutions_are_those_of_dense_systems(method: Any, name: str, world: gw.Team) -> None:
    if method is solvers.cg and name != "diffusion":
        return
    kernel, matrix = SYSTEMS[name]
    b, right = right_side("complex128" if name == "waves" else "float64", world)
    expected = np.linalg.solve(matrix, right).reshape(SHAPE)
    for M, exact in ((None, False), (diagonal, True)):
        norms: list[float] = []
        found = method(kernel, b, rtol=1e-11, M=M, exact=exact, callback=norms.append)
        assert found.converged
        assert found.iterations == len(norms) <= 60
        assert norms[-1] == pytest.approx(found.residual, rel=1e-2)
        assert found.residual <= 1e-11 * np.linalg.norm(right)
        np.testing.assert_allclose(found.x.to_numpy(), expected, atol=1e-10)
        again = method(kernel, b, found.x, rtol=1e-9, M=M)
        assert (again.converged, again.iterations) == (True, 0)
        assert again.x is found.x


@on_ranks
@pytest.mark.parametrize("method", METHODS)
def test_exact_sums_give_the_bits_of_one_rank(method: Any, world: gw.Team) -> None:
    alone = world.split(world.rank)
    found = [method(diffusion, right_side("float64", team)[0], rtol=1e-8, exact=True) for team in (world, alone)]
    assert found[0].iterations == found[1].iterations
    assert found[0].residual == found[1].residual
    assert np.array_equal(found[0].x.to_numpy(), found[1].x.to_numpy())


@on_ranks
@pytest.mark.parametrize("method", METHODS)
def test_ends_without_a_solution(method: Any, world: gw.Team) -> None:
    b, right = right_side("float64", world)
    nothing = gw.zeros_like(b)
    assert method(diffusion, nothing)[1:] == (True, 0, 0.0)
    found = method(diffusion, b, maxiter=3, rtol=1e-12)
    assert (found.converged, found.iterations) == (False, 3)
    residual = right - SYSTEMS["diffusion"][1] @ found.x.to_numpy().ravel()
    assert found.residual == pytest.approx(np.linalg.norm(residual), rel=1e-10)
    assert method(diffusion, b, maxiter=0)[1:] == (False, 0, pytest.approx(np.linalg.norm(right)))
    if method is solvers.cg:  # the operator is not positive definite
        found = method(negative, b)
        assert found.residual == pytest.approx(np.linalg.norm(right))
        assert (found.converged, found.iterations, abs(found.x).max()) == (False, 0, 0.0)


@on_ranks
def test_few_unknowns_and_single_precision(world: gw.Team) -> None:
    """Ranks without any, and an operator that is a function."""
    b = gw.full(2, 3.0, "float32")

    def twice(x: gw.GlobalArray, y: gw.GlobalArray) -> None:
        y[...] = 2.0 * x

    for method in METHODS:
        found = method(twice, b)
        assert found.x.dtype == np.float32
        assert found.x.to_numpy() == pytest.approx(1.5, rel=1e-6)


@pytest.mark.ranks(1, 2, 3, 4, 6)
@on_nodes
def test_the_example_of_a_dielectric(world: gw.Team) -> None:
    example = runpy.run_path(str(EXAMPLE))
    shape = (48, 70)  # one charge lies outside
    phi = np.pad(example["potential"](shape).to_numpy(), 1)
    for ghost, cell in ((0, 1), (-1, -2)):
        phi[ghost, :], phi[:, ghost] = -phi[cell, :], -phi[:, cell]
    x, y = np.indices(shape)
    eps = np.pad(np.where(x < shape[0] / 2, 1.0, 6.0), 1, mode="edge")
    charges = example["charges"](x, y)
    assert charges.any()
    assert np.linalg.norm(outflow(eps, phi) - charges) < 1e-9 * np.linalg.norm(charges)


@on_gpus
def test_on_gpus(world: gw.Team) -> None:
    b, right = right_side("float64", world, kind=gw.cuda())
    found = solvers.cg(diffusion, b, rtol=1e-8)
    expected = np.linalg.solve(SYSTEMS["diffusion"][1], right).reshape(SHAPE)
    np.testing.assert_allclose(found.x.to_numpy(), expected, atol=1e-6)


@pytest.mark.ranks(2)
def test_errors(world: gw.Team) -> None:
    b, _ = right_side("float64", world)
    for text, given in (
        ("b is", {"b": np.ones(3)}),
        ("b is", {"b": gw.ones(4, int)}),
        ("give an array like b", {"x": gw.zeros(4)}),
        ("A is 3: give a function or a kernel", {"A": 3}),
        ("M is 'ilu'", {"M": "ilu"}),
        ("callback is 1: give a function", {"callback": 1}),
        ("rtol=-1: give a number", {"rtol": -1}),
        ("atol=nan", {"atol": float("nan")}),
        ("maxiter=1.5", {"maxiter": 1.5}),
    ):
        with pytest.raises(UsageError, match=text):
            solvers.cg(**({"A": diffusion, "b": b} | given))
    with pytest.raises(UsageError, match=r"^two_away on .* touches x"):
        solvers.cg(two_away, b)
    with pytest.raises(UsageError, match="restart=0"):
        solvers.gmres(diffusion, b, restart=0)
