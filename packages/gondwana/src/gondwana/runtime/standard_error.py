"""Standard error as it was at the start, for what must be seen although the program is captured.

pytest replaces the descriptor during tests and shows what was written when the test ends. A job that ends during a test
would show nothing.
"""

from __future__ import annotations

import contextlib
import os

_kept: list[int] = []


def keep() -> None:
    """Keep the present standard error for `write`. Local; only the first call has an effect."""
    if not _kept:
        with contextlib.suppress(OSError):  # it is closed: nothing will be seen
            _kept.append(os.dup(2))


def descriptor() -> int:
    """Return the descriptor of the standard error that was kept. Local."""
    return _kept[0] if _kept else 2


def write(text: str) -> None:
    """Write in one piece, so that lines of different ranks do not mix. Local."""
    # If it is closed, the exit status still reports the failure.
    with contextlib.suppress(OSError):
        os.write(descriptor(), text.encode(errors="replace"))
