"""The clusters near each point: a list for each, made anew at each temperature."""

from __future__ import annotations

import math
from typing import Any

import gondwana as gw
from gondwana_apps.davs.exchange import add
from gondwana_apps.davs.kernels import prepare, square, sums_of


@gw.jit
def along(d: int, x: Any, i: int, table: Any, k: int) -> float:
    """Return z^2 of axis 0 between a point and a centre, infinity beyond the ends of the table."""
    if 0 <= k < len(table):
        z: float = (x[i, 0] - table[k, 0]) * table[k, d]
        return z * z
    return math.inf


@gw.jit
def place_of(table: Any, position: float) -> int:
    """Return the first row at a position along axis 0 or after it."""
    place, top = 0, len(table)
    while place < top:
        middle = (place + top) // 2
        if table[middle, 0] < position:
            place = middle + 1
        else:
            top = middle
    return place


@gw.jit
def insert(found: Any, nearest: Any, n: int, d2: float, k: int) -> int:
    """Insert a cluster among the nearest ones, of which the last may fall out; return their number."""
    j = min(n, len(found) - 1)
    while j > 0 and (found[j - 1] > d2 or (found[j - 1] == d2 and nearest[j - 1] > k)):
        found[j] = found[j - 1]
        nearest[j] = nearest[j - 1]
        j -= 1
    found[j] = d2
    nearest[j] = k
    return min(n + 1, len(found))


@gw.jit
def search(law: Any, x: Any, i: int, table: Any, place: int, nearest: Any, found: Any) -> int:
    """Find the nearest clusters of a point, from its place outward on both sides until axis 0 alone is too far.

    Returns:
        Number of clusters found.
    """
    d, capacity = len(law.widths), len(found)
    n, left, right, bound = 0, place - 1, place, law.sponge + law.limit
    to_left, to_right = along(d, x, i, table, left), along(d, x, i, table, right)
    while min(to_left, to_right) <= bound and (left >= 0 or right < len(table)):
        if to_left < to_right:
            k = left
            left -= 1
            to_left = along(d, x, i, table, left)
        else:
            k = right
            right += 1
            to_right = along(d, x, i, table, right)
        d2 = square(d, x, i, table, k)
        if d2 < bound or (d2 == bound and (n < capacity or k < nearest[n - 1])):
            n = insert(found, nearest, n, d2, k)
            bound = min(law.sponge, found[0]) + law.limit
            if n == capacity:
                bound = min(bound, found[n - 1])
    while n > 0 and found[n - 1] > bound:
        n -= 1
    return n


@gw.jit
def choose(
    threads: Any, law: Any, x: Any, rows: Any, table: Any, lists: Any, counts: Any, work: Any
) -> tuple[float, float]:
    """List the nearest clusters of each point by their rows, which are sorted along axis 0.

    Returns:
        Largest of the smallest d2 of points, or that of the sponge if it is smaller; the largest d2 in a list.
    """
    prepare(threads, law, rows, table)
    begin, end = threads.share(0, len(x))
    found = work[threads.index, 0]
    closest = farthest = 0.0
    place = place_of(table, x[begin, 0]) if begin < end else 0
    for i in range(begin, end):
        while place < len(table) and table[place, 0] < x[i, 0]:
            place += 1
        n = search(law, x, i, table, place, lists[i], found)
        counts[i] = n
        closest = max(closest, min(law.sponge, found[0] if n > 0 else math.inf))
        if n > 0:
            farthest = max(farthest, found[n - 1])
    return threads.max(closest), threads.max(farthest)


@gw.jit
def begin(threads: Any, law: Any, state: Any) -> tuple[float, float, int]:
    """Make the lists, without any memberships. Collective over the ranks.

    Returns:
        The results of `choose`, and the largest number of points whose lists contain the same cluster of this window.
    """
    lists, counts = state.lists, state.counts
    closest, farthest = choose(threads, law, state.x, state.rows, state.table, lists, counts, state.work)
    first, end = threads.share(0, len(counts))
    partial, sums = sums_of(threads, state, 1)
    mine = partial[threads.index]
    mine[:, :] = 0
    for i in range(first, end):
        for j in range(counts[i]):
            mine[lists[i, j], 0] += 1
        state.old[i, :] = 0.0
    add(threads, state.links, partial, sums, state.room, state.spent)
    most = 0
    for k in range(len(sums) - 1):
        most = max(most, sums[k, 0])
    return closest, farthest, most
