"""Streams and events of the emulated devices: operations are executed late, during waits and polls, in random order."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gondwana.gpu.interface import CudaError

_MOST_PER_POLL = 4
"""A poll of an event executes fewer operations than this."""


@dataclass(slots=True, eq=False)
class Recording:
    """A recording of an event: reached when everything before it on its stream is done.

    Attributes:
        reached: whether the event has been reached.
        moment: time at which it was reached.
        capture: the capture that it is part of, in which case it is never reached itself.
        known: number of operations of each stream of the graph that precede it.
    """

    reached: bool = False
    moment: float = 0.0
    capture: Capture | None = None
    known: dict[Stream, int] = field(default_factory=dict)


@dataclass(slots=True)
class Operation:
    """An operation of a stream: waits for `awaited`, executes `action`, then marks `reached`."""

    action: Callable[[], object] | None = None
    awaited: Recording | None = None
    reached: Recording | None = None


@dataclass(slots=True, eq=False)
class Stream:
    """A stream: operations in order.

    Attributes:
        device: number of the device.
        queue: operations to execute.
        capture: the capture that gets operations instead.
    """

    device: int
    queue: deque[Operation] = field(default_factory=deque)
    capture: Capture | None = None


@dataclass(slots=True, eq=False)
class Event:
    """An event; `recording` is None until it is recorded."""

    device: int
    timing: bool
    recording: Recording | None = None


@dataclass(slots=True, eq=False)
class Capture:
    """A graph that is being captured.

    Attributes:
        origin: the stream with which it began.
        operations: operations of each stream.
        known: number of operations of each other stream that the stream has waited for.
        broken: reason why it cannot be used, "" if it can.
        closed: whether the capture has ended.
    """

    origin: Stream
    operations: dict[Stream, list[Operation]] = field(default_factory=dict)
    known: dict[Stream, dict[Stream, int]] = field(default_factory=dict)
    broken: str = ""
    closed: bool = False

    def join(self, stream: Stream) -> None:
        """Capture a further stream."""
        stream.capture = self
        self.operations.setdefault(stream, [])
        self.known.setdefault(stream, {})

    def note(self, stream: Stream, operation: Operation) -> None:
        """Append an operation."""
        self.operations[stream].append(operation)

    def record(self, stream: Stream) -> Recording:
        """Capture the recording of an event, and return it."""
        recording = Recording(capture=self, known={**self.known[stream], stream: self._work(stream)})
        self.note(stream, Operation(reached=recording))
        return recording

    def _work(self, stream: Stream) -> int:
        return sum(operation.action is not None for operation in self.operations[stream])

    def wait(self, stream: Stream, recording: Recording) -> None:
        """Make a stream of the graph wait for a recording."""
        self.note(stream, Operation(awaited=recording))
        known = self.known[stream]
        for other, count in recording.known.items():
            known[other] = max(known.get(other, 0), count)

    def close(self) -> None:
        """End the capture.

        Raises:
            CudaError: a stream has operations that the first one does not wait for, or the capture was invalidated.
        """
        self.closed = True
        for stream in self.operations:
            stream.capture = None
        if self.broken:
            raise CudaError(f"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: {self.broken}")
        known = self.known[self.origin]
        for stream in self.operations:
            if stream is not self.origin and known.get(stream, 0) < self._work(stream):
                raise CudaError("CUDA_ERROR_STREAM_CAPTURE_UNJOINED: the capturing stream does not wait for another")


class Scheduler:
    """Executes operations.

    Attributes:
        random: random numbers that decide which operation comes next.
        numbers: random numbers for everything that the operations themselves leave open.
        errors: fault of a device, which makes it unusable.
    """

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.errors: dict[int, CudaError] = {}
        self._busy: list[Stream] = []

    def check(self, device: int) -> None:
        """Raise the earlier fault of a device, which is permanent."""
        if device in self.errors:
            raise CudaError(*self.errors[device].args)

    def put(self, stream: Stream, operation: Operation) -> None:
        """Append an operation to a stream, or to the graph that is captured from it."""
        self.check(stream.device)
        if stream.capture is not None:
            stream.capture.note(stream, operation)
            return
        stream.queue.append(operation)
        if stream not in self._busy:
            self._busy.append(stream)

    def look(self) -> None:
        """Execute a few operations, or none."""
        for _ in range(self.random.randrange(_MOST_PER_POLL)):
            self._step()

    def run(self, done: Callable[[], bool]) -> None:
        """Execute operations until a condition holds."""
        while not done():
            if not self._step():
                raise CudaError("CUDA_ERROR_LAUNCH_TIMEOUT: streams wait for each other")

    def run_all(self, device: int) -> None:
        """Execute everything on the streams of a device."""
        self.run(lambda: not any(stream.device == device for stream in self._busy))
        self.check(device)

    def _step(self) -> bool:
        """Execute one operation of any stream that can proceed."""
        ready = [stream for stream in self._busy if _can_go_on(stream.queue)]
        if not ready:
            return False
        stream = self.random.choice(ready)
        operation = stream.queue.popleft()
        if not stream.queue:
            self._busy.remove(stream)
        try:
            perform(operation)
        except CudaError as error:
            self._fail(stream.device, error)
        return True

    def _fail(self, device: int, error: CudaError) -> None:
        """Discard everything on the streams of a device."""
        self.errors.setdefault(device, error)
        for stream in [stream for stream in self._busy if stream.device == device]:
            for operation in stream.queue:
                if operation.reached is not None:
                    operation.reached.reached = True
            stream.queue.clear()
            self._busy.remove(stream)

    def replay(self, capture: Capture) -> None:
        """Execute all operations of a graph once."""
        for operations in capture.operations.values():
            for operation in operations:
                if operation.reached is not None:
                    operation.reached.reached = False
        queues = [deque(operations) for operations in capture.operations.values()]
        while any(queues):
            ready = [queue for queue in queues if _can_go_on(queue)]
            perform(self.random.choice(ready).popleft())


def _can_go_on(queue: deque[Operation]) -> bool:
    return bool(queue) and (queue[0].awaited is None or queue[0].awaited.reached)


def perform(operation: Operation) -> None:
    """Execute an operation."""
    if operation.action is not None:
        operation.action()
    if operation.reached is not None:
        operation.reached.reached = True
        operation.reached.moment = time.perf_counter()
