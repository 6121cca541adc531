"""The machine and the software on which the figures of a result depend."""

from __future__ import annotations

import ctypes
import datetime
import functools
import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

from gondwana.compiler.multithreading.pool import threads
from gondwana.runtime import cores
from gondwana.runtime.files import text_of
from gondwana.runtime.placement import report, topology
from gondwana.runtime.shared_file import pages_of_arrays

PACKAGES = ("gondwana", "numpy", "numba", "llvmlite", "mpi4py")

_LOAD_AT_START = list(os.getloadavg())
"""Load of the machine before this process added to it."""


def environment() -> dict[str, Any]:
    """Return a description of the machine and the software on which figures depend. Local.

    `load_average` is that of the machine when this process started, for the last minute, 5 and 15 minutes;
    `involuntary_switches` counts how often this process had to leave its processor so far. `caches` has bytes by name,
    such as "L2", of one core or of those that share it. `pages` says which pages large arrays get, "2 MiB" or "4 KiB"
    and why, in the private memory of a rank that is alone on its node and in the shared memory of others. `commit` is
    that of a working tree of Gondwana, with "-dirty" if files in it were changed; None for an installed package. On a
    rank `placement` has the pattern of the job, threads of a rank x ranks of a node x nodes (such as "2x4x1"), whether
    its nodes are `simulated` on fewer machines, the value of `gondwana run --bind`, and the cores of each rank;
    elsewhere it is None.

    Example:
        >>> environment()["cores"] >= 1
        True
    """
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": len(cores.own()),
        "caches": topology.caches(),
        "placement": report.describe(threads()),
        "pages": pages_of_arrays(),
        "governor": text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "load_average": _LOAD_AT_START,
        "involuntary_switches": resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _commit(),
        "compiler": None,
        "mpi_library": _mpi_library(),
    }


@functools.cache
def processor() -> str:
    """Return the processor's model and features, on which `-march=native` depends. Local."""
    lines = text_of("/proc/cpuinfo").splitlines()
    kept = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join(sorted(kept)) if lines else platform.machine() + platform.processor()


def loaded_mpi() -> Path | None:
    """Return the file of the MPI library in this process, None without one. Local."""
    paths = (Path(line.split(maxsplit=5)[-1]) for line in Path("/proc/self/maps").read_text().splitlines())
    return next((path for path in paths if path.name.startswith("libmpi.so")), None)


def _cpu() -> str:
    lines = (line for line in processor().splitlines() if line.startswith("model name"))
    return next(lines, "").partition(":")[2].strip() or platform.processor() or platform.machine()


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


@functools.cache
def _commit() -> str | None:
    package = Path(__file__).resolve().parents[1]
    if shutil.which("git") is None or not (package.parents[3] / ".git").exists():
        return None
    words = ["git", "-C", str(package), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _mpi_library() -> str | None:
    """The name that the MPI library in this process gives itself; None without one."""
    loaded = loaded_mpi()
    if loaded is None:
        return None
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()  # MPI_MAX_LIBRARY_VERSION_STRING of MPICH
    ctypes.CDLL(str(loaded)).MPI_Get_library_version(text, ctypes.byref(length))
    words = text.value.decode(errors="replace").split("\n")[0].split(",")[0]
    return " ".join(words.split()) or loaded.name
