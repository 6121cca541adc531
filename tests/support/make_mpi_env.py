"""Make an environment with another MPI for the tests, such as .venv-mpich beside .venv. Does nothing if it works.

The wheels of MPIs overwrite each other's mpiexec, so each needs an environment of its own. This one holds only mpi4py
and the MPI; everything else comes from the main environment, whose packages are found after its own.

Usage: python tests/support/make_mpi_env.py mpich|intel
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

MPIS = {"mpich": ("MPICH", "mpich>=4.3"), "intel": ("Intel MPI", "impi-devel")}
"""The name in mpi4py, and the wheel. That of Intel's header, which the benchmarks need, brings `impi-rt`."""


def probe(vendor: str) -> str:
    """Return a program that works if ``vendor`` is under mpi4py, and the packages of the main environment are there."""
    return f"import gondwana, numpy; from mpi4py import MPI; assert MPI.get_vendor()[0] == {vendor!r}, MPI.get_vendor()"


def works(python: Path, vendor: str) -> bool:
    """Tell whether ``python`` runs that program."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_"))}
    words = [python, "-c", probe(vendor)]
    return python.exists() and subprocess.run(words, env=clean, capture_output=True).returncode == 0


def make(environment: Path, vendor: str, wheel: str) -> str | None:
    """Make the environment, and return the problem with it, if any."""
    python = environment / "bin" / "python"
    venv.create(environment, with_pip=True, clear=True)
    if subprocess.run([python, "-m", "pip", "install", "--no-compile", "--quiet", "mpi4py>=4.1", wheel]).returncode:
        return f"{wheel} cannot be installed"
    own = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    # A line that starts with "import" is executed. addsitedir appends, and reads the main environment's .pth files.
    main_packages = sysconfig.get_path("purelib")
    (own / "main_environment.pth").write_text(f"import site; site.addsitedir({main_packages!r})\n")
    return None if works(python, vendor) else f"it does not work: {python} -c {probe(vendor)!r}"


def main(name: str) -> int:
    """Make the environment of an MPI; without it, its tests are skipped."""
    vendor, wheel = MPIS[name]
    environment = Path(f"{sys.prefix}-{name}")
    if works(environment / "bin" / "python", vendor):
        return 0
    if (problem := make(environment, vendor, wheel)) is not None:
        shutil.rmtree(environment, ignore_errors=True)
        print(f"no {vendor} here ({problem}); its tests will be skipped", file=sys.stderr)
    return problem is not None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
