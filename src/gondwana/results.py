"""Results of applications and benchmarks (``--json``), and the machine and software on which figures depend."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gondwana.compiler import threads
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import cores, files
from gondwana.runtime.placement import report

PACKAGES = ("gondwana", "numpy", "numba", "llvmlite", "mpi4py")


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
    try:
        files.write(path, text.encode())
    except OSError as error:
        raise ResultError(f"{name or path}: the result cannot be written ({error.strerror})") from None


def check_writable(path: str | Path) -> None:
    """Check a file name before a benchmark runs for minutes and cannot write it. Local.

    Raises:
        UsageError: it is empty, a folder or not to be written, or its folder is missing or read-only.
    """
    reason = files.obstacle(path)
    if reason is not None:
        raise UsageError(f"--json {path}: {reason}; name another file")


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
