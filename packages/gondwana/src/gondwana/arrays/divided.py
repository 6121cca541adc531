"""What is divided over ranks: cells of global arrays and of their views, and the copies between them.

A copy pairs elements by their positions, so two ranks have in common what each owns of the same positions. Every rank
knows the division of all others: no rank asks where anything is.
"""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.base import DomainArray, positions_of
from gondwana.arrays.expressions.expression import Elementwise, Selection
from gondwana.arrays.expressions.sweeps import assign
from gondwana.compiler.types.records import spelled
from gondwana.domains import Point, RectDomain
from gondwana.errors import UsageError
from gondwana.memory.cuda_kind import synchronize
from gondwana.teams import Team, wait_all
from gondwana.transfer.plans.create import plan
from gondwana.transfer.plans.plan import Plan

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray

GATHER_TAG, SCATTER_TAG = 30_000, 29_999


class Divided(Elementwise, ABC):
    """Elements that are divided over the ranks of a team: all cells of a global array, or some of them.

    Indices are global coordinates on every rank. What is written reaches the array.

    Attributes:
        team: the ranks that share the array.
        dtype: type of an element.
    """

    team: Team
    dtype: np.dtype[Any]

    @property
    @abstractmethod
    def _array(self) -> GlobalArray:
        """The array."""

    @property
    @abstractmethod
    def _cells(self) -> tuple[range, ...]:
        """Coordinates of the elements along each axis of the array."""

    @property
    @abstractmethod
    def _axes(self) -> tuple[int, ...]:
        """Those axes of the array that are axes here, in this order; along the others there is one coordinate."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A name in messages, the same on all ranks."""

    @functools.cached_property
    def _selection(self) -> Selection:
        """The array, the coordinates of its cells that are elements here, and those of its axes that are axes here."""
        return self._array, self._cells, self._axes

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, of all ranks and without ghosts."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        """Return a view of a box of cells, or the value of one cell, from wherever it is. Local.

        Args:
            index: a point, or an integer or a slice for each axis, in global coordinates (a negative one is no distance
                from the end); `...` stands for all other axes; or a RectDomain. An axis with an integer vanishes.

        Example:
            >>> import gondwana as gw
            >>> T = gw.from_function(lambda x, y: 10 * x + y, (4, 4))
            >>> T[1, 2], T[1:3, 2].to_numpy().tolist()
            (12.0, [12.0, 22.0])
        """
        cells, axes = self._chosen(index)
        if axes:
            return GlobalView(self._array, cells, axes)
        block, point = self._at(cells)
        return block[point]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set one cell, wherever it is, or those cells of a view that this rank owns. Local; blocks.

        Args:
            index: as for reading.
            value: a number or a record; for a view also an expression of the same cells (local), or a global array or a
                view of its shape: then collective over both teams, as `gw.copy`.

        Raises:
            UsageError: the value is another array.
        """
        cells, axes = self._chosen(index)
        if not axes:
            if isinstance(value, Elementwise):
                raise UsageError(f"one cell, T[{index!r}], cannot be {value!r}: give a number, or index a box of cells")
            block, point = self._at(cells)
            block[point] = value
        elif isinstance(value, Divided):
            ended = value._array is self._array and (value._cells, value._axes) == (cells, axes)
            if not ended:  # by `T[...] += e`, which stores first and assigns then
                start_copy(value, GlobalView(self._array, cells, axes)).wait()
        elif isinstance(value, Elementwise):
            assign(GlobalView(self._array, cells, axes), value)
        elif isinstance(value, np.ndarray | DomainArray | list):
            raise UsageError(
                f"T[...] = a {type(value).__name__}: give a number, an expression, a global array or a view of one; "
                "elements that one rank has go to all by gw.scatter, of this rank by T.values[...]"
            )
        else:
            GlobalView(self._array, cells, axes).fill(value)

    def permute(self, axes: Sequence[SupportsIndex]) -> GlobalView:
        """Return the view whose axis `i` is axis `axes[i]` here. Local.

        Raises:
            UsageError: `axes` does not name each axis once.

        Example:
            >>> import gondwana as gw
            >>> gw.zeros((4, 6)).permute((1, 0)).shape
            (6, 4)
        """
        self.domain.permute(axes)  # checks them
        return GlobalView(self._array, self._cells, tuple(self._axes[int(axis)] for axis in axes))

    def to_numpy(self, root: int | None = None) -> np.ndarray[Any, Any] | None:
        """Return all elements, without ghosts, as one ndarray. Collective over team; blocks.

        Args:
            root: rank that gets it; None: every rank.

        Returns:
            The array, of shape `shape`; None on ranks other than `root`.

        Raises:
            UsageError: the rank does not exist.
        """
        team = self.team
        if root is not None and root not in range(team.size):
            raise UsageError(f"root={root!r}: the ranks of {team.name} are 0 to {team.size - 1}, or None for all")
        receivers = range(team.size) if root is None else (root,)
        own = self.end(team.rank, self.part(team.rank))
        mine = np.ascontiguousarray((own if isinstance(own, Array) else own.copy()).numpy())
        private = team.private
        sends = [private.Isend(mine, rank, GATHER_TAG) for rank in receivers if mine.size]
        whole = np.empty(self.shape, self.dtype) if team.rank in receivers else None
        if whole is not None:
            for rank, positions in self._parts():
                found = np.empty(positions.shape, self.dtype)
                private.Recv(found, rank, GATHER_TAG)
                whole[slices_of(positions)] = found
        wait_all(sends)
        return whole

    def gather(self, root: int = 0) -> np.ndarray[Any, Any] | None:
        """Return `to_numpy(root)`: all elements on one rank, None on the others. Collective over team; blocks."""
        return self.to_numpy(root)

    def plane(self, axis: int, index: int, root: int | None = 0) -> np.ndarray[Any, Any] | None:
        """Return the elements with one coordinate along an axis, such as a plane to be drawn. Collective; blocks.

        Args:
            axis: axis that vanishes.
            index: its global coordinate.
            root: rank that gets the elements; None: every rank.

        Returns:
            An ndarray with one axis less; None on ranks other than `root`.

        Raises:
            UsageError: the axis or the rank does not exist, or the array has one axis only.
            IndexError: the coordinate does not exist.

        Example:
            >>> import gondwana as gw
            >>> T = gw.from_function(lambda x, y, z: x + 10 * y + 100 * z, (2, 2, 2))
            >>> T.plane(axis=2, index=1, root=None).tolist()
            [[100.0, 110.0], [101.0, 111.0]]
        """
        if axis not in range(self.ndim) or self.ndim == 1:
            raise UsageError(f"plane(axis={axis!r}) of an array of {self.ndim} axes: give one of two axes or more")
        found: GlobalView = self[(*(slice(None),) * axis, index, ...)]
        return found.to_numpy(root)

    def end(self, rank: int, positions: RectDomain) -> DomainArray:
        """Return elements of one rank, with the axes of this view. Local, no copy.

        Args:
            rank: rank that owns them.
            positions: the positions of the elements, some of `part(rank)`.
        """
        if positions.is_empty:
            return Array.empty(positions, self.dtype)
        cells = list(self._cells)
        for axis, span in zip(self._axes, positions.axes, strict=True):
            cells[axis] = cells[axis][span.start : span.stop]
        found: DomainArray = self._array._peek(rank).restrict(RectDomain.from_axes(cells))
        for axis in reversed(range(len(cells))):
            if axis not in self._axes:
                found = found.slice(axis, cells[axis].start)
        kept = sorted(self._axes)
        return found.permute([kept.index(axis) for axis in self._axes])

    def _parts(self) -> Iterator[tuple[int, RectDomain]]:
        """The ranks that own elements, with the positions of these."""
        for rank in range(self.team.size):
            positions = self.part(rank)
            if not positions.is_empty:
                yield rank, positions

    def _at(self, cells: tuple[range, ...]) -> tuple[Any, Point]:
        """The block that owns a cell, and the cell."""
        point = Point(cell.start for cell in cells)
        return self._array.block(self._array.layout.owner(point)), point

    def _chosen(self, index: Any) -> tuple[tuple[range, ...], tuple[int, ...]]:
        """The cells that an index selects, and the axes that remain."""
        if index is Ellipsis:
            return self._cells, self._axes
        cells, kept = list(self._cells), []
        for axis, place in zip(self._axes, positions_of(self.domain, index), strict=True):
            if isinstance(place, slice):
                cells[axis] = cells[axis][place]
                kept.append(axis)
            else:
                cells[axis] = cells[axis][place : place + 1]
        return tuple(cells), tuple(kept)

    def __gondwana_copy__(self, src: Any, dst: Any) -> Plan:
        """Start a copy of which this is an end, for `gw.copy`. Collective."""
        return start_copy(src, dst)

    def __gondwana_pairs__(self, src: Any, dst: Any) -> Iterator[tuple[DomainArray, DomainArray]]:
        """Return the part of a copy of which this is an end that this rank lists, for `gw.plan`. Local."""
        return pairs(src, dst)


class GlobalView(Divided):
    """Some cells of a global array: a box of them, perhaps with strides, fewer axes, or the axes in another order.

    Made by an index of a global array, `T[2:8, ::2]`, and by `permute`. An end of `gw.copy` and `gw.plan`.

    Args:
        array: the array.
        cells: coordinates of the cells along each axis of the array.
        axes: those of the array's axes that the view has, in its order.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros((4, 6))
        >>> T[1:3, 1:5] = 2.0
        >>> T[2, ...].shape, T.sum()
        ((6,), 16.0)
    """

    def __init__(self, array: GlobalArray, cells: tuple[range, ...], axes: tuple[int, ...]) -> None:
        self.team, self.dtype, self._selected = array.team, array.dtype, (array, cells, axes)

    @property
    def _array(self) -> GlobalArray:
        return self._selected[0]

    @property
    def _cells(self) -> tuple[range, ...]:
        return self._selected[1]

    @property
    def _axes(self) -> tuple[int, ...]:
        return self._selected[2]

    def fill(self, value: Any) -> None:
        """Set the elements that this rank owns to one value. Local."""
        rank = self.team.rank
        self._array._note_write()
        self.end(rank, self.part(rank)).fill(value)

    @property
    def label(self) -> str:
        """A name in messages, the same on all ranks."""
        return f"{list(self._cells)}, axes {self._axes}, of {self._array.label}"

    def __repr__(self) -> str:
        return f"GlobalView({self.domain!r} of {self._array!r})"


def slices_of(positions: RectDomain) -> tuple[slice, ...]:
    """Return NumPy's index of the elements at positions from 0 along each axis. Local."""
    return tuple(slice(span.start, span.stop) for span in positions.axes)


def start_copy(src: Divided | None, dst: Divided | None) -> Plan:
    """Start to copy the elements of a global array, or of a view, to another. Collective over both teams.

    Called by `gw.copy`, which says what is legal.

    Args:
        src: the elements; None on a rank that is not in the team of the array.
        dst: their destination; the same.

    Raises:
        UsageError: the ends do not fit each other, or the ranks give different ones; raised by every rank.
    """
    _check(src, dst)
    ends = [end for end in (src, dst) if end is not None]
    key = ("copy", *((id(end._array), end._cells, end._axes) if end is not None else () for end in (src, dst)))
    if dst is not None:
        dst._array._note_write()
    first = ends[0]._array
    known = first.plans.get(key)
    if known is None:
        team = max((end.team for end in ends), key=lambda team: team.size)
        if any(team.rank_of_world(rank) is None for end in ends for rank in end.team.world_ranks):
            raise UsageError(
                f"a copy between arrays of {ends[0].team.name} and {ends[1].team.name}, neither of which has all ranks "
                "of the other: give gw.plan([(A, B)], team) a team that has"
            )
        _agree(src, dst, team)
        known = first.plans[key] = plan([(src, dst)], team)
        if len(ends) == 2 and ends[1]._array is not first:
            weakref.finalize(ends[1]._array, forget, weakref.ref(first), key).atexit = False
    return known.start()


def ready(array: GlobalArray) -> GlobalArray:
    """Return a new array once every rank has set its own cells: now any rank may use any cell. Collective; blocks."""
    if not array.kind.host:
        synchronize()
    array.team.barrier()
    return array


def forget(array: weakref.ref[GlobalArray], key: tuple[Any, ...]) -> None:
    """Drop a plan that an array keeps, now that another array of the plan is gone. Local."""
    kept = array()
    if kept is not None:
        kept.plans.pop(key, None)


def pairs(src: Divided | None, dst: Divided | None) -> Iterator[tuple[DomainArray, DomainArray]]:
    """Return those copies from a rank to a rank that this one lists in a plan. Local.

    The owner of the source lists them if it is in both teams, else the owner of the destination, else the first rank
    that is in both.

    Raises:
        UsageError: the ends do not fit each other.
    """
    _check(src, dst)
    if src is None or dst is None:
        return
    senders, receivers = src.team.world_ranks, dst.team.world_ranks
    both, here = set(senders) & set(receivers), senders[src.team.rank]
    for rank, sender in enumerate(senders):
        if sender in both and sender != here:
            continue
        sent = src.part(rank)
        for other, receiver in enumerate(receivers):
            if here == (sender if sender in both else receiver if receiver in both else min(both)):
                common = sent & dst.part(other)
                if not common.is_empty:
                    yield src.end(rank, common), dst.end(other, common)


def _check(src: Any, dst: Any) -> None:
    """Raise unless two ends fit each other, as far as this rank knows them."""
    for end, other in ((src, dst), (dst, src)):
        if isinstance(end, np.ndarray) and isinstance(other, Divided):
            advice = (
                "gw.from_numpy(a) makes one of an ndarray that all ranks have, gw.scatter(a, like=T) of one that one "
                "rank has"
                if end is src
                else "T.to_numpy() returns an ndarray on every rank, T.gather(root) on one"
            )
            raise UsageError(
                f"a copy {'from' if end is src else 'to'} an ndarray of shape {end.shape}, where gw.copy takes two "
                f"global arrays or views: {advice}, and T.block(rank) is an end for copies by one rank"
            )
        if end is not None and not isinstance(end, Divided):
            raise UsageError(
                f"a copy between {other!r} and {end!r}: give two global arrays or views (None on a rank outside "
                "of the team of one); T.to_numpy() copies to an ndarray and gw.scatter from one, and T.block(rank) is "
                "an end for copies by one rank"
            )
    if src is None or dst is None:
        return
    if src.shape != dst.shape:
        raise UsageError(f"a copy from shape {src.shape} to shape {dst.shape}: make them equal, such as by T[...]")
    if src.dtype != dst.dtype:
        raise UsageError(f"a copy from elements of {spelled(src.dtype)} to elements of {spelled(dst.dtype)}")
    if src._array is dst._array and not (RectDomain.from_axes(src._cells) & RectDomain.from_axes(dst._cells)).is_empty:
        raise UsageError("a copy between cells of one array that overlap: copy by way of another array")


def _agree(src: Divided | None, dst: Divided | None, team: Team) -> None:
    """Raise on all ranks unless all give the same ends. Collective over team, which has all of their ranks."""
    problem: UsageError | None = None
    for which, end in (("source", src), ("destination", dst)):
        given = team.allgather(None if end is None else end.label)
        first = next((rank for rank, label in enumerate(given) if label is not None), 0)
        for rank, label in enumerate(given):
            if label not in (given[first], None):
                problem = UsageError(
                    f"different copies: the {which} is {given[first]} on rank {first} and {label} on rank {rank}"
                )
        mine = () if end is None else map(team.rank_of_world, end.team.world_ranks)
        if any(given[rank] is None for rank in mine if rank is not None):
            problem = UsageError(f"a copy with {given[first]} as {which}: a rank of its team gives None")
    team.agree(problem)
