"""Arrays of other libraries, without a copy: DLPack and `__cuda_array_interface__`, with the order of streams.

DLPack is implemented here for memory of GPUs, by NumPy for that of the host (see docs/design/014-cuda-memory.md).
Capsules contain the description of memory that libraries exchange; ctypes makes and reads them. Both forms of the
protocol are supported: the versioned one, which can mark memory read-only, and the older one. An exported capsule keeps
the memory that it describes alive until its consumer calls the deleter in it, or, if it is never consumed, until the
next one is exported. (A destructor of capsules cannot be Python: it may run while an exception is handled.) A consumed
capsule is renamed, so that it is consumed once, and its memory is released when the `Loan` from `take` is dropped.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.device_array import DeviceArray, borrow
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.gpu.device import device as opened
from gondwana.gpu.driver import driver
from gondwana.transfer.box import contiguous_strides

_LEGACY = 1
"""The handle of the stream that other libraries use by default."""

_STREAMS = 3
"""First version of `__cuda_array_interface__` that names the stream that writes its memory."""

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Types of devices."""

_VERSION = (1, 0)
_READONLY = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_delete = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""A deleter: others call it, perhaps without the interpreter's lock."""

_ALONE = 2
"""References to a capsule that only this module has: its own, and that of the call that counts them."""


def from_dlpack(data: Any, domain: RectDomain | None = None) -> Array | DeviceArray:
    """Return an array on the memory of any object with DLPack: of NumPy, CuPy, PyTorch, ... Local, no copy.

    Memory of a GPU gives a `DeviceArray`; kernels launched from now on come after the present work of the other
    library on its stream.

    Args:
        data: object with `__dlpack__` and `__dlpack_device__`.
        domain: domain of its elements; default: from the origin.

    Raises:
        UsageError: the memory is of another kind of device, or the type of its elements is unknown.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> table = np.arange(6.0).reshape(2, 3)
        >>> a = gw.from_dlpack(table, gw.RectDomain((10, 0), (12, 3)))
        >>> a[11, 2], np.shares_memory(a, table)
        (5.0, True)
    """
    kind, number = map(int, data.__dlpack_device__())
    if kind in (CPU, CUDA_HOST):
        return Array(np.from_dlpack(data), domain)
    if kind not in (CUDA, CUDA_MANAGED):
        raise UsageError(
            f"{type(data).__name__} in memory of device type {kind} of DLPack: host and CUDA memory can be taken"
        )
    elements, loan = take(_ask(data, opened(number).compute))
    return _on_loan(elements, number, loan, domain)


def on_device(data: Any, domain: RectDomain | None = None, *, device: int | None = None) -> DeviceArray:
    """Return an array on GPU memory of another library: of CuPy, PyTorch, Numba, ... Local, no copy.

    Kernels launched from now on come after the present work of the other library on its stream. In the opposite
    direction, the library orders its work after our kernels if it takes the array anew (`cupy.asarray(a)`,
    `torch.from_dlpack(a)`); else call `gw.synchronize()` first. Later work of the library on the memory is not known
    here: call `on_device` again, or synchronize its stream.

    Args:
        data: object with DLPack or `__cuda_array_interface__`.
        domain: domain of its elements; default: from the origin.
        device: number of the device that holds them, needed if `data` lacks it and this process sees several.

    Raises:
        UsageError: the memory is not that of a GPU, the number is missing, or the type of the elements is unknown.

    Example:
        >>> import cupy, gondwana as gw                                  # doctest: +SKIP
        >>> a = gw.on_device(cupy.zeros((4, 4)), gw.RectDomain((-1, -1), (3, 3)))     # doctest: +SKIP
        >>> a.fill(1.0)                                                  # doctest: +SKIP
    """
    if hasattr(data, "__dlpack__"):
        array = from_dlpack(data, domain)
        if not isinstance(array, DeviceArray):
            raise UsageError(f"{type(data).__name__} lies in host memory: use gw.Array(data, domain)")
        return array
    interface = getattr(data, "__cuda_array_interface__", None)
    if interface is None:
        raise UsageError(
            f"{type(data).__name__} has neither __dlpack__ nor __cuda_array_interface__: pass an array on a GPU"
        )
    return _by_interface(data, interface, domain, device)


def _ask(data: Any, stream: int) -> Any:
    """A capsule of GPU memory; a stream of ours waits for its contents."""
    try:
        return data.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # older libraries have no versions
        return data.__dlpack__(stream=stream)


def _on_loan(elements: Contents, number: int, owner: object, domain: RectDomain | None) -> DeviceArray:
    address, shape, strides, dtype, _, readonly = elements
    return DeviceArray(borrow(address, shape, strides, dtype, number, readonly=readonly, owner=owner), domain)


def _by_interface(data: Any, interface: dict[str, Any], domain: RectDomain | None, number: int | None) -> DeviceArray:
    """An array on memory that is described by `__cuda_array_interface__`."""
    if interface.get("mask") is not None:
        raise UsageError("an array with a mask cannot be taken: pass its data")
    if number is None and driver().count() > 1:
        raise UsageError(
            f"{type(data).__name__} does not say on which device it lies: give on_device(..., device=number)"
        )
    one = opened(0 if number is None else number)
    stream = interface.get("stream") if interface["version"] >= _STREAMS else _LEGACY
    if stream is not None:
        one.record(stream).block(one.compute)
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    strides = interface.get("strides")
    strides = contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(strides)
    address, readonly = interface["data"]
    return _on_loan(Contents(address, shape, strides, dtype, (CUDA, one.number), readonly), one.number, data, domain)


def cuda_array_interface(array: DeviceArray) -> dict[str, Any]:
    """Return an array for CUDA libraries: in version 3, so that they wait for our kernels. Local."""
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.address if array.size else 0, array.readonly),
        "strides": array.strides,
        "stream": opened(array.device).compute,
        "version": _STREAMS,
    }


def to_dlpack(
    array: DeviceArray,
    stream: int | None,
    version: tuple[int, int] | None,
    wanted: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Return a capsule of an array, for `__dlpack__`. Local.

    Args:
        array: array in memory of a GPU.
        stream: stream of the consumer, which will wait for our kernels; None: the legacy default stream, -1: none.
        version: newest version that the consumer knows; None: the unversioned form.
        wanted: type and number of the device that the consumer wants; None: the present one.
        copy: whether a copy is wanted; None: only if necessary.

    Raises:
        BufferError: the request cannot be met.
    """
    here = CUDA, array.device
    if wanted is not None and tuple(wanted) == (CPU, 0):
        if copy is False:
            raise BufferError(f"{array!r} cannot be had on the host without a copy: leave copy=False out")
        return array.copy().__dlpack__(max_version=version)
    if copy or (wanted is not None and tuple(wanted) != here):
        raise BufferError(
            f"{array!r} is handed out where it lies, as it is: give dl_device={here} and copy=False, or take a copy"
        )
    if stream == 0:
        raise BufferError("stream=0 may be the legacy or the per-thread default stream: give 1 or 2")
    one = opened(array.device)
    if stream != -1:
        one.record(one.compute).block(_LEGACY if stream is None else stream)
    elements = Contents(array.address, array.shape, array.strides, array.dtype, here, array.readonly)
    return give(elements, array, version)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_Form = type[_Managed] | type[_Versioned]
_NAMES: dict[_Form, bytes] = {_Managed: b"dltensor", _Versioned: b"dltensor_versioned"}
_USED: dict[_Form, bytes] = {_Managed: b"used_dltensor", _Versioned: b"used_dltensor_versioned"}


class Contents(NamedTuple):
    """The contents of a capsule.

    Attributes:
        address: address of the first element.
        shape: number of elements along each axis.
        strides: bytes from an element to the next along each axis.
        dtype: type of an element.
        device: type of the device and its number.
        readonly: whether they must not be written.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: tuple[int, int]
    readonly: bool


class Loan:
    """Memory of another library: released when this object is dropped."""

    def __init__(self, address: int, deleter: int | None) -> None:
        if deleter:
            weakref.finalize(self, _delete(deleter), address).atexit = False


class _Given(NamedTuple):
    """Objects that are kept alive for the consumer of a capsule."""

    capsule: Any
    name: bytes
    memory: tuple[object, ...]


_given: dict[int, _Given] = {}
"""Given objects by the address of the structure."""


def give(elements: Contents, owner: object, version: tuple[int, int] | None) -> Any:
    """Return a capsule. Local.

    Args:
        elements: contents of the capsule.
        owner: object that keeps the elements alive.
        version: newest version that its consumer knows; None: the older form.

    Raises:
        BufferError: the older form cannot mark memory read-only.
    """
    _sweep()
    form: _Form = _Managed if version is None or version < _VERSION else _Versioned
    if elements.readonly and form is _Managed:
        raise BufferError(
            "read-only memory needs DLPack 1.0 or newer, and the consumer knows an older one only: pass a copy"
        )
    ndim, item = len(elements.shape), elements.dtype.itemsize
    shape = (ctypes.c_int64 * ndim)(*elements.shape)
    strides = (ctypes.c_int64 * ndim)(*(stride // item for stride in elements.strides))
    managed = form()
    managed.deleter = _FORGET
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.shape, tensor.strides = elements.address, ndim, shape, strides
    tensor.device_type, tensor.device = elements.device
    tensor.code, tensor.bits, tensor.lanes = _CODES[elements.dtype.kind], 8 * item, 1
    if isinstance(managed, _Versioned):
        managed.major, managed.minor = _VERSION
        managed.flags = _READONLY if elements.readonly else 0
    address = ctypes.addressof(managed)
    capsule = _new(address, _NAMES[form], None)
    _given[address] = _Given(capsule, _NAMES[form], (managed, shape, strides, owner))
    return capsule


def take(capsule: Any) -> tuple[Contents, Loan]:
    """Return the contents of a capsule, and the loan that keeps them alive. Local; the capsule is used up.

    Raises:
        UsageError: the capsule is not one of DLPack, was used before, or has an unknown version or type of elements.
    """
    forms: tuple[_Form, ...] = (_Versioned, _Managed)
    form = next((form for form in forms if _is_valid(id(capsule), _NAMES[form])), None)
    if form is None:
        raise UsageError(f"{capsule!r} is no DLPack capsule, or one that was taken before: ask for a new one")
    address = _pointer(id(capsule), _NAMES[form])
    managed = form.from_address(address)
    if isinstance(managed, _Versioned) and managed.major != _VERSION[0]:
        raise UsageError(f"DLPack {managed.major}.{managed.minor} is not known: versions {_VERSION[0]}.x are")
    readonly = isinstance(managed, _Versioned) and bool(managed.flags & _READONLY)
    elements = _read(managed.tensor, readonly)
    _rename(id(capsule), _USED[form])
    return elements, Loan(address, managed.deleter)


def _read(tensor: _Tensor, readonly: bool) -> Contents:
    bits, kind = tensor.bits * tensor.lanes, _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1 or bits % 8:
        raise UsageError(
            f"DLPack elements of code {tensor.code}, {tensor.bits} bits and {tensor.lanes} lanes: known are booleans, "
            "integers, floats and complex numbers of whole bytes"
        )
    dtype = np.dtype(f"{kind}{bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim])
    else:
        strides = contiguous_strides(shape, dtype.itemsize)
    address = (tensor.data or 0) + tensor.offset
    return Contents(address, shape, strides, dtype, (tensor.device_type, tensor.device), readonly)


def _forget(address: int) -> None:
    """Release an object. Called by the consumer of its capsule when it no longer uses the memory."""
    _given.pop(address, None)


def _sweep() -> None:
    """Release the memory of capsules that were never consumed and that no one refers to any more."""
    for address, given in list(_given.items()):
        if sys.getrefcount(given.capsule) == _ALONE and _is_valid(id(given.capsule), given.name):
            del _given[address]


# For the whole life of the process: libraries may release memory at its very end.
_forget_called = _call(_forget)
_FORGET = ctypes.cast(_forget_called, ctypes.c_void_p).value
