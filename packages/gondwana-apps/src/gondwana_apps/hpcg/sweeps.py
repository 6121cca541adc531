"""The compiled kernels of the optimised path: products, sweeps and the transfer between levels.

They do the work of the benchmark's kernels, in its order, and leave out known values. With A = L + D + U + E, a sweep
from x = 0 has (D + U) x = r - L y with y its forward half, and the backward half leaves U x in `t`: so the residual
needs only L and only the rows at points of the coarser level, and the second sweep needs only the change of U x, which
the correction makes in few rows.

All threads of a team call these functions together; thread 0 communicates. A slot of the team for each thread and
direction holds the number of blocks of the sweep that the thread has done.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana import simd, solvers
from gondwana_apps.hpcg.split import ENTRIES, PLACES, WIDTH

COARSEST = 3
AHEAD = 8 * ENTRIES
"""Distance at which the matrix of a later slice is prefetched: processors prefetch by themselves only in a page."""
DOWN, UP = 0, 1


@gw.jit
def restart(threads: Any, up: int) -> None:
    """Begin a sweep: no thread still reads the values that this one published in the previous sweep."""
    threads.publish((1 - up) * threads.size + threads.index, 0)


@gw.jit
def wait_for_needed(threads: Any, schedule: Any, up: int, block: int) -> None:
    """Wait until other threads have done the blocks that a block of the sweep needs."""
    for wait in range(schedule.waits[block], schedule.waits[block + 1]):
        threads.wait_for(up * threads.size + schedule.source[wait], schedule.until[wait])


@gw.jit
def publish(threads: Any, up: int, done: int) -> None:
    """Publish the number of blocks of the sweep that this thread has done."""
    threads.publish(up * threads.size + threads.index, done)


@gw.jit
def times(values: Any, columns: Any, part: int, x: Any, backward: bool) -> Any:
    """Multiply a slice of L or U by x: eight sums.

    A sweep that takes the slices backward takes their places backward, too: memory is then read in one direction, in
    which it is prefetched.
    """
    total = simd.fill(0.0, WIDTH)
    for number in range(PLACES):
        entry = ENTRIES * part + WIDTH * (PLACES - 1 - number if backward else number)
        ahead = entry + (-AHEAD if backward else AHEAD)
        simd.prefetch(values, ahead)
        if number % 2 == 0:  # a line has the columns of two places
            simd.prefetch(columns, ahead)
        total += simd.load(values, entry, WIDTH) * simd.gather(x, simd.load(columns, entry, WIDTH))
    return total


@gw.jit
def outside(m: Any, edge: int, received: Any) -> float:
    """Sum up a row of E times the entries received from other ranks."""
    total = 0.0
    for place in range(m.edge_starts[edge], m.edge_starts[edge + 1]):
        total += m.edge_values[place] * received[m.edge_columns[place]]
    return total


@gw.jit
def sweep_down(threads: Any, m: Any, schedule: Any, level: int, right: Any, x: Any, t: Any, again: bool) -> None:
    """Go from the first row to the last: D x = right - L x - t, of which t counts only in a second sweep.

    Leave D x of a sweep from zero in t.
    """
    number = level * threads.size + threads.index
    restart(threads, DOWN)
    for block in range(schedule.blocks[number], schedule.blocks[number + 1]):
        wait_for_needed(threads, schedule, DOWN, block)
        for part in range(schedule.starts[block], schedule.ends[block]):
            row = WIDTH * part
            rest = simd.load(right, row, WIDTH) - times(m.lower, m.lower_columns, part, x, False)
            before = simd.load(t, row, WIDTH) if again else simd.fill(0.0, WIDTH)
            simd.store(x, row, (rest - before) * simd.load(m.inverse, row, WIDTH))
            simd.store(t, row, rest)
        publish(threads, DOWN, block + 1 - schedule.blocks[number])
    threads.barrier()


@gw.jit
def sweep_up(threads: Any, m: Any, schedule: Any, level: int, x: Any, t: Any) -> None:
    """Go from the last row to the first: D x = t - U x; leave U x in t."""
    number = level * threads.size + threads.index
    restart(threads, UP)
    for block in range(schedule.blocks[number], schedule.blocks[number + 1]):
        wait_for_needed(threads, schedule, UP, block)
        for back in range(schedule.ends[block] - schedule.starts[block]):
            part = schedule.ends[block] - 1 - back
            row = WIDTH * part
            above = times(m.upper, m.upper_columns, part, x, True)
            simd.store(x, row, (simd.load(t, row, WIDTH) - above) * simd.load(m.inverse, row, WIDTH))
            simd.store(t, row, above)
        publish(threads, UP, block + 1 - schedule.blocks[number])
    threads.barrier()


@gw.jit
def smooth(threads: Any, m: Any, schedules: Any, level: int, right: Any, x: Any, t: Any, again: bool) -> None:
    """Smooth from x, of which t holds U x, or from zero, with any x and t; leave U x in t."""
    sweep_down(threads, m, schedules.down, level, right, x, t, again)
    sweep_up(threads, m, schedules.up, level, x, t)


@gw.jit
def restrict(threads: Any, m: Any, halos: Any, level: int, right: Any, x: Any, t: Any) -> None:
    """Take the residual at the points of the coarser level; t holds U x. Collective over the neighbours."""
    if threads.index == 0:
        solvers.send(halos[level], x[m.first[level] : m.first[level + 1]])
    start, end = threads.share(m.points[level], m.points[level + 1])
    for point in range(start, end):
        row, below = m.fine[point], 0.0
        for place in range(PLACES):
            below += m.rest[point, place] * x[m.rest_columns[point, place]]
        right[m.coarse[point]] = right[row] - t[row] - m.diagonal[row] * x[row] - below
    threads.barrier()
    if threads.index == 0:
        halos[level].plan.wait()
        for edge in range(m.edge_first[level], m.edge_first[level + 1]):
            coarse = m.edge_coarse[edge]
            if coarse >= 0:
                right[coarse] -= outside(m, edge, halos[level].received)
    threads.barrier()


@gw.jit
def prolong(threads: Any, m: Any, halos: Any, level: int, right: Any, x: Any, t: Any) -> None:
    """Add the coarser level's correction to x, U times it to t, and take E x from the right-hand side. Collective.

    The columns of U overlap, so that every second part of the coarse points is done first, then the others.
    """
    start, end = threads.share(m.points[level], m.points[level + 1])
    for point in range(start, end):
        x[m.fine[point]] += x[m.coarse[point]]
    threads.barrier()
    if threads.index == 0:
        solvers.send(halos[level], x[m.first[level] : m.first[level + 1]])
    for turn in range(2):
        for part in range(m.parts[level] + turn + 2 * threads.index, m.parts[level + 1] - 1, 2 * threads.size):
            for point in range(m.cuts[part], m.cuts[part + 1]):
                for place in range(PLACES):
                    t[m.below_rows[point, place]] += m.below[point, place] * x[m.coarse[point]]
        threads.barrier()
    if threads.index == 0:
        halos[level].plan.wait()
        for edge in range(m.edge_first[level], m.edge_first[level + 1]):
            row = m.edge_rows[edge]
            m.edge_saved[edge] = right[row]
            right[row] -= outside(m, edge, halos[level].received)
    threads.barrier()


@gw.jit
def cycle(threads: Any, m: Any, halos: Any, schedules: Any, right: Any, x: Any, t: Any) -> None:
    """One cycle of multigrid: from `right` of the finest level to x. Collective over the neighbours.

    Down and up again are one loop, because the compiler makes a copy of a function for each call.
    """
    for step in range(2 * COARSEST + 1):
        again = step > COARSEST
        level = 2 * COARSEST - step if again else step
        if again:
            prolong(threads, m, halos, level, right, x, t)
        smooth(threads, m, schedules, level, right, x, t, again)
        if again:
            start, end = threads.share(m.edge_first[level], m.edge_first[level + 1])
            for edge in range(start, end):
                right[m.edge_rows[edge]] = m.edge_saved[edge]
        elif level < COARSEST:
            restrict(threads, m, halos, level, right, x, t)
    threads.barrier()


@gw.jit
def multiply(threads: Any, m: Any, halos: Any, x: Any, y: Any) -> float:
    """Compute y = A x on the finest level; return this thread's part of x.y. Collective over the neighbours."""
    threads.barrier()
    if threads.index == 0:
        solvers.send(halos[0], x)
    sums = simd.fill(0.0, WIDTH)
    start, end = threads.share(0, m.first[1] // WIDTH)
    for part in range(start, end):
        row = WIDTH * part
        own = simd.load(x, row, WIDTH)
        whole = times(m.lower, m.lower_columns, part, x, False) + simd.load(m.diagonal, row, WIDTH) * own
        whole += times(m.upper, m.upper_columns, part, x, False)
        simd.store(y, row, whole)
        sums += own * whole
    total = sums.sum()
    threads.barrier()
    if threads.index == 0:
        halos[0].plan.wait()
        for edge in range(m.edge_first[1]):
            row = m.edge_rows[edge]
            change = outside(m, edge, halos[0].received)
            y[row] += change
            total += x[row] * change
    threads.barrier()
    return total
