"""Files that users name: opened in one place, which waits for no FIFO and reads nothing that is too large."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana import inputs
from gondwana.errors import UsageError

ROOT = Path(__file__).parents[2] / "packages"
ROOMS = (
    "gondwana-apps/src/gondwana_apps",
    "gondwana-bench/src/gondwana_bench/cli",
    "gondwana-bench/src/gondwana_bench/model",
    "gondwana-bench/src/gondwana_bench/report",
    *(f"gondwana/src/gondwana/{room}" for room in ("cli", "results", "traces", "runtime/tracing")),
)
"""Where files are read that users name."""
BUILT_IN = {"open"}
METHODS = {"open", "read_text", "read_bytes", "loadtxt", "genfromtxt", "fromfile", "memmap", "open_memmap", "fdopen"}
"""Names of functions that open a file; of NumPy `load`, too."""
OTHERS = {
    "gondwana_apps/free_memory.py": 3,  # the system's
    "gondwana_apps/grayscott/verify.py": 1,  # the package's, here and below
    "gondwana_apps/npb/ft/problem.py": 1,
    "gondwana_apps/pwc/matrix.py": 2,  # open by then
    "gondwana_bench/cli/bench/gpu.py": 1,  # of a job of its own
    "gondwana/cli/launch.py": 1,
    "gondwana_bench/report/document.py": 1,
    "gondwana/results/host.py": 1,
    "gondwana/runtime/tracing/part.py": 3,  # made by the rank itself, or open by then
    "gondwana/traces/merge.py": 2,  # the folder of the parts, and the draft of the trace
}
"""Calls that open no file that a user has named."""


def openings(file: Path) -> Iterator[int]:
    """Lines of calls by which a file may be opened."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) if name in BUILT_IN:
                    yield node.lineno
                case ast.Attribute(attr=name) if name in METHODS:
                    yield node.lineno
                case ast.Attribute(value=ast.Name(id="np"), attr="load"):
                    yield node.lineno


@pytest.mark.parametrize("room", ROOMS)
def test_no_other_way_opens_a_file(room: str) -> None:
    for file in sorted((ROOT / room).rglob("*.py")):
        name = file.relative_to(ROOT).as_posix().partition("/src/")[2]
        found = list(openings(file))
        assert len(found) == OTHERS.get(name, 0), f"{name}, lines {found}: use inputs.open_file, read_file or read_text"


def test_a_fifo_is_refused_also_where_somebody_writes(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: os.close(os.open(fifo, os.O_WRONLY)), daemon=True)
    writer.start()
    with pytest.raises(UsageError, match="the input: not a regular file; give one"):
        inputs.read_file(fifo, "the input", 10)
    os.close(os.open(fifo, os.O_RDONLY))
    writer.join(30)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * ((1 << 20) + 1), "larger than 1 MiB; give a smaller file"),
        (b"x\0", "holds NUL bytes"),
        (b"one\n\xff", r"not UTF-8 at line 2 \(byte 4\)"),
    ],
)
def test_texts_are_small_and_utf_8(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=f"^the text: {message}"):
        inputs.read_text(file, "the text")


def test_the_largest_legal_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbf" + b"x" * ((1 << 20) - 3))
    assert inputs.read_text(file, "text") == "x" * ((1 << 20) - 3)
    assert len(inputs.read_file(file, "text", 1 << 20)) == 1 << 20
    with pytest.raises(UsageError, match="larger than"):
        inputs.read_file(file, "text", (1 << 20) - 1)


def test_files_that_say_that_they_are_empty_have_a_limit_too() -> None:
    assert inputs.read_file("/proc/self/status", "status", 1 << 20).startswith(b"Name:")
    with pytest.raises(UsageError, match="larger than"):
        inputs.read_file("/proc/self/status", "status", 10)


def test_a_name_may_be_anything() -> None:
    for name in "", "a\0b", "x" * 5000, "\udcff":
        with pytest.raises(UsageError, match="cannot be read") as refusal:
            inputs.open_file(name, name, 1)
        assert "\n" not in str(refusal.value)
        str(refusal.value).encode()
