"""Vectors of CG: each rank has the elements of its columns. What is done to one element is done in one pass."""

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
def dot(own: Any, a: Any, b: Any) -> float:
    """Return this rank's part of a . b, from four partial sums, so that no addition waits for the one before."""
    first, end = own
    s0 = s1 = s2 = s3 = 0.0
    whole = end - (end - first) % 4
    for i in range(first, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, end):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@gw.jit
def scale(own: Any, x: Any, factor: float, z: Any) -> None:
    """Let x = factor z."""
    for i in range(own[0], own[1]):
        x[i] = factor * z[i]
