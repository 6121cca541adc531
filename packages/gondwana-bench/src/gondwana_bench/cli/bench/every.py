"""``gondwana bench all``: one benchmark after the other, into one file."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gondwana.errors import UsageError
from gondwana.results import VERSION, check_writable, read, write_json
from gondwana_bench.cli.bench.options import File, names
from gondwana_bench.processes import bench_command
from gondwana_bench.rows import check_names

QUICK = {
    "stencil": "--kernels sweep7,gray_scott,gray_scott_pair,triad --sizes 128 --dtypes float64 --repeat 10",
    "loops": "--sizes 1048576 --repeat 3",
    "init": "--repeat 8",
    "fib": "--numbers 0,10,20 --repeat 10 --batch 0.005",
    "exchange": "--sizes 64 --repeat 10",
    "rma": "--sizes 8,4096,65536,1048576 --repeat 5 --batch 0.005",
    "injection": "--threads 1,2 --repeat 5 --batch 0.005",
    "collectives": "--sizes 8,1024,8192,1048576 --repeat 5 --batch 0.005",
    "ping-pong": "--sizes 1,1024,65536 --repeat 10",
    "ring": "--communications 10 --repeat 10",
    "osu": "--sizes 4,1024,65536 --repeat 3",
    "tasks": "--repeat 3 --batch 0.005",
    "pools": "--cases null --tasks 2000 --repeat 2",
    "start": "--ranks 1,2 --repeat 2",
    "npb": "--classes W --repeat 1",
    "hpcg": "--sizes 16 --ranks 1,2 --rt 0 --repeat 2",
    "clustering": "--app pwc --points 400 --patterns 1x1x1,1x2x1 --repeat 1",
    "heat": "--sizes 16,64 --steps 300 --jobs 1",
    "scaling": "heat gray-scott --ranks 1,2 --size 48 --steps 40 --jobs 1",
    "io": "--ranks 1,2 --size 48 --steps 2 --jobs 2",
}
"""Options with which a benchmark takes some ten seconds, in the order in which they run."""

NEED_A_GPU = ("gpu", "kinds")


def every(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and rounds: about five minutes.")] = False,
    only: Annotated[str | None, typer.Option(metavar="NAME,...", help="Of `bench --list` [all].")] = None,
    file: File = None,
) -> None:
    """Run all benchmarks, one after the other, and write one file for `gondwana report`.

    Those of GPUs run where there is one. A benchmark that fails does not keep the others from running; the exit status
    is 0 only if all were complete and right.
    """
    if file is not None:
        check_writable(file)
    wanted = names(only) or _there()
    check_names("--only", wanted, (*QUICK, *NEED_A_GPU))
    found: list[dict[str, Any]] = []
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(wanted, 1):
            part = Path(folder) / f"{name}.json"
            _announce(f"{number} of {len(wanted)}: gondwana bench {name}")
            start = time.monotonic()
            words = [*_words(name, quick=quick), "--json", str(part)]
            status = subprocess.run(bench_command(name, *words), stdin=subprocess.DEVNULL, check=False).returncode
            if part.exists():
                found += read(part)
            if status:
                failed.append(name)
            _announce(
                f"{name} took {time.monotonic() - start:.0f} s" + (f" and FAILED, status {status}" if status else "")
            )
            if file is not None:
                write_json(file, {"schema": VERSION, "collection": "gondwana bench all", "results": found})
    if failed:
        _announce(f"FAILED: {', '.join(failed)}")
        raise typer.Exit(1)


def listing(app: typer.Typer) -> str:
    """Return the names of the benchmarks with what each does, one a line. Local."""
    lines = []
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        lines.append((name, (command.callback.__doc__ or "").partition("\n")[0]))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:{width}}  {text}" for name, text in lines)


def _words(name: str, *, quick: bool) -> list[str]:
    if not quick:
        return []
    return ["--quick"] if name in NEED_A_GPU else QUICK[name].split()


def _announce(text: str) -> None:
    sys.stdout.flush()
    print(f"gondwana: {text}", file=sys.stderr, flush=True)


def _there() -> list[str]:
    """Return the benchmarks that this machine has everything for."""
    import gondwana as gw

    try:
        devices = gw.device_count()
    except UsageError:  # there is no driver
        devices = 0
    lacking = set() if importlib.util.find_spec("adios2") else {"io"}
    for name in lacking:
        _announce(f"left out {name}: the package adios2 is not installed")
    return [name for name in (*QUICK, *(NEED_A_GPU if devices else ())) if name not in lacking]
