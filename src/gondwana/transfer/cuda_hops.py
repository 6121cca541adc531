"""Hops of CUDA devices: between device memory, of this rank or attached, and host memory in reach."""

from __future__ import annotations

from gondwana.futures import DONE, Future
from gondwana.memory.events import EventFuture
from gondwana.memory.ipc import OnDevice
from gondwana.memory.pinned import SMALL, is_pinned, pin
from gondwana.transfer.boxes import SOURCE, TARGET, Box, box_of, is_dense, planes
from gondwana.transfer.lane import Lane, lane
from gondwana.transfer.order import Order
from gondwana.transfer.places import Place
from gondwana.transfer.spans import address_of, is_indexed, runs


def can(source: Place, target: Place) -> bool:
    """Tell whether the driver of this rank can make a copy: of each end, memory in reach or of a CUDA device. Local."""
    if source.memory is None and target.memory is None:
        if _end(source)[0].device is _end(target)[0].device:
            return True
        # Threads of one device need not reach the memory of another, but the driver copies runs between them.
        return is_indexed(source, target) or not _box(source, target).axes
    return source.nbytes <= SMALL or _is_plain(source, target)


def hop(source: Place, target: Place, order: Order) -> tuple[Future[None], Future[None]]:
    """Start a copy for which `can` holds. Local; does not wait, but for room in pinned memory.

    Returns:
        The futures of operation completion and of source completion.
    """
    ends = [_end(place) for place in (source, target) if place.memory is None]
    (first, start), (last, end) = ends[0], ends[-1]
    one = lane(first.device)
    done: Future[None]
    reusable: Future[None]
    with one.lock:
        order.begin(one.device, [found.device for found, _ in ends if found.own])
        if len(ends) == 2:
            _move(one, source, target, start, end)
            done = reusable = EventFuture(one.device, (first, last))
        elif source.memory is None:
            done = reusable = _download(one, source, target, first, start)
        else:
            done, reusable = _upload(one, source, target, last, end)
        order.end(one.device)
    return done, reusable


def _upload(one: Lane, source: Place, target: Place, there: OnDevice, end: int) -> tuple[Future[None], Future[None]]:
    if not _through_ring(one, source, _is_plain(source, target)):
        _move(one, source, target, address_of(source), end)
        done = EventFuture(one.device, (there, source.memory))
        return done, done
    packed = _room(one, target)
    packed.store(source.load())
    _move(one, packed, target, address_of(packed), end)
    done = EventFuture(one.device, there)
    one.ring.hold(done)
    return done, DONE


def _download(one: Lane, source: Place, target: Place, there: OnDevice, start: int) -> Future[None]:
    if not _through_ring(one, target, _is_plain(source, target)):
        _move(one, source, target, start, address_of(target))
        return EventFuture(one.device, (there, target.memory))
    packed = _room(one, source)
    _move(one, source, packed, start, address_of(packed))
    done = EventFuture(one.device, there, lambda: target.store(packed.load()))
    one.ring.hold(done)
    return done


def _through_ring(one: Lane, place: Place, plain: bool) -> bool:
    """Whether the bytes of an end in host memory pass through the ring; registers memory that large copies use."""
    mapping = None if place.pointer is None else place.pointer.segment.view(place.pointer.rank)
    if place.nbytes <= SMALL:
        return not plain or mapping is None or not is_pinned(mapping)
    if mapping is not None:
        pin(mapping, one.device)
    return False


def _room(one: Lane, like: Place) -> Place:
    """Room in the ring for the elements of a place, its axes in the order of that place's memory."""
    _, memory = one.ring.take(like.nbytes)
    room = memory.view(like.dtype)
    slowest = sorted(range(len(like.strides)), key=lambda axis: -abs(like.strides[axis]))
    if slowest == sorted(slowest):
        return Place.of(room.reshape(like.shape))
    places = sorted(range(len(slowest)), key=slowest.__getitem__)
    return Place.of(room.reshape([like.shape[axis] for axis in slowest]).transpose(places))


def _move(one: Lane, source: Place, target: Place, start: int, end: int) -> None:
    """Put a copy on the stream; one end is on a device, the other there or without gaps in host memory, or rows."""
    if is_indexed(source, target):
        offsets, length = runs(source, target)
        for a, b in offsets:
            one.device.driver.copy(end + b, start + a, length, one.device.transfers)
        return
    box = _box(source, target)
    if one.planes(end, start, box):
        return
    if source.memory is not None:
        one.scatter(end, start, box)
    elif target.memory is not None:
        one.gather(end, start, box)
    else:
        one.between(end, start, box)


def _box(source: Place, target: Place) -> Box:
    """What two ends have in common; axes in the order of host memory if one end is there."""
    strides = source.strides, target.strides
    return box_of(source.shape, source.dtype.itemsize, *strides, by_target=target.memory is not None)


def _is_plain(source: Place, target: Place) -> bool:
    """Whether the driver can do without the processor's help at the end that is host memory."""
    place, end = (source, SOURCE) if source.memory is not None else (target, TARGET)
    if is_indexed(source, target):
        return place.contiguous
    box = _box(source, target)
    return is_dense(box, end) or planes(box) is not None


def _end(place: Place) -> tuple[OnDevice, int]:
    """How a device reaches an end, and the address of its first element there."""
    assert place.pointer is not None
    found = place.pointer.segment.on_device(place.pointer.rank)
    assert found is not None
    return found, found.address + place.pointer.offset
