"""Slurm: the resources of this process's allocation, and the PMI through which `srun` starts ranks of an MPI in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gondwana.cli import library, slurm_step
from gondwana.cli.library import Library
from gondwana.inputs import whole_number
from gondwana.runtime import cache_folder, launcher

SRUN = "srun"

_TRIAL = "from mpi4py import MPI; print('ranks', MPI.COMM_WORLD.size)"
_TRIAL_TIME = 60
"""Seconds after which a trial has failed."""


def there() -> bool:
    """Return whether this process is inside a Slurm allocation that can start ranks. Local."""
    return "SLURM_JOB_ID" in os.environ and shutil.which(SRUN) is not None


def in_shell() -> bool:
    """Return whether this process is the only one of a step, such as a shell of `srun --pty`, and not a rank. Local."""
    launch = launcher.detect()
    alone = os.environ.get("SLURM_STEP_NUM_TASKS") == "1" and (launch is None or launch.launcher == "srun")
    return there() and alone and not launcher.in_step()


def starts_ranks() -> bool:
    """Return whether ranks that this process starts must be a step of the allocation. Local."""
    return there() and not launcher.in_step() and (launcher.detect() is None or in_shell())


def ranks() -> int:
    """Return the number of ranks that the allocation was made for: its tasks, or one on each node. Local."""
    return whole_number(os.environ.get("SLURM_NTASKS", "")) or nodes()


def nodes() -> int:
    """Return the number of nodes of the allocation. Local."""
    return whole_number(os.environ.get("SLURM_JOB_NUM_NODES", "")) or 1


def cores() -> int | None:
    """Return the number of cores of the allocation on all nodes, None if Slurm does not say. Local."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return sum(int(each) * int(times or 1) for each, times in found) or None


def srun(number: int, threads: int, per_node: int | None, kind: str, *, bound: bool) -> list[str]:
    """Return the words that start ranks. Local.

    Args:
        number: number of ranks.
        threads: threads of each rank.
        per_node: ranks of each node; None: Slurm decides.
        kind: kind of PMI.
        bound: whether the ranks bind themselves.
    """
    argv = [SRUN, "-n", str(number)]
    filled = number if per_node is None else per_node * nodes()  # as if all nodes had as many ranks as one of the job
    crowded = filled * threads > (cores() or filled * threads)
    argv += ["--overcommit"] if crowded else ["-c", str(threads)]
    if per_node is not None:
        argv += ["-N", str(number // per_node), f"--ntasks-per-node={per_node}", "--distribution=block"]
    elif number < nodes():
        argv += ["-N", str(number)]
    if bound:
        argv.append("--cpu-bind=none")
    argv += _within_step()
    name = f"{slurm_step.NAME}gondwana-{os.uname().nodename}-{os.getpid()}"  # by which the supervisor finds the step
    # With --input=all, each rank would have a copy of the standard input.
    return [*argv, f"--mpi={kind}", "--kill-on-bad-exit=1", name, "--input=0"]


def _within_step() -> list[str]:
    """The option without which a step waits for the end of this process's step."""
    return ["--overlap"] if "SLURM_STEP_ID" in os.environ else []


def stale() -> frozenset[str]:
    """Return the variables that `srun` must not see: those of this process's step, if any. Local."""
    if "SLURM_STEP_ID" not in os.environ:
        return frozenset()
    kept = launcher.without(os.environ)
    return frozenset(name for name in os.environ if name not in kept or name.startswith("SLURM_CPU_BIND"))


def pmi(found: Library, python: str, settings: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the PMI by which ranks of this MPI find each other, and the problems of the others. Local.

    It is tried by two ranks that start MPI, since Slurm lists some that it cannot load; a working one is remembered.

    Args:
        found: the MPI.
        python: the interpreter of the ranks.
        settings: their environment.
    """
    listed = subprocess.run([SRUN, "--mpi=list"], capture_output=True, text=True, timeout=_TRIAL_TIME)
    offered = set((listed.stdout + listed.stderr).split())
    wanted = ["pmix"] if found.vendor == "Open MPI" else ["pmi2", "pmix"]
    if found.vendor != "Open MPI" and ("/cray/" in found.path or Path("/opt/cray/pe").exists()):
        wanted.insert(0, "cray_shasta")  # others list it, too, and start ranks that do not find each other
    kept = None if (folder := cache_folder.cache_folder("mpi", quiet=True)) is None else folder / "slurm.json"
    circumstances = [*found, python, os.environ.get("SLURM_CLUSTER_NAME", ""), *(library.circumstances() or [])]
    problems = []
    for kind in wanted:
        if kind not in offered:
            problems.append(f"{kind}: not offered")
            continue
        note = json.dumps([kind, circumstances]).encode()
        if kept is not None and cache_folder.read(kept) == note:
            return kind, ""
        problem = _try(kind, python, settings)
        if problem is None:
            if kept is not None:
                cache_folder.keep(kept, note)
            return kind, ""
        problems.append(f"{kind}: {problem}")
    return None, "; ".join(problems)


def _try(kind: str, python: str, settings: Mapping[str, str]) -> str | None:
    """Start two ranks, and return the problem; None without one."""
    argv = [SRUN, "-n", "2", "-N", str(min(2, nodes())), "--overcommit", "--kill-on-bad-exit=1", f"--mpi={kind}"]
    argv += [*_within_step(), python, "-P", "-c", _TRIAL]
    without = stale()
    variables = {name: value for name, value in os.environ.items() if name not in without} | dict(settings)
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TRIAL_TIME, env=variables
        )
    except subprocess.TimeoutExpired:
        return f"two ranks have not started within {_TRIAL_TIME} s"
    if done.stdout.split("\n").count("ranks 2") == 2:
        return None
    if "ranks 1" in done.stdout:
        return "ranks do not find each other"
    lines = [line for line in done.stderr.splitlines() if line.strip(" -")]
    return lines[0] if lines else f"status {done.returncode}"
