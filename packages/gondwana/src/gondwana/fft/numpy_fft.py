"""The transforms of `scipy.fft`, or of `numpy.fft` where SciPy is not installed: both have the same names."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.multithreading.pool import threads


def transform(
    source: npt.NDArray[Any], target: npt.NDArray[Any], axes: Sequence[int], sign: int, scale: float = 1.0
) -> None:
    """Transform a block along some axes. Local. Arguments as for `lines.transform`; the source keeps its elements."""
    kind = "r" if source.dtype.kind == "f" else "ir" if target.dtype.kind == "f" else "" if sign < 0 else "i"
    shape = [max(source.shape[axis], target.shape[axis]) for axis in axes]
    if importlib.util.find_spec("scipy") is None:
        module, options = importlib.import_module("numpy.fft"), {}
    else:
        module, options = importlib.import_module("scipy.fft"), {"workers": threads()}
    found = getattr(module, f"{kind}fftn")(source, shape, axes, norm="backward" if sign < 0 else "forward", **options)
    np.multiply(found, scale, out=target)
