"""One object for each device that this process uses: its context, its two streams, and the events recorded on them.

The ranks of a node use its devices in turn (`own_number`). One line reports which ranks share which.
"""

from __future__ import annotations

import collections
import functools
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from gondwana.errors import UsageError
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError, DeviceFacts, Driver
from gondwana.runtime.watching.rollcall import name_ranks
from gondwana.teams import world
from gondwana.teams.team import failing_together

_devices: dict[int, Device] = {}
_opening = threading.Lock()


class Event:
    """A recorded CUDA event: reached when all earlier work of its stream is done. Local."""

    __slots__ = ("_device", "_event", "_passed")

    def __init__(self, device: Device, event: int) -> None:
        self._device = device
        self._event = event
        self._passed = False

    def reached(self) -> bool:
        """Return whether the event has been reached. Local; does not wait."""
        if not self._passed:
            self._device.activate()
            self._passed = self._device.driver.reached(self._event)
        return self._passed

    def wait(self) -> None:
        """Wait until the event is reached. Local."""
        if not self._passed:
            self._device.activate()
            self._device.driver.await_event(self._event)
            self._passed = True

    def block(self, stream: int) -> None:
        """Make later work of a stream wait for the event. Local; the host does not wait."""
        if not self._passed:
            self._device.activate()
            self._device.driver.order(stream, self._event)

    def __del__(self) -> None:
        # Streams wait for the recording that they saw, so the handle may be recorded again before it is reached.
        self._device._free_events.append(self._event)


class Device:
    """A CUDA device as this process uses it. Local; `kind.device` of `gw.cuda()` is one.

    Any thread may call its methods. Before calling the driver itself a thread calls `activate`.

    Attributes:
        number: number of the device in this process.
        driver: the driver that executes everything.
        facts: properties of the device.
        compute: the stream of all kernels.
        transfers: the stream of copies; not ordered with `compute` unless `after_kernels` does it.
        capturing: whether launches on `compute` are captured instead of run: an event recorded there is never reached.
    """

    def __init__(self, number: int, driver: Driver) -> None:
        self.number: Final = number
        self.driver: Final = driver
        self.facts: Final[DeviceFacts] = driver.facts(number)
        self._context = driver.open(number)
        # With several devices, other libraries may change the current one, so it is set before every use.
        self._others = driver.count() > 1
        self._known = threading.local()
        self._known.active = True
        self.compute: Final = driver.new_stream()
        self.transfers: Final = driver.new_stream()
        self._kernels = driver.new_event()
        self.capturing = False
        self._free_events: list[int] = []

    def activate(self) -> None:
        """Make the device the current one of this thread. Local; cheap if it is that already."""
        if self._others or not hasattr(self._known, "active"):
            self.driver.activate(self._context)
            self._known.active = True

    @property
    def name(self) -> str:
        """The name of the product."""
        return self.facts.name

    @property
    def uuid(self) -> str:
        """An identifier of the device that does not depend on its number in a process."""
        return self.facts.uuid

    @property
    def emulated(self) -> bool:
        """Whether it is the emulated GPU, whose times say nothing."""
        return self.driver.name == "emulated"

    def free_memory(self) -> int:
        """Return the free bytes of its memory. Local."""
        self.activate()
        return self.driver.memory()[0]

    def record(self, stream: int | None = None) -> Event:
        """Record an event after the present work of a stream of this device, and return it. Local.

        Args:
            stream: handle of the stream; default: that of this rank's kernels.
        """
        self.activate()
        stream = self.compute if stream is None else stream
        try:
            event = self._free_events.pop()
        except IndexError:
            event = self.driver.new_event()
        self.driver.record(event, stream)
        return Event(self, event)

    def after_kernels(self) -> int:
        """Make the stream `transfers` wait for the kernels launched so far, and return it. Local."""
        self.activate()
        # One event suffices: if another thread records it again in between, `transfers` waits for more.
        self.driver.record(self._kernels, self.compute)
        self.driver.order(self.transfers, self._kernels)
        return self.transfers

    def after(self, stream: int) -> None:
        """Make later copies wait for the present work of a stream of this device. Local."""
        self.record(stream).block(self.transfers)

    def before(self, stream: int) -> None:
        """Make later work of a stream of this device wait for the copies so far. Local."""
        self.record(self.transfers).block(stream)

    def idle(self) -> bool:
        """Return whether all kernels and copies of this process on the device are done. Local; does not wait."""
        self.activate()
        return all(map(self.driver.idle, (self.compute, self.transfers)))

    def synchronize(self) -> None:
        """Wait until all kernels and copies of this process on the device are done. Local."""
        self.activate()
        self.driver.finish(self.compute)
        self.driver.finish(self.transfers)

    def __repr__(self) -> str:
        return f"<Device {self.number}: {self.facts.name}>"


def device(number: int) -> Device:
    """Return a device of this process and make it the current one of this thread. Local; opened at first use.

    Args:
        number: number of the device in this process, from 0.

    Raises:
        UsageError: the device does not exist, or no driver is installed.
    """
    found = _devices.get(number)
    if found is None:
        with _opening:
            found = _devices.get(number) or _open(number)
            _devices[number] = found
    found.activate()
    return found


def device_count() -> int:
    """Return the number of CUDA devices that this process sees, perhaps 0. Local; opens none of them.

    Raises:
        UsageError: CUDA cannot be used here: the reason, and what to install.

    Example:
        >>> import gondwana as gw
        >>> try:
        ...     kind = gw.cuda() if gw.device_count() else gw.host
        ... except gw.errors.UsageError as reason:
        ...     kind = gw.host
    """
    try:
        return driver().count()
    except CudaError as error:
        raise UsageError(str(error)) from error


def opened() -> tuple[Device, ...]:
    """Return the devices that this process has opened so far. Local."""
    return tuple(_devices.values())


def _open(number: int) -> Device:
    one = driver()
    count = one.count()
    if not 0 <= number < count:
        legal = "only device 0" if count == 1 else f"devices 0 to {count - 1}"
        raise UsageError(f"there is no CUDA device {number}: this process sees {legal} (CUDA_VISIBLE_DEVICES decides)")
    return Device(number, one)


class Use(NamedTuple):
    """The device that a rank uses.

    Attributes:
        node: index of its node.
        host: name of the machine.
        number: number of the device among those that the rank sees.
        name: name of the product.
        uuid: identity of the device: ranks may see different ones under the same number.
        bus: PCI address.
    """

    node: int
    host: str
    number: int
    name: str
    uuid: str
    bus: str


@functools.cache
def own_number() -> int:
    """Return the number of the device of this rank. Collective over the world at first use, then local.

    It is the rank within its node modulo the number of devices that it sees.

    Raises:
        UsageError: a rank has no device.
    """
    use = None
    node, place = world.node_index, world.node.rank
    with failing_together(world):
        number = place % driver().count()
        facts = driver().facts(number)
        use = Use(node, socket.gethostname(), number, facts.name, facts.uuid, facts.bus)
    uses: list[Use] = world.allgather(use)
    if world.rank == 0:
        print(f"gondwana: {describe(uses)}", file=sys.stderr, flush=True)
    return uses[world.rank].number


def describe(uses: Sequence[Use]) -> str:
    """Return a line with the devices of the ranks. Local.

    Args:
        uses: device of every rank.

    Example:
        >>> from gondwana.gpu.device import Use, describe
        >>> describe(2 * [Use(0, "n1", 0, "NVIDIA H200", "GPU-7", "00:18.0")])
        '2 ranks of n1 on 1 GPU: NVIDIA H200 (0: ranks 0, 1)'
    """
    nodes: dict[int, list[int]] = {}
    for rank, use in enumerate(uses):
        nodes.setdefault(use.node, []).append(rank)
    if len(nodes) == 1:
        return f"{_count(len(uses), 'rank')} of {uses[0].host} on {_devices_of(uses)}"
    alike: dict[tuple[int, str], list[str]] = {}
    for ranks in nodes.values():
        shape = len(ranks), _products([uses[rank] for rank in ranks])
        alike.setdefault(shape, []).append(uses[ranks[0]].host)
    parts = [
        f"{_count(ranks, 'rank')} on {products} on {hosts[0] if len(hosts) == 1 else f'each of {len(hosts)} nodes'}"
        for (ranks, products), hosts in alike.items()
    ]
    return "; ".join(parts)


def _devices_of(uses: Sequence[Use]) -> str:
    """Describe the devices of one node, each with its ranks."""
    ranks: dict[str, list[int]] = {}
    for rank, use in enumerate(uses):
        ranks.setdefault(use.uuid, []).append(rank)
    # If ranks see different devices, a number is ambiguous and a PCI address is not.
    clear = len({use.number for use in uses}) == len(ranks) == len({(use.number, use.uuid) for use in uses})
    places: dict[str, list[str]] = {}
    for sharing in sorted(ranks.values(), key=lambda each: (uses[each[0]].number, uses[each[0]].bus)):
        use = uses[sharing[0]]
        places.setdefault(use.name, []).append(f"{use.number if clear else use.bus}: {name_ranks(sharing)}")
    named = ", ".join(f"{name} ({'; '.join(each)})" for name, each in places.items())
    return f"{_count(len(ranks), 'GPU')}: {named}"


def _products(uses: Sequence[Use]) -> str:
    """Return the number of devices and their names, such as "4 GPUs (NVIDIA H200)"."""
    names = {use.uuid: use.name for use in uses}
    counts = collections.Counter(names.values())
    kinds = ", ".join(name if len(counts) == 1 else f"{count} {name}" for name, count in sorted(counts.items()))
    return f"{_count(len(names), 'GPU')} ({kinds})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
