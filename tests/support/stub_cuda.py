"""A CUDA driver for tests that do without a GPU: see `stub_cuda.c`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def build(folder: Path) -> dict[str, str]:
    """Compile it into a folder, and return the variables by which a process finds it as its driver."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler builds the stub of the driver")
    options = ["-std=c11", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *options, "-o", str(folder / "libcuda.so.1"), str(SOURCE)], check=True, timeout=60)
    return {"LD_LIBRARY_PATH": str(folder), "GONDWANA_CUDA": ""}
