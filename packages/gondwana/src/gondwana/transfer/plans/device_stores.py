"""Destinations of a plan that ranks of a node write in each other's device memory, and the handshakes for it."""

from __future__ import annotations

from gondwana.gpu.device import Device, Event
from gondwana.sync.signals import Signal
from gondwana.transfer import paths
from gondwana.transfer.devices.device_boxes import BoxProgram

_READY, _ARRIVED = range(2)
CHANNELS = 2
"""Counters of a signal that each rank needs for each of its neighbours."""


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
