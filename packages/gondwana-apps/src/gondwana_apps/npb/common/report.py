"""The official output of NPB 3.4: scripts look for its keys, so their spelling stays."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from gondwana.results import environment

STUDY = {
    "MG": "197 lines in all",
    "FT": "3 lines of communication, beside 121 in Fortran",
    "CG": "54 lines of computation fewer than Fortran, 27 of declarations more",
}
"""Figures that the text of the study gives for its own Titanium code."""

VALUES = {"MG": "L2 Norm", "CG": "Zeta"}
"""Name of the value; FT prints its checksums as it goes."""


def banner(name: str) -> str:
    """Return the first lines. Local."""
    return f"\n\n NAS Parallel Benchmarks 3.4 -- {name} Benchmark\n"


def ending(name: str, iterations: int, result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdict, the block of keys that all benchmarks end with, and our own lines. Local.

    Args:
        name: name of the benchmark, "MG".
        iterations: number of iterations in the timed region.
        result: result as for the JSON file.
    """
    yield from _verdict(name, result)
    if result["reason"]:
        yield f" {result['reason']}"
    yield f"\n\n {name} Benchmark Completed."
    for key, value in _official(iterations, result).items():
        yield f" {key:<16}= {value:>24}"
    yield "\n Compile options:"
    for key, value in _toolchain(result).items():
        yield f"    {key:<13}= {value}"
    yield from _lines_of_code(name, result["lines"])


def _verdict(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    verified, what = result["verified"], VALUES.get(name)
    if verified is None:
        yield " Problem size unknown"
        yield " NO VERIFICATION PERFORMED"
    elif what is None:
        yield f" Result verification {'successful' if verified else 'failed'}"
    else:
        yield " Benchmark completed"
        yield f" VERIFICATION {'SUCCESSFUL' if verified else 'FAILED'}"
        yield f" {what} is  {result['value']:.13E}"
        yield (
            f" Error is    {result['error']:.13E}"
            if verified
            else f" The correct {what} is  {result['reference']:.13E}"
        )


def _official(iterations: int, result: Mapping[str, Any]) -> dict[str, str]:
    return {
        "Class": result["class"],
        "Size": result["size"],
        "Iterations": str(iterations),
        "Time in seconds": f"{result['seconds']:.2f}",
        "Total processes": str(result["ranks"]),
        "Active procs": str(result["active"]),
        "Mop/s total": f"{result['mops']:.2f}",
        "Mop/s/process": f"{result['mops'] / result['ranks']:.2f}",
        "Operation type": "floating point",
        "Verification": "SUCCESSFUL" if result["verified"] else "UNSUCCESSFUL",
        "Version": "3.4",
        "Compile date": f"{datetime.datetime.now(datetime.UTC):%d %b %Y}",
    }


def _toolchain(result: Mapping[str, Any]) -> dict[str, str]:
    around = environment()
    versions = around["versions"]
    return {
        "Gondwana": f"{result['version']}, variant {result['variant']}",
        "Python": f"{around['python']}, NumPy {versions['numpy']}",
        "Compiler": f"Numba {versions['numba']}, llvmlite {versions['llvmlite']}, for this processor",
        "MPI library": around["mpi_library"] or "none, one rank",
        "Processor": around["cpu"],
        "Threads": f"{result['threads']} a rank",
        "Set-up": f"{result['seconds_setup']:.3f} s, and {result['seconds_compile']:.3f} s to compile or load code",
        "Peak memory": f"{result['peak_memory'] / 2**20:.0f} MiB in all ranks",
    }


def _lines_of_code(name: str, lines: Mapping[str, int]) -> Iterator[str]:
    counted = ", ".join(f"{kind} {number}" for kind, number in lines.items())
    yield f"\n Lines of code in the timed region: {counted}, in all {sum(lines.values())}"
    if name in STUDY:
        yield f" The Titanium study's own (UCB/EECS-2006-5): {STUDY[name]}"
