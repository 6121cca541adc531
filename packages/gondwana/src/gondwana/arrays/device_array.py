"""`DeviceArray`: data on a domain in the memory of this rank's device, for its kernels.

Memory of another library is a segment known to this rank alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gondwana.arrays.array import describe_elements
from gondwana.arrays.remote import RemoteArray
from gondwana.compiler.types.arguments import Described
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.gpu.device import Device, device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.ipc import OnDevice
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment
from gondwana.teams import world
from gondwana.transfer.box import StridedBox, bounds
from gondwana.transfer.devices import device_boxes

_MOST_WORK = 10_000
"""The most steps to find out whether two arrays share an element; beyond that, it is assumed that they do."""

_keys = itertools.count(-1, -1)  # those of segments that ranks make together are positive


class DeviceArray(RemoteArray):
    """Data on a RectDomain in the memory of a GPU of this rank, for kernels on it. Local.

    The domain, the indices and the views are those of an `Array`. `copy()` gives an `Array` with the same elements on
    the host, `copy_from` takes elements from anywhere; both wait for the kernels launched before, and block until the
    elements have arrived. `b[p]` and `b[p] = x` move one element so, which takes as long as to move thousands. `fill`
    runs on the device, in turn with the kernels, and does not block.

    Other libraries take it without a copy by `__cuda_array_interface__` or DLPack, which order their work after the
    kernels launched so far; `gw.on_device` does the opposite.

    Made by `GlobalArray.local` and `gw.array_at` if the memory is of kind `gw.cuda()`, and by `gw.on_device`.

    Args:
        data: place of the elements; its axes are those of the domain.
        domain: domain of the elements.

    Example:
        >>> import gondwana as gw                                    # doctest: +SKIP
        >>> T = gw.zeros((4, 4), kind=gw.cuda())                     # doctest: +SKIP
        >>> T.local.shrink(1).fill(7.0)                              # doctest: +SKIP
        >>> T.local.copy()[1, 2]                                     # doctest: +SKIP
        7.0
    """

    __slots__ = ("_described",)

    def __init__(self, data: StridedBox, domain: RectDomain | None = None) -> None:
        self._lie_on(data, domain)
        self._described: Described | None = None

    @property
    def _kind(self) -> CudaKind:
        kind = self._data.location.kind
        assert isinstance(kind, CudaKind)
        return kind

    @property
    def device(self) -> int:
        """Number of the device in this process."""
        return self._kind.number

    @property
    def address(self) -> int:
        """The address of the first element on the device."""
        return self._data.address

    @property
    def extent(self) -> tuple[int, int]:
        """First address of the elements and the address after the last one."""
        low, high = self._data.bounds
        return self.address + low, self.address + high

    @property
    def readonly(self) -> bool:
        """Whether the elements must not be written: other libraries may declare their memory read-only."""
        return self._data.location.segment.readonly

    @property
    def pointer(self) -> GlobalPtr:
        """The place of the first element: rank, kind of memory, offset.

        Raises:
            UsageError: the array is in memory of another library.
        """
        if isinstance(self._data.location.segment, Borrowed):
            raise UsageError(
                f"{self!r} lies in memory of another library that other ranks cannot reach: copy it to a block of a "
                "global array"
            )
        return self._data.location

    def copy_from(self, other: Any) -> None:
        """Copy the elements at the points that both arrays have: see `DomainArray.copy_from`. Blocks.

        Elements of another dtype, and those of an array that shares elements with this one, pass through the host.
        """
        self._check_writable()
        super().copy_from(other)

    def fill(self, value: Any) -> None:
        """Set all elements to one value, after the kernels launched before. Local; does not wait.

        An array as value is broadcast over the elements as in NumPy; that blocks, and so do records.
        """
        self._check_writable()
        if self.dtype.names is not None or np.ndim(value):
            super().fill(value)
        elif self.size:
            device_boxes.fill(self._open(), self.address, self.shape, self.strides, np.full((), value, self.dtype))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writable()
        super().__setitem__(index, value)

    def numpy(self) -> NoReturn:
        """Refuse: the processor cannot reach the elements."""
        raise UsageError(self._out_of_reach("NumPy"))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        from gondwana.arrays.interop import cuda_array_interface

        return cuda_array_interface(self)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from gondwana.arrays.interop import to_dlpack

        return to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from gondwana.arrays.interop import CUDA

        return CUDA, self.device

    def __gondwana_array__(self) -> DeviceArray:
        """The array that a kernel sees: this one."""
        return self

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor for code compiled for the device: see `gondwana.compiler.types.views`."""
        if self._described is None:
            self._described = describe_elements(
                self.dtype, self.address, self.strides, self._domain, readonly=self.readonly, place="cuda"
            )
        return self._described

    def _open(self) -> Device:
        """The device, the current one of this thread."""
        return device(self.device)

    def _check_writable(self) -> None:
        if self.readonly:
            raise UsageError(f"{self!r} is read-only as its library declares; write to a copy")

    def _may_overlap(self, other: Any) -> bool:
        if not isinstance(other, DeviceArray):
            return False
        (first, end), (start, stop) = self.extent, other.extent
        if first >= stop or start >= end:
            return False
        try:
            return np.shares_memory(_shape_of(self), _shape_of(other), max_work=_MOST_WORK)  # type: ignore[arg-type]  # more than the two special values
        except np.exceptions.TooHardError:
            return True

    def _out_of_reach(self, who: str) -> str:
        return (
            f"{who} cannot take {self!r}: its elements are in device memory; fetch them by copy(), which gives an "
            "Array on the host, and send results back by copy_from()"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: send its reference(), or its elements by copy()")

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}, {self._domain!r}, {self._kind.name})"


class _Untouched:
    """A description of memory for NumPy, which does not read it."""

    def __init__(self, array: DeviceArray) -> None:
        self.__array_interface__ = {
            "data": (array.address, True),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "version": 3,
        }


def _shape_of(array: DeviceArray) -> np.ndarray[Any, Any]:
    """An ndarray of the same addresses, to reason about but not to be read."""
    return np.asarray(_Untouched(array))


class Borrowed(Segment):
    """Device memory that another library has allocated. Local to make.

    Copies of this rank treat it as a segment; pointers to its elements mean nothing to other ranks.

    Args:
        address: address of its start.
        nbytes: number of its bytes.
        device: number of the device that holds it.
        readonly: whether the memory must not be written.
        owner: object that keeps it allocated.
    """

    def __init__(self, address: int, nbytes: int, device: int, *, readonly: bool, owner: object) -> None:
        self.team = world
        self.nbytes = nbytes
        self.kind = self._own_kind = CudaKind(device)
        self.address = address
        self.readonly = readonly
        self.key = next(_keys)
        self._window = None
        self.elements, self._reaches = {}, {}
        self.devices = {world.rank: OnDevice(self._own_kind.device, address, owner=owner)}
        self.device_bytes = self._own_kind.for_mpi(address, nbytes, owner)
        self._published = {}
        self._on_devices = {}

    def kind_of(self, rank: int) -> CudaKind:
        """Return the kind of memory, that of this rank. Local."""
        return self._own_kind

    def nbytes_of(self, rank: int) -> int:
        """Return its number of bytes. Local."""
        return self.nbytes

    def address_of(self, rank: int) -> int:
        """Return 0: it is not host memory. Local."""
        return 0


def borrow(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype[Any],
    device: int,
    *,
    readonly: bool,
    owner: object,
) -> StridedBox:
    """Return elements in device memory of another library. Local, no copy.

    Args:
        address: address of the first element.
        shape: number of elements along each axis.
        strides: bytes from an element to the next along each axis, of any sign.
        dtype: type of an element.
        device: number of the device that holds them.
        readonly: whether they must not be written.
        owner: object that keeps the memory allocated.
    """
    low, high = bounds(shape, strides, dtype.itemsize)
    memory = Borrowed(address + low, high - low, device, readonly=readonly, owner=owner)
    return StridedBox.named(memory.pointer(world.rank, dtype, -low), shape, strides)
