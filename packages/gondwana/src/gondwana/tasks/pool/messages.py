"""The messages between a pool and its workers: tuples, whose first item is one of these verbs."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Message: TypeAlias = tuple[Any, ...]

# To a worker.
RUN = "run"
"""Tasks, (number, function, arguments, buffers, time limit) each, in the order in which they must begin; and whether
they are nested tasks, which a worker also runs while one of its tasks waits."""
RESULTS = "results"
"""Outcomes of tasks that the worker has submitted: (number, succeeded, result or error, buffers) each."""
STOP = "stop"
"""Nothing: no more tasks will come."""

# To the pool.
READY = "ready"
"""Nothing: the initializer has run."""
FAILED = "failed"
"""The error of the initializer."""
DONE = "done"
"""Outcomes: (number, succeeded, result or error, buffers, seconds) each."""
SUBMIT = "submit"
"""A nested task: number, function, arguments, buffers."""
WAITS = "waits"
"""The change in the number of this worker's tasks that wait for nested tasks: 1 or -1."""
BACK = "back"
"""The numbers of tasks that the worker has not begun and does not want now."""
LOST = "lost"
"""Not sent, but received from a worker that has ended: how, the number of the last task that it began, and the stack
of this task if it has reached its time limit, else ""."""
MISSING = "missing"
"""Not sent, but received from a worker that could not be started: the error of the system."""


class Line(Protocol):
    """A worker's connection to its pool."""

    def send(self, message: Message) -> None:
        """Send a message. Blocks until the buffers in it may change."""

    def receive(self, timeout: float | None) -> list[Message]:
        """Return the messages that have arrived; if there are none, wait for some, for at most `timeout` seconds."""


class Lines(Protocol):
    """A pool's connections to its numbered workers."""

    @property
    def workers(self) -> int:
        """Number of workers, including those that are starting."""

    def send(self, worker: int, message: Message) -> None:
        """Send a message; parts that do not fit now are kept. Does not block."""

    def receive(self) -> list[tuple[int, Message]]:
        """Return the messages that have arrived, with the numbers of their workers. Does not block."""

    def sleep(self, seconds: float, *, spin: bool) -> None:
        """Wait until something has arrived, `wake` is called, or the time is over.

        Args:
            seconds: time limit.
            spin: whether a core is free to poll on meanwhile.
        """

    def wake(self) -> None:
        """End a `sleep` of another thread."""

    def replace(self) -> bool:
        """Start a worker in place of one that was lost; return whether that is possible."""

    def name(self, worker: int) -> str:
        """Return the name of a worker for messages."""

    def stop(self, *, at_once: bool) -> None:
        """Let the workers end when they have read their messages, or end them at once, and close the connections."""
