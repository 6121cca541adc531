"""Arrays of other libraries, without a copy: DLPack and `__cuda_array_interface__`, with the order of streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.arrays import dlpack
from gondwana.arrays.array import Array
from gondwana.arrays.borrowed import borrow
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.dlpack import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, Elements
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.gpu.device import device as opened
from gondwana.gpu.driver import driver
from gondwana.transfer.box import contiguous_strides

_LEGACY = 1
"""The handle of the stream that other libraries use unless they are told otherwise."""

_STREAMS = 3
"""Version of `__cuda_array_interface__` from which on it names the stream that writes its memory."""


def from_dlpack(data: Any, domain: RectDomain | None = None) -> Array | DeviceArray:
    """Return an array on the memory of any object that speaks DLPack: of NumPy, CuPy, PyTorch, ... Local, no copy.

    Memory of a GPU gives a `DeviceArray`; kernels launched from now on come after what the other library has put on its
    stream.

    Args:
        data: has `__dlpack__` and `__dlpack_device__`.
        domain: where its elements are; default: from the origin.

    Raises:
        UsageError: the memory is of another kind of device, or its elements are of no known type.

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
    elements, loan = dlpack.take(_ask(data, opened(number).compute))
    return _on_loan(elements, number, loan, domain)


def on_device(data: Any, domain: RectDomain | None = None, *, device: int | None = None) -> DeviceArray:
    """Return an array on GPU memory of another library: of CuPy, PyTorch, Numba, ... Local, no copy.

    Kernels launched from now on come after what the other library has put on its stream. The other way, it orders its
    work after our kernels if it takes the array anew (`cupy.asarray(a)`, `torch.from_dlpack(a)`); else call
    `gw.synchronize()` first. And work that it starts on the memory later is not known here: call `on_device` again, or
    synchronize its stream.

    Args:
        data: speaks DLPack or has `__cuda_array_interface__`.
        domain: where its elements are; default: from the origin.
        device: number of the device where they lie, needed if `data` does not say it and this process sees several.

    Raises:
        UsageError: the memory is not that of a GPU, the number is missing, or the elements are of no known type.

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
    """A capsule of GPU memory whose contents a stream of ours waits for."""
    try:
        return data.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # older libraries know no versions
        return data.__dlpack__(stream=stream)


def _on_loan(elements: Elements, number: int, owner: object, domain: RectDomain | None) -> DeviceArray:
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
    return _on_loan(Elements(address, shape, strides, dtype, (CUDA, one.number), readonly), one.number, data, domain)


def cuda_array_interface(array: DeviceArray) -> dict[str, Any]:
    """Return how CUDA libraries see an array: version 3, so that they wait for our kernels. Local."""
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
    """Return a capsule of an array: what `__dlpack__` does. Local.

    Args:
        array: in memory of a GPU.
        stream: of the taker, which is made to wait for our kernels; None: the legacy default stream, -1: none.
        version: the newest that the taker knows; None: the form without.
        wanted: type and number of the device on which the taker wants it; None: where it is.
        copy: whether a copy is wanted; None: only if there must be one.

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
    elements = Elements(array.address, array.shape, array.strides, array.dtype, here, array.readonly)
    return dlpack.give(elements, array, version)
