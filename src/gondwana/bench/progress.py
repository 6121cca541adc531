"""A bar on the terminal while a benchmark measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from gondwana.runtime import terminal

T = TypeVar("T")


def with_progress(rows: Iterable[T], total: int, what: str = "measuring") -> Iterator[T]:
    """Pass rows on, with a bar if a person looks at standard error, perhaps past a launcher. Local."""
    from rich.console import Console
    from rich.progress import track

    width = terminal.columns("stderr")
    console = Console(stderr=True, force_terminal=width is not None, width=width)
    yield from track(rows, what, total=total, console=console, disable=width is None, transient=True)
