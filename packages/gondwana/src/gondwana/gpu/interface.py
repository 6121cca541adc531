"""The interface to a CUDA driver.

Handles and addresses are plain integers. Everything is local. Calls that take a stream return before the device has
executed them; one stream executes in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeAlias

Grid: TypeAlias = tuple[int, int, int]


class CudaError(RuntimeError):
    """The driver reported an error; the text has the error's name and the call."""


class DeviceFacts(NamedTuple):
    """Properties of a device.

    Attributes:
        name: name of the product.
        uuid: identity of the device, whatever its number in a process.
        capability: compute capability, such as (9, 0).
        processors: multiprocessors.
        memory: bytes of its memory.
        l2: bytes of the last cache before memory.
        shared_limit: bytes of shared memory that a block may use.
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
    """Resources of a kernel.

    Attributes:
        registers: registers per thread.
        local: bytes of local memory per thread, for values that did not fit into its registers.
        shared: bytes of static shared memory per block.
        threads: the largest number of threads per block.
    """

    registers: int
    local: int
    shared: int
    threads: int


class Driver(ABC):
    """A CUDA driver.

    Every method raises `CudaError` if the driver reports an error, and `MemoryError` if memory is exhausted.

    Attributes:
        name: name in messages.
        version: version of its interface, such as (13, 0).
    """

    name: str
    version: tuple[int, int]

    @abstractmethod
    def count(self) -> int:
        """Return the number of devices that this process sees."""

    @abstractmethod
    def facts(self, device: int) -> DeviceFacts:
        """Return the properties of a device."""

    @abstractmethod
    def open(self, device: int) -> int:
        """Make the primary context of a device current in this thread, and return it."""

    @abstractmethod
    def activate(self, context: int) -> None:
        """Make a context current in this thread."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current device."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the current device: aligned to 256 bytes, exportable, uninitialised."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Free memory."""

    @abstractmethod
    def register(self, address: int, nbytes: int) -> None:
        """Pin host memory, so that copies to and from it run at full speed and concurrently with the program."""

    @abstractmethod
    def unregister(self, address: int) -> None:
        """Undo `register`."""

    @abstractmethod
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes of device memory to a value."""

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
            target_strides: bytes from row to row, and from plane to plane (a multiple of the former).
            source_strides: the same for the source.
            stream: stream that executes the copy.
        """

    @abstractmethod
    def export(self, address: int) -> bytes:
        """Return a handle by which other processes of this machine attach memory that `allocate` returned."""

    @abstractmethod
    def attach(self, handle: bytes) -> int:
        """Map another process's memory and return its address in this one."""

    @abstractmethod
    def detach(self, address: int) -> None:
        """Undo `attach`."""

    def address_for_mpi(self, address: int, nbytes: int) -> int:
        """Return the address under which MPI gets device memory: the same, where it is that of a CUDA driver.

        Raises:
            CudaError: the bytes are not in one allocation, as far as the driver can tell.
        """
        return address

    @abstractmethod
    def atomics_between(self, device: int, other: int) -> bool:
        """Return whether kernels of a device perform atomic operations on memory of another, as those there do."""

    @abstractmethod
    def new_stream(self, *, urgent: bool = False) -> int:
        """Return an independent stream; kernels on an urgent one are scheduled first."""

    @abstractmethod
    def free_stream(self, stream: int) -> None:
        """Destroy a stream."""

    @abstractmethod
    def finish(self, stream: int) -> None:
        """Wait until everything on a stream is done."""

    @abstractmethod
    def idle(self, stream: int) -> bool:
        """Return whether everything on a stream is done."""

    @abstractmethod
    def new_event(self, *, timing: bool = False) -> int:
        """Return an event, which `record` sets."""

    @abstractmethod
    def free_event(self, event: int) -> None:
        """Destroy an event."""

    @abstractmethod
    def record(self, event: int, stream: int) -> None:
        """Record an event: it is reached when everything that is now on the stream is done."""

    @abstractmethod
    def reached(self, event: int) -> bool:
        """Return whether an event has been reached."""

    @abstractmethod
    def await_event(self, event: int) -> None:
        """Wait until an event has been reached."""

    @abstractmethod
    def order(self, stream: int, event: int) -> None:
        """Make later work of a stream wait for an event."""

    @abstractmethod
    def seconds(self, first: int, last: int) -> float:
        """Return the seconds between two events that were created for timing and have been reached."""

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
        """Return a kernel of a module by its name."""

    @abstractmethod
    def entry_facts(self, entry: int) -> EntryFacts:
        """Return the resources of a kernel."""

    @abstractmethod
    def allow_shared(self, entry: int, nbytes: int) -> None:
        """Allow launches of a kernel to use `nbytes` of dynamic shared memory."""

    @abstractmethod
    def resident(self, entry: int, threads: int, shared: int) -> int:
        """Return how many blocks of a size and with an amount of shared memory a multiprocessor holds at once."""

    @abstractmethod
    def launch(self, entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        """Launch a kernel.

        Args:
            entry: the kernel.
            grid: blocks along x, y, z.
            block: threads of a block along x, y, z.
            shared: bytes of dynamic shared memory per block.
            stream: stream that runs it.
            arguments: parameters of the kernel in order, each a word of 64 bits.
        """

    @abstractmethod
    def begin_capture(self, stream: int) -> None:
        """Capture later work of a stream instead of executing it."""

    @abstractmethod
    def end_capture(self, stream: int) -> int:
        """End the capture and return the captured work as a graph that can be replayed."""

    @abstractmethod
    def replay(self, graph: int, stream: int) -> None:
        """Execute a graph."""

    @abstractmethod
    def free_graph(self, graph: int) -> None:
        """Destroy a graph."""
