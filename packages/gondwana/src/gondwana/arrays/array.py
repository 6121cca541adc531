"""`Array`: data on a rectangular domain, indexed in the coordinates of that domain; views share memory.

Compiled code gets its spec, and the words of a descriptor (see `gondwana.compiler.types.views`).
"""

from __future__ import annotations

import html
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana import notebook
from gondwana.arrays.base import DomainArray, Position
from gondwana.compiler.debugging.interpreting import ElementsInKernels
from gondwana.compiler.types.arguments import WORD, ArraySpec, Described, dtype_name, intern
from gondwana.compiler.types.records import element_dtype, spelled
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import MemoryOrder as MemoryOrder, StridedBox
from gondwana.transfer.reported import reads, writes, writes_all
from gondwana.transfer.verbs import copy

_FEW, _MANY = 8, 60
"""The most elements of an array whose values its text shows, and of one that a notebook shows without a gap."""


class Array(DomainArray):
    """Data on a RectDomain in host memory, C or Fortran order or any strided view of such. Local.

    Elements are indexed by points in the coordinates of the domain: `a[p]`, `a[3, -1]`; slices are half-open in those
    coordinates; `a[domain]` is the view restricted to it. Views (`restrict`, `shrink`, `translate`, `slice`, `permute`,
    `inject`, `project`) share memory. `numpy()` is the same memory as an ndarray.

    The memory is this rank's own, or lies in a segment, also that of another rank of the node (`GlobalArray.block`,
    `gw.array_at`): then `pointer` gives its place, and `reference()` can be sent to other ranks. Arrays are pickled by
    value.

    Args:
        data: the elements; its axes are those of the domain. Shared, not copied.
        domain: domain of the elements; default: from the origin.

    Raises:
        UsageError: the shapes of the data and of the domain differ, or the data lie in the memory of a GPU.

    Example:
        >>> import gondwana as gw
        >>> a = gw.Array.zeros(gw.RectDomain((-1, -1), (3, 3)))
        >>> a.shrink(1).fill(7.0)
        >>> a[-1, -1], a[0, 1], a.shrink(1).domain
        (0.0, 7.0, RectDomain((0, 0), (2, 2)))
    """

    __slots__ = ("_anchor", "_described", "_extent")
    __array_priority__ = 20
    _data: np.ndarray[Any, Any]

    def __init__(self, data: npt.ArrayLike, domain: RectDomain | None = None) -> None:
        if data.__class__ is not np.ndarray and hasattr(data, "__cuda_array_interface__"):
            raise UsageError(
                f"{type(data).__name__} lies in the memory of a GPU: gw.on_device(data, domain) is the array on it; "
                "NumPy takes a copy on the host only"
            )
        elements = np.asarray(data)
        if not elements.ndim:
            raise UsageError(
                f"an array of {data!r}, a single {type(data).__name__}: give an ndarray or nested lists of numbers, "
                "with one axis or more"
            )
        if elements.dtype.names is not None:
            elements = elements.view(element_dtype(elements.dtype))
        self._lie_on(elements, domain)
        self._anchor: tuple[GlobalPtr, int] | None = None
        self._described: Described | None = None
        self._extent: tuple[int, int] | None = None

    def _like(self, data: Any, domain: RectDomain) -> Array:
        view = Array(data, domain)
        view._anchor = self._anchor
        return view

    @property
    def pointer(self) -> GlobalPtr:
        """The place of the first element: rank, kind of memory, offset.

        Raises:
            UsageError: the array is in private memory of this rank.
        """
        if self._anchor is None:
            raise UsageError(
                f"{self!r} lies in private memory that other ranks cannot reach: use a block of a global array, or "
                "place it in a segment by gw.array_at"
            )
        pointer, address = self._anchor
        offset = pointer.offset + self._data.ctypes.data - address
        return GlobalPtr(pointer.segment, pointer.rank, offset, self.dtype)

    def __gondwana_box__(self) -> StridedBox:
        """The place of the elements, for `gw.copy`."""
        return StridedBox.of(self._data, None if self._anchor is None else self.pointer)

    @classmethod
    def empty(cls, domain: RectDomain, dtype: npt.DTypeLike = float, *, order: MemoryOrder = "C") -> Array:
        """Return an array with undefined elements. Local.

        Args:
            domain: domain of the elements.
            dtype: type of an element; a structured dtype of NumPy, or a class of named tuples, for records.
            order: "C" (last axis contiguous) or "F" (first axis contiguous).
        """
        return cls(np.empty(domain.shape, element_dtype(dtype), order), domain)

    @classmethod
    def zeros(cls, domain: RectDomain, dtype: npt.DTypeLike = float, *, order: MemoryOrder = "C") -> Array:
        """Return an array of zeros. Local. Arguments as for `empty`."""
        return cls(np.zeros(domain.shape, element_dtype(dtype), order), domain)

    @classmethod
    def full(
        cls, domain: RectDomain, value: Any, dtype: npt.DTypeLike | None = None, *, order: MemoryOrder = "C"
    ) -> Array:
        """Return an array of one value everywhere. Local. Arguments as for `empty`; default dtype: the value's."""
        if dtype is not None:
            dtype = element_dtype(dtype)
            value = np.array(value, dtype)
        return cls(np.full(domain.shape, value, dtype, order), domain)

    @property
    def device(self) -> None:
        """None: the host, not a device."""
        return None

    @property
    def extent(self) -> tuple[int, int]:
        """First address of the elements and the address after the last one."""
        if self._extent is None:
            first, end = np.lib.array_utils.byte_bounds(self._data)
            self._extent = (first, end) if self._data.size else (first, first)
        return self._extent

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the same memory as an ndarray, axes in the order of the domain, indexed from zero. Local, no copy."""
        return self._data

    # Without __buffer__: from Python 3.12 on NumPy would prefer it, and records would lose their attributes by it.
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if dtype is None or np.dtype(dtype) == self.dtype:
            return self._data.copy() if copy else self._data
        if copy is False:
            raise ValueError(f"a view of {self.dtype} as {np.dtype(dtype)} needs a copy")
        return self._data.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._data.__dlpack_device__()
        return device

    @classmethod
    def from_dlpack(cls, other: Any, domain: RectDomain | None = None) -> Array:
        """Return an array on the host memory of any object that supports DLPack. Local, no copy."""
        return cls(np.from_dlpack(other), domain)

    def copy(self) -> Array:
        """Return a new contiguous array with the same elements and memory order. Local."""
        return Array(self._data.copy("K"), self._domain)

    def copy_from(self, other: DomainArray) -> None:
        """Copy the elements at the points that both arrays have, blocking: see `DomainArray.copy_from`. Local."""
        common = self._domain & other.domain
        if common.is_empty:
            return
        target, source = self.restrict(common), other.restrict(common)
        if not isinstance(source, Array) and source.dtype == target.dtype:
            copy(source, target).wait()
            return
        here = source if isinstance(source, Array) else source.copy()
        np.copyto(target._data, here._data, casting="same_kind")

    @writes_all
    def fill(self, value: Any) -> None:
        """Set all elements to one value. Local."""
        self._data.fill(value)

    @reads
    def _element(self, position: Position) -> Any:
        return plain(self._data[position])

    @writes
    def __setitem__(self, index: Any, value: Any) -> None:
        position = self._position(index)
        self._data[position] = value.numpy() if isinstance(value, Array) else value

    def __len__(self) -> int:
        return len(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (self._data, self._domain)

    def __repr__(self) -> str:
        values = f", {self._data.tolist()}" if 0 < self._data.size <= _FEW else ""
        return f"Array({spelled(self.dtype)}, {self._domain!r}{values})"

    def _repr_html_(self) -> str:
        facts = {
            "dtype": spelled(self.dtype),
            "domain": repr(self._domain),
            "shape": self._domain.shape,
            "memory": f"{notebook.nbytes_text(self._data.nbytes)}, "
            + ("private" if self._anchor is None else f"of rank {self._anchor[0].rank}, reached by others"),
        }
        values = np.array2string(self._data, threshold=_MANY, edgeitems=2) if self._data.ndim else ""
        return notebook.shown("Array", facts, f"<pre>{html.escape(values)}</pre>")

    def __gondwana_array__(self) -> Array:
        """The array that a kernel sees: this one."""
        return self

    def __gondwana_in_kernels__(self) -> ArrayInKernels:
        """The array that a kernel in the interpreter sees."""
        view = ArrayInKernels(self._data, self._domain)
        view._anchor = self._anchor
        return view

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor for compiled code: see `gondwana.compiler.types.views`."""
        if self._described is None:
            data = self._data
            self._described = describe_elements(
                data.dtype, data.ctypes.data, data.strides, self._domain, readonly=not data.flags.writeable
            )
        return self._described


class ArrayInKernels(Array):
    """An array as kernels in the interpreter see it: elements are NumPy's scalars, with the types of compiled code."""

    __slots__ = ()

    def __init__(self, data: npt.ArrayLike, domain: RectDomain | None = None) -> None:
        super().__init__(data, domain)
        self._data = ElementsInKernels.of(self._data)

    def _like(self, data: Any, domain: RectDomain) -> ArrayInKernels:
        view = ArrayInKernels(data, domain)
        view._anchor = self._anchor
        return view

    def _element(self, position: Position) -> Any:
        return self._data[position]


def in_segment(pointer: GlobalPtr, data: np.ndarray[Any, Any], domain: RectDomain) -> Array:
    """Return an array on data that start at the address of a pointer. Local, no copy."""
    array = Array(data, domain)
    array._anchor = pointer, data.ctypes.data  # views find their own place by the distance of the addresses
    return array


def plain(value: Any) -> Any:
    """An element as Python's own number; float32 stays for its precision and a record for its fields.

    The fields of an array's record can be set: it is the array's memory.
    """
    return value if isinstance(value, np.float32 | np.void) or not isinstance(value, np.generic) else value.item()


def describe_elements(
    dtype: np.dtype[Any],
    address: int,
    strides: Sequence[int],
    domain: RectDomain,
    *,
    readonly: bool,
    place: str = "host",
) -> Described:
    """Return the spec and the descriptor of elements on a domain. Local.

    Args:
        dtype: type of an element.
        address: address of the first element.
        strides: bytes from an element to the next along each axis.
        domain: domain of the elements.
        readonly: whether they must not be written.
        place: "host" or "cuda".

    Raises:
        UsageError: an element does not lie at a multiple of its size, as compiled code requires.
    """
    name, item, shape = dtype_name(dtype), dtype.itemsize, domain.shape
    unit = dtype.alignment if place == "host" or dtype.names is None else math.gcd(item, WORD)
    if any(stride % item for stride in strides) or (domain.size and address % unit):
        raise UsageError("compiled code needs aligned elements: pass a copy")
    distances = [stride // item for stride in strides]
    steps = domain.stride
    # Strides for one unit of each coordinate; if a domain's stride is not contained in them, indices are divided.
    scaled = any(distance % step for distance, step, n in zip(distances, steps, shape, strict=True) if n > 1)
    units = distances if scaled else [distance // step for distance, step in zip(distances, steps, strict=True)]
    origin = address
    if not scaled:
        origin -= item * sum(c * s for c, s in zip(domain.lo, units, strict=True))
    spec = intern(ArraySpec(name, domain.ndim, _contiguous_axis(units, shape), scaled, readonly, place))
    words = (origin, *units, *domain.lo, *domain.hi, *steps)
    return spec, struct.pack(f"{len(words)}q", *words)


def _contiguous_axis(units: Sequence[int], shape: Sequence[int]) -> int:
    """The axis whose neighbours are adjacent in memory, -1 without one; preferably one of several elements."""
    adjacent = [axis for axis, distance in enumerate(units) if distance == 1]
    several = [axis for axis in adjacent if shape[axis] != 1]
    return several[0] if several else adjacent[-1] if adjacent else -1
