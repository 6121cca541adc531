"""The C functions of `exchange.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.native.resources import NativeState


class GhostExchange(NativeState):
    """Persistent requests that exchange the ghosts of a few blocks of doubles. Collective over team.

    Args:
        team: of MPI ranks.
        grid: ranks along x, y and z; their product is the size of the team. Rank order is row-major: z varies fastest.
        cells: cells of each rank's block along x, y and z, the same on all ranks.
        fields: number of blocks that are exchanged together.
        split_faces_only: leave out the axes along which there is one rank, whose ghosts are its own cells.

    Raises:
        UsageError: the team has no MPI, or the grid does not fit it.
    """

    def __init__(
        self,
        team: Team,
        grid: tuple[int, int, int],
        cells: tuple[int, int, int],
        *,
        fields: int = 1,
        split_faces_only: bool = False,
    ) -> None:
        if int(np.prod(grid)) != team.size or min(*grid, *cells, fields) < 1:
            raise UsageError(
                f"grid {grid}, cells {cells}, fields {fields} on {team.size} ranks: all are at least 1 and the "
                "product of the grid is the number of ranks"
            )
        results = {"field": ctypes.POINTER(ctypes.c_double), "run": ctypes.c_double}
        super().__init__("exchange", team, *grid, *cells, fields, int(split_faces_only), results=results)
        self._shape = tuple(n + 2 for n in reversed(cells))
        self.fields = [self._field(number) for number in range(fields)]

    def run(self, iterations: int = 1) -> float:
        """Exchange all fields `iterations` times; return the seconds on this rank. Collective over team."""
        return float(self._call("run", iterations))

    def close(self) -> None:
        """Free the memory; the arrays in `fields` are invalid afterwards. Collective over team."""
        self.fields.clear()
        super().close()

    def _field(self, number: int) -> NDArray[np.float64]:
        """The block of one field, indexed (z, y, x), ghosts included."""
        return np.ctypeslib.as_array(self._call("field", number), shape=self._shape)
