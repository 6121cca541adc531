"""Filling the ghosts at walls: a kernel for each form of condition, which the exchange launches.

Kernels read `a[p + offset * unit]`, the mirror of the ghost p: `offset` is its distance along the axis, which has the
sign of the way inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import (
    Dirichlet,
    Faces,
    Fixed,
    Reflect,
    Wall,
    conditions,
)
from gondwana.arrays.walls.slabs import Slab, slabs
from gondwana.compiler.function import jit
from gondwana.domains import Point, RectDomain
from gondwana.domains.point import Offset
from gondwana.kernels.foreach_kernels import Foreach, foreach
from gondwana.transfer.plans.plan import Launch, Plan


def fill_walls(plan: Plan, arrays: Sequence[tuple[Any, Layout, Faces, int]], *, corners: bool) -> None:
    """Have an exchange of arrays fill their walls, too. Local.

    What needs nothing from other ranks is filled while the messages travel, the rest when they are there.

    Args:
        plan: exchange of the ghosts that other cells give.
        arrays: local block, layout, faces and rank of each array with walls.
        corners: whether to fill also ghosts that lie outside along several axes.
    """
    early: list[Launch] = []
    late: list[Launch] = []
    for block, layout, faces, rank in arrays:
        for slab in slabs(layout, faces, rank, corners=corners):
            early += _launches(slab, [slab.early], block, layout)
            late += _launches(slab, slab.late, block, layout)
    timed = any(one.is_timed(len(faces)) for _, _, faces, _ in arrays for one in conditions(faces))
    plan._with_kernels(early, late, timed=timed)


def _launches(slab: Slab, boxes: Iterable[RectDomain], block: Any, layout: Layout) -> list[Launch]:
    """What fills boxes of a slab."""
    kernel, args, timed = _kernel_of(slab, block, layout)
    return [(kernel.prepared(box, block, *args), timed) for box in boxes if not box.is_empty]


def _kernel_of(slab: Slab, block: Any, layout: Layout) -> tuple[Foreach, tuple[Any, ...], bool]:
    """The kernel of a condition, its arguments after the array, and whether the last of them is the time."""
    condition, ndim = slab.condition, len(layout.ghost)
    timed = condition.is_timed(ndim)
    if isinstance(condition, Wall):
        return condition.kernel, (*condition.args, *((0.0,) if timed else ())), timed
    function = condition.function
    if function is not None:
        around = Point([n if closed else 0 for n, closed in zip(layout.domain.shape, layout.periodic, strict=True)])
        kernel = _of_function(type(condition).__name__, slab.axis, ndim, function, timed)
        return kernel, (slab.twice, layout.domain.lo, around, 0.0), timed
    number = _NUMBERS.get(block.dtype.kind, int)
    if isinstance(condition, Fixed):
        return _fixed(), (number(condition.value),), False
    numbers: tuple[Any, ...] = 1, 0, condition.value
    if isinstance(condition, Dirichlet):
        numbers = -1, 2 * condition.value, 0  # type: ignore[operator]
    elif isinstance(condition, Reflect):
        numbers = condition.sign, 0, 0
    if numbers == (1, 0, 0):
        return _mirrored(slab.axis), (slab.twice,), False
    return _linear(slab.axis), (slab.twice, *map(number, numbers)), False


_NUMBERS: dict[str, Callable[[Any], Any]] = {"b": bool, "f": float, "c": complex}
"""The types of numbers beside elements, by the kinds of dtypes; for others: int."""


@functools.cache
def _fixed() -> Foreach:
    @foreach
    def fixed(p: Any, a: Any, value: Any) -> None:
        a[p] = value

    return fixed


@functools.cache
def _mirrored(axis: int) -> Foreach:
    unit = Offset.unit(axis)

    @foreach
    def mirrored(p: Any, a: Any, twice: int) -> None:
        a[p] = a[p + (twice - 2 * p[axis]) * unit]

    return mirrored


@functools.cache
def _linear(axis: int) -> Foreach:
    unit = Offset.unit(axis)

    @foreach
    def linear(p: Any, a: Any, twice: int, scale: Any, value: Any, slope: Any) -> None:
        offset = twice - 2 * p[axis]
        a[p] = scale * a[p + offset * unit] + (value + slope * abs(offset))

    return linear


@functools.lru_cache(256)
def _of_function(kind: str, axis: int, ndim: int, function: Callable[..., Any], timed: bool) -> Foreach:
    """The kernel of a condition whose value is a function."""
    unit, value = Offset.unit(axis), _value(axis, ndim, function, timed)

    def dirichlet(p: Any, a: Any, twice: int, first: Any, around: Any, time: float) -> None:
        a[p] = 2 * value(p, 0.5 * twice, first, around, time) - a[p + (twice - 2 * p[axis]) * unit]

    def neumann(p: Any, a: Any, twice: int, first: Any, around: Any, time: float) -> None:
        offset = twice - 2 * p[axis]
        a[p] = a[p + offset * unit] + abs(offset) * value(p, 0.5 * twice, first, around, time)

    def fixed(p: Any, a: Any, twice: int, first: Any, around: Any, time: float) -> None:
        a[p] = value(p, float(p[axis]), first, around, time)

    return foreach({"Dirichlet": dirichlet, "Neumann": neumann, "Fixed": fixed}[kind])


def _value(axis: int, ndim: int, function: Callable[..., Any], timed: bool) -> Callable[..., Any]:
    """A function of a ghost, of the coordinate along the axis that stands for its own, and of the time.

    Along periodic axes ghosts have the coordinate of the cell that they repeat.
    """
    given = jit(function)

    @jit
    def at(number: int, p: Any, along: float, first: Any, around: Any) -> float:
        if number == axis:
            return along
        if around[number] > 0:
            return float(first[number] + (p[number] - first[number]) % around[number])
        return float(p[number])

    @jit
    def place_1(p: Any, along: float, first: Any, around: Any) -> Any:
        return (along,)

    @jit
    def place_2(p: Any, along: float, first: Any, around: Any) -> Any:
        return at(0, p, along, first, around), at(1, p, along, first, around)

    @jit
    def place_3(p: Any, along: float, first: Any, around: Any) -> Any:
        return at(0, p, along, first, around), at(1, p, along, first, around), at(2, p, along, first, around)

    @jit
    def place_4(p: Any, along: float, first: Any, around: Any) -> Any:
        return (*place_3(p, along, first, around), at(3, p, along, first, around))

    place = (place_1, place_2, place_3, place_4)[ndim - 1]

    @jit
    def steady(p: Any, along: float, first: Any, around: Any, time: float) -> Any:
        return given(*place(p, along, first, around))

    @jit
    def changing(p: Any, along: float, first: Any, around: Any, time: float) -> Any:
        return given(*(place(p, along, first, around) + (time,)))

    return changing if timed else steady
