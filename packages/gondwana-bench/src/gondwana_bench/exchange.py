"""The speed of ghost exchange, beside persistent MPI requests with derived datatypes in C on the same ranks."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gondwana import GlobalArray, RectDomain, Team, exchange, zeros
from gondwana.errors import UsageError
from gondwana_bench.measure import Variant, interleave, timed
from gondwana_bench.native.resources import NativeState
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside_c, check_numbers, check_ranks, columns, in_microseconds

SIZES = (64, 128)
FIELDS = (1, 2)

COLUMNS = columns(
    "size fields faces grid microseconds c_microseconds gb_per_s ratio ratio_of_best verified",
    size="side", grid="ranks", c_microseconds="C, MPI", ratio="C/ours (95 %)", verified="same",
)  # fmt: skip

Triple = tuple[int, int, int]


def check(ranks: int, sizes: Sequence[int], fields: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_ranks(ranks, "an exchange needs at least 2 ranks")
    for option, numbers in (("--sizes", sizes), ("--fields", fields)):
        check_numbers(option, numbers, "numbers of at least 1, such as 64,128")


def grid_of(ranks: int) -> Triple:
    """Divide ranks among x, y and z as evenly as possible, with fewest along x, whose faces are the slowest. Local.

    Example:
        >>> grid_of(2), grid_of(12)
        ((1, 1, 2), (2, 2, 3))
    """
    grids = [
        (a, b, ranks // (a * b))
        for a in range(1, ranks + 1)
        if ranks % a == 0
        for b in range(a, ranks // a + 1)
        if ranks // a % b == 0 and ranks // (a * b) >= b
    ]
    return min(grids, key=sum)


def measure(team: Team, sizes: Sequence[int] = SIZES, fields: Sequence[int] = FIELDS, **timing: Any) -> Iterator[Row]:
    """Measure the exchange of every size, with all faces and with the split axes only. Collective over team.

    Args:
        team: at least two MPI ranks, on one or several nodes.
        sizes: cells a side of each rank's cube of doubles.
        fields: number of arrays that are exchanged in one call.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank: microseconds an exchange (of the slowest rank), GB/s that arrive at a rank, the
        speed relative to C with its interval (above 1: ours is faster), and whether all ghosts were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, sizes, fields)
    for size in sizes:
        for count in fields:
            for split_only in (False, True):
                yield _measure_one(team, size, count, split_only, timing)


def _measure_one(team: Team, size: int, count: int, split_only: bool, timing: Mapping[str, Any]) -> Row:
    grid = grid_of(team.size)
    exchanged = tuple(n > 1 or not split_only for n in grid)
    box = RectDomain((0, 0, 0), tuple(n * size for n in grid))
    ours = [zeros(box, ghost=1, periodic=exchanged, grid=grid, order="F", team=team) for _ in range(count)]
    cells = (size, size, size)
    with GhostExchange(team, grid, cells, fields=count, split_faces_only=split_only) as theirs:
        corner = tuple(int(n) * size for n in np.unravel_index(team.rank, grid))
        blocks = [array.local.numpy() for array in ours] + [field.T for field in theirs.fields]
        for number, block in enumerate(blocks):
            block[1:-1, 1:-1, 1:-1] = _values(box, corner, size, number % count)[1:-1, 1:-1, 1:-1]
        variants: dict[str, Variant] = {"ours": timed(lambda: _exchange(ours)), "c": theirs.run}
        samples = interleave(variants, team=team, **timing)
        right = all(
            _ghosts_are(block, _values(box, corner, size, number % count), exchanged)
            for number, block in enumerate(blocks)
        )
        verified = all(team.allgather(right))
    faces = 2 * sum(exchanged) * size**2 * count
    return {
        "size": size,
        "dtype": "float64",
        "fields": count,
        "faces": "split axes" if split_only else "all",
        "grid": "x".join(map(str, grid)),
        "nodes": team.node_count,
        **beside_c(samples, verified, microseconds=in_microseconds, gb_per_s=lambda seconds: faces * 8 / 1e9 / seconds),
    }


def _exchange(arrays: list[GlobalArray]) -> None:
    exchange(*arrays).wait()


def _values(box: RectDomain, corner: Sequence[int], size: int, field: int) -> NDArray[np.float64]:
    """Return the values of a block and its ghosts: each cell's number in the periodic box, plus half the field's."""
    side_x, side_y, _ = box.shape
    x, y, z = ((np.arange(-1, size + 1) + low) % side for low, side in zip(corner, box.shape, strict=True))
    numbers = x[:, None, None] + side_x * (y[None, :, None] + side_y * z[None, None, :])
    return numbers + 0.5 * field


def _ghosts_are(block: NDArray[Any], values: NDArray[Any], exchanged: tuple[bool, ...]) -> bool:
    """Return whether the ghosts along the exchanged axes have the neighbours' values."""
    for axis in range(3):
        for side in (0, -1):
            face = tuple(side if a == axis else slice(1, -1) for a in range(3))
            if exchanged[axis] and not np.array_equal(block[face], values[face]):
                return False
    return True


class GhostExchange(NativeState):
    """Persistent requests of `exchange.c` for the ghosts of a few blocks of doubles. Collective over team.

    Args:
        team: a team of MPI ranks.
        grid: ranks along x, y and z; their product is the size of the team. Rank order is row-major: z varies fastest.
        cells: cells of each rank's block along x, y and z, the same on all ranks.
        fields: number of blocks that are exchanged together.
        split_faces_only: leave out the axes along which the grid has one rank, whose ghosts are its own cells.

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
        return self._time("run", iterations)

    def close(self) -> None:
        """Free the memory; the arrays in `fields` are invalid afterwards. Collective over team."""
        self.fields.clear()
        super().close()

    def _field(self, number: int) -> NDArray[np.float64]:
        """The block of one field, indexed (z, y, x), ghosts included."""
        return np.ctypeslib.as_array(self._call("field", number), shape=self._shape)


if __name__ == "__main__":
    sys.exit(measure_on_ranks("exchange", COLUMNS, measure))
