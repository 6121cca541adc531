"""The columns of a rank's rows: its own points, then those of other ranks that the matrix needs (HPCG 3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import solvers
from gondwana_apps.hpcg.grid import Geometry


def local_columns(
    geometry: Geometry, points: NDArray[np.int64], counts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Number the columns locally and find the points of other ranks, from the matrix alone. Local.

    Args:
        geometry: geometry, which says which rank owns a point.
        points: global numbers of the columns.
        counts: entries of each row.

    Returns:
        The local numbers of the columns; then, for those after the own points, the ranks of their points, ascending,
        and the numbers of these there.
    """
    columns = np.empty(points.shape, np.uint32)
    nowhere = np.empty(0, np.int64)
    box = geometry.local, geometry.origin, geometry.shape
    total = localise(points, counts, columns, *box, nowhere, nowhere, nowhere)
    rows, places, outside = (np.empty(total, np.int64) for _ in range(3))
    localise(points, counts, columns, *box, rows, places, outside)
    owners, numbers, which = solvers.distinct(*geometry.locate(outside))
    columns[rows, places] = geometry.rows + which
    return columns, owners, numbers


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
