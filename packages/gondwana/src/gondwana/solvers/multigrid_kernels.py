"""The kernels of multigrid, for an operator that is a function of a point, in 1, 2 or 3 axes.

Loops are written for three axes; a point of fewer has zeros before its own coordinates. Cell i of n lies at the centre
of the i-th of n equal parts of the axis, on every level. Prolongation is linear between centres of coarse cells, and
restriction its transpose: the coarse cell I takes the fine cell i with the weight 1 - |t - I|, where t is the place of
i, counted in coarse cells. Where cells are halved the weights are 1/4, 3/4, 3/4, 1/4.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gondwana.compiler.function import jit
from gondwana.domains import Point, X, Y, Z
from gondwana.kernels.foreach_kernels import Foreach
from gondwana.kernels.reductions import Reduce


@functools.cache
def stencils(operator: Any, ndim: int, constant: bool) -> tuple[Any, ...]:
    """Return the kernels that apply an operator, give its residual, relax cells, and sum up squares. Local.

    Args:
        operator: function `(p, x, h, *coefficients)` for `gw.jit`.
        ndim: number of axes.
        constant: whether the factors of the residual are those of a box of three cells along all axes but the last one:
            the first, the last, and one for all others.
    """
    triple, point = _TRIPLES[ndim], _POINTS[ndim]

    def apply(p: Any, y: Any, x: Any, of: Any) -> None:
        y[p] = operator(p, x, *of)

    def residual(p: Any, r: Any, b: Any, x: Any, of: Any) -> None:
        r[p] = b[p] - operator(p, x, *of)

    def square(p: Any, b: Any, x: Any, of: Any) -> Any:
        return np.float64(b[p] - operator(p, x, *of)) ** 2

    def relax(p: Any, x: Any, b: Any, factors: Any, ends: Any, colour: Any, first: Any, cells: Any, of: Any) -> None:
        i, j, pair = triple(p)
        k = 2 * pair + ((i + j + colour) & 1)
        if ends is None or (ends[0] <= k and k < ends[1]):
            q = point(i, j, k)
            at = point(_alike(i - first[0], cells[0]), _alike(j - first[1], cells[1]), k - first[2]) if constant else q
            x[q] += factors[at] * (b[q] - operator(q, x, *of))

    kernels = (Foreach(kernel, contract=True) for kernel in (apply, residual, relax))
    return *kernels, Reduce(square, op="sum", reassociate=True)


@functools.cache
def transfers(ndim: int, halved: tuple[bool, ...], in_pairs: bool) -> tuple[Foreach, ...]:
    """Return the kernels that restrict, and the one that adds the prolongation of the coarse array. Local.

    The first one adds up rows, times a scale, and the second one elements of the sums.

    Args:
        ndim: number of axes.
        halved: whether an axis has half as many coarse cells.
        in_pairs: whether the last one runs over pairs of neighbours along the last axis, of one coarse cell each.
    """
    triple, point, last, (halved_i, halved_j, halved_k) = _TRIPLES[ndim], _POINTS[ndim], (X, Y, Z)[ndim - 1], halved

    def add_rows(p: Any, rows: Any, fine: Any, first: Any, ratios: Any, scale: Any) -> None:
        (i, j, k), total = triple(p), 0.0
        i0, i1 = _window(i, ratios[0], halved_i)
        j0, j1 = _window(j, ratios[1], halved_j)
        for a in range(i0, i1):
            u = scale * (1.0 - abs((a + 0.5) * ratios[0] - 0.5 - i))
            for b in range(j0, j1):
                total += u * (1.0 - abs((b + 0.5) * ratios[1] - 0.5 - j)) * fine[point(a + first[0], b + first[1], k)]
        rows[p] = total

    def restrict(p: Any, coarse: Any, rows: Any, first: Any, ratios: Any) -> None:
        (i, j, k), total = triple(p), 0.0
        k0, k1 = _window(k, ratios[2], halved_k)
        for c in range(k0, k1):
            total += (1.0 - abs((c + 0.5) * ratios[2] - 0.5 - k)) * rows[point(i, j, c + first[2])]
        coarse[p] = total

    @jit
    def across(x: Any, i: Any, j: Any, k: Any, u: Any, v: Any) -> Any:
        low = (1.0 - v) * x[point(i, j, k)] + v * x[point(i, j + 1, k)]
        return (1.0 - u) * low + u * ((1.0 - v) * x[point(i + 1, j, k)] + v * x[point(i + 1, j + 1, k)])

    def prolong(p: Any, fine: Any, coarse: Any, first: Any, ratios: Any) -> None:
        a, b, c = triple(p)
        i, u = _below(a - first[0], ratios[0])
        j, v = _below(b - first[1], ratios[1])
        if in_pairs:
            q, k = point(a, b, 2 * c), c - first[2] // 2
            here = 0.75 * across(coarse, i, j, k, u, v)
            fine[q] += here + 0.25 * across(coarse, i, j, k - 1, u, v)
            fine[q + last] += here + 0.25 * across(coarse, i, j, k + 1, u, v)
        else:
            k, w = _below(c - first[2], ratios[2])
            fine[p] += (1.0 - w) * across(coarse, i, j, k, u, v) + w * across(coarse, i, j, k + 1, u, v)

    return tuple(Foreach(kernel, contract=True) for kernel in (add_rows, restrict, prolong))


@jit
def _window(coarse: Any, ratio: Any, halved: Any) -> Any:
    """Return the first fine cell that a coarse one takes, and the end."""
    if halved:
        return 2 * coarse - 1, 2 * coarse + 3
    first, end = math.floor((coarse - 0.5) / ratio + 0.5), math.ceil((coarse + 1.5) / ratio - 0.5)
    return int(first), int(end)  # floats on devices


@jit
def _below(fine: Any, ratio: Any) -> Any:
    """Return the last coarse cell whose centre is not behind that of a fine cell, and the weight of the next one."""
    place = (fine + 0.5) * ratio - 0.5
    whole = int(math.floor(place))  # noqa: RUF046  (a float on devices)
    return whole, place - whole


@jit
def _alike(i: Any, n: Any) -> Any:
    """Return the cell of at most three that has the walls of cell i of n."""
    return min(i, 1) if i < n - 1 else min(n, 3) - 1


@jit
def laplacian(p: Any, x: Any, h: Any, shift: Any) -> Any:
    """Return minus the Laplacian plus a multiple."""
    centre, around = shift, 0.0
    for axis in range(len(h)):
        weight = 1.0 / (h[axis] * h[axis])
        centre += 2.0 * weight
        around += weight * (x[p - _STEPS[axis]] + x[p + _STEPS[axis]])
    return centre * x[p] - around


_STEPS = X, Y, Z
_TRIPLES: Any = {
    1: jit(lambda p: (0, 0, p[0])),
    2: jit(lambda p: (0, p[0], p[1])),
    3: jit(lambda p: (p[0], p[1], p[2])),
}
_POINTS: Any = {
    1: jit(lambda i, j, k: Point(k)),
    2: jit(lambda i, j, k: Point(j, k)),
    3: jit(lambda i, j, k: Point(i, j, k)),
}
