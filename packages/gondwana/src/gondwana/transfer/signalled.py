"""Copies to another node that travel in messages together with the signal of `notify=`: see `sync.delivery`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gondwana.memory.pointer import GlobalPtr
from gondwana.sync import delivery
from gondwana.sync.signals import Signal, SignalAt
from gondwana.transfer import completion
from gondwana.transfer.box import WINDOW, StridedBox, contiguous_strides
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.paths import SIGNALLED

if TYPE_CHECKING:
    from gondwana.transfer.completion import Notify


def is_possible(source: StridedBox, target: StridedBox, notify: Notify | None) -> bool:
    """Return whether a copy and its notification fit into messages. Local."""
    if notify is None or isinstance(notify, tuple) or delivery.opened() is None:
        return False
    if source.memory is None or target.reach != WINDOW or target.offsets() is not None:
        return False
    if isinstance(notify, SignalAt) and notify.signal.team.world_ranks[notify.rank] != target.owner:
        return False
    if target.contiguous:
        return source.nbytes <= delivery.LARGEST
    return source.nbytes <= delivery.MOST and len(_unpacked(target).axes) <= delivery.AXES


def sent_row(source: npt.NDArray[Any], target: Any, notify: Notify) -> delivery.Applied | None:
    """Send elements in a row to where a pointer points, with a signal of the same team; return the future. Local.

    The fast path; None, where nothing was done, leaves all else to the general path, errors included.
    """
    carrier = delivery.opened()
    if carrier is None or target.__class__ is not GlobalPtr or not isinstance(notify, Signal):
        return None
    segment, rank, offset, nbytes = target.segment, target.rank, target.offset, source.nbytes
    if source.dtype != target.dtype or not source.flags.c_contiguous or not 0 < nbytes <= delivery.LARGEST:
        return None
    address = segment.address_of(rank)
    if (
        not address
        or segment.window is None
        or rank in segment.peers  # it shares memory with this one
        or not 0 <= offset <= segment.nbytes_of(rank) - nbytes
    ):
        return None
    line = notify.segment.address_of(rank)
    owner = segment.team.world_ranks[rank]
    sent = carrier.send(owner, source.ctypes.data, nbytes, address + offset, line, 1)
    if sent is not None:
        SIGNALLED.count(nbytes)
    return sent


def send(source: StridedBox, target: StridedBox, notify: Signal | SignalAt) -> delivery.Applied | None:
    """Send a copy for which `is_possible` holds; return its future, None if there is no room for it now. Local."""
    carrier, pointer = delivery.opened(), target.location
    assert carrier is not None
    counter = completion.counter_of(notify, target)
    data, axes = np.ascontiguousarray(source.load()), None
    if not target.contiguous:
        copy = _unpacked(target)
        axes = np.array([len(copy.axes), copy.run, *(word for n, _, step in copy.axes for word in (n, step))], np.int64)
    return carrier.send(
        pointer.team.world_ranks[pointer.rank],
        data.ctypes.data,
        data.nbytes,
        pointer.segment.address_of(pointer.rank) + pointer.offset,
        counter.signal.address_of(counter.rank, counter.channel),
        1,
        0 if axes is None else axes.ctypes.data,
    )


def _unpacked(target: StridedBox) -> BoxCopy:
    """The copy of the elements of a box from memory where they lie without gaps."""
    item = target.dtype.itemsize
    return BoxCopy.of(target.shape, item, contiguous_strides(target.shape, item), target.strides)
