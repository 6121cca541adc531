"""Output of a job on a terminal: its width, and progress of long work.

MPI's launcher is between a rank and the terminal, so `gondwana run` describes it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Any, Literal, Protocol

from gondwana.inputs import whole_number

VARIABLE = "GONDWANA_TERMINAL"
"""Variable with the columns of the terminals behind stdout and stderr of ``gondwana run``: "120,0"; 0: none."""

Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

_INTERVAL = 0.2
"""Seconds between two refreshes."""


def describe() -> str:
    """Return the value of ``VARIABLE`` that the launcher of a job gives its ranks. Local."""
    return ",".join(str(columns(stream) or 0) for stream in _STREAMS)


def columns(stream: Stream) -> int | None:
    """Return the width of the terminal to which a stream of this process goes, or None if it is no terminal. Local.

    Args:
        stream: "stdout" or "stderr".
    """
    widths = [whole_number(width) for width in os.environ.get(VARIABLE, "").split(",")]
    if len(widths) == len(_STREAMS) and None not in widths:
        return widths[_STREAMS.index(stream)] or None
    return shutil.get_terminal_size().columns if getattr(sys, stream).isatty() else None


class Ranked(Protocol):
    """A team, or any object with a rank."""

    @property
    def rank(self) -> int:
        """The rank of this process; rank 0 shows the bar."""


class ProgressBar:
    """A progress bar on standard error: a context manager. Local.

    Rank 0 shows it if its standard error is a terminal, also below `gondwana run`; elsewhere nothing is printed. `show`
    costs next to nothing between two refreshes, so it may be called at each step.

    Args:
        team: team whose rank 0 shows the bar.
        label: name of the work, at the left of the bar.
        total: steps of the whole work.
        done: steps done before; if all of them, there is no bar.
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
        width = columns("stderr")
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
            speed: current speed with its unit, at the right of the bar.
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
