"""Files of results: written whole or not at all, and checked before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import files


class ResultError(GondwanaError):
    """A result was computed and printed, but its file could not be written."""


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a result as JSON, after it was printed. Local.

    A regular file is complete or not written at all, a symbolic link is followed, a device or a FIFO is written to.

    Raises:
        ResultError: the file cannot be written.
    """
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n", f"--json {path}")


def write_text(path: str | Path, text: str, name: str | None = None) -> None:
    """Write a result as text in UTF-8, as `write_json` does. Local.

    Args:
        path: the file.
        text: its content.
        name: what the message of an error calls the file; None: its path.

    Raises:
        ResultError: the file cannot be written.
    """
    write_bytes(path, text.encode(), name)


def write_bytes(path: str | Path, content: bytes, name: str | None = None) -> None:
    """Write a result that is no text, such as a picture, as `write_json` does. Local.

    Args:
        path: the file.
        content: of the file.
        name: what the message of an error calls it; None: its path.

    Raises:
        ResultError: the file cannot be written.
    """
    try:
        files.write(path, content)
    except OSError as error:
        raise ResultError(f"{name or path}: the result cannot be written ({error.strerror})") from None


def check_writable(path: str | Path, name: str | None = None, *, streams: bool = True) -> None:
    """Check a file name before a benchmark runs for minutes and cannot write it. Local.

    Args:
        path: the file.
        name: what the message of an error calls it; None: `--json` and the path.
        streams: whether a device or a FIFO will do.

    Raises:
        UsageError: it is empty, a folder or not to be written, or its folder is missing or read-only.
    """
    reason = files.obstacle(path, streams=streams)
    if reason is not None:
        raise UsageError(f"{name or f'--json {path}'}: {reason}; name another file")
