"""What applications say on standard output: sentences whose words stay whole on a terminal."""

from __future__ import annotations

import textwrap

from gondwana.runtime import terminal


def say(text: str) -> None:
    """Print a sentence at once: folded between words on a terminal, else as one line. Local.

    Example:
        >>> say("verified: all is as it should be")
        verified: all is as it should be
    """
    width = terminal.columns("stdout")
    if width is not None:
        text = textwrap.fill(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
    print(text, flush=True)
