"""The exchange of entries of vectors between ranks: plans of copies, which compiled code starts and waits for.

The entries that ranks need from each other follow from the matrix alone (HPCG 3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg.grid import Geometry


@dataclass(frozen=True)
class Halo:
    """The exchange of one level, seen from one rank. Inside a neighbour's part everything ascends by global number.

    Attributes:
        neighbours: ranks of the neighbours, ascending.
        received: numbers of entries from each neighbour; in this order they follow the own entries of a vector.
        sent: own rows whose entries each neighbour needs.
    """

    neighbours: tuple[int, ...]
    received: tuple[int, ...]
    sent: tuple[NDArray[np.int64], ...]

    @property
    def size(self) -> int:
        """Entries from all neighbours together."""
        return sum(self.received)


class Links(NamedTuple):
    """Data of exchanges for compiled code.

    Attributes:
        plans: copies of each level, from `sent` to `received` of the neighbours.
        rows: own rows to send, within their level, level by level.
        sent: their entries of a vector.
        first_sent: the first of each level, and the end.
        received: entries from neighbours.
        first_received: the first of each level, and the end.
    """

    plans: tuple[gw.Plan, ...]
    rows: NDArray[np.int64]
    sent: NDArray[np.float64]
    first_sent: NDArray[np.int64]
    received: NDArray[np.float64]
    first_received: NDArray[np.int64]


def connect(
    geometry: Geometry, points: NDArray[np.int64], counts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], Halo]:
    """Number the columns locally and find the entries to exchange. Local: the pattern of the matrix is symmetric.

    Args:
        geometry: geometry, which says which rank owns a point.
        points: global numbers of the columns.
        counts: entries of each row.

    Returns:
        The local numbers of the columns, and the exchange.
    """
    columns = np.empty(points.shape, np.uint32)
    nowhere = np.empty(0, np.int64)
    box = geometry.local, geometry.origin, geometry.shape
    total = localise(points, counts, columns, *box, nowhere, nowhere, nowhere)
    rows, places, outside = (np.empty(total, np.int64) for _ in range(3))
    localise(points, counts, columns, *box, rows, places, outside)
    wanted, which = np.unique(outside, return_inverse=True)
    owners, _ = geometry.locate(wanted)
    order = np.lexsort((wanted, owners))
    numbers = np.empty_like(order)
    numbers[order] = geometry.rows + np.arange(len(order))
    columns[rows, places] = numbers[which]
    neighbours, received = np.unique(owners, return_counts=True)
    # The order of local rows is that of their global numbers.
    sent = tuple(np.unique(rows[owners[which] == neighbour]) for neighbour in neighbours)
    return columns, Halo(tuple(map(int, neighbours)), tuple(map(int, received)), sent)


@gw.jit
def localise(
    points: Any, counts: Any, columns: Any, sides: Any, origin: Any, shape: Any, rows: Any, places: Any, outside: Any
) -> int:
    """Turn global column numbers into local ones; return the number of those of other ranks, and list all that fit."""
    found, y, z = 0, 0, 0
    line = -shape[0]
    for row in range(len(counts)):
        for place in range(counts[row]):
            point = points[row, place]
            if not line <= point < line + shape[0]:
                # Divisions are slow, and neighbouring entries are mostly on one line along x.
                number = point // shape[0]
                line = number * shape[0]
                y, z = number % shape[1] - origin[1], number // shape[1] - origin[2]
            x = point - line - origin[0]
            if 0 <= x < sides[0] and 0 <= y < sides[1] and 0 <= z < sides[2]:
                columns[row, place] = x + sides[0] * (y + sides[1] * z)
                continue
            if found < len(rows):
                rows[found], places[found], outside[found] = row, place, point
            found += 1
        for place in range(counts[row], columns.shape[1]):
            columns[row, place] = row
    return found


def link(team: gw.Team, halos: Sequence[Halo]) -> Links:
    """Open memory for the exchanges of all levels, and plan them. Collective over team.

    Args:
        team: the ranks of the halos.
        halos: halos of this rank, one for each level.
    """
    rows = np.concatenate([np.empty(0, np.int64), *(rows for halo in halos for rows in halo.sent)])
    sent = np.zeros(len(rows))
    first_sent = _starts(sum(map(len, halo.sent)) for halo in halos)
    first_received = _starts(halo.size for halo in halos)
    inbox = gw.Segment(team, 8 * max(1, int(first_received[-1]))).pointer(dtype="f8")
    plans = []
    for level, halo in enumerate(halos):
        places = dict(zip(halo.neighbours, first_received[level] + _starts(halo.received), strict=False))
        theirs = team.alltoall([places.get(rank) for rank in range(team.size)])
        parts = np.split(sent, first_sent[level] + _starts(map(len, halo.sent)))[1:]
        pairs = [(part, inbox.on(rank) + theirs[rank]) for part, rank in zip(parts, halo.neighbours, strict=False)]
        plans.append(gw.plan(pairs, team))
    return Links(tuple(plans), rows, sent, first_sent, inbox.local(inbox.room), first_received)


def _starts(sizes: Iterable[int]) -> NDArray[np.int64]:
    """Where parts of so many elements start, and the end."""
    return np.array([0, *itertools.accumulate(sizes)], np.int64)


@gw.jit
def begin(links: Any, level: int, vector: Any) -> None:
    """Send the entries of a level's vector that neighbours need. Collective over the neighbours; does not wait."""
    for place in range(links.first_sent[level], links.first_sent[level + 1]):
        links.sent[place] = vector[links.rows[place]]
    links.plans[level].start()


@gw.jit
def finish(links: Any, level: int) -> int:
    """Wait for neighbours' entries; return their start in `links.received`. Collective over the neighbours."""
    links.plans[level].wait()
    return links.first_received[level]  # type: ignore[no-any-return]


@gw.jit
def update(links: Any, level: int, vector: Any) -> None:
    """Update the end of a vector, which holds entries of other ranks. Collective over the neighbours."""
    begin(links, level, vector)
    start = finish(links, level)
    count = links.first_received[level + 1] - start
    rows = len(vector) - count
    for place in range(count):
        vector[rows + place] = links.received[start + place]
