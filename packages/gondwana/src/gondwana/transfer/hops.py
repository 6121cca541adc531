"""How a copy gets from end to end: in one step of this rank, or in pieces through slots of its host memory.

A step, a hop, is made by loads and stores, through an MPI window, or by a device's driver. Of the pieces several are in
flight, each of which is two steps, made by this rank or by the owner of the other end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.calls.remote_calls import rpc
from gondwana.futures import DONE, Future, Polled, Promise, when_all
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.kinds import Bytes, DeviceKind
from gondwana.runtime import interruptions
from gondwana.transfer import slots
from gondwana.transfer.box import AWAY, DEVICE, MEMORY, WINDOW, StridedBox
from gondwana.transfer.box_copy import copy_between, merged_axes
from gondwana.transfer.devices import cuda_copies
from gondwana.transfer.devices.stream_order import DEFAULT, Order
from gondwana.transfer.slots import SLOT, Pool

_LONG_RUN = 1024
"""Bytes in a run from which it is worth an MPI operation of its own; shorter ones the owner packs."""

_IN_FLIGHT = 4
"""Pieces of one copy that are under way together: while one is read, others are sent and written."""

Part: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the first element and shape of a piece."""

Steps: TypeAlias = Generator[Future[Any], Any, None]
"""Work that yields the futures that it waits for, and continues inside progress when they are ready."""


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


def staged(source: StridedBox, target: StridedBox) -> tuple[Future[None], Future[None]]:
    """Start a copy through slots of this rank, of one element or more. Local; internal progress.

    Returns:
        The futures of operation completion and of source completion.
    """
    if source.dtype.itemsize > SLOT:
        source, target = source.of_bytes(), target.of_bytes()
    boxes = list(pieces(source.shape, source.dtype.itemsize, SLOT))
    unread = reversed(range(len(boxes)))
    read: Promise[None] = Promise()

    def one_read() -> None:
        if next(unread) == 0:
            read.set_result(None)

    queue = iter(boxes)
    workers = [run(_copy_pieces(queue, source, target, one_read)) for _ in range(min(_IN_FLIGHT, len(boxes)))]
    return when_all(*workers).then(lambda _: None), read.future


def serve(source: StridedBox, target: StridedBox) -> Future[None]:
    """Copy one piece on request of the rank in whose slot it starts or ends; the other end is this rank's. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    return run(_through(slots.pools.others, source, target, lambda: None))


def step(source: StridedBox, target: StridedBox) -> Future[None]:
    """Start to copy one piece to or from a slot of this rank, alone or by asking the owner of the other end. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    far = source if source.reach in (AWAY, WINDOW) else target
    assert far.owner is not None
    return rpc(far.owner, serve, source, target)


def pieces(shape: tuple[int, ...], item: int, limit: int) -> Iterator[Part]:
    """Cut a box into boxes of at most `limit` bytes, but one element at least, as many as go with equal indices."""
    if not shape:
        yield (), ()
        return
    axis = len(shape) - 1
    while axis > 0 and math.prod(shape[axis:]) * item <= limit:
        axis -= 1
    inner = shape[axis + 1 :]
    step = max(1, limit // (math.prod(inner) * item))
    for outer in itertools.product(*map(range, shape[:axis])):
        for first in range(0, shape[axis], step):
            count = min(step, shape[axis] - first)
            yield (*outer, first, *(0 for _ in inner)), (*(1 for _ in outer), count, *inner)


def _copy_pieces(queue: Iterator[Part], source: StridedBox, target: StridedBox, when_read: Callable[[], None]) -> Steps:
    """Copy pieces until the queue is empty."""
    for starts, shape in queue:
        yield run(_through(slots.pools.own, source.part(starts, shape), target.part(starts, shape), when_read))


def _through(pool: Pool, source: StridedBox, target: StridedBox, when_read: Callable[[], None]) -> Steps:
    """Copy one piece to a slot and from there to its target."""
    slot = yield pool.take()
    try:
        between = slot.box(source.dtype, source.shape)
        yield step(source, between)
        when_read()
        yield step(between, target)
    finally:
        slot.release()


def run(steps: Steps) -> Future[None]:
    """Start work and return the future of its end. Local; does not wait.

    What is ready at once is not waited for. An error of a future is raised where it was yielded.
    """
    promise: Promise[None] = Promise()

    def resume(done: Future[Any] | None) -> None:
        try:
            while True:
                done = _next_future(steps, done)
                if not done.done():
                    done.add_done_callback(resume)
                    return
        except StopIteration:
            promise.set_result(None)
        except Exception as error:
            interruptions.let_pass(error)
            promise.set_exception(error)

    resume(None)
    return promise.future


def _next_future(steps: Steps, done: Future[Any] | None) -> Future[Any]:
    """Continue with the result of the future, if it is not the start; return the next future."""
    if done is None:
        return next(steps)
    error = done.exception()
    return steps.send(done.result()) if error is None else steps.throw(error)
