"""Check a machine with a GPU step by step, each within its time, and leave what is found as files.

Usage: .venv-gpu/bin/python tests/support/run_on_gpu.py --out FOLDER [--steps NAMES] [--quick] [--limit SECONDS];
further options are the benchmark's. A step that fails or is cut off hinders no other one. The status is 1 if one
failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("packages/gondwana/tests/gpu", "packages/gondwana-apps/tests/gpu")
PROGRAMS = ROOT / "packages" / "gondwana" / "tests" / "parallel" / "programs"
SANITIZED = ((PROGRAMS / "device_array_checks.py",), (PROGRAMS / "copy_checks.py", "cuda"))
"""Programs of one rank, with small cases, that the sanitizers watch."""
TOOLS = ("memcheck", "racecheck", "synccheck")
TOOLKIT = Path("/usr/local/cuda")
LIMIT = 500.0
"""Seconds of a step: with its start and its end less than nine minutes."""
QUICK_LIMIT = 210.0
GRACE = 10.0
"""Seconds that a command has to end after it was asked to."""
ABSENT = 127
"""Status of a command whose program is not on this machine."""
METRICS = {
    "gpu__time_duration.sum": "time",
    "dram__bytes_read.sum": "bytes read from memory",
    "dram__bytes_write.sum": "bytes written to memory",
    "smsp__inst_executed.sum": "instructions of warps",
    "launch__registers_per_thread": "registers of a thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached",
}
"""What the profiler measures of each kernel, by its own names."""


@dataclass(frozen=True)
class Outcome:
    """The end of a step.

    Attributes:
        step: name of the step.
        status: 0 if all is well; 124 if it was cut off, `ABSENT` if a program that it needs is not here.
        seconds: time that it took.
        found: one line about it.
    """

    step: str
    status: int
    seconds: float
    found: str


def main() -> int:
    """Run the steps and print what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", help=f"some of {', '.join(STEPS)}, with commas or blanks between them")
    parser.add_argument("--quick", action="store_true", help="tests and benchmark only, with fewer sizes and rounds")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=f"for each step (default {LIMIT:.0f})")
    options, others = parser.parse_known_args()
    names = (options.steps or ("tests benchmark" if options.quick else " ".join(STEPS))).replace(",", " ").split()
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        parser.error(f"there is no step {unknown[0]}: legal are {', '.join(STEPS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    limit = options.limit or (QUICK_LIMIT if options.quick else LIMIT)
    words = [*(["--quick"] if options.quick else []), *others]
    found = list(outcomes(names, options.out, limit, words))
    print()
    for one in found:
        print(f"{one.step}: {one.found} ({one.seconds:.0f} s)")
    print(f"results: {options.out}/gpu*")
    return 0 if all(one.status in (0, ABSENT) for one in found) else 1


def outcomes(names: list[str], out: Path, limit: float, words: list[str]) -> Iterator[Outcome]:
    """Run steps one after the other; what has ended is written at once."""
    file = out / "gpu-steps.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        start = time.monotonic()
        print(f"make: {name}, at most {limit:.0f} s", flush=True)
        status, text = STEPS[name](out, limit, words)
        one = Outcome(name, status, round(time.monotonic() - start, 1), text)
        before[name] = asdict(one)
        file.write_text(json.dumps(before, indent=2) + "\n")
        yield one


def sanitizers(out: Path, limit: float, words: list[str]) -> tuple[int, str]:
    """Run small cases under each tool of compute-sanitizer; what it says goes to `gpu-memcheck.txt` and so on."""
    program = find("compute-sanitizer")
    if program is None:
        return ABSENT, "compute-sanitizer is not here: it is part of the CUDA toolkit"
    end, worst, said = time.monotonic() + limit, 0, []
    for number, tool in enumerate(TOOLS):
        share = (end - time.monotonic()) / (len(TOOLS) - number)
        log = out / f"gpu-{tool}.txt"
        log.unlink(missing_ok=True)
        status = 0
        for case in SANITIZED:
            options = ["--tool", tool, "--error-exitcode", "9", "--print-limit", "20", "--log-file", f"{log}.part"]
            command = [program, *options, sys.executable, *map(str, case)]
            status = run(command, share / len(SANITIZED), {"PYTHONPATH": str(ROOT / "tests")}) or status
            part = Path(f"{log}.part")
            with log.open("a") as whole:
                whole.write(f"{case[0]}\n{part.read_text() if part.exists() else ''}")
            part.unlink(missing_ok=True)
        worst = worst or status
        said.append(f"{tool} {verdict(status)}")
    return worst, ", ".join(said)


def tests(out: Path, limit: float, words: list[str]) -> tuple[int, str]:
    """Run the GPU tests of the packages; `gpu-tests.json` has each as soon as it has ended."""
    file = out / "gpu-tests.json"
    file.unlink(missing_ok=True)
    # The machine's packages are not those that the warnings of all other tests are errors for.
    options = ["-W", "default", "-p", "no:cacheprovider", "-p", "support.gpu_results", "--gpu-results", str(file)]
    status = run([sys.executable, "-m", "pytest", *FOLDERS, *options], limit, {"PYTHONPATH": str(ROOT / "tests")})
    found = json.loads(file.read_text()) if file.exists() else {"passed": 0, "failed": 0, "skipped": 0, "failures": []}
    file.write_text(json.dumps({**found, "status": status}, indent=2) + "\n")
    for failure in found["failures"]:
        print(f"  failed: {failure['test']}")
    text = f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped"
    return status, text if status in (0, 1) else f"{text}, {verdict(status)}"


def benchmark(out: Path, limit: float, words: list[str]) -> tuple[int, str]:
    """Run the benchmark, which writes its measurements to `gpu.json` as it goes."""
    # It is told to end by itself a little before it would be ended.
    options = ["--json", str(out / "gpu.json"), "--budget", f"{max(30.0, limit - 40.0):.0f}", *words]
    status = run([sys.executable, "-m", "gondwana.cli.main", "bench", "gpu", *options], limit)
    return status, "done and verified" if status == 0 else verdict(status)


def profile(out: Path, limit: float, words: list[str]) -> tuple[int, str]:
    """Measure three kernels by ncu, which writes a table to `gpu-profile.csv`."""
    program = find("ncu")
    if program is None:
        return ABSENT, "ncu is not here: it is part of the CUDA toolkit"
    options = ["--csv", "--log-file", str(out / "gpu-profile.csv"), "--metrics", ",".join(METRICS)]
    kernels = ["--kernel-name-base", "mangled", "--kernel-name", "regex:react_and_diffuse|sweep7"]
    command = [program, *options, *kernels, sys.executable, str(ROOT / "tests" / "support" / "gpu_profile.py")]
    status = run(command, limit, {"PYTHONPATH": str(ROOT / "tests")})
    return status, "three kernels" if status == 0 else verdict(status)


STEPS: Mapping[str, Callable[[Path, float, list[str]], tuple[int, str]]] = {
    "sanitizers": sanitizers,
    "tests": tests,
    "benchmark": benchmark,
    "profile": profile,
}
"""The steps by name, in the order in which a new machine is checked."""


def find(program: str) -> str | None:
    """Return the path of a tool of CUDA: that of the environment, or that of the toolkit of this machine."""
    return shutil.which(program) or shutil.which(program, path=str(TOOLKIT / "bin"))


def verdict(status: int) -> str:
    """Say what the status of a command means."""
    return {0: "clean", 9: "FOUND ERRORS", 124: "CUT OFF"}.get(status, f"FAILED, status {status}")


def run(command: list[str], limit: float, variables: Mapping[str, str] | None = None) -> int:
    """Run a command; at the end of its time it is ended with all that it has started, and the status is 124."""
    settings = {**environment(), **(variables or {})}
    process = subprocess.Popen(command, cwd=ROOT, env=settings, start_new_session=True)
    try:
        return process.wait(timeout=max(1.0, limit))
    except subprocess.TimeoutExpired:
        for ending in (signal.SIGINT, signal.SIGKILL):  # pytest then reports so far, and a launcher ends its ranks
            os.killpg(process.pid, ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE)
                break
        print(f"make: ended after {limit:.0f} s: {' '.join(command)}", flush=True)
        return 124


def environment() -> dict[str, str]:
    """The environment of all steps: the folder of CUDA's own compiler, which must not be searched for libraries."""
    named = "CUDA_HOME" in os.environ or "CUDA_PATH" in os.environ or not TOOLKIT.is_dir()
    return {**os.environ, **({} if named else {"CUDA_HOME": str(TOOLKIT)})}


if __name__ == "__main__":
    raise SystemExit(main())
