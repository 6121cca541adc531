"""`gw.ProgressBar`: how far long work is, shown by rank 0 on a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol

from gondwana.runtime import terminal

_INTERVAL = 0.2
"""Seconds between two refreshes."""


class Ranked(Protocol):
    """A team, or any object with a rank."""

    @property
    def rank(self) -> int:
        """Which rank this process is; 0 shows the bar."""


class ProgressBar:
    """A progress bar on standard error: a context manager. Local.

    Rank 0 shows it if its standard error is a terminal, also below `gondwana run`; elsewhere nothing is printed. `show`
    costs next to nothing between two refreshes, so it may be called at each step.

    Args:
        team: its rank 0 shows the bar.
        label: what is done, at the left of the bar.
        total: steps of the whole work.
        done: steps done before; if that is all of them, there is no bar.
        transient: whether the bar disappears at the end.

    Example:
        >>> import gondwana as gw
        >>> with gw.ProgressBar(gw.world, "relaxing", 100) as bar:
        ...     for step in range(100):
        ...         bar.show(step + 1, "12.5 Mcells/s")
    """

    def __init__(self, team: Ranked, label: str, total: int, *, done: int = 0, transient: bool = False) -> None:
        self._bar: Any = None
        self._total = total
        self._next = 0.0
        width = terminal.columns("stderr")
        if team.rank == 0 and total > done and width is not None:
            self._bar = _make_bar(width, transient=transient)
            self._task = self._bar.add_task(label, completed=done, total=total, speed="")

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, speed: str = "") -> None:
        """Show how far the work is. Local.

        Args:
            done: steps done.
            speed: the current one with its unit, at the right of the bar.
        """
        if self._bar is None:
            return
        if done == self._total or time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL
            self._bar.update(self._task, completed=done, speed=speed, refresh=True)


def _make_bar(width: int, *, transient: bool) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_terminal=True, width=width)
    parts = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}")
    return Progress(*parts, TimeRemainingColumn(), console=console, auto_refresh=False, transient=transient)
