"""The passes over the points (Fox, Mani and Pyne 2013): memberships and their sums, until they no longer change.

With z = (x - Y_k)/sigma_k and d2 = |z|^2, the membership of a point in cluster k at temperature T is

    M_k = P_k exp(-d2/2T) / sum_j P_j exp(-d2_j/2T),

where the sponge takes part with the constant f^2 as its d2.

Sums over points are sums of integers: a contribution is multiplied by a power of two and truncated. So they have the
same bits in any order of addition: on any number of threads and ranks. The last row of the sums is the sponge.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import gondwana as gw
from gondwana_apps.davs.exchange import Floats, Integers, Links, add

_APART = 16
"""Numbers between those of two threads: two lines of a cache, which some processors fetch together."""


class Law(NamedTuple):
    """The parameters of memberships beside the clusters.

    Attributes:
        widths: sigma of each axis.
        relative: 1 if sigma of axis 0 is relative to the position of the cluster, else 0.
        half: 1/2T.
        sponge: f^2, infinity without a sponge.
        share: P of the sponge; negative: the points in it over all.
        cut: exponents that are smaller than the largest by more than this count as zero.
        limit: d2 above the smallest, or above `sponge`, from which a cluster is left out of a list.
        floor: the least P.
        least: fewest points of a cluster that moves.
        points: number of points of all ranks.
    """

    widths: tuple[float, ...]
    relative: int
    half: float
    sponge: float
    share: float
    cut: float
    limit: float
    floor: float
    least: float
    points: float


class Scales(NamedTuple):
    """The powers of two that turn contributions into integers, and the largest |z| and M d2 they are made for."""

    one: float
    z: float
    zz: float
    energy: float
    logarithm: float
    farthest: float
    most: float


class State(NamedTuple):
    """The points of a rank, its clusters, and space for the results of passes. Arrays unless they have another type.

    Attributes:
        links: links to other ranks.
        x: points.
        lists: for each point the rows of clusters near it.
        counts: numbers of these.
        rows: rows of the clusters: position, P, age.
        table: derived values of the clusters: position, 1/sigma, ln P.
        old: memberships of the previous pass; the last column is the sponge.
        work: for each thread the memberships of one point, and room to those of the next thread.
        sums: space for sums of each thread, and of all.
        room: space for sums of other ranks.
        moved: squared distances that centres have moved.
        spent: nanoseconds in communication.
    """

    links: Links
    x: Floats
    lists: Any
    counts: Integers
    rows: Floats
    table: Floats
    old: Floats
    work: Floats
    sums: Integers
    room: Integers
    moved: Floats
    spent: Integers


def work_of(threads: int, capacity: int) -> Floats:
    """Return space for values of one point for each thread, which shares no line of a cache with another. Local.

    Args:
        threads: number of threads.
        capacity: number of values.
    """
    return np.zeros((threads, 1 + -(-_APART // capacity), capacity))


@gw.jit
def width(law: Any, rows: Any, k: int, axis: int) -> float:
    """Return sigma of a cluster along an axis."""
    return law.widths[axis] * rows[k, 0] if axis == 0 and law.relative == 1 else law.widths[axis]  # type: ignore[no-any-return]


@gw.jit
def prepare(threads: Any, law: Any, rows: Any, table: Any) -> None:
    """Compute the derived values of each cluster: position, 1/sigma, ln P."""
    begin, end = threads.share(0, len(rows))
    d = len(law.widths)
    for k in range(begin, end):
        for a in range(d):
            table[k, a] = rows[k, a]
            table[k, d + a] = 1.0 / width(law, rows, k, a)
        table[k, 2 * d] = math.log(max(rows[k, d], law.floor))
    threads.barrier()


@gw.jit
def square(d: int, x: Any, i: int, table: Any, k: int) -> float:
    """Return d2 between a point and a centre."""
    total = 0.0
    for a in range(d):
        z = (x[i, a] - table[k, a]) * table[k, d + a]
        total += z * z
    return total


@gw.jit
def sponge_term(law: Any, weight: float) -> float:
    """Return ln P - f^2/2T of the sponge, minus infinity without one."""
    return -math.inf if math.isinf(law.sponge) else math.log(max(weight, law.floor)) - law.half * law.sponge


@gw.jit
def memberships(law: Any, sponge: float, x: Any, i: int, lists: Any, n: int, table: Any, m: Any) -> tuple[float, float]:
    """Fill `m` with the memberships of a point; return that in the sponge, and the logarithm of the denominator."""
    d = len(law.widths)
    best = sponge
    for j in range(n):
        k = lists[i, j]
        m[j] = table[k, 2 * d] - law.half * square(d, x, i, table, k)
        best = max(best, m[j])
    outside = math.exp(sponge - best) if sponge - best > -law.cut else 0.0
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
def sums_of(threads: Any, state: Any, columns: int) -> Any:
    """Return the sums of each thread for `columns` columns, and those of all: the same for a single thread."""
    rows = len(state.rows) + 1
    room = state.sums[: (threads.size + 1) * rows * columns].reshape((threads.size + 1, rows, columns))
    return room, room[threads.size if threads.size > 1 else 0]


@gw.jit
def expect(threads: Any, law: Any, state: Any, scales: Any, sponge: float, mine: Any) -> None:
    """Compute all memberships and the sums for the next centres: of M and of M z for each cluster.

    The row of the sponge has the sum of its memberships and the sum of all changes.
    """
    x, lists, counts, table, old = state.x, state.lists, state.counts, state.table, state.old
    begin, end = threads.share(0, len(x))
    m = state.work[threads.index, 0]
    d, last, outer = len(law.widths), len(mine) - 1, old.shape[1] - 1
    mine[:, :] = 0
    for i in range(begin, end):
        n = counts[i]
        outside, _ = memberships(law, sponge, x, i, lists, n, table, m)
        change = abs(outside - old[i, outer])
        old[i, outer] = outside
        for j in range(n):
            change += abs(m[j] - old[i, j])
            old[i, j] = m[j]
            k = lists[i, j]
            mine[k, 0] += int(m[j] * scales.one)
            for a in range(d):
                z = (x[i, a] - table[k, a]) * table[k, d + a]
                mine[k, 1 + a] += int(m[j] * clamped(z, scales.farthest) * scales.z)
        mine[last, 0] += int(outside * scales.one)
        mine[last, 1] += int(change * scales.one)


@gw.jit
def maximise(threads: Any, law: Any, state: Any, scales: Any, sums: Any) -> float:
    """Move the centres and set their weights; return P of the sponge."""
    rows, moved = state.rows, state.moved
    begin, end = threads.share(0, len(rows))
    d, inside = len(law.widths), 1.0 - sums[len(rows), 0] / scales.one / law.points
    weight, factor = 0.0, 1.0
    if not math.isinf(law.sponge):
        weight = law.share if law.share >= 0.0 else 1.0 - inside
        factor = (1.0 - weight) / inside if law.share >= 0.0 and inside > 0.0 else 1.0
    for k in range(begin, end):
        count = sums[k, 0] / scales.one
        moved[k] = 0.0
        if count > law.least:
            scale = width(law, rows, k, 0)
            for a in range(d):
                z = sums[k, 1 + a] / scales.z / count
                moved[k] += z * z
                rows[k, a] += z * (scale if a == 0 else law.widths[a])
        rows[k, d] = count / law.points * factor
    return weight


@gw.jit
def equilibrate(
    threads: Any, law: Any, state: Any, scales: Any, weight: float, tolerance: float, limit: int, least: int
) -> tuple[int, float, float]:
    """Iterate expectation and maximisation until memberships change by at most `tolerance` in the mean.

    At least `least` times and at most `limit` times. Collective over the ranks.

    Returns:
        The number of iterations, the last change, and P of the sponge.
    """
    partial, sums = sums_of(threads, state, 1 + len(law.widths))
    done, change = 0, math.inf
    while done < limit and (done < least or change > tolerance):
        prepare(threads, law, state.rows, state.table)
        expect(threads, law, state, scales, sponge_term(law, weight), partial[threads.index])
        add(threads, state.links, partial, sums, state.room, state.spent)
        weight = maximise(threads, law, state, scales, sums)
        change = sums[len(sums) - 1, 1] / scales.one / law.points
        done += 1
    return done, change, weight


@gw.jit
def measure(threads: Any, law: Any, state: Any, scales: Any, weight: float, about: Any) -> tuple[float, float, float]:
    """Compute the sums for decisions: see `finish`. Collective over the ranks.

    For each cluster the sums of M, of M (1 - M), of points whose largest M it is, of M z z^T (upper triangle, row by
    row) and of z M/2 (1 - M/2). The row of the sponge has its sums of the first three, then the sum of M d2 over all
    clusters and the sponge, and minus that of the logarithms of the denominators.

    Returns:
        C of the sponge, the sum of M d2, and minus that of the logarithms.
    """
    x, lists, counts, table = state.x, state.lists, state.counts, state.table
    prepare(threads, law, state.rows, table)
    begin, end = threads.share(0, len(x))
    partial, sums = sums_of(threads, state, 3 + len(law.widths) * (len(law.widths) + 3) // 2)
    mine, m = partial[threads.index], state.work[threads.index, 0]
    d, last, sponge = len(law.widths), len(mine) - 1, sponge_term(law, weight)
    width = 0.0 if math.isinf(law.sponge) else law.sponge
    mine[:, :] = 0
    for i in range(begin, end):
        n = counts[i]
        outside, logarithm = memberships(law, sponge, x, i, lists, n, table, m)
        largest, owner, energy = outside, last, outside * width
        for j in range(n):
            k, share = lists[i, j], m[j]
            if share > largest:
                largest, owner = share, k
            energy += share * square(d, x, i, table, k)
            mine[k, 0] += int(share * scales.one)
            mine[k, 1] += int(share * (1.0 - share) * scales.one)
            column = 3
            half = 0.5 * share
            for a in range(d):
                z = clamped((x[i, a] - table[k, a]) * table[k, d + a], scales.farthest)
                for b in range(a, d):
                    other = clamped((x[i, b] - table[k, b]) * table[k, d + b], scales.farthest)
                    mine[k, column] += int(share * z * other * scales.zz)
                    column += 1
                mine[k, mine.shape[1] - d + a] += int(half * (1.0 - half) * z * scales.z)
        mine[owner, 2] += 1
        mine[last, 0] += int(outside * scales.one)
        mine[last, 1] += int(outside * (1.0 - outside) * scales.one)
        mine[last, 3] += int(min(energy, scales.most) * scales.energy)
        mine[last, 4] -= int(clamped(logarithm, law.half * scales.most + 100.0) * scales.logarithm)
    add(threads, state.links, partial, sums, state.room, state.spent)
    finish(threads, d, sums, scales, about)
    return sums[last, 0] / scales.one, sums[last, 3] / scales.energy, sums[last, 4] / scales.logarithm


@gw.jit
def finish(threads: Any, d: int, sums: Any, scales: Any, about: Any) -> None:
    """Compute from the sums of each cluster C, the means of 1 - M, points, W, the sum of z M/2 (1 - M/2), and S."""
    begin, end = threads.share(0, len(about))
    for k in range(begin, end):
        about[k, 0] = sums[k, 0] / scales.one
        count = about[k, 0] if about[k, 0] > 0.0 else 1.0
        about[k, 1] = sums[k, 1] / scales.one / count
        about[k, 2] = sums[k, 2]
        about[k, 3] = 0.0
        column = 3
        for a in range(d):
            about[k, 4 + a] = sums[k, sums.shape[1] - d + a] / scales.z
            for b in range(a, d):
                value = sums[k, column] / scales.zz / count
                about[k, 4 + d + a * d + b] = value
                about[k, 4 + d + b * d + a] = value
                column += 1
            about[k, 3] += about[k, 4 + d + a * d + a]


@gw.jit
def label(
    threads: Any, law: Any, x: Any, lists: Any, counts: Any, table: Any, weight: float, cut: float, work: Any,
    labels: Any, moved: Any,
) -> None:  # fmt: skip
    """Give each point the row of its cluster, -1 for the sponge.

    A point of the sponge with a centre nearer than `cut` (a squared distance) moves to the nearest one, a point farther
    than that from its centre moves to the sponge; `moved[t]` counts both.
    """
    begin, end = threads.share(0, len(x))
    d, m, sponge = len(law.widths), work[threads.index, 0], sponge_term(law, weight)
    to_cluster = to_sponge = 0
    for i in range(begin, end):
        n = counts[i]
        largest, _ = memberships(law, sponge, x, i, lists, n, table, m)
        owner = -1
        for j in range(n):
            if m[j] > largest:
                largest, owner = m[j], lists[i, j]
        if owner < 0 and n > 0 and square(d, x, i, table, lists[i, 0]) < cut:
            owner = lists[i, 0]
            to_cluster += 1
        elif owner >= 0 and square(d, x, i, table, owner) > cut:
            owner = -1
            to_sponge += 1
        labels[i] = owner
    moved[threads.index, 0], moved[threads.index, 1] = to_cluster, to_sponge
