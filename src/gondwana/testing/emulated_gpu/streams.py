"""Streams and events of the emulated devices: nothing happens before somebody waits or looks, and then in any order."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gondwana.gpu.driver import CudaError

_MOST_LOOKS = 4
"""A look at an event lets fewer operations than this happen."""


@dataclass(slots=True, eq=False)
class Recording:
    """What an event was recorded as: reached when all before it on its stream is done.

    Attributes:
        reached: it is.
        moment: when that was.
        capture: it is part of a graph that is being noted, and is never reached itself.
        known: how many operations of each stream of the graph come before it.
    """

    reached: bool = False
    moment: float = 0.0
    capture: Capture | None = None
    known: dict[Stream, int] = field(default_factory=dict)


@dataclass(slots=True)
class Operation:
    """What a stream does next: `action`, then `reached` is reached; before, `awaited` must have been."""

    action: Callable[[], None] | None = None
    awaited: Recording | None = None
    reached: Recording | None = None


@dataclass(slots=True, eq=False)
class Stream:
    """Operations in order.

    Attributes:
        device: its number.
        queue: what is still to be done.
        capture: where operations are noted instead.
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
    """A graph that is being noted.

    Attributes:
        origin: the stream with which it began.
        operations: of each stream.
        known: of each stream: how many operations of the others have been waited for.
        broken: why it cannot be used.
        closed: nothing is noted any more.
    """

    origin: Stream
    operations: dict[Stream, list[Operation]] = field(default_factory=dict)
    known: dict[Stream, dict[Stream, int]] = field(default_factory=dict)
    broken: str = ""
    closed: bool = False

    def join(self, stream: Stream) -> None:
        """Note a stream too."""
        stream.capture = self
        self.operations.setdefault(stream, [])
        self.known.setdefault(stream, {})

    def note(self, stream: Stream, operation: Operation) -> None:
        """Append an operation."""
        self.operations[stream].append(operation)

    def record(self, stream: Stream) -> Recording:
        """Note that an event is recorded, and return what it is recorded as."""
        recording = Recording(capture=self, known={**self.known[stream], stream: self._work(stream)})
        self.note(stream, Operation(reached=recording))
        return recording

    def _work(self, stream: Stream) -> int:
        return sum(operation.action is not None for operation in self.operations[stream])

    def wait(self, stream: Stream, recording: Recording) -> None:
        """Have a stream of the graph wait for what comes before a recording."""
        self.note(stream, Operation(awaited=recording))
        known = self.known[stream]
        for other, count in recording.known.items():
            known[other] = max(known.get(other, 0), count)

    def close(self) -> None:
        """End noting.

        Raises:
            CudaError: a stream has operations that the first one does not wait for, or noting was broken off.
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
    """Lets operations happen.

    Attributes:
        random: decides which operation comes next.
        numbers: of what operations themselves leave open.
        errors: what went wrong on a device; it is of no use any more.
    """

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.errors: dict[int, CudaError] = {}
        self._busy: list[Stream] = []

    def check(self, device: int) -> None:
        """Raise what went wrong on a device before: it stays wrong."""
        if device in self.errors:
            raise CudaError(*self.errors[device].args)

    def put(self, stream: Stream, operation: Operation) -> None:
        """Append an operation to a stream, or to the graph that is noted from it."""
        self.check(stream.device)
        if stream.capture is not None:
            stream.capture.note(stream, operation)
            return
        stream.queue.append(operation)
        if stream not in self._busy:
            self._busy.append(stream)

    def look(self) -> None:
        """Let a few operations happen, or none."""
        for _ in range(self.random.randrange(_MOST_LOOKS)):
            self._step()

    def run(self, done: Callable[[], bool]) -> None:
        """Let operations happen until something holds."""
        while not done():
            if not self._step():
                raise CudaError("CUDA_ERROR_LAUNCH_TIMEOUT: streams wait for each other")

    def run_all(self, device: int) -> None:
        """Let all that was put on the streams of a device happen."""
        self.run(lambda: not any(stream.device == device for stream in self._busy))
        self.check(device)

    def _step(self) -> bool:
        """Let one operation of any stream that can go on happen."""
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
        """Nothing that was put on the streams of the device happens any more."""
        self.errors.setdefault(device, error)
        for stream in [stream for stream in self._busy if stream.device == device]:
            for operation in stream.queue:
                if operation.reached is not None:
                    operation.reached.reached = True
            stream.queue.clear()
            self._busy.remove(stream)

    def replay(self, capture: Capture) -> None:
        """Let all operations of a graph happen once."""
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
    """Let an operation happen."""
    if operation.action is not None:
        operation.action()
    if operation.reached is not None:
        operation.reached.reached = True
        operation.reached.moment = time.perf_counter()
