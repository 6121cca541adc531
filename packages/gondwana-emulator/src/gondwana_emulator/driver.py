"""The driver of the emulated GPU."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import os
import platform
import threading
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gondwana.errors import UsageError
from gondwana.gpu.bindings import assemble
from gondwana.gpu.interface import CudaError, DeviceFacts, Driver, EntryFacts, Grid
from gondwana_emulator import boxes, modules
from gondwana_emulator.memory import CAPACITY, Memory, is_device
from gondwana_emulator.modules import Entry, Module, program_in
from gondwana_emulator.ptx.context import PROCESSORS
from gondwana_emulator.ptx.program import Launch
from gondwana_emulator.streams import Capture, Event, Operation, Recording, Scheduler, Stream

DEVICES = "GONDWANA_EMULATED_DEVICES"
"""Environment variable: the number of devices."""
SEED = "GONDWANA_FAKE_DEVICE_SEED"
"""Environment variable: the seed of the random order of operations."""

_FIRST_CONTEXT = 0xC000
_DEFAULT_STREAMS = (0, 1, 2)

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

_lock = threading.RLock()


def _alone(method: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Make a method exclusive: one thread at a time runs the driver.

    Nor are objects collected meanwhile: one may free memory of a device, which executes all that is on the streams, in
    the middle of an operation.
    """

    @functools.wraps(method)
    def locked(*given: _Given.args, **named: _Given.kwargs) -> _Found:
        with _lock:
            collecting = gc.isenabled()
            gc.disable()
            try:
                return method(*given, **named)
            finally:
                if collecting:
                    gc.enable()

    return locked


class EmulatedDriver(Driver):
    """The driver of the emulated GPU.

    It is as strict as a driver may be: work happens as late as it can, in any order that streams and events allow;
    every access of a kernel is checked; uninitialised memory holds garbage.

    Attributes:
        crossings: copies so far between memory of the host and of a device.
    """

    def __init__(self) -> None:
        self.name = "emulated"
        self.version = (13, 0)
        self._current = threading.local()
        self._memory = Memory(self.count())
        self._scheduler = Scheduler(os.environ.get(SEED, "0"))
        self._handles: dict[int, Any] = {}
        self._defaults = [Stream(device) for device in range(self.count())]
        self._next = itertools.count(0x1000)
        self.crossings = 0

    # Devices

    def count(self) -> int:
        """Return the number of devices that this process sees."""
        return int(os.environ.get(DEVICES, "1"))

    def facts(self, device: int) -> DeviceFacts:
        """Return the properties of a device."""
        if not 0 <= device < self.count():
            raise CudaError(f"CUDA_ERROR_INVALID_DEVICE: {device}: there are {self.count()}")
        return DeviceFacts(
            name="emulated GPU",
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{device}.{platform.node()}')}",
            capability=(9, 0),
            processors=PROCESSORS,
            memory=CAPACITY,
            l2=1 << 20,
            shared_limit=modules.SHARED_LIMIT,
            bus=f"0000:{device + 1:02X}:00.0",
        )

    def open(self, device: int) -> int:
        """Make the primary context of a device current in this thread, and return it."""
        self.facts(device)
        self._current.device = device
        return _FIRST_CONTEXT + device

    def activate(self, context: int) -> None:
        """Make a context current in this thread."""
        if not 0 <= context - _FIRST_CONTEXT < self.count():
            raise CudaError(f"CUDA_ERROR_INVALID_CONTEXT: {context:#x}")
        self._current.device = context - _FIRST_CONTEXT

    def _device(self) -> int:
        """Return the current device; raise if it has a fault."""
        device: int | None = getattr(self._current, "device", None)
        if device is None:
            raise CudaError("CUDA_ERROR_INVALID_CONTEXT: this thread has no current device")
        self._scheduler.check(device)
        return device

    # Memory

    @_alone
    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current device."""
        return self._memory.free_bytes(self._device()), CAPACITY

    @_alone
    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the current device: aligned to 256 bytes, exportable, uninitialised."""
        return self._memory.allocate(nbytes, self._device())

    @_alone
    def free(self, address: int) -> None:
        """Free memory, after all started operations are done."""
        self._settle()
        self._memory.free(address)

    @_alone
    def register(self, address: int, nbytes: int) -> None:
        """Pin host memory: kernels access it under its address."""
        self._device()
        self._memory.register(address, nbytes)

    @_alone
    def unregister(self, address: int) -> None:
        """Undo `register`, after all started operations are done."""
        self._settle()
        self._memory.unregister(address)

    def _settle(self) -> None:
        self._scheduler.run_all(self._device())

    @_alone
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes of device memory to a value."""
        real = self._memory.real
        real(address, nbytes)
        self._put(stream, lambda: ctypes.memset(real(address, nbytes), byte, nbytes))

    @_alone
    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes between any two addresses, of the host or of devices; they are read on execution."""
        real = self._memory.real
        self.crossings += is_device(target) != is_device(source)
        real(target, nbytes), real(source, nbytes)
        self._refuse_pageable(stream, (target, nbytes), (source, nbytes))
        self._put(stream, lambda: ctypes.memmove(real(target, nbytes), real(source, nbytes), nbytes))

    @_alone
    def copy_box(
        self, target: int, source: int, counts: Grid, target_strides: tuple[int, int], source_strides: tuple[int, int],
        stream: int,
    ) -> None:  # fmt: skip
        """Copy rows of bytes between any two addresses; they are read on execution."""
        if 0 in counts:
            return
        real = self._memory.real
        self.crossings += is_device(target) != is_device(source)
        to, of = boxes.Box(counts, target_strides), boxes.Box(counts, source_strides)
        real(target, to.extent), real(source, of.extent)
        self._refuse_pageable(stream, (target, to.extent), (source, of.extent))
        self._put(stream, lambda: boxes.copy(to, real(target, to.extent), of, real(source, of.extent)))

    def _refuse_pageable(self, stream: int, *ends: tuple[int, int]) -> None:
        """Refuse to capture a copy of memory that the system may move."""
        capture = self._stream(stream).capture
        if capture is not None and any(self._memory.is_pageable(*end) for end in ends):
            capture.broken = "memory was copied that is not registered"
            raise CudaError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a captured copy of memory that is not registered")

    @_alone
    def export(self, address: int) -> bytes:
        """Return a handle by which other processes of this machine attach memory that `allocate` returned."""
        return self._memory.export(address)

    @_alone
    def attach(self, handle: bytes) -> int:
        """Map another process's memory and return its address in this one."""
        self._device()
        return self._memory.attach(handle)

    @_alone
    def detach(self, address: int) -> None:
        """Undo `attach`, after all started operations are done."""
        self._settle()
        self._memory.detach(address)

    def atomics_between(self, device: int, other: int) -> bool:
        """Return whether kernels of a device perform atomic operations on memory of another, as those there do."""
        return True

    @_alone
    def address_for_mpi(self, address: int, nbytes: int) -> int:
        """Return the real address of device memory: so an MPI that knows no GPU poses as one that does."""
        return self._memory.real(address, nbytes)

    def holds(self, real: int, nbytes: int) -> bool:
        """Return whether bytes under real addresses lie in one allocation of this process."""
        return self._memory.holds(real, nbytes)

    # Streams and events

    def _new(self, thing: object) -> int:
        handle = next(self._next)
        self._handles[handle] = thing
        return handle

    def _find(self, handle: int, kind: type[_Found]) -> _Found:
        found = self._handles.get(handle)
        if not isinstance(found, kind):
            raise CudaError(f"CUDA_ERROR_INVALID_HANDLE: {handle:#x} is no {kind.__name__.lower()}")
        return found

    def _stream(self, handle: int) -> Stream:
        """Return a stream; as with CUDA, small numbers are the default stream of the current device."""
        if handle in _DEFAULT_STREAMS:
            return self._defaults[self._device()]
        return self._find(handle, Stream)

    def _put(self, stream: int, action: Callable[[], object]) -> None:
        self._scheduler.put(self._stream(stream), Operation(action))

    @_alone
    def new_stream(self, *, urgent: bool = False) -> int:
        """Return an independent stream; even an urgent one may be executed last."""
        return self._new(Stream(self._device()))

    @_alone
    def free_stream(self, stream: int) -> None:
        """Destroy a stream; its operations are still executed."""
        self._find(stream, Stream)
        del self._handles[stream]

    @_alone
    def finish(self, stream: int) -> None:
        """Wait until everything on a stream is done."""
        found = self._stream(stream)
        if found.capture is not None:
            found.capture.broken = "a capturing stream was waited for"
            raise CudaError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: finish() of a capturing stream")
        self._scheduler.run(lambda: not found.queue)
        self._scheduler.check(found.device)

    @_alone
    def idle(self, stream: int) -> bool:
        """Return whether everything on a stream is done."""
        found = self._stream(stream)
        if found.capture is not None:
            found.capture.broken = "a capturing stream was asked whether it is idle"
            raise CudaError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: idle() of a capturing stream")
        self._scheduler.look()
        self._scheduler.check(found.device)
        return not found.queue

    @_alone
    def new_event(self, *, timing: bool = False) -> int:
        """Return an event, which `record` sets."""
        return self._new(Event(self._device(), timing))

    @_alone
    def free_event(self, event: int) -> None:
        """Destroy an event; streams that wait for it still do."""
        self._find(event, Event)
        del self._handles[event]

    @_alone
    def record(self, event: int, stream: int) -> None:
        """Record an event: it is reached when everything that is now on the stream is done."""
        found, on = self._find(event, Event), self._stream(stream)
        if found.device != on.device:
            raise CudaError("CUDA_ERROR_INVALID_HANDLE: the event and the stream are of different devices")
        if on.capture is not None:
            found.recording = on.capture.record(on)
            return
        found.recording = Recording()
        self._scheduler.put(on, Operation(reached=found.recording))

    @_alone
    def reached(self, event: int) -> bool:
        """Return whether an event has been reached."""
        recording = self._awaitable(event)
        self._scheduler.look()
        self._scheduler.check(self._find(event, Event).device)
        return recording is None or recording.reached

    @_alone
    def await_event(self, event: int) -> None:
        """Wait until an event has been reached."""
        recording = self._awaitable(event)
        self._scheduler.run(lambda: recording is None or recording.reached)
        self._scheduler.check(self._find(event, Event).device)

    def _awaitable(self, event: int) -> Recording | None:
        recording = self._find(event, Event).recording
        if recording is not None and recording.capture is not None:
            recording.capture.broken = "an event of a capturing stream was waited for"
            raise CudaError("CUDA_ERROR_CAPTURED_EVENT: the event is part of a graph")
        return recording

    @_alone
    def order(self, stream: int, event: int) -> None:
        """Make later work of a stream wait for an event."""
        found, recording = self._stream(stream), self._find(event, Event).recording
        if recording is None:
            return
        if recording.capture is not None:
            if recording.capture.closed:
                raise CudaError("CUDA_ERROR_CAPTURED_EVENT: the event is part of a graph that is complete")
            if found.capture is None:
                recording.capture.join(found)
            if found.capture is not recording.capture:
                raise CudaError("CUDA_ERROR_STREAM_CAPTURE_MERGE: the event is part of another graph")
            recording.capture.wait(found, recording)
        elif found.capture is not None:
            found.capture.broken = "a capturing stream was made to wait for what is not part of the graph"
            raise CudaError("CUDA_ERROR_STREAM_CAPTURE_ISOLATION: the event was recorded before the capture")
        elif not recording.reached:
            self._scheduler.put(found, Operation(awaited=recording))

    @_alone
    def seconds(self, first: int, last: int) -> float:
        """Return the seconds between two events that were created for timing and have been reached."""
        moments = []
        for event in (self._find(first, Event), self._find(last, Event)):
            if not event.timing or event.recording is None:
                raise CudaError("CUDA_ERROR_INVALID_HANDLE: an event that was not recorded, or not made for timing")
            if not event.recording.reached:
                raise CudaError("CUDA_ERROR_NOT_READY: an event that has not been reached")
            moments.append(event.recording.moment)
        return moments[1] - moments[0]

    # Kernels

    def link(self, ptx: bytes, capability: tuple[int, int]) -> bytes:
        """Return the PTX, if this machine can execute it and NVIDIA's assembler, where it is installed, takes it."""
        program_in(ptx)
        with contextlib.suppress(UsageError):
            assemble(ptx, capability)
        return ptx

    @_alone
    def load(self, image: bytes) -> int:
        """Load machine code or PTX, and return the module."""
        module = Module(self._device(), program_in(image))
        for variable in module.program.variables:
            address = self._memory.allocate(variable.size, module.device)
            first = (variable.initial or b"").ljust(variable.size, b"\0")
            ctypes.memmove(self._memory.real(address, variable.size), first, variable.size)
            module.symbols[variable.name] = address
        return self._new(module)

    @_alone
    def unload(self, module: int) -> None:
        """Undo `load`."""
        found = self._find(module, Module)
        self._settle()
        for address in found.symbols.values():
            self._memory.free(address)
        for handle, thing in list(self._handles.items()):
            if thing is found or (isinstance(thing, Entry) and thing.module is found):
                del self._handles[handle]

    @_alone
    def entry(self, module: int, name: str) -> int:
        """Return a kernel of a module by its name."""
        found = self._find(module, Module)
        if name not in found.program.kernels:
            raise CudaError(f"CUDA_ERROR_NOT_FOUND: the module has no kernel {name}")
        return self._new(Entry(found, found.program.kernels[name]))

    def entry_facts(self, entry: int) -> EntryFacts:
        """Return the resources of a kernel; the registers are a guess."""
        return self._find(entry, Entry).kernel.facts

    def allow_shared(self, entry: int, nbytes: int) -> None:
        """Allow launches of a kernel to use `nbytes` of dynamic shared memory."""
        self._find(entry, Entry).allow_shared(nbytes)

    def resident(self, entry: int, threads: int, shared: int) -> int:
        """Return how many blocks of a size and with an amount of shared memory a multiprocessor holds at once."""
        return self._find(entry, Entry).resident(threads, shared)

    @_alone
    def launch(self, entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        """Launch a kernel."""
        found, on = self._find(entry, Entry), self._stream(stream)
        if found.module.device != on.device:
            raise CudaError("CUDA_ERROR_INVALID_HANDLE: the kernel and the stream are of different devices")
        found.check(grid, block, shared, arguments)

        def run() -> None:
            rows, numbers = self._memory.rows(on.device), self._scheduler.numbers
            found.kernel.run(Launch(grid, block, shared, arguments, rows, found.module.symbols, numbers))

        self._scheduler.put(on, Operation(run))

    # Graphs

    @_alone
    def begin_capture(self, stream: int) -> None:
        """Capture later work of a stream instead of executing it."""
        found = self._stream(stream)
        if found.capture is not None or stream in _DEFAULT_STREAMS:
            raise CudaError("CUDA_ERROR_ILLEGAL_STATE: the stream captures already, or is the default stream")
        Capture(found).join(found)

    @_alone
    def end_capture(self, stream: int) -> int:
        """End the capture and return the captured work as a graph that can be replayed."""
        found = self._stream(stream)
        if found.capture is None or found.capture.origin is not found:
            raise CudaError("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: no capture began on the stream")
        capture = found.capture
        capture.close()
        return self._new(capture)

    @_alone
    def replay(self, graph: int, stream: int) -> None:
        """Execute a graph."""
        capture = self._find(graph, Capture)
        self._put(stream, lambda: self._scheduler.replay(capture))

    @_alone
    def free_graph(self, graph: int) -> None:
        """Destroy a graph."""
        self._find(graph, Capture)
        del self._handles[graph]
