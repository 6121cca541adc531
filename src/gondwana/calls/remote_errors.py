"""Exceptions that travel: from the rank where a remote call has failed to the one that waits for its result."""

from __future__ import annotations

import pickle
import traceback

from gondwana.calls import wire
from gondwana.runtime import interruptions
from gondwana.teams import RemoteError


def pickled(error: BaseException) -> bytes:
    """Return what `rebuilt` gets at another rank, pickled. Local."""
    text = "".join(traceback.format_exception(error))
    try:
        data = wire.encode(error)[1]
        return pickle.dumps((data[0] if len(data) == 1 else b"", text))
    except Exception as problem:
        interruptions.let_pass(problem)
        return pickle.dumps((b"", text))


def rebuilt(source: int, pickled: bytes, text: str) -> BaseException:
    """Return the exception of another rank, or a RemoteError if that is not possible here. Local.

    Args:
        source: the rank.
        pickled: the exception.
        text: its traceback there.
    """
    error: BaseException | None = None
    try:
        error = pickle.loads(pickled) if pickled else None
    except Exception as problem:
        interruptions.let_pass(problem)
    if not isinstance(error, BaseException):
        error = RemoteError(f"a call on rank {source} failed: {text.strip().splitlines()[-1]}")
    error.add_note(f"\nRaised by a call on rank {source}:\n{text}")
    return error
