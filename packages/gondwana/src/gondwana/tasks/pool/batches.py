"""Tasks, several calls of a function as one of them, and how they are called in messages."""

from __future__ import annotations

import time
from reprlib import repr as shortened
from typing import Any, TypeAlias

from gondwana.runtime import interruptions
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.future import TaskFuture
from gondwana.tasks.pool.packing import Function, Packer

Outcomes: TypeAlias = tuple[float, list[tuple[bool, Any]]]
"""The seconds of a batch, and of each call whether it succeeded, and its result or packed error."""


def run_batch(function: Function, items: list[Any], stop: bool) -> Outcomes:
    """Call a function for each of the items; return the seconds and the outcomes. Local; runs on a worker.

    Args:
        function: what to call.
        items: the arguments of each call.
        stop: whether to stop at the first error.
    """
    call, start = packing.load_function(function), time.perf_counter()
    outcomes: list[tuple[bool, Any]] = []
    for item in items:
        try:
            outcomes.append((True, call(*item)))
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            outcomes.append((False, packing.pack_error(error)[0]))
            if stop:
                break
    return time.perf_counter() - start, outcomes


def sendable(result: Outcomes, packer: Packer) -> Outcomes:
    """Return the result of a batch with errors in place of the results that cannot be packed. Local."""
    outcomes: list[tuple[bool, Any]] = []
    for succeeded, value in result[1]:
        try:
            packer.value(value)
            outcomes.append((succeeded, value))
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            outcomes.append((False, packing.pack_error(error)[0]))
    return result[0], outcomes


RUN_BATCH = f"{__name__}:{run_batch.__qualname__}"


def describe(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a call for messages, such as `simulate(3)`. Local."""
    if function == RUN_BATCH:
        inner, items, *_ = args
        others = f" or one of the {len(items) - 1} calls after it" if len(items) > 1 else ""
        return describe(inner, items[0], {}) + others
    name = function.partition(":")[2] if isinstance(function, str) else packing.load_function(function).__qualname__
    words = [shortened(value) for value in args] + [f"{key}={shortened(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"


class Task:
    """A task and its future.

    Args:
        function: what to call.
        arguments: the pickle of a tuple and a dictionary.
        buffers: of the pickle.
        future: for a task of this process.
        origin: for a task of a task: the worker that has submitted it, and its number there.
    """

    __slots__ = ("arguments", "buffers", "function", "future", "origin")

    def __init__(
        self,
        function: Function,
        arguments: bytes,
        buffers: tuple[Any, ...],
        future: TaskFuture | None,
        origin: tuple[int, int] = (0, 0),
    ) -> None:
        self.function, self.arguments, self.buffers = function, arguments, buffers
        self.future, self.origin = future, origin

    def describe(self) -> str:
        """Return the call for messages, such as `simulate(3)`. Local."""
        return describe(self.function, *packing.load(self.arguments, self.buffers))
