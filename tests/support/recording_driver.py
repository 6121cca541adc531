"""A driver that notes the calls of its functions and does nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from gondwana.gpu.interface import DeviceFacts, Driver

Call = tuple[Any, ...]


def _noting(name: str) -> Callable[..., Any]:
    def note(self: RecordingDriver, *args: Any, **options: Any) -> Any:
        answer = self.answer(name, args)
        self.calls.append((name, *args))
        return answer

    return note


class RecordingDriver(Driver):
    """Events are reached once `passed` holds them; streams are idle unless `busy`; every handle is a new number."""

    name = "recorded"
    version = (13, 0)

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.calls: list[Call] = []
        self.passed: set[int] = set()
        self.busy = False
        self._handles = itertools.count(1)

    def answer(self, name: str, args: Call) -> Any:
        if name == "count":
            return self.devices
        if name == "facts":
            return DeviceFacts(f"GPU {args[0]}", f"GPU-{args[0]}", (9, 0), 132, 2**37, 2**25, 2**17, f"0{args[0]}:00.0")
        if name == "reached":
            return args[0] in self.passed
        if name == "idle":
            return not self.busy
        return next(self._handles)

    def take(self) -> list[Call]:
        """Return the calls since the last time, without mere questions."""
        calls = [call for call in self.calls if call[0] not in ("count", "facts", "idle")]
        self.calls.clear()
        return calls


for _name in Driver.__abstractmethods__:
    setattr(RecordingDriver, _name, _noting(_name))
RecordingDriver.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
