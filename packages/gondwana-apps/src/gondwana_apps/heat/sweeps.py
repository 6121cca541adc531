"""One or two time steps of the cells of a rank, launched from Python by the loop there and by the trial."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

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
    sweep,
    total,
)

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
