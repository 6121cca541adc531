"""Input of users: numbers as they are typed, files that they name, and errors of data and disk as one line."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import BinaryIO

from gondwana.errors import GondwanaError, KernelError, UsageError

MAX_TEXT = 1 << 20
"""The most bytes of a file of settings."""

LONGEST = 2000
"""The most characters of a message on one line; longer ones lose a part before the end, where the advice is."""

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_PIECE = 1 << 20

_OF_FILES = frozenset({
    errno.E2BIG, errno.EACCES, errno.EBUSY, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EIO, errno.EISDIR,
    errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE, errno.ENODEV, errno.ENOENT, errno.ENOSPC,
    errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EPIPE, errno.EROFS, errno.ESTALE, errno.ETXTBSY,
})  # fmt: skip
"""Errors of the system about a name, a permission or a disk; its other errors are errors of the program."""


def whole_number(text: str) -> int | None:
    """Return the whole number in a text, of ASCII digits, with or without a minus sign; None for other texts. Local.

    Python's `int` also takes digits of other scripts, underscores, signs in front and spaces around, `str.isdigit`
    superscripts, and both any length.

    Example:
        >>> whole_number("64"), whole_number("-3"), whole_number("--3"), whole_number("²"), whole_number("9" * 5000)
        (64, -3, None, None, None)
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def open_file(path: str | os.PathLike[str], name: str, most: int, advice: str = "check the path") -> BinaryIO:
    """Open a file that a user named, to read it. Local; waits for no FIFO and opens no device.

    Args:
        path: the file.
        name: name of the file in messages.
        most: largest number of bytes.
        advice: advice about the file, for messages.

    Raises:
        UsageError: the file is not a regular one, cannot be read, or is larger.
    """
    try:
        # To open a device may already do something, as to rewind a tape.
        _check_kind(os.stat(path), name)
        opened = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(printable(f"{name}: cannot be read ({reason}); {advice}")) from None
    try:
        there = os.fstat(opened.fileno())
        _check_kind(there, name)
        _check_size(there.st_size, name, most)
    except BaseException:
        opened.close()
        raise
    return opened


def read_file(path: str | os.PathLike[str], name: str, most: int, advice: str = "check the path") -> bytes:
    """Return the content of a file that a user named. Local; see `open_file`.

    Raises:
        UsageError: the file is not a regular one, cannot be read, or is larger.
    """
    return b"".join(_pieces(path, name, most, advice))


def read_text(path: str | os.PathLike[str], name: str, most: int = MAX_TEXT, advice: str = "check the path") -> str:
    """Return the text of a file that a user named, without a byte order mark. Local; see `open_file`.

    Raises:
        UsageError: the file is not a regular one of UTF-8, cannot be read, or is larger.
    """
    pieces = []
    for piece in _pieces(path, name, most, advice):
        if b"\0" in piece:
            raise UsageError(printable(f"{name}: holds NUL bytes, so it is binary or UTF-16; save it as UTF-8 text"))
        pieces.append(piece)
    content = b"".join(pieces)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        where = f"at line {line} (byte {error.start})"
        raise UsageError(printable(f"{name}: not UTF-8 {where}; save it as UTF-8 text")) from None


def _pieces(path: str | os.PathLike[str], name: str, most: int, advice: str) -> Iterator[bytes]:
    """The content piece by piece: some files of the system say that they are empty, and others grow."""
    size = 0
    with open_file(path, name, most, advice) as file:
        try:
            while piece := file.read(_PIECE):
                size += len(piece)
                _check_size(size, name, most)
                yield piece
        except OSError as error:
            raise UsageError(printable(f"{name}: cannot be read ({error.strerror}); {advice}")) from None


def _check_kind(there: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(there.st_mode):
        raise UsageError(printable(f"{name}: this is a directory; give a file in it"))
    if not stat.S_ISREG(there.st_mode):
        raise UsageError(printable(f"{name}: not a regular file; give one"))


def _check_size(size: int, name: str, most: int) -> None:
    if size > most:
        limit = f"{most >> 20} MiB" if most < 1 << 30 else f"{most >> 30} GiB"
        raise UsageError(printable(f"{name}: larger than {limit}; give a smaller file"))


def printable(text: str) -> str:
    r"""Return a text as one printable line of at most `LONGEST` characters. Local.

    Example:
        >>> printable("no file named 'a\nb'")
        "no file named 'a\\nb'"
    """
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST * 2 // 3]} [...] {line[-LONGEST // 4 :]}"


def message_of(error: BaseException) -> str | None:
    """Return the one line that reports an error of data, disk or settings, None for an error of the program. Local.

    Example:
        >>> message_of(FileNotFoundError(2, "No such file or directory", "a.bp"))
        'a.bp: No such file or directory'
    """
    if isinstance(error, GondwanaError):
        # A kernel that does not compile is a mistake in the program: its message has lines of source.
        return None if isinstance(error, KernelError) else printable(str(error))
    if isinstance(error, OSError) and error.errno in _OF_FILES:
        name = error.filename if error.filename2 is None else error.filename2
        return printable(f"{'standard output or a file' if name is None else name}: {error.strerror}")
    if isinstance(error, MemoryError):
        return printable(f"there is not enough memory: {error}" if str(error) else "there is not enough memory")
    return None
