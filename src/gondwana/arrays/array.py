"""`Array`: data on a rectangular domain, indexed in the coordinates of that domain; views share memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.domains import Offset, PointLike, RectDomain, as_point
from gondwana.domains.point import as_integer
from gondwana.errors import UsageError
from gondwana.jit.arguments import ArraySpec, Described, dtype_name, intern

MemoryOrder: TypeAlias = Literal["C", "F"]
Slice: TypeAlias = slice


class Array:
    """Data on a RectDomain in host memory, C or Fortran order or any strided view of such. Local.

    Elements are indexed by points in the coordinates of the domain: `a[p]`, `a[3, -1]`; slices are half-open in those
    coordinates; `a[domain]` is the view restricted to it. Views (`restrict`, `shrink`, `translate`, `slice`, `permute`,
    `inject`, `project`) share memory. `numpy()` is the same memory as an ndarray.

    Args:
        data: the elements; its axes are those of the domain. Shared, not copied.
        domain: where they are; default: from the origin.

    Raises:
        UsageError: shape of the data and of the domain differ.

    Example:
        >>> import gondwana as gw
        >>> a = gw.Array.zeros(gw.RectDomain((-1, -1), (3, 3)))
        >>> a.shrink(1).fill(7.0)
        >>> a[-1, -1], a[0, 1], a.shrink(1).domain
        (0.0, 7.0, RectDomain((0, 0), (2, 2)))
    """

    __slots__ = ("_data", "_described", "_domain", "_extent")
    __array_priority__ = 20

    def __init__(self, data: npt.ArrayLike, domain: RectDomain | None = None) -> None:
        self._data: np.ndarray[Any, Any] = np.asarray(data)
        if self._data.size == 0:  # the empty domain has no extent along any axis
            self._data = self._data[(slice(0, 0),) * self._data.ndim]
        self._domain = RectDomain.from_shape(self._data.shape) if domain is None else domain
        self._described: Described | None = None
        self._extent: tuple[int, int] | None = None
        if self._data.shape != self._domain.shape:
            raise UsageError(
                f"data of shape {self._data.shape} cannot lie on {self._domain!r} of shape {self._domain.shape}: "
                "make them equal"
            )

    @classmethod
    def empty(cls, domain: RectDomain, dtype: npt.DTypeLike = float, *, order: MemoryOrder = "C") -> Array:
        """Return an array with undefined elements. Local.

        Args:
            domain: where it has elements.
            dtype: type of an element.
            order: "C" (last axis contiguous) or "F" (first axis contiguous).
        """
        return cls(np.empty(domain.shape, dtype, order), domain)

    @classmethod
    def zeros(cls, domain: RectDomain, dtype: npt.DTypeLike = float, *, order: MemoryOrder = "C") -> Array:
        """Return an array of zeros. Local. Arguments as for `empty`."""
        return cls(np.zeros(domain.shape, dtype, order), domain)

    @classmethod
    def full(
        cls, domain: RectDomain, value: Any, dtype: npt.DTypeLike | None = None, *, order: MemoryOrder = "C"
    ) -> Array:
        """Return an array of one value everywhere. Local. Arguments as for `empty`; default dtype: the value's."""
        return cls(np.full(domain.shape, value, dtype, order), domain)

    @property
    def domain(self) -> RectDomain:
        """Where the array has elements."""
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
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps of a view not counted."""
        return self._data.nbytes

    @property
    def extent(self) -> tuple[int, int]:
        """First address of the elements and the address behind the last one."""
        if self._extent is None:
            first, end = np.lib.array_utils.byte_bounds(self._data)
            self._extent = (first, end) if self._data.size else (first, first)
        return self._extent

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the same memory as an ndarray, axes in the order of the domain, indexed from zero. Local, no copy."""
        return self._data

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if dtype is None or np.dtype(dtype) == self.dtype:
            return self._data.copy() if copy else self._data
        if copy is False:
            raise ValueError(f"a view of {self.dtype} as {np.dtype(dtype)} needs a copy")
        return self._data.astype(dtype)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._data)  # type: ignore[arg-type]  # true from Python 3.12 on

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._data.__dlpack_device__()
        return device

    @classmethod
    def from_dlpack(cls, other: Any, domain: RectDomain | None = None) -> Array:
        """Return an array on the host memory of any object that speaks DLPack. Local, no copy."""
        return cls(np.from_dlpack(other), domain)

    def restrict(self, domain: RectDomain) -> Array:
        """Return the view of the elements whose points are also in `domain`. Local.

        The result may be empty; a strided domain gives every so-many-th element.
        """
        kept = self._domain & domain
        if kept.is_empty:
            return Array(self._data[(slice(0, 0),) * self.ndim], RectDomain.from_shape((0,) * self.ndim))
        return Array(self._data[tuple(map(_positions, self._domain.axes, kept.axes))], kept)

    def shrink(self, width: PointLike, direction: int | None = None) -> Array:
        """Return the view without a border. Local. Arguments as for `RectDomain.shrink`."""
        return self.restrict(self._domain.shrink(width, direction))

    def translate(self, offset: PointLike) -> Array:
        """Return the view whose element at `p + offset` is this array's at `p`. Local."""
        return Array(self._data, self._domain.translate(offset))

    def permute(self, axes: Sequence[SupportsIndex]) -> Array:
        """Return the view whose axis `i` is this array's axis `axes[i]`. Local."""
        domain = self._domain.permute(axes)
        return Array(self._data.transpose([int(axis) for axis in axes]), domain)

    def slice(self, axis: SupportsIndex, at: SupportsIndex) -> Array:
        """Return the view of one axis less: the elements whose coordinate along `axis` is `at`. Local.

        Raises:
            IndexError: there is no such coordinate.
        """
        coordinates = self._domain.axes[int(axis)]
        if int(at) not in coordinates:
            raise IndexError(f"axis {int(axis)} of an array on {self._domain!r} has no coordinate {int(at)}")
        index: list[Any] = [slice(None)] * self.ndim
        index[int(axis)] = coordinates.index(int(at))
        return Array(self._data[tuple(index)], self._domain.slice(axis))

    def inject(self, factor: PointLike) -> Array:
        """Return the view whose element at `p * factor` is this array's at `p`. Local."""
        return Array(self._data, self._domain * factor)

    def project(self, divisor: PointLike) -> Array:
        """Return the view whose element at `p // divisor` is this array's at `p`: undoes `inject`. Local.

        Raises:
            UsageError: two elements would fall on one point.
        """
        domain = self._domain // divisor
        if domain.shape != self.shape:
            raise UsageError(f"project({divisor!r}) would put several elements of {self._domain!r} on one point")
        return Array(self._data, domain)

    def copy(self) -> Array:
        """Return a contiguous array of its own with the same elements and memory order. Local."""
        return Array(self._data.copy("K"), self._domain)

    def copy_from(self, other: Array) -> None:
        """Copy the elements at the points that both arrays have. Local.

        This is Titanium's array copy: the intersection of the two index domains decides what moves, values are cast to
        the dtype of this array.

        Args:
            other: an array of the same number of axes; may share memory with this one.

        Example:
            >>> import gondwana as gw
            >>> a = gw.Array.zeros(gw.RectDomain(0, 6))
            >>> a.copy_from(gw.Array.full(gw.RectDomain(4, 9), 1.0))
            >>> a.numpy().tolist()
            [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
        """
        common = self._domain & other.domain
        if not common.is_empty:
            np.copyto(self.restrict(common)._data, other.restrict(common)._data, casting="same_kind")

    def fill(self, value: Any) -> None:
        """Set all elements to one value. Local."""
        self._data.fill(value)

    def __getitem__(self, index: Any) -> Any:
        found = self._at(index)
        return found.item() if isinstance(found, np.generic) and type(found) is not np.float32 else found

    def __setitem__(self, index: Any, value: Any) -> None:
        position = self._position(index)
        self._data[position] = value.numpy() if isinstance(value, Array) else value

    def _at(self, index: Any) -> Any:
        position = self._position(index)
        if isinstance(index, RectDomain):
            return self.restrict(index)
        return self._data[position] if all(isinstance(part, int) for part in position) else self._view(position)

    def _view(self, position: tuple[int | Slice, ...]) -> Array:
        axes = self._domain.axes
        kept = [axis[part] for axis, part in zip(axes, position, strict=True) if isinstance(part, slice)]
        return Array(self._data[position], RectDomain.from_axes(kept))

    def _position(self, index: Any) -> Any:
        """NumPy's index for an index in the coordinates of the domain."""
        if isinstance(index, RectDomain):
            if not index <= self._domain:
                raise IndexError(f"{index!r} is not inside {self._domain!r}: use restrict() for the common part")
            return tuple(map(_positions, self._domain.axes, index.axes))
        if isinstance(index, Offset):
            index = as_point(index, self.ndim)
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != self.ndim:
            raise IndexError(f"an array of {self.ndim} axes is indexed by {self.ndim} coordinates, not {index!r}")
        return tuple(self._coordinate(axis, part) for axis, part in enumerate(parts))

    def _coordinate(self, axis: int, part: Any) -> int | Slice:
        coordinates = self._domain.axes[axis]
        if isinstance(part, slice):
            if part.step is not None and part.step < 1:
                raise IndexError(f"a slice of an array needs a positive step, not {part.step}")
            low = coordinates.start if part.start is None else part.start
            high = coordinates.stop if part.stop is None else part.stop
            wanted = RectDomain(low, high, part.step or 1) & RectDomain.from_axes([coordinates])
            return _positions(coordinates, wanted.axes[0])
        coordinate = as_integer(part)
        if coordinate not in coordinates:
            raise IndexError(f"coordinate {coordinate} of axis {axis} is outside of {self._domain!r}")
        return coordinates.index(coordinate)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self._domain!r})"

    def __gondwana_array__(self) -> Array:
        """The array that a kernel sees: this one."""
        return self

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor for compiled code: see `gondwana.jit.views`."""
        if self._described is None:
            self._described = _describe(self._data, self._domain)
        return self._described


def _positions(axis: range, kept: range) -> slice:
    """Which positions along an axis hold the coordinates `kept`, a subset of its coordinates."""
    if not kept:
        return slice(0, 0)
    first = axis.index(kept[0])
    return slice(first, axis.index(kept[-1]) + 1, max(1, kept.step // axis.step))


def _describe(data: np.ndarray[Any, Any], domain: RectDomain) -> Described:
    name, item = dtype_name(data.dtype), data.itemsize
    if any(stride % item for stride in data.strides) or not data.flags.aligned:
        raise UsageError("compiled code needs aligned elements: pass a copy")
    strides = [stride // item for stride in data.strides]
    steps = domain.stride
    # Strides for one unit of each coordinate; where a domain's stride is not contained in them, indices are divided.
    scaled = any(stride % step for stride, step, n in zip(strides, steps, data.shape, strict=True) if n > 1)
    unit_strides = strides if scaled else [stride // step for stride, step in zip(strides, steps, strict=True)]
    origin = data.ctypes.data
    if not scaled:
        origin -= item * sum(c * s for c, s in zip(domain.lo, unit_strides, strict=True))
    unit = next((axis for axis, s in enumerate(unit_strides) if s == 1 and data.shape[axis] != 1), -1)
    if unit == -1:
        unit = next((axis for axis in range(data.ndim - 1, -1, -1) if unit_strides[axis] == 1), -1)
    spec = intern(ArraySpec(name, data.ndim, unit, scaled, not data.flags.writeable))
    words = (origin, *unit_strides, *domain.lo, *domain.hi, *steps)
    return spec, struct.pack(f"{len(words)}q", *words)
