"""Processes of multiprocessing that rank 0 starts, as rivals of its work with rank 1."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from functools import cached_property
from typing import Any

_context = multiprocessing.get_context("spawn")


def echo(there: Any, back: Any) -> None:
    """Send back each message until None comes."""
    while (item := there.get()) is not None:
        back.put(item)


class Children(contextlib.ExitStack):
    """Processes that start when they are first used, and end with the `with` statement. Local.

    Args:
        workers: number of workers of the `Pool`.
    """

    def __init__(self, workers: int = 1) -> None:
        super().__init__()
        self._workers = workers

    @cached_property
    def queue(self) -> Callable[[], None]:
        """Sends an item there and back through two `Queue`."""
        return self._echo(_context.Queue)

    @cached_property
    def simple_queue(self) -> Callable[[], None]:
        """The same with `SimpleQueue`."""
        return self._echo(_context.SimpleQueue)

    @cached_property
    def apply(self) -> Callable[..., Any]:
        """Has a worker of a `Pool` call a function, and waits for the result."""
        return self.enter_context(_context.Pool(self._workers)).apply

    def _echo(self, queue: Callable[[], Any]) -> Callable[[], None]:
        there, back = queue(), queue()
        process = _context.Process(target=echo, args=(there, back), daemon=True)
        process.start()
        self.callback(process.join)
        self.callback(there.put, None)

        def turn() -> None:
            there.put(1)
            if back.get() != 1:
                raise RuntimeError("an item has come back changed")

        return turn
