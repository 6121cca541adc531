"""The charges: +1 on the ten cells with the largest random numbers, -1 on those with the smallest (NAS-91-002, 2.2.1).

Cell (k, j, i) has number L + 1 of the stream, L = i + n (j + n k). Ranks jump to their own cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gondwana as gw
from gondwana_apps.npb.common import stream

COUNT = 10
_MASK = np.uint64(stream.MASK)
_STEP = np.uint64(stream.MULTIPLIER)


def place(v: gw.Array | None, box: gw.RectDomain, cells: int, team: gw.Team) -> None:
    """Set the cells of `box` in `v` to the charges, all others to zero. Collective over team.

    Args:
        v: block of this rank; None without one.
        box: the cells of this rank, perhaps none.
        cells: number of cells along each side of the cube.
        team: the ranks that share the cube.
    """
    candidates = [one for rank in team.allgather(extremes(box, cells)) for one in rank]
    if v is None:
        return
    v.fill(0.0)
    ordered = sorted(candidates)
    for charge, chosen in ((-1.0, ordered[:COUNT]), (1.0, ordered[-COUNT:])):
        for _, point in chosen:
            if gw.Point(*point) in box:
                v[point] = charge


def extremes(box: gw.RectDomain, cells: int) -> list[tuple[int, tuple[int, int, int]]]:
    """Return the largest and the smallest states in a box, with their cells, in no order. Local."""
    if box.is_empty:
        return []
    if box.size <= 2 * COUNT:
        return [(state_of(p, cells), (p[0], p[1], p[2])) for p in box]
    states = np.full((2, COUNT), stream.MODULUS, np.uint64)
    states[1] = 0
    points = np.zeros((2, COUNT, 3), np.int64)
    # The state before the first cell of the box, and the jumps to the next line and plane.
    first = state_of(box.lo, cells) * pow(stream.MULTIPLIER, -1, stream.MODULUS) % stream.MODULUS
    jumps = stream.power(cells), stream.power(cells**2)
    _scan(np.uint64(first), np.uint64(jumps[0]), np.uint64(jumps[1]), box.lo, box.hi, states, points)
    cells_of_states: list[Any] = points.reshape(-1, 3).tolist()
    return list(zip(states.ravel().tolist(), map(tuple, cells_of_states), strict=True))


def state_of(point: gw.Point, cells: int) -> int:
    """Return the state of the stream that belongs to a cell. Local."""
    k, j, i = point
    return stream.state_after(i + cells * (j + cells * k) + 1)


@gw.jit
def _scan(first: Any, line: Any, plane: Any, lo: gw.Point, hi: gw.Point, states: Any, points: Any) -> None:
    """Keep the smallest states in `states[0]` and the largest in `states[1]`; the last of each is the next to go."""
    at_plane = first
    for k in range(lo[0], hi[0]):
        at_line = at_plane
        for j in range(lo[1], hi[1]):
            x = at_line
            for i in range(lo[2], hi[2]):
                x = (_STEP * x) & _MASK
                if x < states[0, COUNT - 1]:
                    _insert(states, points, 0, x, k, j, i)
                if x > states[1, COUNT - 1]:
                    _insert(states, points, 1, x, k, j, i)
            at_line = (line * at_line) & _MASK
        at_plane = (plane * at_plane) & _MASK


@gw.jit
def _insert(states: Any, points: Any, side: int, x: Any, k: int, j: int, i: int) -> None:
    """Insert a state among the ordered ones; the last one goes."""
    n = COUNT - 1
    while n > 0 and ((side == 0 and x < states[side, n - 1]) or (side == 1 and x > states[side, n - 1])):
        states[side, n] = states[side, n - 1]
        for axis in range(3):
            points[side, n, axis] = points[side, n - 1, axis]
        n -= 1
    states[side, n] = x
    points[side, n, 0], points[side, n, 1], points[side, n, 2] = k, j, i
