"""What applications say on standard output: sentences whose words stay whole on a terminal."""

from __future__ import annotations

from gondwana.runtime import terminal


def say(text: str) -> None:
    """Print a sentence at once: folded between words on a terminal, else as one line. Local.

    Example:
        >>> say("verified: all is as it should be")
        verified: all is as it should be
    """
    width = terminal.columns("stdout")
    print(text if width is None else "\n".join(terminal.folded(text, width)), flush=True)
