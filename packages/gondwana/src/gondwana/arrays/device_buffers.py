"""Buffers of collectives in the memory of devices: `teams` gets host memory in their place; the copies are made here.

The host memory is as large as the buffer. In pieces, MPI might combine elements in another order than those of an array
on the host; as a whole, the results have the same bits.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.arrays.interop import CUDA, CUDA_MANAGED, on_device
from gondwana.errors import UsageError
from gondwana.memory.kinds import Bytes
from gondwana.memory.pinned import SMALL, pin
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import MemoryOrder, StridedBox
from gondwana.transfer.verbs import copy

_MOST_PINNED = 64 << 20
"""The most bytes of pinned memory that this rank keeps for buffers; the driver copies other memory in pieces."""


class DeviceBuffer:
    """Host memory in the place of a buffer on a device of this rank: see `teams.buffers.Staging`. Local.

    Args:
        box: the elements on the device, without gaps.
    """

    def __init__(self, box: StridedBox) -> None:
        self._box = box
        self.readonly = box.location.segment.readonly
        self.memory: npt.NDArray[Any] = np.ndarray(box.shape, box.dtype, self._room(), order=_order_of(box))

    def _room(self) -> Any:
        device, nbytes = self._box.location.kind.device, self._box.nbytes
        mapping = None if device is None or nbytes <= SMALL else _pinned.take(nbytes)
        if device is None or mapping is None:
            return np.empty(nbytes, np.uint8)
        pin(mapping, device)
        weakref.finalize(self, _pinned.give, mapping).atexit = False
        return mapping

    def load(self) -> None:
        """Copy the elements to the host, after the kernels launched before. Local; blocks."""
        copy(self._box, self.memory).wait()

    def store(self) -> Callable[[], bool]:
        """Start to copy the host memory to the elements; return a function that returns whether that is done. Local."""
        transfer = copy(self.memory, self._box)

        def done() -> bool:
            if not transfer.done():
                return False
            transfer.result()  # raises the error, if any
            return True

        return done


class _Pinned:
    """Mappings that buffers reuse, since pinning takes longer than a copy."""

    def __init__(self) -> None:
        self._free: dict[int, list[Bytes]] = {}
        self._nbytes = 0

    def take(self, nbytes: int) -> Bytes | None:
        """Return a mapping of at least `nbytes` bytes, None if the limit would be exceeded."""
        size = 1 << (nbytes - 1).bit_length()
        try:
            return self._free.setdefault(size, []).pop()
        except IndexError:
            if self._nbytes + size > _MOST_PINNED:
                return None
        self._nbytes += size
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)

    def give(self, mapping: Bytes) -> None:
        """Take a mapping back. Called during garbage collection, so it takes no lock."""
        self._free[mapping.size].append(mapping)


_pinned = _Pinned()


def staging_of(buffer: Any) -> DeviceBuffer | None:
    """Return host memory for a buffer on a device of this rank, None for other objects. Local.

    Raises:
        UsageError: the buffer belongs to another rank, has gaps, or is a pointer.
    """
    box = _box_of(buffer)
    if box is None or box.pointer is None or box.location.kind.host:
        return None
    if not box.is_own:
        raise UsageError(
            f"a collective with {buffer!r}, which lies on rank {box.owner} of the world: give buffers of the own rank"
        )
    if _order_of(box) is None:
        raise UsageError(
            f"a collective with {buffer!r}, which is not contiguous (shape {box.shape}, strides {box.strides}): copy "
            "the elements to a device array without gaps, or send copy() of it, which lies on the host"
        )
    return DeviceBuffer(box)


def _order_of(box: StridedBox) -> MemoryOrder | None:
    """The memory order of elements without gaps; None if there are gaps, or the axes are in another order."""
    if box.offsets() is not None:
        return None
    if box.contiguous:
        return "C"
    return "F" if box.transpose(range(box.ndim)[::-1]).contiguous else None


def _box_of(buffer: Any) -> StridedBox | None:
    """The elements of a buffer, if it is an array of ours or of another library on a GPU."""
    if isinstance(buffer, GlobalPtr):
        if buffer.kind.host:
            return None
        raise UsageError(
            f"a collective with {buffer!r}, which does not say how many elements: give gw.array_at(pointer, shape)"
        )
    if hasattr(buffer, "__gondwana_box__"):
        return buffer.__gondwana_box__()  # type: ignore[no-any-return]
    if hasattr(buffer, "__cuda_array_interface__") or _is_on_gpu(buffer):
        return on_device(buffer).__gondwana_box__()
    return None


def _is_on_gpu(buffer: Any) -> bool:
    return hasattr(buffer, "__dlpack_device__") and int(buffer.__dlpack_device__()[0]) in (CUDA, CUDA_MANAGED)
