"""Annealing with a sponge on dense matrices: every cluster for every point, no lists, floating-point sums.

Written from the equations (Rose 1998; Fox, Mani and Pyne 2013), not from the application.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    """Clusters at a temperature: centres Y (K x D), weights P (K), sigma (D), T; f and P of the sponge, or None."""

    Y: np.ndarray
    P: np.ndarray
    sigma: np.ndarray
    relative: bool
    T: float
    f: float | None = None
    P_sponge: float = 0.0

    def widths(self):
        scale = np.ones_like(self.Y)
        scale[:, 0] = self.Y[:, 0] if self.relative else 1.0
        return scale * self.sigma

    def z(self, x):
        return (x[:, None] - self.Y) / self.widths()

    def squares(self, x):
        """d2 of all points and clusters; the last column is the sponge."""
        sponge = np.inf if self.f is None else self.f**2
        return np.column_stack([(self.z(x) ** 2).sum(axis=2), np.full(len(x), sponge)])

    def memberships(self, x):
        """M, and the logarithm of the denominator of each point."""
        floor = 0.01 / len(x)
        with np.errstate(divide="ignore"):
            weights = np.log(np.append(np.maximum(self.P, floor), max(self.P_sponge, floor)))
        exponents = weights - self.squares(x) / (2.0 * self.T)
        best = exponents.max(axis=1, keepdims=True)
        m = np.exp(exponents - best)
        return m / m.sum(axis=1, keepdims=True), best[:, 0] + np.log(m.sum(axis=1))

    def free_energy(self, x):
        return -self.T * self.memberships(x)[1].sum()

    def energy(self, x):
        d2, m = self.squares(x), self.memberships(x)[0]
        return 0.5 * (m * np.where(m > 0.0, d2, 0.0)).sum()

    def scatter(self, x):
        """S_k: mean of z z^T."""
        m, z = self.memberships(x)[0][:, :-1], self.z(x)
        return np.einsum("ak,aki,akj->kij", m, z, z) / m.sum(axis=0)[:, None, None]

    def iterated(self, x, sponge_weight=0.1):
        """After one iteration of expectation and maximisation; P of the sponge is `sponge_weight` / K."""
        m, _ = self.memberships(x)
        count, n = m[:, :-1].sum(axis=0), len(x)
        centres = (m[:, :-1].T @ x) / count[:, None]
        if self.f is None:
            return self._replace(Y=centres, P=count / n)
        share = sponge_weight / len(centres)
        return self._replace(Y=centres, P=count / n * (1.0 - share) / (1.0 - m[:, -1].sum() / n), P_sponge=share)


def least_inertia(x, clusters):
    """The smallest half sum of squared distances to the means over all partitions into so many clusters."""
    best = np.inf
    for labels in itertools.product(range(clusters), repeat=len(x) - 1):
        owner = np.array((0, *labels))
        parts = [x[owner == k] for k in set(owner.tolist())]
        best = min(best, sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts) / 2.0)
    return best
