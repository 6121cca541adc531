"""The kernels of multigrid, for an operator that is a function of a point, in 1, 2 or 3 axes.

Loops are written for three axes; a point of fewer has zeros before its own coordinates. Cell i of n lies at the centre
of the i-th of n equal parts of the axis, on every level. Prolongation is linear between centres of coarse cells, and
restriction its transpose: the coarse cell I takes the fine cell i with the weight 1 - |t - I|, where t is the place of
i, counted in coarse cells. Where cells are halved the weights are 1/4, 3/4, 3/4, 1/4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gondwana.compiler.function import jit
from gondwana.domains import Point, X, Y, Z
from gondwana.kernels.foreach_kernels import Foreach, foreach


class Stencil(NamedTuple):
    """The kernels that use the operator.

    Attributes:
        apply: sets y to A x.
        residual: sets r to b - A x.
        relax: solves the equations of the cells of one colour for their values, times the factor in `inverse`.
        invert: sets the elements of `inverse` in the cells of one of the colours of `paint`.
    """

    apply: Foreach
    residual: Foreach
    relax: Foreach
    invert: Foreach


@functools.cache
def stencil(operator: Any, ndim: int) -> Stencil:
    """Return the kernels for an operator, a function `(p, x, h, *coefficients)` for `gw.jit`. Local."""
    triple, point, colour_of = _TRIPLES[ndim], _POINTS[ndim], _colour

    def apply(p: Any, y: Any, x: Any, h: Any, coefficients: Any) -> None:
        y[p] = operator(p, x, h, *coefficients)

    def residual(p: Any, r: Any, b: Any, x: Any, h: Any, coefficients: Any) -> None:
        r[p] = b[p] - operator(p, x, h, *coefficients)

    def relax(p: Any, x: Any, b: Any, inverse: Any, ends: Any, colour: Any, h: Any, coefficients: Any) -> None:
        i, j, half = triple(p)
        k = 2 * half + ((i + j + colour) & 1)
        if ends is None or (ends[0] <= k and k < ends[1]):
            q = point(i, j, k)
            x[q] += inverse[q] * (b[q] - operator(q, x, h, *coefficients))

    def invert(
        p: Any, inverse: Any, x: Any, factor: Any, colour: Any, first: Any, cells: Any, h: Any, coefficients: Any
    ) -> None:
        if colour_of(triple(p), first, cells) == colour:
            inverse[p] = factor / operator(p, x, h, *coefficients)

    return Stencil(foreach(apply), foreach(residual), foreach(relax), foreach(invert))


class Transfer(NamedTuple):
    """The kernels between two levels.

    Attributes:
        restrict: sets the coarse array to the transpose of the prolongation of the fine one, times a scale.
        prolong: adds the prolongation of the coarse array to the fine one.
        paint: sets x to 1 in the cells of one of three colours, of which neighbours never have the same one; else to 0.
    """

    restrict: Foreach
    prolong: Foreach
    paint: Foreach


@functools.cache
def transfer(ndim: int, halved: tuple[bool, bool, bool]) -> Transfer:
    """Return the kernels between levels for arrays of some axes, of which some have half as many coarse cells. Local."""
    triple, point, colour_of, (halved_i, halved_j, halved_k) = _TRIPLES[ndim], _POINTS[ndim], _colour, halved

    def restrict(p: Any, coarse: Any, fine: Any, ratios: Any, first: Any, scale: Any) -> None:
        i, j, k = triple(p)
        total = 0.0
        i0, i1 = _window(i, ratios[0], halved_i)
        j0, j1 = _window(j, ratios[1], halved_j)
        k0, k1 = _window(k, ratios[2], halved_k)
        for a in range(i0, i1):
            u = _weight(a, a - i0, i, ratios[0], halved_i)
            for b in range(j0, j1):
                v = u * _weight(b, b - j0, j, ratios[1], halved_j)
                for c in range(k0, k1):
                    w = v * _weight(c, c - k0, k, ratios[2], halved_k)
                    total += w * fine[point(a + first[0], b + first[1], c + first[2])]
        coarse[p] = scale * total

    def prolong(p: Any, fine: Any, coarse: Any, ratios: Any, first: Any) -> None:
        a, b, c = triple(p)
        i, u = _below(a - first[0], ratios[0])
        j, v = _below(b - first[1], ratios[1])
        k, w = _below(c - first[2], ratios[2])
        total = 0.0
        for di in range(1 if ratios[0] == 1.0 else 2):
            for dj in range(1 if ratios[1] == 1.0 else 2):
                weight = (u if di else 1.0 - u) * (v if dj else 1.0 - v)
                q = point(i + di, j + dj, k)
                total += weight * ((1.0 - w) * coarse[q] + w * coarse[point(i + di, j + dj, k + 1)])
        fine[p] += total

    def paint(p: Any, x: Any, colour: Any, first: Any, cells: Any) -> None:
        x[p] = 1.0 if colour_of(triple(p), first, cells) == colour else 0.0

    return Transfer(foreach(restrict), foreach(prolong), foreach(paint))


@jit
def _window(coarse: Any, ratio: Any, halved: Any) -> Any:
    """Return the first fine cell that a coarse one takes, and the end."""
    if halved:
        return 2 * coarse - 1, 2 * coarse + 3
    if ratio == 1.0:
        return coarse, coarse + 1
    return math.floor((coarse - 0.5) / ratio - 0.5) + 1, math.ceil((coarse + 1.5) / ratio - 0.5)


@jit
def _weight(fine: Any, number: Any, coarse: Any, ratio: Any, halved: Any) -> Any:
    """Return the weight of a fine cell, which is the one of some number in the window, for a coarse one."""
    if halved:
        return 0.75 if number == 1 or number == 2 else 0.25
    return 1.0 - abs((fine + 0.5) * ratio - 0.5 - coarse)


@jit
def _below(fine: Any, ratio: Any) -> Any:
    """Return the coarse cell whose centre is the last one before that of a fine cell, and the weight of the next one."""
    place = (fine + 0.5) * ratio - 0.5
    whole = math.floor(place)
    return whole, place - whole


@jit
def _colour(cell: Any, first: Any, cells: Any) -> Any:
    """Return one of three colours of a cell. The last one of a periodic axis differs from its neighbour, the first."""
    total = 0
    for axis in range(3):
        i = cell[axis] - first[axis]
        total += i % 3 + (1 if i == cells[axis] - 1 and i % 3 == 0 else 0)
    return total % 3


_TRIPLES: dict[int, Callable[..., Any]] = {
    1: jit(lambda p: (0, 0, p[0])),
    2: jit(lambda p: (0, p[0], p[1])),
    3: jit(lambda p: (p[0], p[1], p[2])),
}
_POINTS: dict[int, Callable[..., Any]] = {
    1: jit(lambda i, j, k: Point(k)),
    2: jit(lambda i, j, k: Point(j, k)),
    3: jit(lambda i, j, k: Point(i, j, k)),
}
