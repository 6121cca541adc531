"""A progress bar for the timed phase: on rank 0, when a person looks at a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from gondwana.world import Team, terminal

_INTERVAL = 0.2


class Progress:
    """The bar: a context manager; `show` costs next to nothing between two refreshes. Local.

    Args:
        team: its rank 0 shows the bar.
    """

    def __init__(self, team: Team) -> None:
        self._bar: Any = None
        self._next = 0.0
        self._width = terminal.columns("stderr") if team.rank == 0 else None

    def __enter__(self) -> Progress:
        if self._width is not None:
            self._bar = _make_bar(self._width)
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, sets: int) -> None:
        """Tell how far the timed phase is.

        Args:
            done: sets solved.
            sets: of the whole phase.
        """
        if self._bar is None:
            return
        if done == sets or time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL
            task = self._bar.task_ids[0] if self._bar.task_ids else self._bar.add_task("hpcg: sets", total=sets)
            self._bar.update(task, completed=done, refresh=True)


def _make_bar(width: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_terminal=True, width=width)
    parts = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*parts, console=console, auto_refresh=False)
