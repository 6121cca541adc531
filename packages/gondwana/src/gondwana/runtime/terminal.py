"""Whether output is a terminal: MPI's launcher is between a rank and the terminal, so the launcher describes it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

from gondwana.inputs import whole_number

VARIABLE = "GONDWANA_TERMINAL"
"""Columns of the terminals behind stdout and stderr of ``gondwana run``, as in "120,0"; 0: there is none."""

Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


def describe() -> str:
    """Return the value that the launcher of a job gives its ranks in ``VARIABLE``. Local."""
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
