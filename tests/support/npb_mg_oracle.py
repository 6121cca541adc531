"""MG in plain NumPy, on whole cubes, by the formulas: slow, and nothing of the library in it."""

from __future__ import annotations

import itertools

import numpy as np

A = (-8 / 3, 0.0, 1 / 6, 1 / 12)
P = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
S_A = (-3 / 8, 1 / 32, -1 / 64, 0.0)
S_B = (-3 / 17, 1 / 33, -1 / 61, 0.0)


def apply(weights, x):
    """A periodic 27-point operator with one weight for each class of neighbour."""
    total = np.zeros_like(x)
    for offset in itertools.product((-1, 0, 1), repeat=3):
        total += weights[sum(map(abs, offset))] * np.roll(x, offset, (0, 1, 2))
    return total


def restrict(fine):
    return apply(P, fine)[1::2, 1::2, 1::2]


def interpolate(coarse):
    fine = coarse
    for axis in range(3):
        even = 0.5 * (fine + np.roll(fine, 1, axis))
        fine = np.stack([even, fine], axis + 1).reshape([(2 if a == axis else 1) * n for a, n in enumerate(fine.shape)])
    return fine


def correction(r, s):
    """M r: one V-cycle from zero."""
    if len(r) == 2:
        return apply(s, r)
    u = interpolate(correction(restrict(r), s))
    r = r - apply(A, u)
    return u + apply(s, r)


def solve(v, s, iterations):
    """u and r after a number of iterations."""
    u, r = np.zeros_like(v), v
    for _ in range(iterations):
        u = u + interpolate(correction(restrict(r), s))
        r = v - apply(A, u)
        u = u + apply(s, r)
        r = v - apply(A, u)
    return u, r


def charges(n, x=314159265):
    """The right-hand side: the stream of random numbers one by one."""
    states = []
    for _ in range(n**3):
        x = 5**13 * x % 2**46
        states.append(x)
    order = np.argsort(np.array(states))
    v = np.zeros(n**3)
    v[order[:10]], v[order[-10:]] = -1.0, 1.0
    return v.reshape(n, n, n)


def norm(r):
    return float(np.sqrt((r**2).mean()))
