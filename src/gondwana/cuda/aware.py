"""Whether MPI takes device memory: nobody can ask it, and a wrong guess is a crash or wrong bytes.

So `gondwana doctor` tries it in a job of its own and leaves a proof on disk, which holds for this MPI with these
settings, this driver and these devices.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from pathlib import Path

from gondwana.cuda.driver import driver
from gondwana.world import mpi
from gondwana.world.cache_folder import cache_folder

_DECIDES = ("FI_", "MPICH_", "OMPI_MCA_btl", "OMPI_MCA_opal", "OMPI_MCA_osc", "OMPI_MCA_pml", "UCX_")
"""How the names of variables begin by which users choose MPI's transports."""


@functools.cache
def proven() -> bool:
    """Tell whether messages of this process's MPI may lie in device memory. Local; cheap.

    It is not where MPI does not run. Ranks of different nodes may find different answers.
    """
    file = _proof()
    return file is not None and file.exists()


def withdraw() -> None:
    """Forget that it was proven. Local."""
    _settle(False)


def prove() -> None:
    """Note that it works, for all later processes of this user. Local."""
    _settle(True)


def _settle(works: bool) -> None:
    file = _proof()
    if file is not None:
        with contextlib.suppress(OSError):  # without a folder nothing is ever proven
            file.touch() if works else file.unlink(missing_ok=True)
    proven.cache_clear()


def _proof() -> Path | None:
    """The file that stands for the proof; None where there can be none."""
    folder = cache_folder("proofs") if mpi.is_running() else None
    if folder is None:
        return None
    one = driver()
    devices = [one.facts(number).name for number in range(one.count())]
    settings = sorted(pair for pair in os.environ.items() if pair[0].startswith(_DECIDES))
    about = json.dumps([mpi.library(), one.name, _kernel_module(), devices, settings])
    return folder / f"mpi-takes-device-memory-{hashlib.sha256(about.encode()).hexdigest()[:24]}"


def _kernel_module() -> str:
    """What the driver's part in the kernel says of its version, "" if it says nothing."""
    with contextlib.suppress(OSError):
        return Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").partition("\n")[0]
    return ""
