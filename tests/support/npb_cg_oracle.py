"""CG once more, in plain Python and NumPy with a dense matrix: from the definition, without the code under test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def numbers() -> Iterator[float]:
    """The random numbers after the first, which is thrown away."""
    x = 5**13 * 314159265 % 2**46
    while True:
        x = 5**13 * x % 2**46
        yield x / 2**46


def dense(problem: Any) -> np.ndarray:
    """The matrix: outer products of sparse vectors, each a dictionary."""
    n, stream = problem.n, numbers()
    power = 1 << (n - 1).bit_length()
    a, weight = np.zeros((n, n)), 1.0
    for i in range(n):
        vector: dict[int, float] = {}
        while len(vector) < problem.nonzer:
            value, place = next(stream), int(power * next(stream))
            if place < n:
                vector.setdefault(place, value)
        vector[i] = 0.5
        where, what = list(vector), np.array(list(vector.values()))
        a[np.ix_(where, where)] += weight * np.outer(what, what)
        weight *= 0.1 ** (1 / n)
    return a + (0.1 - problem.shift) * np.eye(n)


def zetas(a: np.ndarray, problem: Any) -> list[float]:
    """Zeta after each iteration."""
    x, found = np.ones(len(a)), []
    for _ in range(problem.iterations):
        z, r = np.zeros(len(a)), x.copy()
        p, rho = r.copy(), r @ r
        for _ in range(25):
            q = a @ p
            alpha = rho / (p @ q)
            z += alpha * p
            r -= alpha * q
            rho, before = r @ r, rho
            p = r + rho / before * p
        found.append(problem.shift + 1 / (x @ z))
        x = z / np.linalg.norm(z)
    return found
