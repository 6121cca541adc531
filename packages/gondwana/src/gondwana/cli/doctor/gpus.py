"""The report of ``gondwana doctor`` on GPUs. Trials that may crash or hang run in separate processes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gondwana.cli import launch
from gondwana.cli.doctor.findings import Finding, Verdict, judged
from gondwana.errors import LaunchError, UsageError
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError, Driver
from gondwana.teams import device_memory

_ALL_GPUS = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's kernel module lists the GPUs of the machine, whatever this process sees."""

_ERROR = re.compile(r"^(?:\[rank [^]]*\] )?((?:[\w.]+Error|gondwana: error): .*)$", re.MULTILINE)
"""The last line of a traceback, or of a message of ours."""


def gpus() -> Iterator[Finding]:
    """Report the GPUs, which rank uses which, and the access of processes to their memory. Local: starts processes."""
    try:
        one = driver()
    except UsageError as error:
        yield Finding("GPUs", Verdict.OK, f"none: {error}")
        return
    yield Finding("CUDA driver", Verdict.OK, f"{one.name}{_packages()}")
    yield from _devices(one)
    yield from _memory()
    yield from _mpi()


def _packages() -> str:
    found = []
    for package in ("cuda-bindings", "numba-cuda"):
        try:
            found.append(f", {package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "".join(found)


def _devices(one: Driver) -> Iterator[Finding]:
    count = one.count()
    for number in range(count):
        subject = f"GPU {number}"
        try:
            facts = one.facts(number)
        except CudaError as error:
            yield Finding(subject, Verdict.FAIL, str(error), "nvidia-smi may show more")
            continue
        capability = ".".join(map(str, facts.capability))
        memory = f"{facts.memory / 2**30:.1f} GiB"
        parts = (facts.name, f"capability {capability}", memory, facts.uuid, f"at {facts.bus}")
        yield Finding(subject, Verdict.OK, ", ".join(parts))
    there = len(list(_ALL_GPUS.glob("*")))
    if there > count:
        yield Finding(
            "GPUs that this process sees",
            Verdict.WARN,
            f"{count} of {there} of this machine",
            "ranks that see different ones copy between them through host memory: let all ranks of a node see all "
            "(srun --gpu-bind=none, no CUDA_VISIBLE_DEVICES)",
        )
    turns = ", ".join(f"rank {rank}: GPU {rank % count}" for rank in range(count + 1))
    yield Finding("GPUs of ranks", Verdict.OK, f"{turns} and so on, by their place on the node")


def _memory() -> Iterator[Finding]:
    """Report the trial of device memory by a process and its child."""
    found = _try([sys.executable, "-P", "-m", "gondwana.cli.doctor.gpu_trial"], "GPU ")
    if isinstance(found, str):
        yield Finding(
            "memory of GPUs", Verdict.FAIL, found, "run `python -m gondwana.cli.doctor.gpu_trial` to see all of it"
        )
        return
    for subject, key, works, remedy in (
        (
            "GPU memory of another rank",
            "attach",
            "maps (CUDA IPC)",
            "ranks of a node go through host memory; containers: share the IPC and PID spaces (--ipc=host --pid=host)",
        ),
        (
            "pinned host memory",
            "register",
            "shared memory can be registered",
            "copies to and from GPUs take longer; raise the limit of locked memory (ulimit -l unlimited)",
        ),
    ):
        yield judged(subject, not found[key], found[key] or works, remedy)


def _mpi() -> Iterator[Finding]:
    """Report whether MPI accepts device memory."""
    subject = "MPI and GPU memory"
    try:
        command = launch.command(2, ["-P", "-m", "gondwana.cli.doctor.aware_trial"], threads=1, time_limit=60)
    except LaunchError:
        yield Finding(subject, Verdict.OK, "not tried: more than one rank needs MPI and its launcher")
        return
    found = _try(command.argv, "AWARE ", command.environment())
    told = {"claims": None, "problem": found} if isinstance(found, str) else found
    why, forced = told["problem"], os.environ.get(device_memory.VARIABLE)
    said = f"{device_memory.VARIABLE}={forced}" if forced else "MPI says so" if told.get("claims") else ""
    if forced != "0" and said:
        good = f"MPI takes GPU memory, and is given it by copies between nodes ({said})"
        bad = f"copies between nodes give MPI memory of GPUs ({said}), but in a trial it did not take it: {why}"
        remedy = f"set {device_memory.VARIABLE}=0: copies between nodes then go through pinned host memory"
        yield judged(subject, not why, bad if why else good, remedy, Verdict.FAIL)
        return
    through = "copies between nodes go through pinned host memory in pieces"
    if why:
        text = f"MPI takes no GPU memory ({why}): {through}; an MPI that is built for CUDA does without"
    else:
        text = f"MPI takes GPU memory in a trial on one node, but {said or 'does not say so'}: {through}; "
        text += f"{device_memory.VARIABLE}=1 gives it that of GPUs, if the network takes it, too"
    yield Finding(subject, Verdict.OK, text)


def _try(argv: Sequence[str], prefix: str, environment: Mapping[str, str] | None = None) -> dict[str, Any] | str:
    """Run a command; return the JSON that it prints after `prefix`, and a "problem", or a description of its end."""
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return "still running after 120 s"
    problem = ending(done.returncode, done.stderr)
    found: dict[str, Any] = {"problem": problem}  # unless the command has come so far as to say what it is
    lines = [line.removeprefix(prefix) for line in done.stdout.splitlines() if line.startswith(prefix)]
    for line in lines:
        found |= json.loads(line)
    return found if lines else problem


def ending(status: int, stderr: str) -> str:
    """Return the end of a process that has not printed its result, as text. Local.

    Args:
        status: exit status; a negative one is a signal.
        stderr: its standard error.
    """
    number = -status if status < 0 else status - 128  # launchers add 128
    if number > 0:
        return f"it crashed: {signal.strsignal(number) or f'status {status}'}"
    errors = _ERROR.findall(stderr)
    return str(errors[-1]) if errors else f"it ended with status {status}"
