"""Filling the ghosts at walls: a kernel for each form of condition, and the exchange that launches them.

Kernels read `a[p + offset * unit]`, the mirror of the ghost p: `offset` is its distance along the axis, which has the
sign of the way inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self

from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import (
    Dirichlet,
    Faces,
    Fixed,
    Reflect,
    Wall,
    check_time,
    conditions,
)
from gondwana.arrays.walls.slabs import Slab, slabs
from gondwana.compiler.function import jit
from gondwana.domains import Point, RectDomain
from gondwana.domains.point import Offset
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Foreach, foreach
from gondwana.transfer.plans.plan import Plan

_Launch = tuple[Callable[..., None], bool]
"""Fills a box of ghosts; and whether it takes the time."""


class WalledExchange(Plan):
    """An exchange of arrays of which some have walls. Collective over their team to make.

    What needs nothing from other ranks is filled while the messages travel, the rest when they are there.

    Args:
        plan: exchange of the ghosts that other cells give.
        arrays: local block, layout, faces and rank of each array with walls.
        corners: whether to fill also ghosts that lie outside along several axes.
    """

    def __init__(self, plan: Plan, arrays: Sequence[tuple[Any, Layout, Faces, int]], *, corners: bool) -> None:
        super().__init__(plan._copies)
        self._plan, self._rounds = plan, plan._rounds
        self._timed = any(one.is_timed(len(faces)) for _, _, faces, _ in arrays for one in conditions(faces))
        self._time = 0.0
        self._early: list[_Launch] = []
        self._late: list[_Launch] = []
        for block, layout, faces, rank in arrays:
            for slab in slabs(layout, faces, rank, corners=corners):
                self._early += _launches(slab, [slab.early], block, layout)
                self._late += _launches(slab, slab.late, block, layout)

    def start(self, time: float | None = None) -> Self:
        """Begin a round. Collective over the ranks with copies; does not wait for them. Internal progress.

        Args:
            time: time at which walls that depend on it are filled.

        Raises:
            RuntimeError: the last round was not waited for.
            UsageError: a wall depends on the time and there is none, or none does and there is one.
        """
        check_time(time, needed=self._timed)
        self._time = 0.0 if time is None else float(time)
        return super().start()

    def _begin(self) -> None:
        self._plan._begin()
        self._fill(self._early)

    def _soon(self) -> bool:
        return self._plan._soon()

    def _advance(self) -> bool:
        return self._plan._advance()

    def _end(self) -> None:
        self._plan._end()
        self._fill(self._late)

    def _fill(self, launches: list[_Launch]) -> None:
        for launch, timed in launches:
            if timed:
                launch(self._time)
            else:
                launch()

    def __gondwana_argument__(self) -> NoReturn:
        """Compiled code does not fill walls."""
        raise UsageError(
            "compiled code exchanges the ghosts of arrays without walls; an array of this exchange has boundary=: call "
            "exchange() and wait() in Python"
        )


def _launches(slab: Slab, boxes: Iterable[RectDomain], block: Any, layout: Layout) -> list[_Launch]:
    """What fills boxes of a slab."""
    kernel, args, timed = _kernel_of(slab, block, layout)
    found = [(box, block, *args) for box in boxes if not box.is_empty]
    return [(functools.partial(kernel, *one) if timed else kernel.prepared(*one), timed) for one in found]


def _kernel_of(slab: Slab, block: Any, layout: Layout) -> tuple[Foreach, tuple[Any, ...], bool]:
    """The kernel of a condition, its arguments after the array, and whether the time comes last."""
    condition, ndim = slab.condition, len(layout.ghost)
    timed = condition.is_timed(ndim)
    if isinstance(condition, Wall):
        return condition.kernel, condition.args, timed
    function = condition.function
    if function is not None:
        around = Point([n if closed else 0 for n, closed in zip(layout.domain.shape, layout.periodic, strict=True)])
        args = slab.twice, layout.domain.lo, around
        return (
            _of_function(type(condition).__name__, slab.axis, ndim, function, timed),
            args if timed else (*args, 0.0),
            timed,
        )
    number = _NUMBERS.get(block.dtype.kind, int)
    if isinstance(condition, Fixed):
        return _fixed(), (number(condition.value),), False
    scale: Any = 1
    value: Any = 0
    slope: Any = 0
    if isinstance(condition, Dirichlet):
        scale, value = -1, 2 * condition.value  # type: ignore[operator]
    elif isinstance(condition, Reflect):
        scale = condition.sign
    else:
        slope = condition.value
    if (scale, value, slope) == (1, 0, 0):
        return _mirrored(slab.axis), (slab.twice,), False
    return _linear(slab.axis), (slab.twice, number(scale), number(value), number(slope)), False


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
