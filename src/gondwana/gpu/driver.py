"""What Gondwana asks of a CUDA driver, and which one this process has.

Handles and addresses are plain integers. Everything is local. Calls that take a stream return before the device has
done what they ask for; on one stream all happens in order.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import NamedTuple, TypeAlias

from gondwana.errors import UsageError

GROUP = "gondwana.cuda_drivers"
"""Entry points of packages that offer a driver: a function or class that is called without arguments."""

VARIABLE = "GONDWANA_CUDA"
"""Environment variable: "emulated" has GPU programs run on the processor, slowly, for tests."""

Grid: TypeAlias = tuple[int, int, int]


class CudaError(RuntimeError):
    """The driver refused; the text has the name of its error and what was asked of it."""


class DeviceFacts(NamedTuple):
    """What a device is.

    Attributes:
        name: of the product.
        uuid: tells the device from all others, whatever number a process has for it.
        capability: compute capability, such as (9, 0).
        processors: multiprocessors.
        memory: bytes of it.
        l2: bytes of the last cache before memory.
        shared_limit: bytes of shared memory that a block may have.
        bus: PCI address.
    """

    name: str
    uuid: str
    capability: tuple[int, int]
    processors: int
    memory: int
    l2: int
    shared_limit: int
    bus: str


class EntryFacts(NamedTuple):
    """What a kernel takes.

    Attributes:
        registers: of a thread.
        local: bytes of memory of a thread that did not fit its registers.
        shared: bytes of shared memory of a block that the code itself asks for.
        threads: most threads that a block may have.
    """

    registers: int
    local: int
    shared: int
    threads: int


class Driver(ABC):
    """A CUDA driver.

    Every method raises `CudaError` where the driver refuses, and `MemoryError` where memory is short.

    Attributes:
        name: what messages call it.
        version: of the interface that it offers, such as (13, 0).
    """

    name: str
    version: tuple[int, int]

    @abstractmethod
    def count(self) -> int:
        """Return the number of devices that this process sees."""

    @abstractmethod
    def facts(self, device: int) -> DeviceFacts:
        """Return what a device is."""

    @abstractmethod
    def open(self, device: int) -> int:
        """Make the primary context of a device current in this thread, and return it."""

    @abstractmethod
    def activate(self, context: int) -> None:
        """Make a context current in this thread."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Return the bytes of the current device that are free, and all of them."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the current device: on 256 bytes, exportable, undefined."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back."""

    @abstractmethod
    def register(self, address: int, nbytes: int) -> None:
        """Pin host memory, so that copies to and from it run at full speed and beside the program."""

    @abstractmethod
    def unregister(self, address: int) -> None:
        """Undo `register`."""

    @abstractmethod
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes of the device."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes between any two addresses, of the host or of devices."""

    @abstractmethod
    def copy_box(
        self, target: int, source: int, counts: Grid, target_strides: tuple[int, int], source_strides: tuple[int, int],
        stream: int,
    ) -> None:  # fmt: skip
        """Copy rows of bytes between any two addresses.

        Args:
            target: address of the first byte.
            source: address of the first byte.
            counts: bytes of a row, rows of a plane, planes.
            target_strides: bytes from a row to the next, and from a plane to the next, which is a whole number of rows.
            source_strides: the same.
            stream: where it is done.
        """

    @abstractmethod
    def export(self, address: int) -> bytes:
        """Return the handle by which other processes of this machine attach memory that `allocate` returned."""

    @abstractmethod
    def attach(self, handle: bytes) -> int:
        """Return the address of another process's memory in this one."""

    @abstractmethod
    def detach(self, address: int) -> None:
        """Undo `attach`."""

    @abstractmethod
    def new_stream(self, *, urgent: bool = False) -> int:
        """Return a stream that waits for no other; kernels on urgent ones take what room becomes free first."""

    @abstractmethod
    def free_stream(self, stream: int) -> None:
        """Give a stream back."""

    @abstractmethod
    def finish(self, stream: int) -> None:
        """Wait until all on a stream is done."""

    @abstractmethod
    def new_event(self, *, timing: bool = False) -> int:
        """Return an event, which `record` sets."""

    @abstractmethod
    def free_event(self, event: int) -> None:
        """Give an event back."""

    @abstractmethod
    def record(self, event: int, stream: int) -> None:
        """Have an event be reached when all that is on a stream now is done."""

    @abstractmethod
    def reached(self, event: int) -> bool:
        """Tell whether an event has been reached."""

    @abstractmethod
    def await_event(self, event: int) -> None:
        """Wait until an event has been reached."""

    @abstractmethod
    def order(self, stream: int, event: int) -> None:
        """Have what is put on a stream from now on wait for an event."""

    @abstractmethod
    def seconds(self, first: int, last: int) -> float:
        """Return the time between two events that were made for timing and have been reached."""

    @abstractmethod
    def link(self, ptx: bytes, capability: tuple[int, int]) -> bytes:
        """Translate PTX to machine code of a compute capability."""

    @abstractmethod
    def load(self, image: bytes) -> int:
        """Load machine code or PTX, and return the module."""

    @abstractmethod
    def unload(self, module: int) -> None:
        """Undo `load`."""

    @abstractmethod
    def entry(self, module: int, name: str) -> int:
        """Return a kernel of a module."""

    @abstractmethod
    def entry_facts(self, entry: int) -> EntryFacts:
        """Return what a kernel takes."""

    @abstractmethod
    def allow_shared(self, entry: int, nbytes: int) -> None:
        """Let launches of a kernel ask for so much shared memory."""

    @abstractmethod
    def resident(self, entry: int, threads: int, shared: int) -> int:
        """Return how many blocks of so many threads and so much shared memory a multiprocessor holds at once."""

    @abstractmethod
    def launch(self, entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        """Run a kernel.

        Args:
            entry: the kernel.
            grid: blocks along x, y, z.
            block: threads of a block along x, y, z.
            shared: bytes of shared memory of a block beside what the code asks for.
            stream: where it runs.
            arguments: its parameters in order, each a word of 64 bits.
        """

    @abstractmethod
    def begin_capture(self, stream: int) -> None:
        """Note what is put on a stream from now on instead of doing it."""

    @abstractmethod
    def end_capture(self, stream: int) -> int:
        """Return what was noted, as a graph that can be replayed."""

    @abstractmethod
    def replay(self, graph: int, stream: int) -> None:
        """Do what a graph holds."""

    @abstractmethod
    def free_graph(self, graph: int) -> None:
        """Give a graph back."""


@functools.cache
def driver() -> Driver:
    """Return the driver of this process. Local.

    ``GONDWANA_CUDA`` names a stand-in among the installed entry points of the group "gondwana.cuda_drivers".

    Raises:
        UsageError: there is none: the reason, and what to install.
    """
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        from gondwana.gpu.bindings import CudaDriver

        return CudaDriver.connect()
    stand_ins = entry_points(group=GROUP)
    if wanted not in stand_ins.names:
        legal = " or ".join(f'"{name}"' for name in sorted(stand_ins.names))
        raise UsageError(f"{VARIABLE}={wanted!r}: legal is {legal}, or leave it out to use the GPUs")
    chosen: Callable[[], Driver] = stand_ins[wanted].load()
    return chosen()
