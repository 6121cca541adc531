"""Small datasets for tests that read one, or look at how one is written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.io.adios import BPWriter
from gondwana.io.writer import StepWriter
from support.divided_array import DividedArray


def make_dataset(path: Path, steps: int) -> Path:
    """Write the fields U and V, and `step`, which counts simulated steps by tens."""
    out = BPWriter(path)
    for step in range(1, steps + 1):
        out.begin_step()
        for name in "UV":
            out.put(name, np.random.default_rng(step).random((6, 5, 4)), (0, 0, 0), (6, 5, 4))
        out.put_scalar("step", 10 * step, np.int32)
        out.end_step()
    out.close()
    return path


def writer_of(process_id: int) -> int:
    """Return the process that writes for another one."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    (child,) = [c for c in children if "gondwana.io.background" in Path(f"/proc/{c}/cmdline").read_text()]
    return int(child)


def three_steps(path: Path, array: DividedArray, cells: Callable[[int], npt.NDArray[Any]]) -> tuple[StepWriter, int]:
    """Return a writer of three steps, two of which are not yet written, and its process, which is stopped."""
    out = StepWriter(path, {"U": array})
    out.write(1, {"U": array.set(cells(1))})
    out.flush()
    writer = writer_of(os.getpid())
    os.kill(writer, signal.SIGSTOP)
    for step in (2, 3):
        out.write(step, {"U": array.set(cells(step))})
    return out, writer
