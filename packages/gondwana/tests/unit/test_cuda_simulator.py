"""The sweeps of device kernels in numba's CUDA simulator: see `support/simulated_parts.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[4] / "tests" / "support" / "simulated_parts.py"


def test_sweeps_agree_with_the_interpreter_in_the_simulator() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": as the interpreter") >= 20
