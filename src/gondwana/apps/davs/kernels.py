"""The passes over the points (Fox, Mani and Pyne 2013): lists of near clusters, memberships and their sums.

With z = (x - Y_k)/sigma_k and d2 = |z|^2, the membership of a point in cluster k at temperature T is

    M_k = P_k exp(-d2/2T) / sum_j P_j exp(-d2_j/2T),

where the sponge takes part with the constant f^2 as its d2.

Sums over points are sums of integers: a contribution is multiplied by a power of two and truncated. So they have the
same bits in whatever order they are added: on any number of threads and ranks. The last row of the sums is the sponge.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gondwana as gw


class Law(NamedTuple):
    """What memberships depend on beside the table of clusters.

    Attributes:
        half: 1/2T.
        sponge: ln P - f^2/2T of the sponge; minus infinity without one.
        cut: exponents that are smaller than the largest by more than this count as zero.
    """

    half: float
    sponge: float
    cut: float


class Search(NamedTuple):
    """How far around a point its list of clusters reaches.

    Attributes:
        sponge: f^2, infinity without a sponge.
        limit: d2 above the smallest, or above `sponge`, from which a cluster is left out.
        width: sigma along axis 0, relative to the position of the cluster if `relative` is 1.
        relative: 1 or 0.
    """

    sponge: float
    limit: float
    width: float
    relative: int


class Scales(NamedTuple):
    """The powers of two that turn contributions into integers, and the largest |z| and M d2 they are made for."""

    one: float
    z: float
    zz: float
    energy: float
    logarithm: float
    farthest: float
    most: float


@gw.jit
def square(axes: Any, x: Any, i: int, table: Any, k: int) -> float:
    """Return d2 between a point and a centre."""
    total = 0.0
    for a in range(len(axes)):
        z = (x[i, a] - table[k, a]) * table[k, len(axes) + a]
        total += z * z
    return total


@gw.jit
def along(x: Any, i: int, table: Any, k: int, scale: int) -> float:
    """Return z^2 of axis 0 between a point and a centre, infinity beyond the ends of the table."""
    if 0 <= k < len(table):
        z: float = (x[i, 0] - table[k, 0]) * table[k, scale]
        return z * z
    return math.inf


@gw.jit
def choose(
    team: Any, axes: Any, x: Any, table: Any, search: Any, lists: Any, counts: Any, near: Any, partial: Any, reach: Any
) -> None:
    """List the nearest clusters of each point by their rows in the table, which is sorted along axis 0.

    From the place of the point outward on both sides, until clusters are too far along axis 0 alone. `partial[t]` gets
    the points in whose list a cluster is; `reach[t]` the largest d2 in a list and the range of axis 0 that was needed.
    """
    begin, end = team.share(0, len(x))
    rows, capacity, scale = len(table), lists.shape[1], len(axes)
    mine, found = partial[team.index], near[team.index]
    mine[:, 0] = 0
    farthest, low, high = 0.0, math.inf, -math.inf
    place = 0
    if begin < end:
        top = rows
        while place < top:
            middle = (place + top) // 2
            if table[middle, 0] < x[begin, 0]:
                place = middle + 1
            else:
                top = middle
    for i in range(begin, end):
        while place < rows and table[place, 0] < x[i, 0]:
            place += 1
        n, left, right, bound = 0, place - 1, place, search.sponge + search.limit
        to_left, to_right = along(x, i, table, left, scale), along(x, i, table, right, scale)
        while True:
            if min(to_left, to_right) > bound or (left < 0 and right >= rows):
                break
            if to_left < to_right:
                k = left
                left -= 1
                to_left = along(x, i, table, left, scale)
            else:
                k = right
                right += 1
                to_right = along(x, i, table, right, scale)
            d2 = square(axes, x, i, table, k)
            if d2 > bound or (n == capacity and d2 == bound and k > lists[i, n - 1]):
                continue
            j = min(n, capacity - 1)
            while j > 0 and (found[j - 1] > d2 or (found[j - 1] == d2 and lists[i, j - 1] > k)):
                found[j] = found[j - 1]
                lists[i, j] = lists[i, j - 1]
                j -= 1
            found[j] = d2
            lists[i, j] = k
            n = min(n + 1, capacity)
            bound = min(search.sponge, found[0]) + search.limit
            if n == capacity:
                bound = min(bound, found[n - 1])
        while n > 0 and found[n - 1] > bound:
            n -= 1
        counts[i] = n
        for j in range(n):
            mine[lists[i, j], 0] += 1
            farthest = max(farthest, found[j])
        radius = math.sqrt(bound) * search.width
        if search.relative:
            low = min(low, x[i, 0] / (1.0 + radius))
            high = max(high, x[i, 0] / (1.0 - radius) if radius < 1.0 else math.inf)
        else:
            low, high = min(low, x[i, 0] - radius), max(high, x[i, 0] + radius)
    reach[team.index, 0], reach[team.index, 1], reach[team.index, 2] = farthest, low, high


@gw.jit
def memberships(axes: Any, x: Any, i: int, lists: Any, n: int, table: Any, law: Any, m: Any) -> tuple[float, float]:
    """Fill `m` with the memberships of a point; return that in the sponge, and the logarithm of the denominator."""
    best = law.sponge
    for j in range(n):
        k = lists[i, j]
        m[j] = table[k, 2 * len(axes)] - law.half * square(axes, x, i, table, k)
        best = max(best, m[j])
    outside = math.exp(law.sponge - best) if law.sponge - best > -law.cut else 0.0
    total = outside
    for j in range(n):
        exponent = m[j] - best
        m[j] = math.exp(exponent) if exponent > -law.cut else 0.0
        total += m[j]
    for j in range(n):
        m[j] /= total
    return outside / total, best + math.log(total)


@gw.jit
def clamped(value: float, limit: float) -> float:
    """Return the value, or the limit of its sign: sums of integers must not overflow."""
    return min(max(value, -limit), limit)


@gw.jit
def merge(team: Any, partial: Any, sums: Any) -> None:
    """Add the sums of the threads."""
    if team.size == 1:
        return
    team.barrier()
    begin, end = team.share(0, len(sums))
    for k in range(begin, end):
        for column in range(sums.shape[1]):
            total = 0
            for t in range(team.size):
                total += partial[t, k, column]
            sums[k, column] = total


@gw.jit
def expect(
    team: Any, axes: Any, x: Any, lists: Any, counts: Any, table: Any, law: Any, scales: Any, old: Any, work: Any,
    partial: Any, sums: Any,
) -> None:  # fmt: skip
    """Compute all memberships and what the next centres need: the sums of M and of M z for each cluster.

    `old` holds the memberships of the pass before, and gets the new ones; its last column is the sponge. The row of the
    sponge has the sum of its memberships and the sum of all changes.
    """
    begin, end = team.share(0, len(x))
    mine, m = partial[team.index], work[team.index]
    sponge = len(mine) - 1
    mine[:, :] = 0
    for i in range(begin, end):
        n = counts[i]
        outside, _ = memberships(axes, x, i, lists, n, table, law, m)
        change = abs(outside - old[i, old.shape[1] - 1])
        old[i, old.shape[1] - 1] = outside
        for j in range(n):
            change += abs(m[j] - old[i, j])
            old[i, j] = m[j]
            k = lists[i, j]
            mine[k, 0] += int(m[j] * scales.one)
            for a in range(len(axes)):
                z = (x[i, a] - table[k, a]) * table[k, len(axes) + a]
                mine[k, 1 + a] += int(m[j] * clamped(z, scales.farthest) * scales.z)
        mine[sponge, 0] += int(outside * scales.one)
        mine[sponge, 1] += int(change * scales.one)
    merge(team, partial, sums)


@gw.jit
def moments(
    team: Any, axes: Any, x: Any, lists: Any, counts: Any, table: Any, law: Any, scales: Any, width: float, work: Any,
    partial: Any, sums: Any,
) -> None:  # fmt: skip
    """Compute what decisions need.

    For each cluster the sums of M, of M (1 - M), of points whose largest M it is, of M z z^T (upper triangle, row by
    row) and of z M/2 (1 - M/2). The row of the sponge has its sums of the first three, then the sum of M d2 over all
    clusters, where the sponge has `width`, and minus that of the logarithms of the denominators.
    """
    begin, end = team.share(0, len(x))
    mine, m = partial[team.index], work[team.index]
    sponge = len(mine) - 1
    mine[:, :] = 0
    for i in range(begin, end):
        n = counts[i]
        outside, logarithm = memberships(axes, x, i, lists, n, table, law, m)
        largest, owner, energy = outside, sponge, outside * width
        for j in range(n):
            k, weight = lists[i, j], m[j]
            if weight > largest:
                largest, owner = weight, k
            energy += weight * square(axes, x, i, table, k)
            mine[k, 0] += int(weight * scales.one)
            mine[k, 1] += int(weight * (1.0 - weight) * scales.one)
            column = 3
            half = 0.5 * weight
            for a in range(len(axes)):
                z = clamped((x[i, a] - table[k, a]) * table[k, len(axes) + a], scales.farthest)
                for b in range(a, len(axes)):
                    other = clamped((x[i, b] - table[k, b]) * table[k, len(axes) + b], scales.farthest)
                    mine[k, column] += int(weight * z * other * scales.zz)
                    column += 1
                mine[k, mine.shape[1] - len(axes) + a] += int(half * (1.0 - half) * z * scales.z)
        mine[owner, 2] += 1
        mine[sponge, 0] += int(outside * scales.one)
        mine[sponge, 1] += int(outside * (1.0 - outside) * scales.one)
        mine[sponge, 3] += int(min(energy, scales.most) * scales.energy)
        mine[sponge, 4] -= int(clamped(logarithm, law.half * scales.most + 100.0) * scales.logarithm)
    merge(team, partial, sums)


@gw.jit
def label(
    team: Any, axes: Any, x: Any, lists: Any, counts: Any, table: Any, law: Any, cut: float, work: Any, labels: Any,
    moved: Any,
) -> None:  # fmt: skip
    """Give each point the row of its cluster, -1 for the sponge.

    A point of the sponge with a centre nearer than `cut` (a squared distance) moves to the nearest one, a point farther
    than that from its centre moves to the sponge; `moved[t]` counts both.
    """
    begin, end = team.share(0, len(x))
    m = work[team.index]
    to_cluster = to_sponge = 0
    for i in range(begin, end):
        n = counts[i]
        largest, _ = memberships(axes, x, i, lists, n, table, law, m)
        owner = -1
        for j in range(n):
            if m[j] > largest:
                largest, owner = m[j], lists[i, j]
        if owner < 0 and n > 0 and square(axes, x, i, table, lists[i, 0]) < cut:
            owner = lists[i, 0]
            to_cluster += 1
        elif owner >= 0 and square(axes, x, i, table, owner) > cut:
            owner = -1
            to_sponge += 1
        labels[i] = owner
    moved[team.index, 0], moved[team.index, 1] = to_cluster, to_sponge
