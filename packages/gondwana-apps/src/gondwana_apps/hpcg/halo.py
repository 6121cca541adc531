"""Which entries of vectors ranks need from each other: found from the matrix alone (HPCG 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg.grid import Geometry


@dataclass(frozen=True)
class Halo:
    """The exchange of one level, seen from one rank. Inside a neighbour's part everything ascends by global number.

    Attributes:
        neighbours: ranks, ascending.
        received: entries from each neighbour; in this order they follow the own entries of a vector.
        sent: own rows whose entries each neighbour needs.
    """

    neighbours: tuple[int, ...]
    received: tuple[int, ...]
    sent: tuple[NDArray[np.int64], ...]

    @property
    def size(self) -> int:
        """Entries from all neighbours together."""
        return sum(self.received)


@gw.jit
def localise(
    points: Any, counts: Any, columns: Any, sides: Any, origin: Any, shape: Any, rows: Any, places: Any, outside: Any
) -> int:
    """Turn global column numbers into local ones; return how many are of other ranks, and list as many as fit."""
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


def connect(
    geometry: Geometry, points: NDArray[np.int64], counts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], Halo]:
    """Number the columns locally and find what is to be exchanged. Local: the pattern of the matrix is symmetric.

    Args:
        geometry: says which rank owns a point.
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
