"""Plans in the memory of GPUs: by kernels that write destinations whose memory is mapped, or messages.

Copies inside of the rank itself are one launch among the kernels: the kernels that run meanwhile, on the inner cells of
an exchange of ghosts, read them. What goes to others is on a stream of its own, beside the kernels: it starts, on the
device, after the kernels launched before, and the kernels launched after `wait` start after it; the host waits for
nothing of its own device. Neighbours of the node signal each other, as in `CopiedPlan`: "you may write here" when the
kernels before are through, and "your destinations are written" when the launch that wrote them is. To others goes one
message each, packed on the device. Where MPI takes device memory at all ranks, it gets the message; else the message
goes by way of the host in pieces of a slot's size, for the reason given there: while one is sent, the next ones are
copied to the host, and at the other end those that have arrived to the device.
"""

from __future__ import annotations

import functools
import mmap
import weakref
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.gpu.device import Device, Event
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.ipc import Attached
from gondwana.memory.pinned import pin
from gondwana.sync.signals import Signal
from gondwana.teams import Team, device_memory
from gondwana.teams.device_memory import DeviceBytes
from gondwana.teams.request import PersistentRequest
from gondwana.transfer import paths
from gondwana.transfer.box_copy import Copy
from gondwana.transfer.devices.device_boxes import BoxProgram
from gondwana.transfer.plans.host import message_starts
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan, free_requests, message_tag
from gondwana.transfer.slots import SLOT

_Part: TypeAlias = "Writes | Reads | Outgoing | Incoming"
"""What a rank has to do with one neighbour in one direction."""

_READY, _ARRIVED = range(2)
CHANNELS = 2
"""Counters of a signal that each rank needs for each of its neighbours."""

_ALIGN = 16
"""Bytes on which the elements of a pair start in a message, so that they are moved in the widest units."""


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
        places = {rank: (place, maps.get(rank) is not None) for place, rank in enumerate(neighbours)}
        takes = paths.state.forced in (None, paths.AWARE) and device_memory.is_taken()
        everybody, taken = zip(*team.allgather((places, takes)), strict=True)
        direct = all(taken)
        signal = Signal(team, CHANNELS * max(1, *map(len, everybody)))
        private, tag = team.private, message_tag(signal.segment)
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
                self._parts.append(Outgoing(private, rank, kind, copies.to(rank), tag, direct))
            if writes_here:
                self._parts.append(Reads(handshake))
            elif copies.of(rank):
                self._parts.append(Incoming(private, rank, kind, copies.of(rank), tag, direct))
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


class Handshake:
    """What this rank and a neighbour of the node signal each other. Local.

    Args:
        signal: of the plan.
        rank: the neighbour.
        here: first channel that the neighbour uses here.
        there: first channel to use there.
    """

    def __init__(self, signal: Signal, rank: int, here: int, there: int) -> None:
        self._signal, self._rank, self._here, self._there = signal, rank, here, there

    def send(self, what: int) -> None:
        """Signal the neighbour. Local."""
        self._signal.add(self._rank, channel=self._there + what)

    def received(self, what: int) -> bool:
        """Return whether the neighbour has signalled this, and consume it. Local."""
        there = self._signal.ready(channel=self._here + what)
        if there:
            self._signal.wait(channel=self._here + what)
        return there


class Writes:
    """Writing destinations of a neighbour of the node. Local.

    Args:
        handshake: of both.
        one: the device that writes.
        program: the copies.
    """

    def __init__(self, handshake: Handshake, one: Device, program: BoxProgram) -> None:
        self._handshake, self._device, self._program = handshake, one, program
        self._stream = 0
        self._written: Event | None = None
        self._done = True

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round: the destinations will be written behind what is on a stream. Local; does not wait."""
        self._stream = stream
        self._done = False

    def advance(self) -> bool:
        """Write when the neighbour is ready, and signal it when that is done; return whether it is. Local."""
        if self._done:
            return True
        if self._written is None:
            if not self._handshake.received(_READY):
                return False
            self._program.launch(self._stream)
            self._written = self._device.record(self._stream)
            paths.IPC.count(self._program.nbytes)
        if self._written.reached():
            self._handshake.send(_ARRIVED)
            self._written, self._done = None, True
        return self._done


class Reads:
    """Destinations that a neighbour of the node writes. Local.

    Args:
        handshake: of both.
    """

    def __init__(self, handshake: Handshake) -> None:
        self._handshake = handshake
        self._kernels: Event | None = None
        self._done = True

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round: the destinations may be written when the kernels launched so far are through. Local."""
        self._kernels = kernels
        self._done = False

    def advance(self) -> bool:
        """Let the neighbour write when the kernels are through; return whether it has written. Local."""
        if self._kernels is not None and self._kernels.reached():
            self._kernels = None
            self._handshake.send(_READY)
        self._done = self._done or (self._kernels is None and self._handshake.received(_ARRIVED))
        return self._done


class _Message:
    """What two ranks exchange in one direction: device memory, what packs or unpacks it, requests for its pieces."""

    def __init__(self, kind: CudaKind, pairs: list[Pair], copy: Callable[[Pair, int], Copy], direct: bool) -> None:
        starts = message_starts([pair.nbytes for pair in pairs], _ALIGN)
        nbytes = max(starts[-1], _ALIGN)
        self._device, self._address = kind.device, kind.allocate(nbytes)
        weakref.finalize(self, kind.free, self._address).atexit = False
        parts = [copy(pair, self._address + at) for pair, at in zip(pairs, starts, strict=False)]
        self._program = BoxProgram(kind, parts)
        self._requests: list[PersistentRequest] = []
        weakref.finalize(self, free_requests, self._requests)
        self._host: npt.NDArray[np.uint8] | None = None
        taken = kind.for_mpi(self._address, nbytes) if direct else None
        self._pieces: list[npt.NDArray[np.uint8] | DeviceBytes] = [] if taken is None else [taken]
        if taken is None:
            self._host = np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
            pin(self._host, self._device)
            self._pieces = [self._host[at : at + SLOT] for at in range(0, nbytes, SLOT)]

    def _copied(self, piece: int, stream: int, *, down: bool) -> Event:
        """Copy a piece between device and host, if MPI does not take it from the device; return the event behind it."""
        if self._host is not None:
            host, here = self._host.ctypes.data + piece * SLOT, self._address + piece * SLOT
            target, source = (host, here) if down else (here, host)
            self._device.driver.copy(target, source, self._pieces[piece].nbytes, stream)
        return self._device.record(stream)


class Outgoing(_Message):
    """What one rank sends to another. Local.

    Args:
        team: of both.
        rank: who receives it.
        kind: of this rank's memory.
        pairs: with sources of this rank.
        tag: of the message.
        direct: whether MPI gets device memory.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, pairs: list[Pair], tag: int, direct: bool) -> None:
        super().__init__(kind, pairs, Pair.packing, direct)
        self._requests += [team.Send_init(piece, rank, tag) for piece in self._pieces]
        self._packed: deque[tuple[Event, PersistentRequest]] = deque()

    def start(self, kernels: Event, stream: int) -> None:
        """Pack the message, behind what is on a stream. Local; does not wait."""
        self._program.launch(stream)
        for piece, request in enumerate(self._requests):
            self._packed.append((self._copied(piece, stream, down=True), request))
        (paths.AWARE if self._host is None else paths.STAGED).count(self._program.nbytes)

    def advance(self) -> bool:
        """Send the pieces that are packed; return whether all are sent. Local."""
        while self._packed and self._packed[0][0].reached():
            self._packed.popleft()[1].start()
        return not self._packed and all(request.test() for request in self._requests)


class Incoming(_Message):
    """What one rank receives from another. Local.

    Args:
        team: of both.
        rank: who sends it.
        kind: of this rank's memory.
        pairs: with destinations of this rank.
        tag: of the message.
        direct: whether MPI gets device memory.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, pairs: list[Pair], tag: int, direct: bool) -> None:
        super().__init__(kind, pairs, Pair.unpacking, direct)
        self._requests += [team.Recv_init(piece, rank, tag) for piece in self._pieces]
        self._stream = self._started = self._arrived = 0
        self._read: list[Event | None] = [None] * len(self._requests)  # when the last round has left what MPI writes
        self._done = False

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round; the destinations will be written behind what is on a stream. Local; does not wait."""
        self._stream, self._started, self._arrived, self._done = stream, 0, 0, False

    def advance(self) -> bool:
        """Write the destinations when all pieces are there; return whether that is on the stream. Local."""
        requests, stream, read = self._requests, self._stream, self._read
        while self._started < len(requests) and ((left := read[self._started]) is None or left.reached()):
            requests[self._started].start()
            self._started += 1
        while self._arrived < self._started and requests[self._arrived].test():
            read[self._arrived] = self._copied(self._arrived, stream, down=False)
            self._arrived += 1
        if not self._done and self._arrived == len(requests):
            self._program.launch(stream)
            read[-1] = self._device.record(stream)  # behind the launch, which reads what MPI has written
            self._done = True
        return self._done
