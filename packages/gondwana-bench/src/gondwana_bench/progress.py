"""A progress bar on the terminal while a benchmark measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from gondwana import ProgressBar

T = TypeVar("T")


class _Launcher:
    """The process that starts the measured ones: in no team, and alone on the terminal."""

    rank = 0


def with_progress(rows: Iterable[T], total: int, what: str = "measuring") -> Iterator[T]:
    """Yield rows, with a progress bar if standard error is a terminal. Local."""
    with ProgressBar(_Launcher(), what, total, transient=True) as bar:
        for done, row in enumerate(rows, 1):
            yield row
            bar.show(done)
