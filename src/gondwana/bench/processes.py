"""The processes of a job, as Linux lists them."""

from __future__ import annotations

import contextlib
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on. Local.

    Launchers give their ranks process groups of their own, so that a group does not tell.

    Args:
        pid: the process; if there is none, it has no children.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread may end between the two looks
                for child in (task / "children").read_text().split():
                    found += [int(child), *descendants(int(child))]
    return found
