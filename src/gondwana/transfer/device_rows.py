"""The short way of copies by drivers: elements in a row, of which one end or both are on devices.

It does what `cuda_hops` does, for what needs no thought; all else, errors included, is left to the long way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.futures import DONE, Future
from gondwana.memory.events import EventFuture
from gondwana.memory.ipc import OnDevice
from gondwana.memory.pinned import SMALL, is_pinned
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.lane import lane
from gondwana.transfer.paths import DRIVER, IPC

_BYTE = np.dtype(np.uint8)

Row = npt.NDArray[Any]
Started = tuple[Future[None], Future[None]]


def copied(src: Any, dst: Any, n: int, source: Row | None, target: Row | None) -> Started | None:
    """Start a copy of elements in a row. Local; does not wait, but for room in pinned memory.

    Args:
        src: what to copy, as given to `gw.copy`.
        dst: where to, likewise.
        n: elements.
        source: those of the source, if loads reach them.
        target: those of the destination, if stores reach them.

    Returns:
        The futures of operation completion and of source completion. None if this takes more than a look: nothing has
        been done.
    """
    first = None if source is not None else _found(src, n)
    last = None if target is not None else _found(dst, n)
    if last is not None and dst.segment.readonly:
        return None
    if first is not None and last is not None:
        if first.device is not last.device or src.dtype != dst.dtype:
            return None
        return _between(first, first.address + src.offset, last, last.address + dst.offset, n * src.dtype.itemsize)
    if first is not None and target is not None and target.flags.writeable and _fits(target, dst, src):
        return _down(first, first.address + src.offset, dst, target)
    if last is not None and source is not None and _fits(source, src, dst):
        return _up(src, source, last, last.address + dst.offset)
    return None


def _found(end: Any, n: int) -> OnDevice | None:
    """How a device reaches an end, if that is known and the elements are inside its segment."""
    if end.__class__ is not GlobalPtr or n <= 0:
        return None
    segment, rank, offset = end.segment, end.rank, end.offset
    found: OnDevice | None = segment.devices.get(rank)
    return found if offset >= 0 and offset + n * end.dtype.itemsize <= segment.nbytes_of(rank) else None


def _fits(row: Row, end: Any, pointer: GlobalPtr) -> bool:
    """Whether elements in memory in reach are of the pointer's type, and nothing is to be done about that memory."""
    return (
        row.dtype == pointer.dtype
        and row.flags.c_contiguous
        and not row.dtype.hasobject
        and (row.nbytes <= SMALL or end is row or _is_pinned(end))
    )


def _is_pinned(end: Any) -> bool:
    return end.__class__ is GlobalPtr and is_pinned(end.segment.view(end.rank))


def _between(first: OnDevice, start: int, last: OnDevice, end: int, nbytes: int) -> Started:
    one = lane(first.device)
    with one.lock:
        one.device.driver.copy(end, start, nbytes, one.begin(first.own or last.own))
        done = EventFuture(one.device, (first, last))
    (DRIVER if first.own and last.own else IPC).count(nbytes)
    return done, done


def _up(src: Any, source: Row, there: OnDevice, end: int) -> Started:
    one, nbytes = lane(there.device), source.nbytes
    (DRIVER if there.own else IPC).count(nbytes)
    with one.lock:
        if nbytes > SMALL or _is_pinned(src):
            one.device.driver.copy(end, source.ctypes.data, nbytes, one.begin(there.own))
            done = EventFuture(one.device, (there, source))
            return done, done
        address, room = one.ring.take(nbytes)
        room[:] = source.view(_BYTE)
        one.device.driver.copy(end, address, nbytes, one.begin(there.own))
        done = EventFuture(one.device, there)
        one.ring.hold(done)
    return done, DONE


def _down(there: OnDevice, start: int, dst: Any, target: Row) -> Started:
    one, nbytes = lane(there.device), target.nbytes
    (DRIVER if there.own else IPC).count(nbytes)
    with one.lock:
        if nbytes > SMALL or _is_pinned(dst):
            one.device.driver.copy(target.ctypes.data, start, nbytes, one.begin(there.own))
            done = EventFuture(one.device, (there, target))
        else:
            address, room = one.ring.take(nbytes)
            one.device.driver.copy(address, start, nbytes, one.begin(there.own))
            done = EventFuture(one.device, there, lambda: target.view(_BYTE).__setitem__(slice(None), room))
            one.ring.hold(done)
    return done, done
