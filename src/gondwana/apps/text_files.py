"""Small text files that a user names: bounded in size, and nothing but regular files."""

from __future__ import annotations

import itertools
from pathlib import Path

from gondwana.errors import UsageError

MAX_BYTES = 1 << 20
_PIECE = 1 << 20


def read(path: Path, name: str, most: int = MAX_BYTES) -> str:
    """Return the text of a file. Local; waits for no FIFO and reads no device.

    Args:
        path: the file.
        name: what messages call it.
        most: bytes that it may have.

    Raises:
        UsageError: it is not a regular file of UTF-8, or it is larger.
    """
    content = _bytes(path, name, most)
    if b"\0" in content:
        raise UsageError(f"{name}: holds NUL bytes, so it is binary or UTF-16; save it as UTF-8 text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}: not UTF-8 at line {line} (byte {error.start}); save it as UTF-8 text") from None


def check_readable(path: Path, name: str) -> None:
    """Check that there is such a regular file. Local; waits for no FIFO.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    _bytes(path, name, 0, read=False)


def _bytes(path: Path, name: str, most: int, *, read: bool = True) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{name}: this is a directory; give a file in it")
        if path.exists() and not path.is_file():
            raise UsageError(f"{name}: not a regular file; give one")
        with path.open("rb") as file:
            # Python makes room for as many bytes as are asked for at once.
            pieces = itertools.islice(iter(lambda: file.read(_PIECE), b""), most // _PIECE + 1)
            content = b"".join(pieces) if read else b""
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name}: cannot be read ({reason}); check the path and its permissions") from None
    if len(content) > most:
        raise UsageError(f"{name}: larger than {most >> 20} MiB; give a smaller file")
    return content
