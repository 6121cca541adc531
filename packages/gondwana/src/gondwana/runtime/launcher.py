"""The launcher that started this process, as environment variables describe it. Starts nothing.

A process that a rank starts inherits these variables, and would take the place of the rank in its job. So a rank notes
its process and its job in one more variable. Another process that finds the note, and the same job, is a child of that
rank: it forgets the launcher, and is a job of one rank. A program that a rank executes in its own place (`os.exec`)
has its process number, and is still the rank; so is a process that a shell between launcher and rank starts, since a
shell notes nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from gondwana.inputs import whole_number
from gondwana.runtime.files import process_table, text_of
from gondwana.runtime.watching.restarts import RESTARTED

NOTE = "GONDWANA_RANK_PROCESS"
"""Name of the variable with the process number of a rank and the identity of its job, for the rank's children."""

DAEMONS = ("prterun", "prted", "mpirun", "mpiexec", "orterun", "orted", "mpiexec.hydra", "hydra_pmi_proxy")
"""Names of processes of Open MPI and of Hydra (MPICH and others) that start ranks and live as long as these."""

_SETS = (
    *("OMPI_", "PMIX_", "PMI_", "PMI2_", "HYDI_", "MPI_LOCAL", "MV2_COMM_WORLD", "FLUX_TASK", "JSM_", "PALS_"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP"),
    *("GONDWANA_BIND", "GONDWANA_STDIN", "GONDWANA_TERMINAL", "GONDWANA_TIMING"),
)
"""Prefixes of variables that a launcher, or `gondwana run`, sets for one rank or one job alone."""

_SETTINGS = ("OMPI_MCA_", "PMIX_MCA_", "OMPI_ALLOW_RUN_AS_ROOT")
"""Prefixes of variables that hold settings of users, and are kept."""

_JOBS = (
    *("PMIX_NAMESPACE", "PMI_FD", "PMI_PORT", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "FLUX_JOB_ID"),
    *("JSM_JOBID", "PALS_APID"),
)
"""Variables of which at least one differs between two jobs of a launcher that could be confused."""

_VARIABLES = (
    # launcher, variable with the rank, variable with the number of ranks (empty: it has none)
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    ("mpiexec of PALS", "PALS_RANKID", "PMI_SIZE"),
    ("mpiexec with PMI", "PMI_RANK", "PMI_SIZE"),
    ("a launcher with PMIx", "PMIX_RANK", ""),
)

_WITHIN_STEPS = ("OMPI_COMM_WORLD_SIZE", "HYDI_CONTROL_FD", "MPI_LOCALNRANKS")
"""Variables of the launchers of Open MPI and of Hydra, whose parts on other nodes may be tasks of `srun`."""

_LISTENS = "0A"
"""The state of a socket that listens, in the kernel's tables."""


class Launch(NamedTuple):
    """How this process was started.

    Args:
        launcher: name of the launcher, for messages.
        rank: number of the process in the job.
        size: number of processes started; None if the launcher sets no such variable.
        wired: whether the launcher offers the connection (PMI or PMIx) through which MPI finds the other ranks.
    """

    launcher: str
    rank: int
    size: int | None
    wired: bool


def launched_by() -> str | None:
    """Return the name of the launcher that started this process, such as "srun", None if started without one. Local.

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
    process, tasks = (whole_number(environment.get(name, "")) for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
    for name, rank, size in _VARIABLES:
        number = whole_number(environment.get(rank, ""))
        if number is not None and number >= 0:
            if tasks is not None and number == process and not any(name in environment for name in _WITHIN_STEPS):
                return Launch("srun", number, tasks, wired=True)
            return Launch(name, number, whole_number(environment.get(size, "")) if size else None, wired=True)
    # srun without PMI or PMIx: N processes that cannot find each other. A batch script is not a step.
    if process is not None and tasks is not None and tasks > 1:
        return Launch("srun", process, tasks, wired=False)
    return None


def enter() -> Launch | None:
    """Note that this process is a rank, or forget the launcher if it is a child of one; return its launch. Local.

    Call it before anything else asks for the launcher.
    """
    if _is_child(os.environ):
        forget()
    launch = detect()
    if launch is not None:
        os.environ[NOTE] = f"{os.getpid()} {_job(os.environ)}"
        os.register_at_fork(after_in_child=forget)
    return launch


def forget() -> None:
    """Remove the launcher's variables from the environment of this process, which is no rank of its job. Local."""
    alone = without(os.environ)
    for name in os.environ.keys() - alone.keys():
        del os.environ[name]


def in_step() -> bool:
    """Return whether this process, or one above it, was started by a rank of a step of this Slurm allocation. Local."""
    process, *job = os.environ.get(NOTE, "").split() or [""]
    return process != str(os.getpid()) and f"SLURM_JOB_ID={os.environ.get('SLURM_JOB_ID')}" in job


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that make a process a rank of a job. Pure."""
    return {
        name: value for name, value in environment.items() if not name.startswith(_SETS) or name.startswith(_SETTINGS)
    }


def _is_child(environment: Mapping[str, str]) -> bool:
    """Return whether a rank of the job that the environment describes has started this process."""
    process, _, job = environment.get(NOTE, "").partition(" ")
    rank = whole_number(process)
    if rank is None or rank == os.getpid() or job != _job(environment):
        return False
    # Jobs of Hydra may look alike; with a launcher between this process and the rank it is another job.
    parent = os.getppid()
    while parent not in (0, rank):
        if name_of(parent) in DAEMONS:
            return False
        parent = _parent_of(parent)
    return True


def _job(environment: Mapping[str, str]) -> str:
    launch = detect(environment)
    return " ".join(
        [f"{launch and launch.rank}", *(f"{name}={environment[name]}" for name in _JOBS if name in environment)]
    )


def left_over(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the variables of a launcher that is gone, such as those of a job that has ended. Local.

    Only certain cases: no descriptor where MPICH's launcher has one, no server of PMIx or none that listens here.
    """
    if environment is os.environ and name_of(os.getppid()) in DAEMONS:
        return []  # the lists of sockets, which are read below, are long where ranks are many
    names = []
    descriptor = whole_number(environment.get("PMI_FD", ""))
    if descriptor is not None and not os.path.exists(f"/proc/self/fd/{descriptor}"):
        names.append("PMI_FD")
    if "PMIX_NAMESPACE" in environment:
        servers = {name: environment[name] for name in environment if name.startswith("PMIX_SERVER_URI")}
        ports = [re.search(r"tcp[46]://.*:(\d+)$", server) for server in servers.values()]
        if not any(port is None or int(port[1]) in _listening() for port in ports):
            names += ["PMIX_NAMESPACE", *sorted(servers)]
    return names


@functools.cache
def _listening() -> frozenset[int]:
    """The ports at which processes of this host listen."""
    texts = map(text_of, ("/proc/net/tcp", "/proc/net/tcp6"))
    sockets = (line.split() for text in texts for line in text.splitlines()[1:])
    return frozenset(int(words[1].rpartition(":")[2], 16) for words in sockets if words[3] == _LISTENS)


BEGAN = "GONDWANA_BEGAN"
"""Variable with the time [ns since 1970] of the first start of a job that is started again."""


def restarted() -> int:
    """Return how often this job was started again: by `gondwana run --restarts`, or by Slurm's requeue. Local.

    Example:
        >>> import gondwana as gw
        >>> gw.restarted()
        0
    """
    return sum(int(os.environ.get(name) or 0) for name in (RESTARTED, "SLURM_RESTART_COUNT"))


def name_of(process: int) -> str:
    """Return the name of a process, "" if it does not exist. Local."""
    return text_of(f"/proc/{process}/comm")


def _parent_of(process: int) -> int:
    """Return the parent of a process, 0 if unknown."""
    fields = process_table(process)
    return int(fields[1]) if fields else 0


def on_one_host(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a launcher says that it has started several ranks of Open MPI, all on this host. Local."""
    size = environment.get("OMPI_COMM_WORLD_SIZE", "")
    if size:  # mpirun, perhaps in an allocation of Slurm
        return size != "1" and environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == size
    several = environment.get("SLURM_STEP_NUM_TASKS", "1") != "1" and "PMIX_RANK" in environment
    return several and environment.get("SLURM_STEP_NUM_NODES") == "1"
