"""Hops: what one rank moves in one step, by loads and stores, through an MPI window, or by a device's driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.futures import DONE, Future, Polled, when_all
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.kinds import Bytes, DeviceKind
from gondwana.transfer.box import AWAY, DEVICE, MEMORY, WINDOW, StridedBox
from gondwana.transfer.box_copy import copy_between, merged_axes
from gondwana.transfer.devices import cuda_copies
from gondwana.transfer.devices.stream_order import DEFAULT, Order

_LONG_RUN = 1024
"""Bytes in a run from which it is worth an MPI operation of its own; shorter ones the owner packs."""


def is_hop(source: StridedBox, target: StridedBox) -> bool:
    """Return whether this rank can make the copy in one step. Local."""
    ways = source.reach, target.reach
    if AWAY in ways:
        return False
    if WINDOW in ways:
        here, there = (target, source) if ways[0] == WINDOW else (source, target)
        return here.reach == MEMORY and here.contiguous and _in_long_runs(there)
    return DEVICE not in ways or _can_devices(source, target)


def hop(source: StridedBox, target: StridedBox, order: Order = DEFAULT) -> tuple[Future[None], Future[None]]:
    """Start a copy for which `is_hop` holds, of one element or more. Local; internal progress.

    Args:
        source: what to copy.
        target: where to.
        order: on the device that has a part in it.

    Returns:
        The futures of operation completion and of source completion.
    """
    if source.memory is not None and target.memory is not None:
        target.store(source.load())
        return DONE, DONE
    if target.reach == WINDOW:
        return _to_window(source, target)
    if source.reach == WINDOW:
        done = _from_window(source, target)
    elif isinstance(_device(source if source.memory is None else target), CudaKind):
        return cuda_copies.hop(source, target, order)
    else:
        done = _by_driver(source, target)
    return done, done


def _can_devices(source: StridedBox, target: StridedBox) -> bool:
    """Whether the driver of a device makes the copy, of which one or both ends are there."""
    kinds = [_device(box) for box in (source, target) if box.memory is None]
    if any(isinstance(kind, CudaKind) for kind in kinds):
        return all(isinstance(kind, CudaKind) for kind in kinds) and cuda_copies.can(source, target)
    if len(kinds) == 2:
        return kinds[0] == kinds[1]
    return (target if source.memory is None else source).contiguous


def _in_long_runs(box: StridedBox) -> bool:
    item = box.dtype.itemsize
    if box.offsets() is not None:
        return (box.shape[1] * item if box.item_stride == item else item) >= _LONG_RUN
    axes = merged_axes((count, stride, stride) for count, stride in zip(box.shape, box.strides, strict=True))
    length = item * axes.pop()[0] if axes and axes[-1][1] == item else item
    return not axes or length >= _LONG_RUN


def _to_window(source: StridedBox, target: StridedBox) -> tuple[Future[None], Future[None]]:
    pointer, data = target.location, as_bytes(_memory(source))
    window = pointer.segment.window
    assert window is not None
    copy = copy_between(source, target)
    for a, b in copy.starts():
        epoch = window.put(pointer.rank, pointer.offset + b, data[a : a + copy.run])
    # Runs of an earlier epoch were complete when it was closed.
    if epoch.done:
        return DONE, DONE
    reusable = _Once(lambda: window.flush_local(pointer.rank))
    return Polled(lambda: epoch.done, epoch.wait), Polled(lambda: reusable.done or epoch.done, reusable.act)


class _Once:
    """An action that is done when it was taken."""

    __slots__ = ("_action", "done")

    def __init__(self, action: Any) -> None:
        self._action = action
        self.done = False

    def act(self) -> None:
        self._action()
        self.done = True


def _from_window(source: StridedBox, target: StridedBox) -> Future[None]:
    pointer, data = source.location, as_bytes(_memory(target))
    window = pointer.segment.window
    assert window is not None
    copy = copy_between(source, target)
    gets = [window.get(pointer.rank, pointer.offset + a, data[b : b + copy.run]) for a, b in copy.starts()]

    def finish() -> None:
        for get in gets:
            get.wait()

    return Polled(lambda: all(get.done for get in gets), finish)


def _by_driver(source: StridedBox, target: StridedBox) -> Future[None]:
    copy = copy_between(source, target)
    if source.reach == target.reach:
        kind, first, second = _device(source), source.address, target.address
        parts = [kind.move(first + a, second + b, copy.run) for a, b in copy.starts()]
    elif target.reach == DEVICE:
        kind, data, second = _device(target), as_bytes(_memory(source)), target.address
        parts = [kind.write(data[a : a + copy.run], second + b) for a, b in copy.starts()]
    else:
        kind, first, data = _device(source), source.address, as_bytes(_memory(target))
        parts = [kind.read(first + a, data[b : b + copy.run]) for a, b in copy.starts()]
    return parts[0] if len(parts) == 1 else when_all(*parts).then(lambda _: None)


def as_bytes(memory: npt.NDArray[Any]) -> Bytes:
    """Return the bytes of contiguous memory, without a copy. Local."""
    return memory.reshape(-1).view(np.uint8)


def _memory(box: StridedBox) -> npt.NDArray[Any]:
    assert box.memory is not None
    return box.memory


def _device(box: StridedBox) -> DeviceKind:
    kind = box.location.kind
    assert isinstance(kind, DeviceKind)
    return kind
