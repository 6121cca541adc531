"""Transforms of one block: along axes that are whole in it, in chunks that stay in the cache."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.multithreading.pool import threads
from gondwana.fft import fftw, numpy_fft
from gondwana.runtime import cores

CHUNK_BYTES = 1 << 18
"""Approximate size of a chunk: its transform takes far longer than a call, and it fits the cache of a core."""

_KEPT = 256
_plans: dict[tuple[Any, ...], fftw.Plan] = {}
"""The plans of FFTW that were used first, for further blocks with the same layout."""


def transform(
    source: npt.NDArray[Any], target: npt.NDArray[Any], axes: Sequence[int], sign: int, scale: float = 1.0
) -> None:
    """Transform a block along some axes, by FFTW if it is installed, else by SciPy or NumPy. Local; blocks.

    Args:
        source: the block: complex, or real for the transform of real numbers, whose result is n // 2 + 1 long along the
            last of the axes. From complex to real along several axes it is destroyed, and one axis is not transformed.
        target: memory of the result, which may be the source.
        axes: axes along which it is transformed, each once.
        sign: -1 forward, 1 inverse; neither divides.
        scale: factor of the result.

    Example:
        >>> import numpy as np
        >>> line = np.ones((1, 4), complex)
        >>> transform(line, line, (1,), -1, scale=0.5)
        >>> line.real.tolist()
        [[2.0, 0.0, 0.0, 0.0]]
    """
    if not target.size:
        return
    if (fftw.SINGLE if target.dtype.char in "fF" else fftw.LIBRARY) is None:
        numpy_fft.transform(source, target, axes, sign, scale)
        return
    if source.ndim == len(axes) > 1:  # each pass has an axis along which the block is cut into chunks
        transform(source, target, axes[1:], sign)
        source, axes = target, axes[:1]
    others = [axis for axis in range(source.ndim) if axis not in axes]
    if others:
        along = max(others, key=lambda axis: (target.shape[axis] > 1, target.strides[axis]))
    else:
        along, axes, source, target = 0, [1], source[None], target[None]
    source, target = np.moveaxis(source, along, 0), np.moveaxis(target, along, 0)
    axes = [axis + 1 if axis < along else axis for axis in axes]
    length = len(target)
    step = max(1, min(length, CHUNK_BYTES * length // max(source.nbytes, target.nbytes)))
    places, strides = [array.ctypes.data for array in (source, target)], [source.strides[0], target.strides[0]]
    aligned = not any(step * stride % 16 for stride in strides)

    def run(first: int, end: int) -> None:
        for begin in range(first, end, step):
            stop = min(end, begin + step)
            if begin == first or stop - begin < step:
                plan = _plan(source[begin:stop], target[begin:stop], axes, sign, aligned)
            plan.call(plan.address, places[0] + begin * strides[0], places[1] + begin * strides[1])
            if scale != 1.0:
                target[begin:stop] *= scale

    chunks = -(-length // step)
    parts = min(threads(), chunks)
    ends = [min(length, step * (chunks * part // parts)) for part in range(parts + 1)]
    if parts == 1:
        run(0, length)
    else:
        list(_pool(parts, os.getpid()).map(run, ends[:-1], ends[1:]))


def _plan(
    source: npt.NDArray[Any], target: npt.NDArray[Any], axes: Sequence[int], sign: int, aligned: bool
) -> fftw.Plan:
    """A plan for a chunk, made unless it is kept."""
    places = [array.ctypes.data for array in (source, target)]
    layouts = [(array.dtype, array.shape, array.strides) for array in (source, target)]
    where = tuple(place % 16 for place in places) if aligned else None
    key = (*layouts, tuple(axes), sign, where, places[0] == places[1])
    plan = _plans.get(key)
    if plan is None:
        plan = fftw.Plan(source, target, axes, sign, aligned=aligned)
        if len(_plans) < _KEPT:
            _plans[key] = plan
    return plan


@functools.cache
def _pool(size: int, process: int) -> ThreadPoolExecutor:
    """Threads of Python, on all cores of the rank: FFTW runs without the lock of the interpreter."""
    return ThreadPoolExecutor(size, "gondwana-fft", lambda: cores.unpin(threading.get_native_id()))
