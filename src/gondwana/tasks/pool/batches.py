"""Several calls of a function as one task, and how tasks are called in messages."""

from __future__ import annotations

import time
from reprlib import repr as shortened
from typing import Any

from gondwana.runtime import interruptions
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.packing import Function


def run_batch(function: Function, items: list[Any], stop: bool) -> tuple[float, list[tuple[bool, Any]]]:
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
        except Exception as error:
            interruptions.let_pass(error)
            outcomes.append((False, packing.pack_error(error)[0]))
            if stop:
                break
    return time.perf_counter() - start, outcomes


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
