"""The timed region of CG (NAS-91-002, 2.2.3): an iteration of the power method, all of it compiled."""

from __future__ import annotations

import functools
import math
from typing import Any

import gondwana as gw
from gondwana.apps.npb.cg.clock import now
from gondwana.apps.npb.cg.matrix import multiply
from gondwana.apps.npb.cg.problem import STEPS
from gondwana.apps.npb.cg.sums import WAYS
from gondwana.apps.npb.cg.vectors import advance, begin, descend, dot, scale

CONJG, RCOMM, NCOMM = 0, 1, 2
"""Places of the times of conjugate gradients, of the sums in it, and of those for norms."""


@functools.cache
def solver(variant: str) -> Any:
    """Return the compiled iteration that adds up in one of the ways of `sums.WAYS`. Local."""
    sum_vector, sum_scalar = WAYS[variant]

    @gw.jit
    def product(a: Any, p: Any, q: Any, by: Any, time: Any) -> None:
        """Let q = A p."""
        multiply(a, p, by.w)
        start = now()
        sum_vector(by, q)
        time[RCOMM] += now() - start

    @gw.jit
    def inner(u: Any, v: Any, by: Any, time: Any, section: int) -> float:
        """Return u . v."""
        part = dot(by.columns, u, v)
        start = now()
        total = sum_scalar(by, part)
        time[section] += now() - start
        return total

    @gw.jit
    def conjugate_gradients(a: Any, x: Any, z: Any, r: Any, p: Any, q: Any, by: Any, time: Any) -> float:
        """Let z be nearly the solution of A z = x; return |x - A z|."""
        own = by.columns
        begin(own, x, z, r, p)
        rho = inner(r, r, by, time, RCOMM)
        for _ in range(STEPS):
            product(a, p, q, by, time)
            alpha = rho / inner(p, q, by, time, RCOMM)
            descend(own, r, alpha, q)
            rho_before, rho = rho, inner(r, r, by, time, RCOMM)
            advance(own, z, alpha, p, rho / rho_before, r)
        product(a, z, r, by, time)
        descend(own, r, 1.0, x)
        return math.sqrt(inner(r, r, by, time, RCOMM))

    @gw.jit
    def iterate(a: Any, x: Any, z: Any, r: Any, p: Any, q: Any, by: Any, time: Any) -> tuple[float, float]:
        """Solve A z = x and let x = z / |z|; return |x - A z| and x . z."""
        start = now()
        residual = conjugate_gradients(a, x, z, r, p, q, by, time)
        time[CONJG] += now() - start
        xz = inner(x, z, by, time, NCOMM)
        zz = inner(z, z, by, time, NCOMM)
        scale(by.columns, x, 1.0 / math.sqrt(zz), z)
        return residual, xz

    return iterate
