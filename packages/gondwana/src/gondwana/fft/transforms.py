"""NumPy's functions for global arrays, and `plan`, which checks what is transformed and chooses the way."""

from __future__ import annotations

import dataclasses
import math
import operator
import time
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from gondwana.arrays.create import empty_like, full
from gondwana.arrays.expressions.expression import Elementwise
from gondwana.arrays.expressions.functions import array as array_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.fft.plans import Plan, Problem, checked_array, complex_of
from gondwana.fft.routes import Route, routes
from gondwana.teams import Team

Norm = Literal["backward", "ortho", "forward"]
"""Which direction divides by the number of points n: the inverse, both by the root of n, or the forward one."""

Axes = Sequence[SupportsIndex] | None

_TRIALS = 3
_chosen: dict[Problem, Route] = {}
"""The routes that were the fastest."""

_KEPT = 4
_kept: dict[tuple[Any, ...], Plan] = {}
"""The last plans of the functions."""


def plan(like: GlobalArray, axes: Axes = None, *, norm: Norm = "backward", transposed: bool = False) -> Plan:
    """Make a plan of Fourier transforms, for loops. Collective over team; blocks; transforms nothing yet.

    A real array has the spectrum of `numpy.fft.rfftn`, a complex one that of `numpy.fft.fftn`; float32 and complex64
    stay single. Transforms run along axes that are whole on each rank; where they are cut, `gw.copy` moves the elements
    to another division, in slabs or in pencils. Where several ways are possible, the first plan for a size tries them.
    The plan keeps the buffers in between.

    Args:
        like: array in space: it gives shape, division, dtype and team, in host memory. Its elements are not read.
        axes: axes that are transformed, as in NumPy; default: all. Along the last of them the spectrum of n real
            elements has n // 2 + 1.
        norm: "backward", "ortho" or "forward", as in NumPy: which direction divides.
        transposed: True: the spectrum stays where the last transform leaves it, which saves a copy in each direction:
            it has another division, and its axes are in the order `plan.order`. False: the axes, the grid and the cuts
            of the spectrum are those of `like`.

    Raises:
        UsageError: an argument is illegal, or differs between ranks; raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros((4, 6, 8), ghost=1)
        >>> plan = gw.fft.plan(T)
        >>> plan.forward(T).shape, plan.inverse(plan.forward(T), out=T) is T
        ((4, 6, 5), True)
    """
    checked_array(like)
    return _plan(like.layout, like.dtype, like.team, axes, norm, transposed)


def fftn(a: Elementwise, axes: Axes = None, norm: Norm = "backward") -> GlobalArray:
    """Return the discrete Fourier transform of an array, as `numpy.fft.fftn` does. Collective over team; blocks.

    The buffers and plans of the last four different transforms are kept. In a loop a `gw.fft.plan` is faster: it can
    leave the result transposed, and writes to arrays that are there.

    Args:
        a: global array, view or expression, real or complex, in host memory; ghosts are not read.
        axes: axes that are transformed; default: all.
        norm: "backward", "ortho" or "forward": which direction divides by the number of points.

    Returns:
        An array of the same division, complex64 for single precision, else complex128, without ghosts.

    Raises:
        UsageError: an argument is illegal, or differs between ranks; raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> gw.fft.fftn(gw.ones((2, 4))).to_numpy().real.tolist()
        [[8.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    array = _complex(a)
    return _kept_plan(array.layout, array, axes, norm).forward(array)


def ifftn(a: Elementwise, axes: Axes = None, norm: Norm = "backward") -> GlobalArray:
    """Return the inverse of `fftn`. Collective over team; blocks. Arguments, result and errors as there.

    Example:
        >>> import gondwana as gw
        >>> gw.fft.ifftn(gw.fft.fftn(gw.ones(4))).to_numpy().real.tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    array = _complex(a)
    return _kept_plan(array.layout, array, axes, norm).inverse(array)


def rfftn(a: Elementwise, axes: Axes = None, norm: Norm = "backward") -> GlobalArray:
    """Return the Fourier transform of a real array, as `numpy.fft.rfftn` does. Collective over team; blocks.

    Args:
        a: as for `fftn`, but real.
        axes: axes that are transformed; default: all. Along the last of them the result has n // 2 + 1 elements.
        norm: "backward", "ortho" or "forward": which direction divides by the number of points.

    Returns:
        An array of the same division; an axis that is shorter has no cuts.

    Raises:
        UsageError: an argument is illegal, or differs between ranks; raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> gw.fft.rfftn(gw.ones((2, 4))).to_numpy().real.tolist()
        [[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    array = _array(a)
    if array.dtype.kind != "f":
        raise UsageError("gw.fft.rfftn of complex elements: give a real array, or call gw.fft.fftn")
    return _kept_plan(array.layout, array, axes, norm).forward(array)


def irfftn(a: Elementwise, s: Sequence[int] | None = None, axes: Axes = None, norm: Norm = "backward") -> GlobalArray:
    """Return the inverse of `rfftn`, a real array, as `numpy.fft.irfftn` does. Collective over team; blocks.

    Args:
        a: spectrum: global array, view or expression, complex, in host memory.
        s: number of elements of the result along each of the axes: those of `a`, but along the last axis, where m
            elements come from 2 * m - 2 or from 2 * m - 1; default: an even number.
        axes: axes that are transformed; default: all.
        norm: "backward", "ortho" or "forward": which direction divides by the number of points.

    Returns:
        An array of the same division, without ghosts.

    Raises:
        UsageError: an argument is illegal, or differs between ranks; raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> T = gw.from_function(lambda x: x, 5)
        >>> abs(gw.fft.irfftn(gw.fft.rfftn(T), s=(5,)) - T).max() < 1e-15
        True
    """
    array = _complex(a)
    which = _checked_axes(axes, array.ndim)
    *others, m = (array.shape[axis] for axis in which)
    legal = [[*others, max(1, 2 * m - 2)], [*others, 2 * m - 1]]
    wanted = legal[0] if s is None else [operator.index(n) for n in s]
    if wanted not in legal:
        raise UsageError(
            f"gw.fft.irfftn(s={s!r}) along axes {which} of a spectrum of shape {array.shape}: give {legal[0]} or "
            f"{legal[1]}"
        )
    layout = _resized(array.layout, which[-1], wanted[-1])
    return _kept_plan(layout, array, axes, norm, real=True).inverse(array)


def _plan(layout: Layout, dtype: np.dtype[Any], team: Team, axes: Axes, norm: str, transposed: bool = False) -> Plan:
    """Make a plan for arrays of a layout. Collective over team."""
    error: UsageError | None = None
    try:
        which = _checked_axes(axes, layout.domain.ndim)
        scales = _scales(norm, math.prod(layout.domain.shape[axis] for axis in which))
    except UsageError as wrong:
        error = wrong
    given = {"domain": layout.domain, "grid": layout.grid, "cuts": layout.cuts, "dtype": dtype.name}
    team.expect_same("Fourier transforms", error, **given, axes=axes, norm=norm, transposed=transposed)
    length = layout.domain.shape[which[-1]]
    space = _resized(layout, which[-1], length)
    natural = space if dtype.kind == "c" else _resized(layout, which[-1], length // 2 + 1)
    problem = Problem(space, natural, dtype, team, which, scales, transposed)
    return Plan(problem, _route(problem))


def _route(problem: Problem) -> Route:
    """The fastest route, tried if there are several. Collective over team."""
    space, real = problem.space, problem.real
    ways = routes(problem.natural.domain.shape, space.grid, problem.axes, real=real, transposed=problem.transposed)
    if len(ways) > 1 and problem not in _chosen:
        team, seconds = problem.team, []
        array = full(space, 0, problem.dtype, team=team)
        for plan in (Plan(problem, route) for route in ways):
            spectrum, times = plan.forward(array), []
            for _ in range(_TRIALS):
                team.barrier()
                start = time.perf_counter()
                plan.inverse(plan.forward(array, spectrum), array)
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
        slowest = np.max(team.allgather(seconds), axis=0)
        _chosen[problem] = ways[int(slowest.argmin())]
    return _chosen.get(problem, ways[0])


def _kept_plan(layout: Layout, array: GlobalArray, axes: Axes, norm: str, *, real: bool = False) -> Plan:
    """The plan of a function for arrays of a layout in space, made unless it is kept. Collective over team."""
    dtype = np.empty(0, array.dtype).real.dtype if real else array.dtype
    key = array.team, layout, dtype, axes if axes is None else tuple(axes), norm
    _kept[key] = _kept.pop(key) if key in _kept else _plan(layout, dtype, array.team, axes, norm)
    if len(_kept) > _KEPT:
        _kept.pop(next(iter(_kept)))
    return _kept[key]


def _array(given: Elementwise) -> GlobalArray:
    """The array of an argument. Collective over team for a view or an expression."""
    whole = isinstance(given, GlobalArray) or not isinstance(given, Elementwise)
    return checked_array(given if whole else array_of(given))


def _complex(given: Elementwise) -> GlobalArray:
    """The array of an argument with complex elements. Collective over team unless it is one."""
    array = _array(given)
    if array.dtype.kind == "c":
        return array
    found = empty_like(array, complex_of(array.dtype))
    found.values[...] = array.values
    return found


def _resized(layout: Layout, axis: int, length: int) -> Layout:
    """The layout without ghosts, with so many cells along an axis; if that is another number, it has no cuts there."""
    axes, cuts = list(layout.domain.axes), list(layout.cuts or (None,) * layout.domain.ndim)
    if length != len(axes[axis]):
        axes[axis], cuts[axis] = range(axes[axis].start, axes[axis].start + length), None
    return dataclasses.replace(
        layout, domain=RectDomain.from_axes(axes), ghost=(0,) * len(axes), cuts=tuple(cuts) if any(cuts) else None
    )


def _checked_axes(axes: Axes, ndim: int) -> tuple[int, ...]:
    try:
        found = tuple(range(ndim)[operator.index(axis)] for axis in (range(ndim) if axes is None else axes))
    except (IndexError, TypeError):
        found = ()
    if not found or len(set(found)) < len(found):
        raise UsageError(f"axes={axes!r} of {ndim} axes: give a list of numbers from {-ndim} to {ndim - 1}, each once")
    return found


def _scales(norm: str, points: int) -> tuple[float, float]:
    """The factors of both directions."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}.get(norm)
    if power is None:
        raise UsageError(f'norm={norm!r}: the norms are "backward", "ortho" and "forward"')
    return points**-power, points ** (power - 1)
