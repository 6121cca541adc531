"""Runs kernels on the host and on a device, on equal memory, and compares all of it afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import gondwana as gw
from gondwana.gpu.device import device
from gondwana.kernels.cuda import tuner
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.fusion import _remembered as remembered_pairs

SMALL = Shape(x=4, y=2, steps=3)
"""Many tiles, and parts of tiles, in small boxes."""


@contextlib.contextmanager
def shaped(shape: Shape) -> Iterator[None]:
    """Have all launches on devices be of one shape."""
    chosen = mock.Mock(return_value=shape)
    with mock.patch.multiple(tuner, shape_for=chosen, pair_shape_for=chosen):
        yield


class _Elsewhere:
    """Memory of a device in which elements lie as those of an ndarray do in the memory of the host."""

    def __init__(self, data: np.ndarray, distance: int) -> None:
        interface = data.__array_interface__
        address, _ = interface["data"]
        where = (address + distance, not data.flags.writeable)
        self.__cuda_array_interface__ = {**interface, "data": where, "strides": data.strides, "version": 3}


class Mirror:
    """What arguments have in the memory of the host, in the memory of a device: views and overlaps remain."""

    def __init__(self, number: int = 0) -> None:
        self.device = device(number)
        self._memory: dict[int, tuple[np.ndarray, int]] = {}

    def of(self, value: Any) -> Any:
        """An argument with its arrays on the device, in tuples too."""
        if isinstance(value, gw.Array):
            data = value.numpy()
            return gw.on_device(_Elsewhere(data, self._distance(data)), value.domain, device=self.device.number)
        if isinstance(value, tuple) and not isinstance(value, gw.Point):
            members = map(self.of, value)
            return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
        return value

    def _distance(self, data: np.ndarray) -> int:
        """From the memory of an ndarray to its copy."""
        whole = data
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        first, end = np.lib.array_utils.byte_bounds(whole)
        if first not in self._memory:
            address = self.device.driver.allocate(end - first)
            self._memory[first] = whole, address
            self._copy(address, first, end - first)
        return self._memory[first][1] - first

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        self.device.driver.copy(target, source, nbytes, self.device.compute)
        self.device.driver.finish(self.device.compute)

    def pull(self, array: gw.Array) -> np.ndarray:
        """What the twin of a whole array holds."""
        found = np.empty_like(array.numpy())
        self._copy(found.ctypes.data, array.numpy().ctypes.data + self._distance(array.numpy()), found.nbytes)
        return found

    def check(self) -> None:
        """Want equal bits in both memories; NaNs need not have equal payloads."""
        for first, (whole, address) in self._memory.items():
            found = np.empty_like(whole)
            self._copy(found.ctypes.data, address, whole.nbytes)
            assert first == whole.ctypes.data or not whole.size
            same = _bits(found) == _bits(whole)
            where = np.argwhere(~same)[:5].tolist()
            assert same.all(), f"at {where}: {found[~same][:5]} on the device, {whole[~same][:5]} on the host"

    def close(self) -> None:
        """Give the memory on the device back."""
        for _, address in self._memory.values():
            self.device.driver.free(address)


def _bits(values: np.ndarray) -> np.ndarray:
    """Something that compares equal where bits are equal, or both are NaN."""
    if values.dtype.kind == "c":
        return _bits(values.real) + 1j * _bits(values.imag)
    if values.dtype.kind != "f":
        return values
    words = np.where(np.isnan(values), np.nan, values).view(f"i{values.dtype.itemsize}").copy()
    words[np.isnan(values)] = -1
    return words


def compare(run: Callable[..., Any], *arguments: Any, shape: Shape = SMALL, other: Any = None) -> tuple[Any, Any]:
    """Run on the host, or something else there, and on the device, and want the same memory; return both results."""
    mirror = Mirror()
    try:
        with shaped(shape):
            found = run(*map(mirror.of, arguments))
        expected = (other or run)(*arguments)
        mirror.check()
    finally:
        mirror.close()
    return expected, found


def same_everywhere(kernel: Any, domain: Any, *arguments: Any, shape: Shape = SMALL) -> tuple[Any, Any]:
    """Compare a kernel over a domain on the device with that on the host."""
    _forget(kernel)
    return compare(lambda *given: kernel(domain, *given), *arguments, shape=shape)


def as_interpreted(kernel: Any, domain: Any, *arguments: Any, shape: Shape = SMALL) -> None:
    """Compare a kernel over a domain on the device with its function in the interpreter, point by point."""

    def interpret(*given: Any) -> None:
        for p in domain:
            kernel.py_func(p, *given)

    _forget(kernel)
    compare(lambda *given: kernel(domain, *given), *arguments, shape=shape, other=interpret)


def _forget(kernel: Any) -> None:
    """Remembered launches have the shape of their first time."""
    kernel._remembered.clear()
    remembered_pairs.clear()
