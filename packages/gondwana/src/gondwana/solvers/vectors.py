"""Sweeps over global arrays as vectors: products, and sums of multiples; each reads and writes every element once.

The kernels take any numbers; the products of complex ones are sums of two sweeps.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gondwana.arrays.global_array import GlobalArray
from gondwana.compiler.function import jit
from gondwana.kernels.foreach_kernels import Foreach, foreach
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
        real = self._sum(_real_part, x, y)
        return complex(real, self._sum(_imaginary_part, x, y)) if x.dtype.kind == "c" else real

    def norm(self, x: GlobalArray) -> float:
        """Return the root of the product of a vector with itself."""
        return float(np.sqrt(self._sum(_real_part, x, x)))

    def with_image(self, operator: Foreach, x: GlobalArray, y: GlobalArray) -> float:
        """Set y to what a kernel makes of x, whose ghosts are there, and return the product of both: in one sweep."""
        return self._sum(_with_image(operator), y, x)

    def shorten(self, r: GlobalArray, alpha: Any, q: GlobalArray) -> float:
        """Subtract alpha q from r, and return the norm of r."""
        return float(np.sqrt(self._sum(_shorten, r, alpha, q)))

    def _sum(self, kernel: Any, *args: Any) -> float:
        of = args[0]
        return float(_reduce(kernel, self._op).all(of.team, of.owned, *args))


@functools.lru_cache(64)
def _reduce(kernel: Any, op: Folding) -> Reduce:
    return Reduce(kernel, op=op, reassociate=op == "sum")


@functools.lru_cache(64)
def _with_image(operator: Foreach) -> Any:
    apply = jit(reassociate=operator.reassociate)(operator.py_func)

    def product(p: Any, y: Any, x: Any) -> float:
        apply(p, y, x)
        return np.float64(x[p]) * y[p]  # type: ignore[no-any-return]

    product.__qualname__ = operator.py_func.__qualname__  # for errors
    return product


def _real_part(p: Any, x: Any, y: Any) -> float:
    return np.float64(x[p].real) * y[p].real + np.float64(x[p].imag) * y[p].imag  # type: ignore[no-any-return]


def _imaginary_part(p: Any, x: Any, y: Any) -> float:
    return np.float64(x[p].real) * y[p].imag - np.float64(x[p].imag) * y[p].real  # type: ignore[no-any-return]


@jit
def _squared(number: Any) -> Any:
    """Return the square of the absolute value of a real or complex number."""
    return np.float64(number.real) * number.real + np.float64(number.imag) * number.imag


def _shorten(p: Any, r: Any, alpha: Any, q: Any) -> float:
    r[p] -= alpha * q[p]
    return _squared(r[p])  # type: ignore[no-any-return]


@foreach
def add(p: Any, y: Any, alpha: Any, x: Any) -> None:
    """Add a multiple of x to y."""
    y[p] += alpha * x[p]


@foreach
def add_to_multiple(p: Any, y: Any, x: Any, beta: Any) -> None:
    """Set y to x plus a multiple of y."""
    y[p] = x[p] + beta * y[p]


@foreach
def go_and_turn(p: Any, x: Any, alpha: Any, d: Any, z: Any, beta: Any) -> None:
    """Add alpha d to x, then set d to z plus beta d."""
    x[p] += alpha * d[p]
    d[p] = z[p] + beta * d[p]
