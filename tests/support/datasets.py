"""A small dataset for tests that read one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gondwana.io.adios import BPWriter


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
