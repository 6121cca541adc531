"""What applications say: lines whose words stay whole on a terminal."""

from __future__ import annotations

import sys
from typing import Literal

from gondwana.runtime import terminal


def say(text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
    """Print lines at once; those that are too long for a terminal are folded between words. Local.

    Example:
        >>> say("verified: all is as it should be")
        verified: all is as it should be
    """
    width, lines = terminal.columns(stream), text.split("\n")
    if width is not None:
        lines = [part for line in lines for part in terminal.folded(line, width) or [""]]
    print("\n".join(lines), file=getattr(sys, stream), flush=True)
