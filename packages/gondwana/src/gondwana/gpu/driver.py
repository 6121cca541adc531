"""The CUDA driver of this process, and its records for a trace.

A trace shows kernels and copies as the device runs them, between two events on their stream.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from gondwana.errors import UsageError
from gondwana.gpu.bindings import CudaDriver
from gondwana.gpu.interface import CudaError, Driver, Grid
from gondwana.runtime.tracing import Recorder, recorder
from gondwana.runtime.tracing.recorders import NONE, now

GROUP = "gondwana.cuda_drivers"
"""The group of entry points of packages with a driver: a function or class that is called without arguments."""

EMULATED = "emulated"
"""The name of the driver in the package `gondwana-emulator`."""

VARIABLE = "GONDWANA_CUDA"
"""Environment variable: with "emulated", GPU programs run on the processor, slowly, for tests."""

_MOST_PENDING = 256
"""The most launches of a stream with unread times; from then on, each launch reads those of the finished ones."""


@functools.cache
def driver() -> Driver:
    """Return the driver of this process. Local.

    ``GONDWANA_CUDA`` names a replacement among the installed entry points of the group "gondwana.cuda_drivers".

    Raises:
        UsageError: no driver can be used; the message has the reason, and what to install.
    """
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return recorded(CudaDriver.connect())
    from importlib.metadata import entry_points  # not at the start of every rank: it imports 40 modules

    stand_ins = entry_points(group=GROUP)
    if wanted not in stand_ins.names:
        if wanted == EMULATED:
            raise UsageError(
                f"{VARIABLE}={wanted}: the emulated GPU is not installed: pip install 'gondwana[emulator]'"
            )
        legal = " or ".join(f'"{name}"' for name in sorted({EMULATED, *stand_ins.names}))
        raise UsageError(f"{VARIABLE}={wanted!r}: legal is {legal}, or leave it out to use the GPUs")
    chosen: Callable[[], Driver] = stand_ins[wanted].load()
    return recorded(chosen())


def recorded(driver: Driver) -> Driver:
    """Return a driver that records the work of devices, if this process records; else the driver itself. Local."""
    return driver if recorder is None else cast(Driver, RecordedDriver(driver, recorder))


class RecordedDriver:
    """A driver whose launches and copies are recorded; other calls go to the driver itself. Local.

    Args:
        real: the driver.
        one: the recorder.
    """

    def __init__(self, real: Driver, one: Recorder) -> None:
        self._real, self._recorder = real, one
        self._names: dict[int, str] = {}
        self._streams: dict[int, _Stream] = {}
        self._capturing: set[int] = set()
        one.last_actions.append(self._collect)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def entry(self, module: int, name: str) -> int:
        """Return a kernel of a module, and remember its name."""
        found = self._real.entry(module, name)
        self._names[found] = readable(name)
        return found

    def launch(self, entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        """Launch a kernel."""
        first = self._before(stream)
        self._real.launch(entry, grid, block, shared, stream, arguments)
        self._after(first, stream, self._names.get(entry, "kernel"), NONE)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes."""
        first = self._before(stream)
        self._real.copy(target, source, nbytes, stream)
        self._after(first, stream, "copy", nbytes)

    def copy_box(
        self, target: int, source: int, counts: Grid, target_strides: tuple[int, int], source_strides: tuple[int, int],
        stream: int,
    ) -> None:  # fmt: skip
        """Copy rows of bytes."""
        first = self._before(stream)
        self._real.copy_box(target, source, counts, target_strides, source_strides, stream)
        self._after(first, stream, "copy a box", counts[0] * counts[1] * counts[2])

    def replay(self, graph: int, stream: int) -> None:
        """Execute a graph."""
        first = self._before(stream)
        self._real.replay(graph, stream)
        self._after(first, stream, "replay a graph", NONE)

    def begin_capture(self, stream: int) -> None:
        """Capture later work of a stream, which is not executed and so not recorded."""
        self._real.begin_capture(stream)
        self._capturing.add(stream)

    def end_capture(self, stream: int) -> int:
        """End the capture."""
        self._capturing.discard(stream)
        return self._real.end_capture(stream)

    def finish(self, stream: int) -> None:
        """Wait until everything on a stream is done."""
        begin = now()
        self._real.finish(stream)
        self._recorder.add(begin, self._recorder.number_of("wait for a device", "wait"))

    def await_event(self, event: int) -> None:
        """Wait until an event has been reached."""
        begin = now()
        self._real.await_event(event)
        self._recorder.add(begin, self._recorder.number_of("wait for a device", "wait"))

    def free_stream(self, stream: int) -> None:
        """Destroy a stream."""
        one = self._streams.pop(stream, None)
        if one is not None:
            one.collect()
        self._real.free_stream(stream)

    def _before(self, stream: int) -> int:
        """An event before the next work of a stream, 0 if that is not recorded."""
        if self._capturing or not self._recorder.active:  # captured work may involve several streams
            return 0
        found = self._streams.get(stream)
        if found is None:
            found = _Stream(self._recorder, self._real, stream, len(self._streams) + 1)
            self._streams[stream] = found
        return found.event()

    def _after(self, first: int, stream: int, name: str, nbytes: int) -> None:
        if first:
            self._streams[stream].add(first, self._recorder.number_of(name, "device"), nbytes)

    def _collect(self) -> None:
        for one in self._streams.values():
            one.collect()


class _Pending(NamedTuple):
    """Work of a device that may not have ended.

    Attributes:
        first: event before it.
        last: event after it.
        number: number of its name.
        nbytes: bytes that it moves, or `NONE`.
    """

    first: int
    last: int
    number: int
    nbytes: int


class _Stream:
    """A stream of a device: its work, on the clock of the host. Local.

    Args:
        one: the recorder.
        driver: driver of the device, which is the current one.
        stream: handle of the stream.
        number: number of the stream among the recorded ones, from 1.
    """

    def __init__(self, one: Recorder, driver: Driver, stream: int, number: int) -> None:
        self._recorder, self._driver, self._stream = one, driver, stream
        self._track = one.track_of(-number, f"device, stream {number}")
        self._free: list[int] = []
        self._pending: deque[_Pending] = deque()
        self._last = self.event()
        driver.await_event(self._last)
        self._time = now()

    def event(self) -> int:
        """Record an event for timing after the present work of the stream, and return it."""
        event = self._free.pop() if self._free else self._driver.new_event(timing=True)
        self._driver.record(event, self._stream)
        return event

    def add(self, first: int, number: int, nbytes: int) -> None:
        """Note the work put on the stream since an event."""
        self._pending.append(_Pending(first, self.event(), number, nbytes))
        if len(self._pending) > _MOST_PENDING:
            self.collect()

    def collect(self) -> None:
        """Record the work that the device has done."""
        with contextlib.suppress(CudaError):  # of an earlier kernel: it is reported where the program waits for it
            while self._pending and self._driver.reached(self._pending[0].last):
                done = self._pending.popleft()
                # From event to event, since the driver gives seconds in single precision: long times would be coarse.
                begin = self._time + round(1e9 * self._driver.seconds(self._last, done.first))
                length = round(1e9 * self._driver.seconds(done.first, done.last))
                self._recorder.add_at(begin, length, done.number, self._track, done.nbytes)
                self._free += [self._last, done.first]
                self._last, self._time = done.last, begin + length


def readable(symbol: str) -> str:
    """Return the dotted name in the symbol of a kernel; other symbols unchanged. Pure.

    Example:
        >>> readable("_ZN4heat4stepB2v1B4abcdE"), readable("pack")
        ('heat.step', 'pack')
    """
    parts, rest = [], symbol.removeprefix("_ZN") if symbol.startswith("_ZN") else ""
    while found := re.match(r"[0-9]+", rest):
        end = found.end() + int(found[0])
        parts.append(rest[found.end() : end])
        rest = rest[end:]
    return ".".join(parts) or symbol
