"""Exceptions that travel: from the rank where a remote call has failed to the one that waits for its result."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any

from gondwana.calls import wire
from gondwana.runtime import interruptions
from gondwana.teams import RemoteError


def pickled(error: BaseException) -> bytes:
    """Return what `rebuilt` gets at another rank, pickled. Local."""
    text = "".join(traceback.format_exception(error))
    try:
        data = wire.encode(error)[1]
        return pickle.dumps((data[0] if len(data) == 1 else b"", text))
    except BaseException as problem:
        interruptions.let_pass(problem)
        return pickle.dumps((b"", text))


def rebuilt(source: int, pickled: bytes, text: str) -> BaseException:
    """Return the exception of another rank, or a RemoteError if that is not possible here. Local.

    Args:
        source: the rank.
        pickled: the exception.
        text: its traceback there.
    """
    error: Any = None
    try:
        error = pickle.loads(pickled) if pickled else None
    except BaseException as problem:
        interruptions.let_pass(problem)
    return noted(error, f"a call on rank {source}", text)


def noted(error: Any, what: str, text: str) -> BaseException:
    """Return an exception with the traceback that it had elsewhere as a note. Local.

    Args:
        error: what was unpickled; if that is none to which a note can be added, the result is a RemoteError.
        what: has raised it.
        text: its traceback there.
    """
    note = f"\nRaised by {what}:\n{text}"
    if isinstance(error, BaseException):
        with contextlib.suppress(Exception):  # as of a frozen dataclass, which takes no attributes
            error.add_note(note)
            return error
    lost = RemoteError(f"{what} failed: {text.strip().splitlines()[-1]}")
    lost.add_note(note)
    return lost
