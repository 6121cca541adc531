"""The Gray-Scott model: two reacting, diffusing species on a grid of unit spacing.

    dU/dt = Du lap(U) - U V^2 + F (1 - U) + n r dV/dt = Dv lap(V) + U V^2 - (F + k) V

r is uniform in [-1, 1), drawn anew for each cell and step; lap is the normalised seven-point Laplacian (sum of six
neighbours - 6 centre)/6. Explicit Euler: all terms at the old time. J. Pearson, Science 261, 189 (1993); in the form of
the ADIOS2 example and of W. Godoy et al., SC-W 2023, doi 10.1145/3624062.3624278.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gondwana as gw

SIXTH = 1.0 / 6.0


class Rates(NamedTuple):
    """The constants of the model: feed, kill, diffusion of U and V, time step."""

    F: float
    k: float
    Du: float
    Dv: float
    dt: float


class Noise(NamedTuple):
    """The noise of one step: amplitude n, key of the random numbers, number of the step that is produced.

    `side` is the width of the periodic cube if cells outside of it are computed too, as copies; None if not.
    """

    amplitude: float
    seed: int
    step: int
    side: int | None = None


@gw.jit
def laplacian(a: Any, p: gw.Point) -> float:
    """The normalised Laplacian of a field at a point; its eigenvalues lie in [-2, 0]."""
    neighbours = a[p - gw.X] + a[p + gw.X] + a[p - gw.Y] + a[p + gw.Y] + a[p - gw.Z] + a[p + gw.Z]
    return neighbours * SIXTH - a[p]  # type: ignore[no-any-return]


@gw.jit
def inside(x: int, side: int | None) -> int:
    """A coordinate up to one width outside of the periodic cube, moved into it."""
    if side is None:
        return x
    return x + side if x < 0 else x - side if x >= side else x


@gw.jit
def draw(noise: Noise, p: gw.Point, dtype: Any) -> float:
    """The random number of a cell and a step, in [-1, 1)."""
    cell = inside(p[0], noise.side), inside(p[1], noise.side), inside(p[2], noise.side)
    return gw.random(noise.seed, cell, noise.step, dtype)


@gw.foreach(flush_subnormals=True)
def react_and_diffuse(
    p: gw.Point, u_next: Any, v_next: Any, u: Any, v: Any, rates: Rates, noise: Noise | None = None
) -> None:
    """One time step of both species at a point. Without noise the compiler leaves the random numbers out."""
    reaction = u[p] * v[p] * v[p]
    du = rates.Du * laplacian(u, p) - reaction + rates.F * (1.0 - u[p])
    dv = rates.Dv * laplacian(v, p) + reaction - (rates.F + rates.k) * v[p]
    if noise is not None:
        du += noise.amplitude * draw(noise, p, u.dtype)
    u_next[p] = u[p] + rates.dt * du
    v_next[p] = v[p] + rates.dt * dv
