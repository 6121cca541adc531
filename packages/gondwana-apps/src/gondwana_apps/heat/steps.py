"""The time loop: compiled, or from Python if two steps are one sweep or devices or other nodes take part."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.heat import exchange
from gondwana_apps.heat.kernels import (
    Rates,
    conduct,
    conduct_and_sum,
    conduct_inside,
    conduct_inside_and_sum,
    heat,
    rates_of,
    sweep,
    total,
)
from gondwana_apps.heat.settings import Settings


class Parts(NamedTuple):
    """The cells of a rank, as `sweep` takes them: those that need no neighbour, the others, and all."""

    inner: NDArray[np.int64]
    rim: NDArray[np.int64]
    owned: NDArray[np.int64]


class Plan(NamedTuple):
    """What all steps have in common, and the numbers of those at which something changes or happens.

    Attributes:
        team: the ranks that share the box.
        parts: the cells of this rank.
        box: the cells of all ranks.
        rates: constants of the model.
        half: the last step with the power on.
        last: number of the last step.
        every: steps between two sums of the temperature.
        overlap: whether the cells that need no neighbour are computed while the ghosts are under way.
    """

    team: gw.Team
    parts: Parts
    box: Any
    rates: Rates
    half: int
    last: int
    every: int
    overlap: bool


def plan_of(settings: Settings, T: gw.GlobalArray) -> Plan:
    """Return the plan of a run. Local.

    Args:
        settings: settings of the run.
        T: array for the temperature.
    """
    parts = Parts(*(exchange.as_rows(boxes) for boxes in ([T.inner], list(T.rim.rects), [T.owned])))
    half, every = settings.N // 2, settings.sums_every
    return Plan(T.team, parts, T.domain, rates_of(settings), half, settings.N, every, settings.overlap)


class Record(NamedTuple):
    """Measurements in steps of this rank.

    Attributes:
        nanoseconds: duration of each step.
        sums: sums of the temperature before each step, over all ranks; NaN if not taken.
    """

    nanoseconds: NDArray[np.int64]
    sums: NDArray[np.float64]


Loop = Callable[[int, int, Record], int]
"""`loop(first, present, record)` does steps from number `first` on, as many as the record can hold.

`present` is the number of the array, of two, that has the temperature; the result is that number afterwards.
Collective over the team of the arrays; blocks.
"""


def make_loop(settings: Settings, arrays: tuple[gw.GlobalArray, gw.GlobalArray], fuse_steps: int) -> Loop:
    """Return the time loop. Collective over the team of the arrays; blocks.

    Args:
        settings: settings of the run.
        arrays: arrays for the temperature before a sweep, and after it; with as many ghost layers as a sweep has steps.
        fuse_steps: time steps in one sweep.
    """
    T = arrays[0]
    plan = plan_of(settings, T)
    if fuse_steps > 1 or not T.kind.host or (settings.variant != "two-sided" and T.team.node_count > 1):
        return _Interpreted(settings, arrays, plan, fuse_steps)
    ghosts_of = COMPILED[settings.variant][2]
    function, ghosts = _loops[settings.variant], [ghosts_of(array) for array in arrays]

    def run(first: int, present: int, record: Record) -> int:
        even = (first + present) % 2  # the array that even steps read
        ordered = arrays[even], arrays[1 - even], ghosts[even], ghosts[1 - even]
        gw.parallel(function, *ordered, plan, first, record)
        return (present + len(record.sums)) % 2

    return run


def compiled_loop(begin: Any, finish: Any, sweep: Any = sweep) -> Any:
    """Return the loop in compiled code. Local.

    Args:
        begin: starts an exchange; called by thread 0 with the ghosts of an array.
        finish: waits for it, in the same way.
        sweep: computes the cells of boxes, as `kernels.sweep` does.
    """

    @gw.jit
    def step(threads: Any, T_next: Any, T: Any, ghosts: Any, plan: Plan, k: Rates, summed: bool) -> float:
        total = 0.0
        if threads.index == 0:
            begin(ghosts)
        if plan.overlap:
            total += sweep(threads, T_next, T, plan.parts.inner, plan.box, k, summed)
        if threads.index == 0:
            finish(ghosts)
        threads.barrier()
        late = plan.parts.rim if plan.overlap else plan.parts.owned
        total += sweep(threads, T_next, T, late, plan.box, k, summed)
        if not summed:
            threads.barrier()
            return np.nan
        total = threads.sum(total)
        return gw.allreduce(plan.team, total) if threads.index == 0 else total  # type: ignore[no-any-return]

    @gw.jit
    def run(
        threads: Any, T: Any, other: Any, ghosts: Any, ghosts_of_other: Any, plan: Plan, first: int, record: Record
    ) -> None:
        start = gw.clock()
        for number in range(first, first + len(record.sums)):
            rates = plan.rates
            k = Rates(rates.dt, rates.q, rates.sigma, rates.P if number <= plan.half else 0.0)
            summed = number % plan.every == 0 or number == plan.last
            if number % 2 == 0:
                total = step(threads, other, T, ghosts, plan, k, summed)
            else:
                total = step(threads, T, other, ghosts_of_other, plan, k, summed)
            if threads.index == 0:
                end = gw.clock()
                record.nanoseconds[number - first] = end - start
                record.sums[number - first] = total
                start = end

    return run


COMPILED: dict[str, tuple[Any, Any, Callable[[gw.GlobalArray], Any]]] = {
    "one-sided": (exchange.begin_stores, exchange.finish_stores, exchange.one_sided),
    "two-sided": (exchange.begin_messages, exchange.finish_messages, exchange.messages),
    "copy-notify": (exchange.begin_copies, exchange.finish_copies, exchange.notified),
}
"""The variants in compiled code, in the memory of one node: functions that start an exchange, that wait for it, and
that make the ghosts of an array for both."""

_loops = {variant: compiled_loop(begin, finish) for variant, (begin, finish, _) in COMPILED.items()}


Boxes = tuple[gw.RectDomain, ...]
"""Cells, as boxes without strides."""

Sweep = Callable[[Boxes, gw.GlobalArray, gw.GlobalArray, Sequence[Rates], Sequence[bool]], Sequence[float]]
"""`sweep(boxes, T_next, T, rates, summed)` computes a step for each of the rates, for the cells of boxes.

It returns the sums of the temperature of these cells before each step, 0.0 for sums that are not wanted. Local.
"""

_between = gw.Intermediate()


@gw.jit
def _sweep_all(threads: Any, T_next: Any, T: Any, parts: Any, box: Any, k: Rates, summed: bool) -> float:
    result = sweep(threads, T_next, T, parts, box, k, summed)
    return threads.sum(result)  # type: ignore[no-any-return]


def one_step(
    boxes: Boxes, T_next: gw.GlobalArray, T: gw.GlobalArray, rates: Sequence[Rates], summed: Sequence[bool]
) -> Sequence[float]:
    """Compute a step on the host: see `Sweep`."""
    (k,), (wanted,) = rates, summed
    return (float(gw.parallel(_sweep_all, T_next, T, _rows(boxes), T.domain, k, wanted)),)


def one_step_on_device(
    boxes: Boxes, T_next: gw.GlobalArray, T: gw.GlobalArray, rates: Sequence[Rates], summed: Sequence[bool]
) -> Sequence[float]:
    """Compute a step on a device: see `Sweep`. It is only started, unless its sum is wanted."""
    (k,), (wanted,) = rates, summed
    before = sum(float(heat(box, T)) for box in boxes) if wanted else 0.0
    for box in boxes:
        conduct(box, T_next, T, T.domain, k)
    return (before,)


def two_steps(
    boxes: Boxes, T_next: gw.GlobalArray, T: gw.GlobalArray, rates: Sequence[Rates], summed: Sequence[bool]
) -> Sequence[float]:
    """Compute two steps in one sweep over memory, on the host, to the bits of two sweeps: see `Sweep`.

    Args:
        boxes: boxes of cells.
        T_next: the temperature two steps later.
        T: temperature with two ghost layers, edges and corners exchanged.
        rates: rates of both steps.
        summed: whether to sum, for both steps.
    """
    now, then = rates
    before = sum(float(total(box, T)) for box in boxes) if summed[0] else 0.0
    kernel, inside = (conduct_and_sum, conduct_inside_and_sum) if summed[1] else (conduct, conduct_inside)
    first = conduct, _between, T, T.domain, now
    second = kernel, T_next, _between, T.domain, then
    interior = _inside(T.domain), conduct_inside, inside
    values = [gw.fused(box, first, second, interior=interior) for box in boxes]
    return before, float(sum(value or 0.0 for value in values))


@functools.lru_cache(64)
def _inside(box: gw.RectDomain) -> gw.RectDomain:
    return box.shrink(1)


@functools.lru_cache(64)
def _rows(boxes: Boxes) -> NDArray[np.int64]:
    return exchange.as_rows(list(boxes))


class _Interpreted:
    """The loop from Python: on devices the kernels of a sweep are only started, unless its sum is wanted.

    Args:
        settings: settings of the run.
        arrays: arrays for the temperature before a sweep, and after it.
        plan: plan of the run.
        fuse_steps: time steps in one sweep.
    """

    def __init__(
        self, settings: Settings, arrays: tuple[gw.GlobalArray, gw.GlobalArray], plan: Plan, fuse_steps: int
    ) -> None:
        self._arrays, self._plan, self._fuse_steps = arrays, plan, fuse_steps
        self._exchanges = [exchange.EXCHANGES[settings.variant](array) for array in arrays]
        self._one_step: Sweep = one_step if arrays[0].kind.host else one_step_on_device
        T = arrays[0]
        early, late = ([T.inner], [*T.rim.rects]) if plan.overlap else ([], [T.owned])
        self._early, self._late = tuple(exchange.dense(early)), tuple(exchange.dense(late))

    def __call__(self, first: int, present: int, record: Record) -> int:
        """Do steps: see `Loop`."""
        place, start = 0, gw.clock()
        while place < len(record.sums):
            steps = min(self._fuse_steps, len(record.sums) - place)
            done = slice(place, place + steps)
            record.sums[done] = self._sweep(first + place, present, steps)
            end = gw.clock()
            record.nanoseconds[done] = (end - start) // steps
            start, place, present = end, place + steps, 1 - present
        gw.synchronize()
        gw.quiesce(self._arrays[0].team)  # replies to notifications
        return present

    def _sweep(self, number: int, present: int, steps: int) -> NDArray[np.float64]:
        """Do the steps of one sweep; return the sums before them over all ranks, NaN for those not wanted."""
        T, T_next, ghosts, plan = self._arrays[present], self._arrays[1 - present], self._exchanges[present], self._plan
        numbers = range(number, number + steps)
        rates = [plan.rates if n <= plan.half else plan.rates._replace(P=0.0) for n in numbers]
        summed = [n % plan.every == 0 or n == plan.last for n in numbers]
        compute = self._one_step if steps == 1 else two_steps
        ghosts.start()
        early = compute(self._early, T_next, T, rates, summed) if self._early else [0.0] * steps
        ghosts.wait()
        late = compute(self._late, T_next, T, rates, summed)
        own = np.add(early, late)
        sums = np.full(steps, np.nan)
        if any(summed):
            T.team.Allreduce(own, sums)
        return np.where(summed, sums, np.nan)
