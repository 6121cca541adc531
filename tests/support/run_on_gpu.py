"""Run the tests and the benchmark of GPUs, both whatever becomes of the other, and leave their results as JSON.

Usage: .venv-gpu/bin/python tests/support/run_on_gpu.py --out FOLDER [--quick] [--limit SECONDS]; further
options are the benchmark's. The status is 1 if a test or the benchmark failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("packages/gondwana/tests/gpu", "packages/gondwana-apps/tests/gpu")
TOOLKIT = Path("/usr/local/cuda")
SHARE_OF_TESTS = 0.5
"""Part of the time limit; the benchmark has the rest, and all that the tests leave."""
GRACE = 10.0
"""Seconds that a command has to end after it was asked to."""
LONGEST = 4000
"""Characters of a failure that are kept."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS", help="for both together")
    options, others = parser.parse_known_args()
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.limit
    tests = run_tests(options.limit * SHARE_OF_TESTS)
    (options.out / "gpu-tests.json").write_text(json.dumps(tests, indent=2) + "\n")
    words = [*(["--quick"] if options.quick else []), *others]
    benchmark = run_benchmark(options.out / "gpu.json", words, end - time.monotonic())
    summarize(tests, benchmark, options.out)
    return 0 if tests["status"] == 0 and benchmark == 0 else 1


def run_tests(limit: float) -> dict[str, Any]:
    """Run the GPU tests of the packages and return how it went."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # The machine's packages are not those that the warnings of all other tests are errors for.
        command = [sys.executable, "-m", "pytest", *FOLDERS, "-W", "default", "-p", "no:cacheprovider"]
        start = time.monotonic()
        status = run([*command, f"--junitxml={report}"], limit)
        found = read(report) if report.exists() else {"tests": 0, "failed": 0, "skipped": 0, "failures": []}
    return {"status": status, "seconds": time.monotonic() - start, **found}


def read(report: Path) -> dict[str, Any]:
    """Count what pytest's report holds."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    bad = [(case, fault) for case in cases for fault in case if fault.tag in ("failure", "error")]
    return {
        "tests": len(cases),
        "failed": len({id(case) for case, _ in bad}),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "failures": [
            {"test": f"{case.get('classname')}::{case.get('name')}", "text": (fault.text or "")[-LONGEST:]}
            for case, fault in bad
        ],
    }


def run_benchmark(file: Path, options: list[str], limit: float) -> int:
    """Run the benchmark and return its status; it writes its measurements as it goes."""
    # It is told to end by itself a little before it would be ended.
    words = ["bench", "gpu", "--json", str(file), "--budget", f"{max(30.0, limit - 40.0):.0f}", *options]
    return run([sys.executable, "-m", "gondwana.cli.main", *words], max(60.0, limit))


def run(command: list[str], limit: float) -> int:
    """Run a command; at the end of its time it is ended with all that it has started, and the status is 124."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), start_new_session=True)
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        for ending in (signal.SIGINT, signal.SIGKILL):  # pytest then reports so far, and a launcher ends its ranks
            os.killpg(process.pid, ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE)
                break
        print(f"make: ended after {limit:.0f} s: {' '.join(command)}", flush=True)
        return 124


def environment() -> dict[str, str]:
    """The environment of both: the folder of CUDA's own compiler, which must not be searched for libraries."""
    named = "CUDA_HOME" in os.environ or "CUDA_PATH" in os.environ or not TOOLKIT.is_dir()
    return {**os.environ, **({} if named else {"CUDA_HOME": str(TOOLKIT)})}


def summarize(tests: dict[str, Any], benchmark: int, out: Path) -> None:
    passed = tests["tests"] - tests["failed"] - tests["skipped"]
    print(f"\ntests: {passed} passed, {tests['failed']} failed, {tests['skipped']} skipped in {tests['seconds']:.0f} s")
    for failure in tests["failures"]:
        print(f"  failed: {failure['test']}")
    if tests["status"] not in (0, 1):
        print(f"  pytest ended with status {tests['status']}")
    print("benchmark: " + ("done and verified" if benchmark == 0 else f"FAILED, status {benchmark}"))
    print(f"results: {out / 'gpu-tests.json'}, {out / 'gpu.json'}")


if __name__ == "__main__":
    raise SystemExit(main())
