"""Hops: what one rank moves in one step, by loads and stores, through an MPI window, or by a device's driver."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from gondwana.futures import DONE, Future, Polled, when_all
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.kinds import DeviceKind
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer import cuda_hops
from gondwana.transfer.order import USUAL, Order
from gondwana.transfer.places import AWAY, DEVICE, MEMORY, WINDOW, Place
from gondwana.transfer.rows import joined_axes
from gondwana.transfer.spans import as_bytes, runs

_WORTH = 1024
"""Bytes in a row from which it is worth an MPI operation of its own; shorter ones the owner puts together."""


def is_hop(source: Place, target: Place) -> bool:
    """Tell whether this rank can make the copy in one step. Local."""
    ways = source.reach, target.reach
    if AWAY in ways:
        return False
    if WINDOW in ways:
        here, there = (target, source) if ways[0] == WINDOW else (source, target)
        return here.reach == MEMORY and here.contiguous and _in_long_runs(there)
    return DEVICE not in ways or _can_devices(source, target)


def hop(source: Place, target: Place, order: Order = USUAL) -> tuple[Future[None], Future[None]]:
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
        return cuda_hops.hop(source, target, order)
    else:
        done = _by_driver(source, target)
    return done, done


def _can_devices(source: Place, target: Place) -> bool:
    """Whether the driver of a device makes the copy, of which one or both ends are there."""
    kinds = [_device(place) for place in (source, target) if place.memory is None]
    if any(isinstance(kind, CudaKind) for kind in kinds):
        return all(isinstance(kind, CudaKind) for kind in kinds) and cuda_hops.can(source, target)
    if len(kinds) == 2:
        return kinds[0] == kinds[1]
    return (target if source.memory is None else source).contiguous


def _in_long_runs(place: Place) -> bool:
    item = place.dtype.itemsize
    if place.offsets() is not None:
        return place.shape[1] * item >= _WORTH
    axes = joined_axes((count, stride, stride) for count, stride in zip(place.shape, place.strides, strict=True))
    length = item * axes.pop()[0] if axes and axes[-1][1] == item else item
    return not axes or length >= _WORTH


def _to_window(source: Place, target: Place) -> tuple[Future[None], Future[None]]:
    pointer, data = _pointer(target), as_bytes(_memory(source))
    window = pointer.segment.window
    assert window is not None
    offsets, length = runs(source, target)
    for a, b in offsets:
        epoch = window.put(pointer.rank, pointer.offset + b, data[a : a + length])
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


def _from_window(source: Place, target: Place) -> Future[None]:
    pointer, data = _pointer(source), as_bytes(_memory(target))
    window = pointer.segment.window
    assert window is not None
    offsets, length = runs(source, target)
    gets = [window.get(pointer.rank, pointer.offset + a, data[b : b + length]) for a, b in offsets]

    def finish() -> None:
        for get in gets:
            get.wait()

    return Polled(lambda: all(get.done for get in gets), finish)


def _by_driver(source: Place, target: Place) -> Future[None]:
    offsets, length = runs(source, target)
    if source.reach == target.reach:
        kind, first, second = _device(source), _address(source), _address(target)
        parts = [kind.move(first + a, second + b, length) for a, b in offsets]
    elif target.reach == DEVICE:
        kind, data, second = _device(target), as_bytes(_memory(source)), _address(target)
        parts = [kind.write(data[a : a + length], second + b) for a, b in offsets]
    else:
        kind, first, data = _device(source), _address(source), as_bytes(_memory(target))
        parts = [kind.read(first + a, data[b : b + length]) for a, b in offsets]
    return parts[0] if len(parts) == 1 else when_all(*parts).then(lambda _: None)


def _pointer(place: Place) -> GlobalPtr:
    assert place.pointer is not None
    return place.pointer


def _memory(place: Place) -> npt.NDArray[Any]:
    assert place.memory is not None
    return place.memory


def _device(place: Place) -> DeviceKind:
    kind = _pointer(place).kind
    assert isinstance(kind, DeviceKind)
    return kind


def _address(place: Place) -> int:
    """Where the first element lies on this rank's device."""
    pointer = _pointer(place)
    return pointer.segment.address + pointer.offset
