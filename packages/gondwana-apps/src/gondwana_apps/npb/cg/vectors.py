"""Vectors of CG: each rank has the elements of its columns. All operations on one element are done in one pass."""

from __future__ import annotations

from typing import Any

import gondwana as gw


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
