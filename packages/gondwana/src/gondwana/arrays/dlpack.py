"""DLPack in Python: capsules with the description of memory that libraries hand each other, made and read by ctypes.

For memory of GPUs; NumPy speaks the protocol for that of the host (see docs/design/014-cuda-memory.md).

Both forms of the protocol are supported: the versioned one, which can mark memory read-only, and the older one. An
exported capsule keeps the memory that it describes alive until its consumer calls the deleter in it, or, if it is never
consumed, until the next one is exported. (A destructor of capsules cannot be Python: it may run in the middle of an
exception.) A consumed capsule is renamed, so that it is consumed once, and its memory is released when what `take`
returned is dropped.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np

from gondwana.errors import UsageError
from gondwana.transfer.box import contiguous_strides

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Types of devices."""

_VERSION = (1, 0)
_READONLY = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


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


class Elements(NamedTuple):
    """What a capsule describes.

    Attributes:
        address: of the first element.
        shape: elements along each axis.
        strides: bytes from one to the next along each axis.
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
    """What is kept alive for the consumer of a capsule."""

    capsule: Any
    name: bytes
    memory: tuple[object, ...]


_given: dict[int, _Given] = {}
"""By the address of the structure."""


def give(elements: Elements, owner: object, version: tuple[int, int] | None) -> Any:
    """Return a capsule. Local.

    Args:
        elements: what it describes.
        owner: what keeps them alive.
        version: the newest that its consumer knows; None: the older form.

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


def take(capsule: Any) -> tuple[Elements, Loan]:
    """Return what a capsule describes, and what keeps it alive. Local; the capsule is used up.

    Raises:
        UsageError: it is no capsule of DLPack, was used before, or is of a version or of elements that are not known.
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


def _read(tensor: _Tensor, readonly: bool) -> Elements:
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
    return Elements(address, shape, strides, dtype, (tensor.device_type, tensor.device), readonly)


def _forget(address: int) -> None:
    """Called by the consumer of a capsule when it no longer uses the memory."""
    _given.pop(address, None)


def _sweep() -> None:
    """Release the memory of capsules that were never consumed and that no one refers to any more."""
    for address, given in list(_given.items()):
        if sys.getrefcount(given.capsule) == _ALONE and _is_valid(id(given.capsule), given.name):
            del _given[address]


_ALONE = 2
"""References to a capsule that only this module has: its own, and that of the call that counts them."""

# For the whole life of the process: libraries may release memory at its very end.
_forget_called = _call(_forget)
_FORGET = ctypes.cast(_forget_called, ctypes.c_void_p).value
