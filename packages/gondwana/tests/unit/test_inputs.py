"""Numbers as users type them, and errors of data, disk and settings as one line."""

from __future__ import annotations

import errno
import os

import pytest

from gondwana import inputs
from gondwana.errors import KernelError, LaunchError, UsageError
from gondwana.inputs import message_of, printable, whole_number
from gondwana.io.paths import DatasetError


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("-5", -5), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_numbers(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-", "--5", "+5", " 5", "5\n", "1_000", "²", "\u0663", "5.0", "1e3", "0x10", "9" * 19, "9" * 5000]
)
def test_nothing_else_is_a_number(text: str) -> None:
    assert whole_number(text) is None


def test_a_message_is_one_printable_line_that_keeps_its_end() -> None:
    assert printable("a\nb\x1b[31m\udcffc") == "a\\nb\\x1b[31m\\udcffc"
    long = printable("begin " + "x" * 10**5 + " end")
    assert len(long) <= inputs.LONGEST
    assert long.startswith("begin")
    assert long.endswith("end")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UsageError("steps = -1"), "steps = -1"),
        (LaunchError("no launcher"), "no launcher"),
        (DatasetError("gs.bp is\ndamaged"), "gs.bp is\\ndamaged"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.bp"), "a.bp: No space left on device"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "standard output or a file: No space left on device"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a", None, "b"), "b: File name too long"),
        (PermissionError(errno.EACCES, "Permission denied", "x.json"), "x.json: Permission denied"),
        (MemoryError("Unable to allocate 8 TiB"), "there is not enough memory: Unable to allocate 8 TiB"),
    ],
)
def test_errors_of_data_disk_and_settings_have_a_message(error: Exception, message: str) -> None:
    assert message_of(error) == message


@pytest.mark.parametrize(
    "error",
    [KeyError("missing"), KernelError("cannot be compiled"), OSError("no number"), ConnectionResetError(104, "reset")],
)
def test_errors_of_the_program_keep_their_traceback(error: Exception) -> None:
    assert message_of(error) is None
