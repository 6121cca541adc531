"""A progress bar for long work: on rank 0, when a person looks at a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from gondwana.runtime import terminal
from gondwana.teams import Team

_INTERVAL = 0.2


class Progress:
    """The bar: a context manager; `show` costs next to nothing between two refreshes. Local.

    Args:
        team: its rank 0 shows the bar.
        label: what is done, at the left of the bar.
        total: steps of the whole work.
        done: those done before; if that is all of them, there is no bar.
    """

    def __init__(self, team: Team, label: str, total: int, *, done: int = 0) -> None:
        self._bar: Any = None
        self._total = total
        self._next = 0.0
        width = terminal.columns("stderr")
        if team.rank == 0 and total > done and width is not None:
            self._bar = _make_bar(width)
            self._task = self._bar.add_task(label, completed=done, total=total, speed="")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, speed: str = "") -> None:
        """Tell how far the work is.

        Args:
            done: steps done.
            speed: the current one with its unit, at the right of the bar.
        """
        if self._bar is None:
            return
        if done == self._total or time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL
            self._bar.update(self._task, completed=done, speed=speed, refresh=True)


def _make_bar(width: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, force_terminal=True, width=width)
    parts = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}")
    return Bar(*parts, TimeRemainingColumn(), console=console, auto_refresh=False)
