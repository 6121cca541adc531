"""The compiled kernels of the optimised path: products, sweeps and the transfer between levels.

They do what the benchmark's kernels do, in its order, and leave out what is known. With A = L + D + U + E, a sweep from
x = 0 has (D + U) x = r - L y with y its forward half, and the backward half leaves U x in `t`: so the residual needs
only L and only the rows that the coarser level takes, and the second sweep needs only the change of U x, which the
correction makes in few rows.

All threads of a crew call these functions together; what communicates is the first one's.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana.apps.hpcg.crew import share
from gondwana.apps.hpcg.exchange import begin, finish
from gondwana.apps.hpcg.native import meet

COARSEST = 3


@gw.jit
def all_but_last(values: Any, columns: Any, row: int, x: Any) -> float:
    """Sum up a row of L or U times x but for the place that a sweep has computed last."""
    even, odd = 0.0, 0.0
    for place in range(0, 12, 2):
        even += values[row, place] * x[columns[row, place]]
        odd += values[row, place + 1] * x[columns[row, place + 1]]
    return even + odd


@gw.jit
def last(values: Any, columns: Any, row: int, x: Any) -> float:
    """The place that `all_but_last` leaves out."""
    return values[row, 12] * x[columns[row, 12]]  # type: ignore[no-any-return]


@gw.jit
def outside(m: Any, edge: int, memory: Any, start: int) -> float:
    """Sum up a row of E times what has come from other ranks."""
    total = 0.0
    for place in range(m.edge_starts[edge], m.edge_starts[edge + 1]):
        total += m.edge_values[place] * memory[start + m.edge_columns[place]]
    return total


@gw.jit
def sweep_up(m: Any, crew: Any, level: int, x: Any, t: Any) -> None:
    """Go from the last row to the first: D x = t - U x; leave U x in t."""
    order = crew.up
    for stage in range(order.levels[level], order.levels[level + 1]):
        for block in range(order.stages[stage] + crew.thread, order.stages[stage + 1], crew.threads):
            for back in range(order.ends[block] - order.starts[block]):
                row = order.ends[block] - 1 - back
                above = all_but_last(m.upper, m.upper_columns, row, x)
                near = last(m.upper, m.upper_columns, row, x)
                x[row] = (t[row] - above - near) * m.inverse[row]
                t[row] = above + near
        meet(crew.gate, crew.threads)


@gw.jit
def smooth(m: Any, crew: Any, level: int, right: Any, x: Any, t: Any, again: bool) -> None:
    """Smooth from x, of which t holds U x, or from zero, whatever x and t hold; leave U x in t."""
    order = crew.down
    for stage in range(order.levels[level], order.levels[level + 1]):
        for block in range(order.stages[stage] + crew.thread, order.stages[stage + 1], crew.threads):
            for row in range(order.starts[block], order.ends[block]):
                above = t[row] if again else 0.0
                rest = right[row] - all_but_last(m.lower, m.lower_columns, row, x)
                rest -= last(m.lower, m.lower_columns, row, x)
                x[row] = (rest - above) * m.inverse[row]
                t[row] = rest
        meet(crew.gate, crew.threads)
    sweep_up(m, crew, level, x, t)


@gw.jit
def restrict(m: Any, links: Any, crew: Any, level: int, right: Any, x: Any, t: Any) -> None:
    """Take the residual where the coarser level has points; t holds U x. Collective over the neighbours."""
    if crew.thread == 0:
        begin(links, level, x[m.first[level] : m.first[level + 1]])
    start, end = share(crew, m.first[level + 1], m.first[level + 2])
    for coarse in range(start, end):
        row = m.fine[coarse - m.first[1]]
        below = all_but_last(m.lower, m.lower_columns, row, x) + last(m.lower, m.lower_columns, row, x)
        right[coarse] = right[row] - t[row] - m.diagonal[row] * x[row] - below
    meet(crew.gate, crew.threads)
    if crew.thread == 0:
        came = finish(links, level)
        for edge in range(m.edge_first[level], m.edge_first[level + 1]):
            coarse = m.edge_coarse[edge]
            if coarse >= 0:
                right[coarse] -= outside(m, edge, links.memory, came)
    meet(crew.gate, crew.threads)


@gw.jit
def prolong(m: Any, links: Any, crew: Any, level: int, right: Any, x: Any, t: Any) -> None:
    """Add the coarser level's correction to x, U times it to t, and take E x from the right-hand side. Collective.

    The columns of U overlap, so that one thread adds them all.
    """
    start, end = share(crew, m.first[level + 1], m.first[level + 2])
    for coarse in range(start, end):
        x[m.fine[coarse - m.first[1]]] += x[coarse]
    meet(crew.gate, crew.threads)
    if crew.thread == 0:
        begin(links, level, x[m.first[level] : m.first[level + 1]])
        for coarse in range(m.first[level + 1], m.first[level + 2]):
            number = coarse - m.first[1]
            for place in range(13):
                t[m.below_rows[number, place]] += m.below[number, place] * x[coarse]
        came = finish(links, level)
        for edge in range(m.edge_first[level], m.edge_first[level + 1]):
            row = m.edge_rows[edge]
            m.edge_saved[edge] = right[row]
            right[row] -= outside(m, edge, links.memory, came)
    meet(crew.gate, crew.threads)


@gw.jit
def cycle(m: Any, links: Any, crew: Any, right: Any, x: Any, t: Any) -> None:
    """One cycle of multigrid: from `right` of the finest level to x. Collective over the neighbours.

    Down and up again are one loop, because the compiler makes a copy of a function for each call.
    """
    for step in range(2 * COARSEST + 1):
        again = step > COARSEST
        level = 2 * COARSEST - step if again else step
        if again:
            prolong(m, links, crew, level, right, x, t)
        smooth(m, crew, level, right, x, t, again)
        if again:
            start, end = share(crew, m.edge_first[level], m.edge_first[level + 1])
            for edge in range(start, end):
                right[m.edge_rows[edge]] = m.edge_saved[edge]
        elif level < COARSEST:
            restrict(m, links, crew, level, right, x, t)
    meet(crew.gate, crew.threads)


@gw.jit
def multiply(m: Any, links: Any, crew: Any, x: Any, y: Any) -> float:
    """Compute y = A x on the finest level; return this thread's part of x.y. Collective over the neighbours."""
    meet(crew.gate, crew.threads)
    if crew.thread == 0:
        begin(links, 0, x)
    total = 0.0
    start, end = share(crew, 0, m.first[1])
    for row in range(start, end):
        below = all_but_last(m.lower, m.lower_columns, row, x) + last(m.lower, m.lower_columns, row, x)
        above = all_but_last(m.upper, m.upper_columns, row, x) + last(m.upper, m.upper_columns, row, x)
        y[row] = below + m.diagonal[row] * x[row] + above
        total += x[row] * y[row]
    meet(crew.gate, crew.threads)
    if crew.thread == 0:
        came = finish(links, 0)
        for edge in range(m.edge_first[1]):
            row = m.edge_rows[edge]
            change = outside(m, edge, links.memory, came)
            y[row] += change
            total += x[row] * change
    meet(crew.gate, crew.threads)
    return total


@gw.jit
def dot(x: Any, y: Any, start: int, end: int) -> float:
    """The sum of the products of some rows: four sums side by side."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = end - (end - start) % 4
    for row in range(start, whole, 4):
        a += x[row] * y[row]
        b += x[row + 1] * y[row + 1]
        c += x[row + 2] * y[row + 2]
        d += x[row + 3] * y[row + 3]
    for row in range(whole, end):
        a += x[row] * y[row]
    return (a + b) + (c + d)
