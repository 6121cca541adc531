"""Results of applications and benchmarks (``--json``), and the machine and software on which figures depend."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import json
import os
import platform
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gondwana.errors import UsageError
from gondwana.runtime import cores

PACKAGES = ("gondwana", "numpy", "numba", "llvmlite", "mpi4py")


def environment() -> dict[str, Any]:
    """Return a description of the machine and the software on which figures depend. Local.

    Example:
        >>> environment()["cores"] >= 1
        True
    """
    mpi = loaded_mpi()
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": len(cores.own()),
        "governor": _governor(),
        "load_average": list(os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
        "mpi_library": str(mpi) if mpi else None,
    }


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a result as JSON, complete or not at all. Local.

    Raises:
        UsageError: the file cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f".{uuid.uuid4().hex}")
    try:
        draft.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
        draft.replace(target)
    except OSError as error:
        raise UsageError(f"--json {target}: cannot be written ({error.strerror}); name another file") from None
    finally:
        draft.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Check a file name before a benchmark runs for minutes and cannot write it. Local.

    Raises:
        UsageError: it is a folder, or its folder is missing or read-only.
    """
    if Path(path).is_dir():
        raise UsageError(f"--json {path}: this is a folder; name a file")
    folder = Path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"--json {path}: the folder {folder} does not exist or cannot be written; name another")


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
