"""The cost of the first step: with compilation, and in a second process that loads the code from the cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import gondwana as gw
from gondwana.errors import GondwanaError
from gondwana_bench.gpu.fields import Fields
from gondwana_bench.gpu.steppers import OneSweep
from gondwana_bench.rows import Row, columns

SIDE = 256
CASES = (("float64", False), ("float64", True), ("float32", False), ("float32", True))

COLUMNS = columns(
    "dtype noise cache first_ms next_ms open_ms compiled loaded verified",
    first_ms="first call, ms", next_ms="next, ms", open_ms="device opened, ms", verified="as it should",
)  # fmt: skip


def measure(size: int = SIDE, cases: Sequence[tuple[str, bool]] = CASES) -> Iterator[Row]:
    """Start two processes for each case, with a cache of their own, a row for each. Local.

    A row is as it should be if the first process compiles and the second does not.

    Args:
        size: cells a side of the cube.
        cases: precision, and whether the kernel adds noise.
    """
    for dtype, noise in cases:
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("cold", "warm"):
                found = _run(size, dtype, noise, folder)
                yield {
                    "dtype": dtype,
                    "noise": noise,
                    "cache": cache,
                    **found,
                    "verified": (found["compiled"] > 0) == (cache == "cold"),
                }


def _run(size: int, dtype: str, noise: bool, folder: str) -> Row:
    command = [sys.executable, "-P", "-m", __name__, str(size), dtype, str(int(noise))]
    environment = {**os.environ, "GONDWANA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise GondwanaError(f"the process that measures the first call failed: {reason}")
    found: Row = json.loads(done.stdout)
    return found


def main(size: int, dtype: str, noise: bool) -> Row:
    """Run two steps and return their times. Local."""
    start = time.perf_counter()
    kind = gw.cuda(0)
    fields = Fields(size, dtype, kind)
    kind.device.synchronize()
    opened = time.perf_counter()
    stepper, moments = OneSweep(noise), [opened]
    before = gw.compilation()
    for step in (1, 2):
        stepper.start(fields, step)
        kind.device.synchronize()
        moments.append(time.perf_counter())
    spent = gw.compilation() - before
    return {
        "first_ms": (moments[1] - moments[0]) * 1e3,
        "next_ms": (moments[2] - moments[1]) * 1e3,
        "open_ms": (opened - start) * 1e3,
        "compiled": spent.compiled,
        "loaded": spent.loaded,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2], bool(int(sys.argv[3])))))
