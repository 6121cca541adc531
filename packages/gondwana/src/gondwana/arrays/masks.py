"""Regions of global arrays: where a kernel runs, by a set or an array of booleans, with an inner part and a rim."""

from __future__ import annotations

import functools

import numpy as np

from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.global_array import GlobalArray
from gondwana.domains import IndexSet
from gondwana.errors import UsageError


class Region:
    """Cells of this rank on which kernels run: see `cells_where`. Local.

    Args:
        where: set of cells, or array of booleans.
        like: array whose ghosts decide which cells are inner.
    """

    def __init__(self, where: IndexSet | GlobalArray, like: GlobalArray) -> None:
        self._like = like
        self._set = where if isinstance(where, IndexSet) else None
        if isinstance(where, GlobalArray):
            # A copy: what a region is must not change with the array.
            self._cells = np.array(where.local.restrict(where.owned).copy().numpy())
            self._held = where.local if isinstance(where.local, DeviceArray) else None

    @functools.cached_property
    def owned(self) -> IndexSet:
        """All cells of the region that this rank has, perhaps none."""
        return self._part(self._like.owned)

    @functools.cached_property
    def inner(self) -> IndexSet:
        """The owned cells that can be computed during `exchange`: those in `inner` of the array."""
        return self._part(self._like.inner)

    @functools.cached_property
    def rim(self) -> IndexSet:
        """The other owned cells, which need ghosts that come from other ranks."""
        return self._part(self._like.rim)

    def _part(self, within: IndexSet) -> IndexSet:
        """The cells of the region among some of this rank's."""
        if self._set is not None:
            return self._set & within
        from gondwana.kernels.runs import Runs  # only now: kernels take time to load

        box = self._like.owned
        chosen = np.zeros(box.shape, bool)
        for rect in within.rects:
            part = tuple(slice(r.start - x, r.stop - x, r.step) for r, x in zip(rect.axes, box.lo, strict=True))
            chosen[part] = self._cells[part]
        return Runs(chosen, box, within, self._held)

    def __repr__(self) -> str:
        return f"Region({self._like.domain if self._set is None else self._set!r})"


def cells_where(where: IndexSet | GlobalArray, *, like: GlobalArray | None = None) -> Region:
    """Return the cells of this rank that are in a set, or at which an array of booleans is true. Local.

    Kernels run on its parts as on domains: on `region.inner` during an exchange of ghosts, on `region.rim` after it, or
    on all, `region.owned`. On the host, runs of cells are as fast as rows of a box. Make a region once and keep it.

    Args:
        where: RectDomain or Domain in global coordinates, which may reach beyond the cells of this rank; or a global
            array of booleans. What a region is does not change with the array; on a GPU it must keep its values.
        like: array that the kernels exchange: its ghosts decide which cells are inner. Default: the array of booleans,
            which `gw.zeros_like(T, bool)` makes with the ghosts of `T`.

    Raises:
        UsageError: `where` is neither, `like` is missing or divided otherwise, or the array of booleans is.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros((4, 4), ghost=1)
        >>> disk = gw.from_function(lambda x, y: (x - 1.5) ** 2 + (y - 1.5) ** 2 < 3, (4, 4), ghost=1)
        >>> region = gw.cells_where(disk)
        >>> @gw.foreach
        ... def heat(p, T):
        ...     T[p] += 1.0
        >>> heat(region.owned, T)
        >>> T.sum()
        12.0
    """
    if isinstance(where, GlobalArray):
        like = where if like is None else like
        if where.dtype != bool:
            raise UsageError(
                f"cells_where of an array of {where.dtype}: give one of bool, such as gw.zeros_like(T, bool)"
            )
    elif not isinstance(where, IndexSet):
        raise UsageError(f"cells_where of {where!r}: give a RectDomain, a Domain, or a global array of bool")
    if not isinstance(like, GlobalArray):
        raise UsageError(f"cells_where(like={like!r}): give the array that the kernels exchange")
    if isinstance(where, GlobalArray) and where.owned != like.owned:
        raise UsageError(f"cells_where: this rank has {where.owned!r} of the mask and {like.owned!r} of `like`")
    if like.ghost == (0,) * like.ndim and like.team.size > 1:
        raise UsageError("cells_where: an array without ghosts has no inner cells: give like=, the array to exchange")
    return Region(where, like)
