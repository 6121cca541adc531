"""Whether a person looks at what a rank prints: MPI's launcher stands between the rank and the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

VARIABLE = "GONDWANA_TERMINAL"
"""Columns of the terminals behind stdout and stderr of ``gondwana run``, as in "120,0"; 0: there is none."""

Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


def describe() -> str:
    """Return what the launcher of a job tells its ranks in ``VARIABLE``. Local."""
    return ",".join(str(columns(stream) or 0) for stream in _STREAMS)


def columns(stream: Stream) -> int | None:
    """Return the width of the terminal where a stream of this process ends up, or None if no person looks. Local.

    Args:
        stream: "stdout" or "stderr".
    """
    told = os.environ.get(VARIABLE, "").split(",")
    if len(told) == len(_STREAMS) and all(width.isdecimal() for width in told):
        return int(told[_STREAMS.index(stream)]) or None
    return shutil.get_terminal_size().columns if getattr(sys, stream).isatty() else None
