"""Filling ghosts in the memory of GPUs: by kernels that write the ghosts of ranks whose memory is mapped, or messages.

Ghosts that come from the rank itself are one launch among the kernels, for all arrays and axes: the kernels that run
meanwhile, on the inner cells, read them. What goes to others is on a stream of its own, beside the kernels: it starts,
on the device, after the kernels launched before, and the kernels launched after `wait` start after it; the host waits
for nothing of its own device. Neighbours of the node tell each other by signals, as in `CopiedExchange`: "you may write
my ghosts" when the kernels before are through, and "your ghosts are there" when the launch that wrote them is. To
others goes one message each, by way of the host.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeAlias

from gondwana.arrays.base import DomainArray
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.device_message import Incoming, Outgoing
from gondwana.arrays.device_stores import CHANNELS, Reads, Tells, Writes
from gondwana.arrays.ghost_cells import GhostCells, Move
from gondwana.arrays.ghost_exchange import Exchange
from gondwana.arrays.global_array import GlobalArray
from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.ipc import Attached
from gondwana.memory.segment import Segment
from gondwana.sync.signals import Signal
from gondwana.transfer import paths
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.device_boxes import BoxProgram

_FIRST_TAG, _TAGS = 30_002, 2000
"""Tags of messages: exchanges that are under way together must not take those of each other."""

_Part: TypeAlias = Writes | Reads | Outgoing | Incoming
"""What a rank has to do with one neighbour in one direction."""


def can_exchange(arrays: Iterable[GlobalArray]) -> bool:
    """Tell whether each rank has its blocks of all arrays on one GPU; all ranks find the same. Local."""
    kinds = zip(*(array.kinds for array in arrays), strict=True)
    return all(len(set(of_rank)) == 1 and isinstance(of_rank[0], CudaKind) for of_rank in kinds)


class DeviceExchange(Exchange):
    """The exchange of arrays for which `can_exchange` holds. Collective over their team to make."""

    def __init__(self, cells: GhostCells) -> None:
        super().__init__(cells)
        team, me, neighbours = cells.team, cells.team.rank, cells.neighbours
        kind = cells.arrays[0].kind
        assert isinstance(kind, CudaKind)
        self._device = kind.device
        self._stream = _stream(self._device)
        maps = {rank: _mapped(cells.to(rank), rank, self._device) for rank in neighbours}
        # Who writes whose ghosts, and how a neighbour finds its counters among ours, only the other one knows.
        everybody = team.allgather({rank: (place, maps[rank] is not None) for place, rank in enumerate(neighbours)})
        signal = Signal(team, CHANNELS * max(1, *map(len, everybody)))
        tag = _FIRST_TAG + (signal.segment.key & 0xFFFFFFFF) % _TAGS
        self._own = BoxProgram(kind, _copies(cells.to(me)))
        self._parts: list[_Part] = []
        for here, rank in enumerate(neighbours):
            there, writes_here = everybody[rank][me]
            mapped, tells = maps[rank], Tells(signal, rank, CHANNELS * here, CHANNELS * there)
            if mapped is None:
                self._parts.append(Outgoing(team, rank, kind, cells.to(rank), tag))
            else:
                self._parts.append(Writes(tells, self._device, BoxProgram(kind, _copies(cells.to(rank), mapped))))
            if writes_here:
                self._parts.append(Reads(tells))
            else:
                self._parts.append(Incoming(team, rank, kind, cells.between(rank, me), tag))
        team.barrier()  # nobody drops its part of the signal before all have mapped it
        # From here on the memory is needed, not the arrays: they may go, and this with them, without a cycle.
        self._memory = [*map(_segment, cells.arrays), *maps.values()]

    def _begin(self) -> None:
        one = self._device
        if self._parts:
            kernels = one.record(one.compute)
            kernels.block(self._stream)
        paths.DRIVER.count(self._own.nbytes)
        self._own.launch(one.compute)
        for part in self._parts:
            part.start(kernels, self._stream)
        self._advance()

    def _soon(self) -> bool:
        return self._advance()

    def _advance(self) -> bool:
        through = [part.advance() for part in self._parts]
        return all(through)

    def _end(self) -> None:
        if self._parts:
            self._device.record(self._stream).block(self._device.compute)


def _mapped(moves: list[Move], rank: int, one: Device) -> dict[int, Attached] | None:
    """The memory of a neighbour, by the segments' keys, if the threads of the device reach all that is written."""
    if paths.state.forced not in (None, paths.IPC):
        return None
    found = {}
    for move in moves:
        segment = move.target.pointer.segment
        attached = segment.attached(rank)
        if attached is None or attached.device is not one:
            return None
        found[segment.key] = attached
    return found


def _copies(moves: list[Move], mapped: dict[int, Attached] | None = None) -> list[BoxCopy]:
    """The copies from this rank's cells to ghosts here, or in a neighbour's memory as it is mapped."""
    return [
        BoxCopy.of(
            move.source.shape,
            move.source.dtype.itemsize,
            move.source.strides,
            move.target.strides,
            source=_address(move.source, None),
            target=_address(move.target, mapped),
        )
        for move in moves
    ]


def _address(array: DomainArray, mapped: dict[int, Attached] | None) -> int:
    """Where the first element of an array lies for the device of this rank."""
    if isinstance(array, DeviceArray):
        return array.address
    assert mapped is not None
    return mapped[array.pointer.segment.key].address + array.pointer.offset


def _segment(array: GlobalArray) -> Segment:
    return array.block(array.team.rank).pointer.segment


@functools.cache
def _stream(one: Device) -> int:
    """The stream of the exchanges of a device: neither copies of other kinds nor the inner kernel must delay them."""
    one.activate()
    return one.driver.new_stream(urgent=True)
