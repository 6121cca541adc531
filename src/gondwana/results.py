"""Results of applications and benchmarks (``--json``), the machine and software behind them, and lines of code."""

from __future__ import annotations

import ast
import datetime
import functools
import importlib.metadata
import inspect
import io
import json
import os
import platform
import re
import textwrap
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gondwana.compiler import threads
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import cores, files
from gondwana.runtime.placement import report

LINE_KINDS = ("communication", "computation", "declarations")
"""What lines of code are for, as the Titanium study divides them."""

PACKAGES = ("gondwana", "numpy", "numba", "llvmlite", "mpi4py")


_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}


class ResultError(GondwanaError):
    """A result was computed and printed, but its file could not be written."""


def environment() -> dict[str, Any]:
    """Return a description of the machine and the software on which figures depend. Local.

    On a rank `placement` has the pattern of the job, threads of a rank x ranks of a node x nodes (such as "2x4x1"),
    whether its nodes are `simulated` on fewer machines, what `gondwana run --bind` was given, and the cores of each
    rank; elsewhere it is None.

    Example:
        >>> environment()["cores"] >= 1
        True
    """
    mpi = loaded_mpi()
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": len(cores.own()),
        "placement": report.describe(threads()),
        "governor": _governor(),
        "load_average": list(os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
        "mpi_library": str(mpi) if mpi else None,
    }


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


def check_writable(path: str | Path, name: str | None = None) -> None:
    """Check a file name before a benchmark runs for minutes and cannot write it. Local.

    Args:
        path: the file.
        name: what the message of an error calls it; None: `--json` and the path.

    Raises:
        UsageError: it is empty, a folder or not to be written, or its folder is missing or read-only.
    """
    reason = files.obstacle(path)
    if reason is not None:
        raise UsageError(f"{name or f'--json {path}'}: {reason}; name another file")


@functools.cache
def processor() -> str:
    """Return the processor's model and features, on which `-march=native` depends. Local."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    kept = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join(sorted(kept))


def loaded_mpi() -> Path | None:
    """Return the file of the MPI library in this process, None if there is none. Local."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libmpi.so"):
            return path
    return None


def count_lines(parts: Mapping[str, Sequence[object]], without: re.Pattern[str] | None = None) -> dict[str, int]:
    """Count lines of code by kind, without blank lines, comments and docstrings. Local.

    As the Titanium study did (UCB/EECS-2006-5, figure 2).

    Args:
        parts: functions, classes or modules by kind; compiled functions count as they are written. What lies inside
            another part, as a method in a class, is counted once, as the kind that names it itself.
        without: found in lines that are not counted, such as those of timers.
    """
    by_kind = {kind: [_source(part, without) for part in parts.get(kind, ())] for kind in LINE_KINDS}
    own = [place for places in by_kind.values() for place in places]
    return {
        kind: len({line for place in places for line in place - _inside(place, own)})
        for kind, places in by_kind.items()
    }


def code_lines(source: str) -> set[int]:
    r"""Return the numbers of the lines with code, from 1. Local.

    Example:
        >>> sorted(code_lines("def f():\n    '''Two.'''\n    # why\n    return 2\n"))
        [1, 4]
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _docstrings(ast.parse(source))


def _cpu() -> str:
    names: Sequence[str] = [
        line.split(":", 1)[1].strip() for line in processor().splitlines() if line.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()


def _governor() -> str | None:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _docstrings(tree: ast.AST) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        # A string that stands alone says something and does nothing, after a constant, too.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def _source(part: Any, without: re.Pattern[str] | None) -> frozenset[tuple[str, int]]:
    plain = inspect.unwrap(getattr(part, "py_func", part))
    text, first = inspect.getsourcelines(plain)
    kept = code_lines(textwrap.dedent("".join(text)))
    if without is not None:
        kept = {line for line in kept if not without.search(text[line - 1])}
    return frozenset((inspect.getfile(plain), line + max(first, 1) - 1) for line in kept)


def _inside(place: frozenset[tuple[str, int]], all_: Iterable[frozenset[tuple[str, int]]]) -> set[tuple[str, int]]:
    return {line for other in all_ if other < place for line in other}
