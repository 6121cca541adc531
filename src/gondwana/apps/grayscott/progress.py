"""A progress bar for the time loop: on rank 0, when a person looks at a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from gondwana.world import Team, terminal

_INTERVAL = 0.2


class Progress:
    """The bar: a context manager; `show` costs next to nothing between two refreshes. Local.

    Args:
        done: steps done before.
        total: steps of the whole run.
        team: its rank 0 shows the bar.
    """

    def __init__(self, done: int, total: int, team: Team) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0
        width = terminal.columns("stderr")
        if team.rank == 0 and total > done and width is not None:
            self._bar = _make_bar(width)
            self._task = self._bar.add_task("gray-scott", completed=done, total=total, rate="")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, step: int, cells_per_s: float) -> None:
        """Tell how far the run is.

        Args:
            step: steps done.
            cells_per_s: current speed.
        """
        if self._bar is None:
            return
        last = step == self._bar.tasks[0].total
        if last or time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL
            self._bar.update(self._task, completed=step, rate=f"{cells_per_s / 1e6:.1f} Mcells/s", refresh=True)


def _make_bar(width: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, force_terminal=True, width=width)
    parts = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")
    return Bar(*parts, TimeRemainingColumn(), console=console, auto_refresh=False)
