"""The launcher that started this process, as environment variables describe it. Pure: starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from gondwana.inputs import whole_number

_VARIABLES = (
    # launcher, variable with the rank, variable with the number of ranks (empty: it has none)
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    ("mpiexec with PMI", "PMI_RANK", "PMI_SIZE"),
    ("mpiexec of PALS", "PALS_RANKID", ""),
    ("a launcher with PMIx", "PMIX_RANK", ""),
)


@dataclass(frozen=True)
class Launch:
    """How this process was started.

    Args:
        launcher: its name, for messages.
        rank: the number of the process in the job.
        size: how many processes were started; None where the launcher sets no such variable.
        wired: whether the launcher offers the connection (PMI or PMIx) through which MPI finds the other ranks.
    """

    launcher: str
    rank: int
    size: int | None
    wired: bool


def launched_by() -> str | None:
    """Return the name of the launcher that started this process, such as "srun", None if none did. Local.

    Example:
        >>> import gondwana as gw
        >>> gw.launched_by() or "started by hand"                     # doctest: +SKIP
        'mpirun of Open MPI'
    """
    launch = detect()
    return None if launch is None else launch.launcher


def is_first() -> bool:
    """Return whether the launcher counts this process as the first of the job. Local."""
    launch = detect()
    return launch is None or launch.rank == 0


def detect(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """Return how the launcher describes this process, or None if no launcher started it. Local."""
    for name, rank, size in _VARIABLES:
        number = whole_number(environment.get(rank, ""))
        if number is not None and number >= 0:
            return Launch(name, number, whole_number(environment.get(size, "")) if size else None, wired=True)
    # srun without PMI or PMIx: N processes that cannot find each other. Batch scripts are no steps.
    number, tasks = (whole_number(environment.get(name, "")) for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
    if number is not None and tasks is not None and tasks > 1:
        return Launch("srun", number, tasks, wired=False)
    return None


def on_one_host(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a launcher says that it has started several ranks of Open MPI, all on this host. Local.

    False where it does not say.
    """
    size = environment.get("OMPI_COMM_WORLD_SIZE", "")
    if size:  # mpirun, perhaps in an allocation of Slurm
        return size != "1" and environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == size
    several = environment.get("SLURM_STEP_NUM_TASKS", "1") != "1" and "PMIX_RANK" in environment
    return several and environment.get("SLURM_STEP_NUM_NODES") == "1"
