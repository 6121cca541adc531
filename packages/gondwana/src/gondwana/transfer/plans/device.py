"""Plans in the memory of GPUs: by kernels that write destinations whose memory is mapped, or messages.

Copies inside of the rank itself are one launch among the kernels: the kernels that run meanwhile, on the inner cells of
an exchange of ghosts, read them. What goes to others is on a stream of its own, beside the kernels: it starts, on the
device, after the kernels launched before, and the kernels launched after `wait` start after it; the host waits for
nothing of its own device. Neighbours of the node signal each other, as in `CopiedPlan`: "you may write here" when the
kernels before are through, and "your destinations are written" when the launch that wrote them is. To others goes one
message each, by way of the host.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.ipc import Attached
from gondwana.sync.signals import Signal
from gondwana.transfer import paths
from gondwana.transfer.box_copy import Copy
from gondwana.transfer.devices.device_boxes import BoxProgram
from gondwana.transfer.plans.device_messages import Incoming, Outgoing
from gondwana.transfer.plans.device_stores import CHANNELS, Handshake, Reads, Writes
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan, message_tag

_Part: TypeAlias = Writes | Reads | Outgoing | Incoming
"""What a rank has to do with one neighbour in one direction."""


class DevicePlan(Plan):
    """A plan of which each rank has all its ends on one GPU. Collective over its team to make.

    Args:
        copies: of the plan.
        kind: this rank's memory, None for a rank without copies.
    """

    def __init__(self, copies: Copies, kind: CudaKind | None) -> None:
        super().__init__(copies)
        team, me, neighbours = copies.team, copies.team.rank, copies.neighbours
        self._device = None if kind is None else kind.device
        maps = {rank: _mapped(copies.to(rank), rank, self._device) for rank in copies.receivers}
        # Who writes at whom, and how a neighbour finds its counters among ours, only the other one knows.
        everybody = team.allgather({rank: (place, maps.get(rank) is not None) for place, rank in enumerate(neighbours)})
        signal = Signal(team, CHANNELS * max(1, *map(len, everybody)))
        tag = message_tag(signal.segment)
        self._parts: list[_Part] = []
        self._maps = list(maps.values())  # mapped as long as the plan is there
        if kind is not None:
            self._stream = _stream(kind.device)
            self._own = BoxProgram(kind, [pair.direct() for pair in copies.own])
        for here, rank in enumerate(neighbours):
            assert kind is not None
            there, writes_here = everybody[rank][me]
            mapped, handshake = maps.get(rank), Handshake(signal, rank, CHANNELS * here, CHANNELS * there)
            if mapped is not None:
                program = BoxProgram(kind, _stores(copies.to(rank), mapped))
                self._parts.append(Writes(handshake, kind.device, program))
            elif copies.to(rank):
                self._parts.append(Outgoing(team, rank, kind, copies.to(rank), tag))
            if writes_here:
                self._parts.append(Reads(handshake))
            elif copies.of(rank):
                self._parts.append(Incoming(team, rank, kind, copies.of(rank), tag))
        self._record(signal.segment.key, [rank for rank, mapped in maps.items() if mapped is not None])
        team.barrier()  # nobody drops its part of the signal before all have mapped it

    def _begin(self) -> None:
        one = self._device
        if one is None:
            return
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
        if self._parts and self._device is not None:
            self._device.record(self._stream).block(self._device.compute)


def _mapped(pairs: list[Pair], rank: int, one: Device | None) -> dict[int, Attached] | None:
    """The memory of a neighbour, by the segments' keys, if the threads of the device reach all that is written."""
    if paths.state.forced not in (None, paths.IPC):
        return None
    found = {}
    for pair in pairs:
        segment = pair.target.location.segment
        attached = segment.attached(pair.target.location.rank)
        if attached is None or attached.device is not one:
            return None
        found[segment.key] = attached
    return found


def _stores(pairs: list[Pair], mapped: dict[int, Attached]) -> list[Copy]:
    """The copies from this rank's sources to a neighbour's memory as it is mapped."""
    places = [pair.target.location for pair in pairs]
    return [
        pair.direct(mapped[place.segment.key].address + place.offset) for pair, place in zip(pairs, places, strict=True)
    ]


@functools.cache
def _stream(one: Device) -> int:
    """The stream of the plans of a device: neither copies of other kinds nor the inner kernel must delay them."""
    one.activate()
    return one.driver.new_stream(urgent=True)
