"""Ghosts that ranks of a node write into each other's device memory, and what they tell each other about it."""

from __future__ import annotations

from gondwana.gpu.device import Device, Event
from gondwana.sync.signals import Signal
from gondwana.transfer import paths
from gondwana.transfer.device_boxes import BoxProgram

_READY, _ARRIVED = range(2)
CHANNELS = 2
"""Counters of a signal that each rank needs for each of its neighbours."""


class Tells:
    """What this rank and a neighbour of the node tell each other. Local.

    Args:
        signal: of the exchange.
        rank: the neighbour.
        here: first channel that the neighbour uses here.
        there: first channel to use there.
    """

    def __init__(self, signal: Signal, rank: int, here: int, there: int) -> None:
        self._signal, self._rank, self._here, self._there = signal, rank, here, there

    def tell(self, what: int) -> None:
        """Tell the neighbour. Local."""
        self._signal.add(self._rank, channel=self._there + what)

    def told(self, what: int) -> bool:
        """Return whether the neighbour has told this, and forget it. Local."""
        there = self._signal.ready(channel=self._here + what)
        if there:
            self._signal.wait(channel=self._here + what)
        return there


class Writes:
    """Writing into the ghosts of a neighbour of the node. Local.

    Args:
        tells: what both tell each other.
        one: the device that writes.
        program: the copies.
    """

    def __init__(self, tells: Tells, one: Device, program: BoxProgram) -> None:
        self._tells, self._device, self._program = tells, one, program
        self._stream = 0
        self._written: Event | None = None
        self._done = True

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round: the ghosts will be written behind what is on a stream. Local; does not wait."""
        self._stream = stream
        self._done = False

    def advance(self) -> bool:
        """Write when the neighbour is ready, and tell it when that is done; return whether it is. Local."""
        if self._done:
            return True
        if self._written is None:
            if not self._tells.told(_READY):
                return False
            self._program.launch(self._stream)
            self._written = self._device.record(self._stream)
            paths.IPC.count(self._program.nbytes)
        if self._written.reached():
            self._tells.tell(_ARRIVED)
            self._written, self._done = None, True
        return self._done


class Reads:
    """Ghosts that a neighbour of the node writes. Local.

    Args:
        tells: what both tell each other.
    """

    def __init__(self, tells: Tells) -> None:
        self._tells = tells
        self._kernels: Event | None = None
        self._done = True

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round: the ghosts may be written when the kernels launched so far are through. Local."""
        self._kernels = kernels
        self._done = False

    def advance(self) -> bool:
        """Let the neighbour write when the kernels are through; return whether it has written. Local."""
        if self._kernels is not None and self._kernels.reached():
            self._kernels = None
            self._tells.tell(_READY)
        self._done = self._done or (self._kernels is None and self._tells.told(_ARRIVED))
        return self._done
