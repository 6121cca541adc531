"""The transforms of `scipy.fft`, or of `numpy.fft` where SciPy is not installed: both have the same names."""

from __future__ import annotations

import functools
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
    module, options = _module()
    shape = [max(source.shape[axis], target.shape[axis]) for axis in axes]
    if source.dtype.kind == "f":
        found = module.rfftn(source, axes=axes, **options())
    elif target.dtype.kind == "f":
        found = module.irfftn(source, shape, axes, norm="forward", **options())
    elif sign < 0:
        found = module.fftn(source, axes=axes, **options())
    else:
        found = module.ifftn(source, axes=axes, norm="forward", **options())
    np.multiply(found, scale, out=target)


@functools.cache
def _module() -> tuple[Any, Any]:
    """The module, and a function that returns further arguments of its functions."""
    if importlib.util.find_spec("scipy") is None:
        import numpy.fft

        return numpy.fft, dict
    import scipy.fft

    return scipy.fft, lambda: {"workers": threads()}
