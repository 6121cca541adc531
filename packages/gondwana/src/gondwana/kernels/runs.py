"""Sets of points given by an array of booleans, for kernels: rows of runs instead of boxes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from gondwana.domains import Domain, IndexSet, Point, PointLike, RectDomain


class Runs(IndexSet):
    """The points of a box at which an array of booleans is true. Local.

    Compiled kernels of the host run over its runs, which are the points without gaps along the innermost axis. Those on
    a GPU run over the boxes that they lie in, and look at the array.

    Args:
        cells: an element for each point of the box; it must not change.
        box: the box.
        within: sets of points outside of which none is true.
        held: the array on a GPU, in the coordinates of the box; None for the host.
    """

    def __init__(self, cells: npt.NDArray[np.bool_], box: RectDomain, within: IndexSet, held: Any = None) -> None:
        self._cells, self._box, self.within, self.held = cells, box, within, held
        self._size = int(np.count_nonzero(cells))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._box.ndim

    @property
    def size(self) -> int:
        """The number of points."""
        return self._size

    @property
    def is_empty(self) -> bool:
        """Whether the set has no points."""
        return self._size == 0

    @functools.cached_property
    def rects(self) -> tuple[RectDomain, ...]:
        """Disjoint boxes that make up the set, in the order of their first points."""
        begins, *axes = self.table("C").T
        rows = zip(np.diff(begins).tolist(), *(axis[:-1].tolist() for axis in axes), strict=True)
        return Domain.of(
            RectDomain((0,) * self.ndim, (0,) * self.ndim),
            *(RectDomain(first, (*(x + 1 for x in first[:-1]), first[-1] + length)) for length, *first in rows),
        ).rects

    @functools.cached_property
    def bounding_box(self) -> RectDomain:
        """The smallest dense box that contains the set."""
        places = [np.flatnonzero(self._cells.any(axis=self._others(axis))) for axis in range(self.ndim)]
        if self.is_empty:
            return RectDomain((0,) * self.ndim, (0,) * self.ndim)
        low = self._box.lo
        return RectDomain(
            [int(place[0]) + first for place, first in zip(places, low, strict=True)],
            [int(place[-1]) + 1 + first for place, first in zip(places, low, strict=True)],
        )

    def _others(self, axis: int) -> tuple[int, ...]:
        return tuple(other for other in range(self.ndim) if other != axis)

    def translate(self, offset: PointLike) -> Runs:
        """Return the set moved by an offset."""
        held = None if self.held is None else self.held.translate(offset)
        return Runs(self._cells, self._box + offset, self.within + offset, held)

    def permute(self, axes: Sequence[SupportsIndex]) -> Runs:
        """Return the set whose axis `i` is axis `axes[i]` of this one."""
        held = None if self.held is None else self.held.permute(axes)
        return Runs(self._cells.transpose(axes), self._box.permute(axes), self.within.permute(axes), held)

    def __iter__(self) -> Iterator[Point]:
        return (Point(*place) + self._box.lo for place in np.argwhere(self._cells).tolist())

    def table(self, order: Literal["C", "F"]) -> npt.NDArray[np.int64]:
        """Return the runs in the order of the loops of a kernel, and a last row that ends them. Local.

        A row has the number of points before the run, and the coordinates of its first point, outermost first.

        Args:
            order: order of the loops.
        """
        cells, low = (self._cells, self._box.lo) if order == "C" else (self._cells.T, tuple(self._box.lo)[::-1])
        steps = np.diff(cells.astype(np.int8), axis=-1, prepend=0, append=0)
        first, end = np.argwhere(steps == 1), np.argwhere(steps == -1)
        rows = np.zeros((len(first) + 1, self.ndim + 1), np.int64)
        rows[1:, 0] = np.cumsum(end[:, -1] - first[:, -1])
        rows[:-1, 1:] = first + np.array(low)
        return rows

    def is_on_device(self, arrays: Iterable[Any]) -> bool:
        """Return whether a kernel of these arrays runs on a GPU, which the set is there for. Local."""
        return self.held is not None and any(array.device is not None for array in arrays)

    def __repr__(self) -> str:
        return f"<{self.size} points of {self._box!r}>"

    __str__ = __repr__
