"""Make the environment with the second MPI of the tests, .venv-mpich beside .venv. Does nothing if it works.

The wheels of Open MPI and MPICH overwrite each other's mpiexec, so each needs an environment of its own. This one holds
only mpi4py and MPICH; everything else comes from the main environment, whose packages are found after its own.

Usage: python tests/support/make_mpich_env.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ENVIRONMENT = Path(f"{sys.prefix}-mpich")
REQUIREMENTS = ("mpi4py>=4.1", "mpich>=4.3")
PROBE = "import gondwana, numpy; from mpi4py import MPI; assert MPI.get_vendor()[0] == 'MPICH', MPI.get_vendor()"


def works(python: Path) -> bool:
    """Tell whether ``python`` has MPICH under mpi4py, and the packages of the main environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_"))}
    return python.exists() and subprocess.run([python, "-c", PROBE], env=clean, capture_output=True).returncode == 0


def main() -> int:
    python = ENVIRONMENT / "bin" / "python"
    if works(python):
        return 0
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(ENVIRONMENT), "platbase": str(ENVIRONMENT)}))
    # A line that starts with "import" is executed. addsitedir appends, and reads the main environment's .pth files.
    main_packages = sysconfig.get_path("purelib")
    (own / "main_environment.pth").write_text(f"import site; site.addsitedir({main_packages!r})\n")
    if not works(python):
        print(f"{ENVIRONMENT} was made but does not work: run\n  {python} -c {PROBE!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
