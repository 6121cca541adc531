"""The common base of arrays on this rank and elsewhere: a domain, its views, and indices in its coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeAlias

import numpy as np

from gondwana.domains import Offset, Point, PointLike, RectDomain, as_point
from gondwana.domains.point import as_integer
from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import StridedBox
from gondwana.transfer.completion import Notify, Transfer
from gondwana.transfer.verbs import copy

if TYPE_CHECKING:
    from gondwana.arrays.array import Array
    from gondwana.arrays.reference import ArrayReference

Slice: TypeAlias = slice
Position: TypeAlias = tuple[int | Slice, ...]


class DomainArray(ABC):
    """Elements on a RectDomain, wherever they lie: `Array` and `RemoteArray`. Local.

    A subclass defines its elements: an object with `shape`, `dtype`, `size` and `nbytes` that takes slices and
    integers as an index and has `transpose`, as an ndarray.
    """

    __slots__ = ("_data", "_domain")
    _data: Any
    _domain: RectDomain

    def _lie_on(self, data: Any, domain: RectDomain | None) -> None:
        """Take data of the shape of the domain; default: the domain of its shape from the origin."""
        if data.size == 0:  # the empty domain has no extent along any axis
            data = data[(slice(0, 0),) * data.ndim]
        self._data = data
        self._domain = RectDomain.from_shape(data.shape) if domain is None else domain
        if not isinstance(self._domain, RectDomain):
            raise UsageError(f"domain={domain!r}: give a RectDomain, such as RectDomain.from_shape({data.shape})")
        if data.shape != self._domain.shape:
            raise UsageError(
                f"data of shape {data.shape} cannot lie on {self._domain!r} of shape {self._domain.shape}: "
                "make them equal"
            )

    @abstractmethod
    def _like(self, data: Any, domain: RectDomain) -> Self:
        """A view: other elements of the same memory."""

    @property
    @abstractmethod
    def pointer(self) -> GlobalPtr:
        """The place of the first element: rank, kind of memory, offset."""

    def reference(self) -> ArrayReference:
        """Return the name of this array, which can be sent: `array()` of it is this array on any rank. Local.

        Raises:
            UsageError: the array lies in private memory.
        """
        from gondwana.arrays.reference import ArrayReference

        return ArrayReference(self.pointer, self._domain, self.strides)

    @abstractmethod
    def __gondwana_box__(self) -> StridedBox:
        """The place of the elements, for `gw.copy`."""

    @property
    def domain(self) -> RectDomain:
        """The domain of the elements."""
        return self._domain

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        dtype: np.dtype[Any] = self._data.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self._domain.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._domain.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._data.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps of a view not counted."""
        return int(self._data.nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each axis."""
        strides: tuple[int, ...] = self._data.strides
        return strides

    def restrict(self, domain: RectDomain) -> Self:
        """Return the view of the elements whose points are also in `domain`. Local.

        The result may be empty; a strided domain selects every n-th element.
        """
        kept = self._domain & domain
        if kept.is_empty:
            return self._like(self._data[(slice(0, 0),) * self.ndim], RectDomain.from_shape((0,) * self.ndim))
        return self._like(self._data[tuple(map(_positions, self._domain.axes, kept.axes))], kept)

    def shrink(self, width: PointLike, direction: int | None = None) -> Self:
        """Return the view without a border. Local. Arguments as for `RectDomain.shrink`."""
        return self.restrict(self._domain.shrink(width, direction))

    def translate(self, offset: PointLike) -> Self:
        """Return the view whose element at `p + offset` is this array's at `p`. Local."""
        return self._like(self._data, self._domain.translate(offset))

    def permute(self, axes: Sequence[SupportsIndex]) -> Self:
        """Return the view whose axis `i` is this array's axis `axes[i]`. Local."""
        domain = self._domain.permute(axes)
        return self._like(self._data.transpose([int(axis) for axis in axes]), domain)

    def slice(self, axis: SupportsIndex, at: SupportsIndex) -> Self:
        """Return the view with one axis less: the elements whose coordinate along `axis` is `at`. Local.

        Raises:
            IndexError: the coordinate does not exist.
        """
        coordinates = self._domain.axes[int(axis)]
        if int(at) not in coordinates:
            raise IndexError(f"axis {int(axis)} of an array on {self._domain!r} has no coordinate {int(at)}")
        index: list[Any] = [slice(None)] * self.ndim
        index[int(axis)] = coordinates.index(int(at))
        return self._like(self._data[tuple(index)], self._domain.slice(axis))

    def inject(self, factor: PointLike) -> Self:
        """Return the view whose element at `p * factor` is this array's at `p`. Local."""
        return self._like(self._data, self._domain * factor)

    def project(self, divisor: PointLike) -> Self:
        """Return the view whose element at `p // divisor` is this array's at `p`: undoes `inject`. Local.

        Raises:
            UsageError: two elements would get the same point.
        """
        domain = self._domain // divisor
        if domain.shape != self.shape:
            raise UsageError(f"project({divisor!r}) would put several elements of {self._domain!r} on one point")
        return self._like(self._data, domain)

    @abstractmethod
    def copy(self) -> Array:
        """Return a new array with the same elements and memory order, in private memory. Blocks."""

    @abstractmethod
    def fill(self, value: Any) -> None:
        """Set all elements to one value. Blocks."""

    @abstractmethod
    def copy_from(self, other: DomainArray) -> None:
        """Copy the elements at the points that both arrays have. Blocks until they have arrived, on any rank.

        This is Titanium's array copy: the intersection of the two index domains decides what moves, values are cast to
        the dtype of this array. One-sided: the ranks that hold the two arrays do not take part.

        Args:
            other: an array of the same number of axes, anywhere; may share memory with this one.

        Example:
            >>> import gondwana as gw
            >>> a = gw.Array.zeros(gw.RectDomain(0, 6))
            >>> a.copy_from(gw.Array.full(gw.RectDomain(4, 9), 1.0))
            >>> a.numpy().tolist()
            [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
        """

    def copy_from_async(self, other: DomainArray, *, notify: Notify | None = None) -> Transfer:
        """Start to copy the elements at the points that both arrays have. Local; internal progress; does not wait.

        The same as `gw.copy` of the common part: values are not cast, and the arrays must not share memory.

        Args:
            other: an array of the same number of axes and dtype, anywhere. Leave it unchanged until `.source` of the
                result is done.
            notify: receiver of a notification when the elements have arrived, also if there are none: a `gw.Signal`,
                which is raised at the rank that holds this array, or `(function, *arguments)`, which runs there.

        Returns:
            The future of operation completion, with the futures `source` and `remote`: see `gw.copy`.

        Raises:
            UsageError: the dtypes differ.

        Example:
            >>> import gondwana as gw
            >>> T, arrived = gw.zeros(gw.RectDomain(0, 8), ghost=1), gw.Signal(gw.world)
            >>> sent = T.block(gw.world.rank).copy_from_async(gw.Array.full(T.owned, 1.0), notify=arrived)
            >>> arrived.wait()
        """
        common = self._domain & other.domain
        return copy(other.restrict(common), self.restrict(common), notify=notify)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, RectDomain):
            self._position(index)
            return self.restrict(index)
        position = self._position(index)
        return self._element(position) if all(isinstance(part, int) for part in position) else self._view(position)

    @abstractmethod
    def _element(self, position: Position) -> Any:
        """The value of one element."""

    def _view(self, position: Position) -> Self:
        axes = self._domain.axes
        kept = [axis[part] for axis, part in zip(axes, position, strict=True) if isinstance(part, slice)]
        return self._like(self._data[position], RectDomain.from_axes(kept))

    def _position(self, index: Any) -> Position:
        """NumPy's index for an index in the coordinates of the domain."""
        return positions_of(self._domain, index)


def positions_of(domain: RectDomain, index: Any) -> Position:
    """Return NumPy's index of the elements that an index in the coordinates of a domain selects. Local.

    Args:
        domain: domain of the elements.
        index: a point, or an integer or a slice for each axis, a point for several of them, `...` for axes that are
            left out; or a RectDomain.

    Raises:
        IndexError: a coordinate, or a point of the RectDomain, is not in the domain; or the index has other axes.
    """
    if isinstance(index, RectDomain):
        if not index <= domain:
            raise IndexError(f"{index!r} is not inside {domain!r}: use restrict() for the common part")
        return tuple(map(_positions, domain.axes, index.axes))
    if isinstance(index, Offset):
        index = as_point(index, domain.ndim)
    parts = index if isinstance(index, tuple) else (index,)
    if type(index) is tuple and any(isinstance(part, Point) for part in parts):
        parts = tuple(one for part in parts for one in (part if isinstance(part, Point) else (part,)))
    for place, part in enumerate(parts):
        if part is Ellipsis:
            parts = (*parts[:place], *(slice(None),) * (domain.ndim - len(parts) + 1), *parts[place + 1 :])
            break
    if len(parts) != domain.ndim:
        raise IndexError(f"an array of {domain.ndim} axes is indexed by {domain.ndim} coordinates, not {index!r}")
    return tuple(_coordinate(domain, axis, part) for axis, part in enumerate(parts))


def _coordinate(domain: RectDomain, axis: int, part: Any) -> int | Slice:
    coordinates = domain.axes[axis]
    if isinstance(part, slice):
        if part.step is not None and part.step < 1:
            raise IndexError(f"a slice of an array needs a positive step, not {part.step}")
        low = coordinates.start if part.start is None else part.start
        high = coordinates.stop if part.stop is None else part.stop
        wanted = RectDomain(low, high, part.step or 1) & RectDomain.from_axes([coordinates])
        return _positions(coordinates, wanted.axes[0])
    coordinate = as_integer(part)
    if coordinate not in coordinates:
        raise IndexError(f"coordinate {coordinate} of axis {axis} is outside of {domain!r}")
    return coordinates.index(coordinate)


def _positions(axis: range, kept: range) -> slice:
    """The positions along an axis of the coordinates `kept`, a subset of its coordinates."""
    if not kept:
        return slice(0, 0)
    first = axis.index(kept[0])
    return slice(first, axis.index(kept[-1]) + 1, max(1, kept.step // axis.step))
