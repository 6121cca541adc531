"""An array with its walls on one rank, in NumPy: axis after axis, as `numpy.pad` does."""

from __future__ import annotations

from typing import Any

import numpy as np

import gondwana as gw

STALE = 77
"""What ghosts hold that nothing fills."""


def value_at(
    value: Any, domain: gw.RectDomain, closed: tuple[bool, ...], cell: list[int], axis: int, along: float, t: Any
):
    """The value of a condition beside a ghost: a number, or a function of its place."""
    if not callable(value):
        return value
    place = [
        along if e == axis else low + (x - low) % n if around else x
        for e, (x, low, n, around) in enumerate(zip(cell, domain.lo, domain.shape, closed, strict=True))
    ]
    return value(*map(float, place), *([] if t is None else [t]))


def ghost_of(condition: Any, mirror: Any, k: int, value: Any) -> Any:
    """The k-th ghost outside of a wall."""
    if isinstance(condition, gw.Dirichlet):
        return 2 * value - mirror
    if isinstance(condition, gw.Neumann):
        return mirror + value * (2 * k - 1)
    return value if isinstance(condition, gw.Fixed) else condition.sign * mirror


def padded(
    whole: np.ndarray,
    domain: gw.RectDomain,
    ghost: tuple[int, ...],
    closed: tuple[bool, ...],
    walls: dict[tuple[int, int], Any],
    times: dict[tuple[int, int], float] | None = None,
) -> np.ndarray:
    """All cells and the ghosts around them, corners too.

    Args:
        whole: the cells.
        domain: their domain.
        ghost: ghosts of each axis.
        closed: whether each axis is periodic.
        walls: conditions by axis and side, 0 or 1.
        times: time of those that depend on it.
    """
    found = np.full([n + 2 * g for n, g in zip(whole.shape, ghost, strict=True)], STALE, whole.dtype)
    there = [[g, g + n] for n, g in zip(whole.shape, ghost, strict=True)]  # what has values
    found[tuple(slice(*ends) for ends in there)] = whole
    for axis, (g, n) in enumerate(zip(ghost, whole.shape, strict=True)):
        reached = list(there[axis])
        for side in (0, 1):
            condition = walls.get((axis, side))
            if condition is None and not closed[axis]:
                continue
            reached[side] = (n + 2 * g) * side
            for k in range(1, g + 1):
                at, mirror = (g - k, g + k - 1) if side == 0 else (g + n + k - 1, g + n - k)
                for others in np.ndindex(*[b - a for e, (a, b) in enumerate(there) if e != axis]):
                    place = [x + there[e + (e >= axis)][0] for e, x in enumerate(others)]
                    index, source = (*place[:axis], at, *place[axis:]), (*place[:axis], mirror, *place[axis:])
                    if condition is None:
                        source = (*place[:axis], g + (at - g) % n, *place[axis:])
                        found[index] = found[source]
                        continue
                    cell = [x - h + low for x, h, low in zip(index, ghost, domain.lo, strict=True)]
                    wall = (domain.lo, domain.hi)[side][axis] - 0.5
                    along = cell[axis] if isinstance(condition, gw.Fixed) else wall
                    given = condition.value
                    time = (times or {}).get((axis, side))
                    value = value_at(given, domain, closed, cell, axis, along, time)
                    mirrored = found[source] if not isinstance(condition, gw.Fixed) else 0
                    found[index] = ghost_of(condition, mirrored, k, value)
        there[axis] = reached
    return found


def expected(T: gw.GlobalArray, whole: np.ndarray, *, corners: bool, times: Any = None) -> np.ndarray:  # noqa: N803
    """This rank's cells and ghosts after an exchange of ghosts that were all stale."""
    walls = {(a, s): one for a, pair in enumerate(T.faces) for s, one in enumerate(pair) if one is not None}
    found = padded(whole, T.domain, T.ghost, T.periodic, walls, times)
    if T.owned.is_empty:
        return found[(slice(0, 0),) * T.ndim]
    held = found[
        tuple(
            slice(a - low + g, b - low + g)
            for a, b, low, g in zip(T.local.domain.lo, T.local.domain.hi, T.domain.lo, T.ghost, strict=True)
        )
    ]
    outside = sum(
        np.array([[x not in own for x in axis]]).reshape([-1 if e == n else 1 for n in range(T.ndim)]).astype(int)
        for e, (axis, own) in enumerate(zip(T.local.domain.axes, T.owned.axes, strict=True))
    )
    return held if corners else np.where(outside <= 1, held, np.array(STALE, whole.dtype))
