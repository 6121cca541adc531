"""The timed region of CG (NAS-91-002, 2.2.3): an iteration of the power method, all of it compiled."""

from __future__ import annotations

import functools
import math
from typing import Any

import gondwana as gw
from gondwana import solvers
from gondwana_apps.npb.cg.partners import CONJG, NCOMM, RCOMM
from gondwana_apps.npb.cg.problem import STEPS
from gondwana_apps.npb.cg.sums import WAYS
from gondwana_apps.vectors import dot


@gw.jit
def begin(own: Any, x: Any, z: Any, r: Any, p: Any) -> None:
    """Let z = 0, r = x, p = x."""
    for i in range(own[0], own[1]):
        z[i] = 0.0
        r[i] = x[i]
        p[i] = x[i]


@gw.jit
def descend(own: Any, r: Any, alpha: float, q: Any) -> None:
    """Let r = r - alpha q."""
    for i in range(own[0], own[1]):
        r[i] -= alpha * q[i]


@gw.jit
def advance(own: Any, z: Any, alpha: float, p: Any, beta: float, r: Any) -> None:
    """Let z = z + alpha p, then p = r + beta p."""
    for i in range(own[0], own[1]):
        z[i] += alpha * p[i]
        p[i] = r[i] + beta * p[i]


@gw.jit
def scale(own: Any, x: Any, factor: float, z: Any) -> None:
    """Let x = factor z."""
    for i in range(own[0], own[1]):
        x[i] = factor * z[i]


UPDATES = (begin, descend, advance, scale)
"""Updates of vectors, of which each rank has the elements of its columns: all on one element is done in one pass."""


@functools.cache
def solver(variant: str) -> Any:
    """Return the compiled iteration that adds up in one of the ways of `sums.WAYS`. Local."""
    sum_vector, sum_scalar = WAYS[variant]

    @gw.jit
    def product(a: Any, p: Any, q: Any, partners: Any) -> None:
        """Let q = A p."""
        solvers.multiply_slices(a, p, partners.w)
        start = gw.clock()
        sum_vector(partners, q)
        partners.seconds[RCOMM] += 1e-9 * (gw.clock() - start)

    @gw.jit
    def inner(u: Any, v: Any, partners: Any, section: int) -> float:
        """Return u . v."""
        first, end = partners.columns
        part = dot(u, v, first, end)
        start = gw.clock()
        total = sum_scalar(partners, part)
        partners.seconds[section] += 1e-9 * (gw.clock() - start)
        return total

    @gw.jit
    def conjugate_gradients(a: Any, x: Any, z: Any, r: Any, p: Any, q: Any, partners: Any) -> float:
        """Let z be nearly the solution of A z = x; return |x - A z|."""
        own = partners.columns
        begin(own, x, z, r, p)  # z = 0, r = p = x
        rho = inner(r, r, partners, RCOMM)
        for _ in range(STEPS):
            product(a, p, q, partners)  # q = A p
            alpha = rho / inner(p, q, partners, RCOMM)
            descend(own, r, alpha, q)  # r = r - alpha q
            rho_before, rho = rho, inner(r, r, partners, RCOMM)
            advance(own, z, alpha, p, rho / rho_before, r)  # z = z + alpha p, p = r + beta p
        product(a, z, r, partners)
        descend(own, r, 1.0, x)  # r = A z - x
        return math.sqrt(inner(r, r, partners, RCOMM))

    @gw.jit
    def iterate(a: Any, x: Any, z: Any, r: Any, p: Any, q: Any, partners: Any) -> tuple[float, float]:
        """Solve A z = x and let x = z / |z|; return |x - A z| and x . z."""
        start = gw.clock()
        residual = conjugate_gradients(a, x, z, r, p, q, partners)
        partners.seconds[CONJG] += 1e-9 * (gw.clock() - start)
        xz = inner(x, z, partners, NCOMM)
        zz = inner(z, z, partners, NCOMM)
        scale(partners.columns, x, 1.0 / math.sqrt(zz), z)
        return residual, xz

    return iterate
