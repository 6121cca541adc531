"""What users give: numbers as they are typed, and errors of data, disk and settings as one line."""

from __future__ import annotations

import errno
import re

from gondwana.errors import GondwanaError, KernelError

LONGEST = 2000
"""Characters of a message on one line; longer ones lose their middle, since the advice comes last."""

_NUMBER = re.compile(r"-?[0-9]{1,18}")

_OF_FILES = frozenset({
    errno.E2BIG, errno.EACCES, errno.EBUSY, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EIO, errno.EISDIR,
    errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE, errno.ENODEV, errno.ENOENT, errno.ENOSPC,
    errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EPIPE, errno.EROFS, errno.ESTALE, errno.ETXTBSY,
})  # fmt: skip
"""What the system says of a name, a permission or a disk; other errors of the system are errors of the program."""


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is, in ASCII digits, with a minus sign or none; None for other texts. Local.

    Python's `int` also takes digits of other scripts, underscores, signs in front and spaces around, `str.isdigit`
    superscripts, and both any length.

    Example:
        >>> whole_number("64"), whole_number("-3"), whole_number("--3"), whole_number("²"), whole_number("9" * 5000)
        (64, -3, None, None, None)
    """
    return int(text) if _NUMBER.fullmatch(text) else None


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
