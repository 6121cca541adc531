"""Sweeps over global arrays as vectors: products, and sums of multiples; each reads and writes every element once.

The kernels take any numbers; the products of complex ones are sums of two sweeps.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gondwana.arrays.global_array import GlobalArray
from gondwana.kernels.foreach_kernels import foreach
from gondwana.kernels.reductions import Folding, Reduce


class Products:
    """Inner products of vectors, of which the first is conjugated. Collective over their team; blocks.

    Args:
        exact: whether sums are rounded once, so that they do not depend on the division of the elements.
    """

    def __init__(self, *, exact: bool) -> None:
        self._op: Folding = "fsum" if exact else "sum"

    def dot(self, x: GlobalArray, y: GlobalArray) -> Any:
        """Return the product of two vectors."""
        if x.dtype.kind == "c":
            return complex(self._sum(_real_part, x, y), self._sum(_imaginary_part, x, y))
        return self._sum(_product, x, y)

    def norm(self, x: GlobalArray) -> float:
        """Return the root of the product of a vector with itself."""
        return float(np.sqrt(self._sum(_square_of_complex if x.dtype.kind == "c" else _square, x)))

    def subtract(self, x: GlobalArray, r: GlobalArray, alpha: Any, d: GlobalArray, q: GlobalArray) -> float:
        """Add alpha d to x and subtract alpha q from r, in one sweep; return the norm of r."""
        kernel = _step_of_complex if x.dtype.kind == "c" else _step
        return float(np.sqrt(self._sum(kernel, x, r, alpha, d, q)))

    def _sum(self, kernel: Any, *args: Any) -> float:
        of = args[0]
        return float(_reduce(kernel, self._op).all(of.team, of.owned, *args))


@functools.cache
def _reduce(kernel: Any, op: Folding) -> Reduce:
    return Reduce(kernel, op=op, reassociate=op == "sum")


def _product(p: Any, x: Any, y: Any) -> float:
    return np.float64(x[p]) * y[p]  # type: ignore[no-any-return]


def _real_part(p: Any, x: Any, y: Any) -> float:
    return np.float64(x[p].real) * y[p].real + np.float64(x[p].imag) * y[p].imag  # type: ignore[no-any-return]


def _imaginary_part(p: Any, x: Any, y: Any) -> float:
    return np.float64(x[p].real) * y[p].imag - np.float64(x[p].imag) * y[p].real  # type: ignore[no-any-return]


def _square(p: Any, x: Any) -> float:
    return np.float64(x[p]) * x[p]  # type: ignore[no-any-return]


def _square_of_complex(p: Any, x: Any) -> float:
    return np.float64(x[p].real) * x[p].real + np.float64(x[p].imag) * x[p].imag  # type: ignore[no-any-return]


def _step(p: Any, x: Any, r: Any, alpha: Any, d: Any, q: Any) -> float:
    x[p] += alpha * d[p]
    r[p] -= alpha * q[p]
    return np.float64(r[p]) * r[p]  # type: ignore[no-any-return]


def _step_of_complex(p: Any, x: Any, r: Any, alpha: Any, d: Any, q: Any) -> float:
    x[p] += alpha * d[p]
    r[p] -= alpha * q[p]
    return np.float64(r[p].real) * r[p].real + np.float64(r[p].imag) * r[p].imag  # type: ignore[no-any-return]


@foreach
def copy(p: Any, y: Any, x: Any) -> None:
    """Set y to x."""
    y[p] = x[p]


@foreach
def scale(p: Any, y: Any, alpha: Any, x: Any) -> None:
    """Set y to a multiple of x."""
    y[p] = alpha * x[p]


@foreach
def add(p: Any, y: Any, alpha: Any, x: Any) -> None:
    """Add a multiple of x to y."""
    y[p] += alpha * x[p]


@foreach
def add_to_multiple(p: Any, y: Any, x: Any, beta: Any) -> None:
    """Set y to x plus a multiple of y."""
    y[p] = x[p] + beta * y[p]


@foreach
def residual(p: Any, r: Any, b: Any, q: Any) -> None:
    """Set r to b - q."""
    r[p] = b[p] - q[p]
