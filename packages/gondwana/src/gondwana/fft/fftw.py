"""FFTW: plans of transforms of any lines of an array, made in Python, executed there and in compiled code.

The one file that binds FFTW's C interface. The libraries come with the wheel of pyfftw, or from the system; nothing of
the wheel's Python is used. `require` reports when they are missing.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.externs import extern
from gondwana.errors import UsageError

FORWARD, BACKWARD = -1, 1
"""Directions of a transform: the sign of its exponent. Neither divides by the number of points."""

ALIGNMENT = 64
"""Bytes to which `aligned` arrays are aligned. FFTW needs 16, the cache lines of the processor 64."""

_MEASURE, _PRESERVE_INPUT, _UNALIGNED = 0, 1 << 4, 1 << 1
_planning = threading.Lock()  # of FFTW's functions only the execution of a plan may be called by several threads


def _find(name: str) -> str | None:
    """Find a library of the wheel, else the system's."""
    wheel = importlib.util.find_spec("pyfftw")
    beside = [] if wheel is None or wheel.origin is None else [Path(wheel.origin).parents[1] / "pyfftw.libs"]
    for file in (*(file for folder in beside for file in sorted(folder.glob(f"lib{name}-*.so*"))), f"lib{name}.so.3"):
        try:
            ctypes.CDLL(str(file))
        except OSError:
            continue
        return str(file)
    return None


LIBRARY = _find("fftw3")
"""The path or file name of FFTW's library for double precision, None without one."""

SINGLE = _find("fftw3f")
"""The same for single precision."""

execute: Any = None if LIBRARY is None else extern(LIBRARY, "fftw_execute_dft", "void(void*, c16*, c16*)")
"""Transform by the `address` of a plan of complex128 from one array to another, or in place; also in compiled code.

Any number of threads may execute one plan. FFTW checks nothing: the arrays must be laid out as those of the plan.
"""


def require() -> str:
    """Return the library. Local.

    Raises:
        UsageError: FFTW is not installed.
    """
    if LIBRARY is None:
        raise UsageError("FFTW is not installed: pip install 'gondwana[fft]', whose package pyfftw contains it")
    return LIBRARY


def version() -> str:
    """Return FFTW's own description: its version and the instructions that it can use. Local."""
    text = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(require()), "fftw_version"))
    return ctypes.string_at(text).decode()


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike = complex) -> npt.NDArray[Any]:
    """Return a new array that begins at a cache line, with undefined elements. Local."""
    wanted = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * wanted.itemsize
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + nbytes].view(wanted).reshape(shape)


class Plan:
    """Transforms of an array along some axes, for all arrays with its layout. Local.

    FFTW measures which of its algorithms is fastest here; it remembers that while the process lives, so a second plan
    of the same transforms takes no longer than its tables of roots of unity.

    Args:
        source: array with the shape, the strides and the dtype of those that are transformed; it keeps its elements.
        target: the same of the results: the source itself for transforms in place. From float64 to complex128 it is
            shorter along the last of the axes, n // 2 + 1 for n elements, and the other way round; such transforms
            have a direction by themselves, and those to float64 along several axes destroy their source.
        axes: axes along which it is transformed.
        sign: FORWARD or BACKWARD.
        aligned: whether all arrays start at the same places as these within 16 bytes.

    Attributes:
        address: address of the plan, for `execute`; valid while this object lives.
        call: function of C that takes the address of the plan and those of the first elements of both arrays.

    Example:
        >>> line = aligned((8,))
        >>> plan = Plan(line, line, (0,), FORWARD)
        >>> line[:] = 1.0
        >>> execute(plan.address, line, line)
        >>> line.real.tolist()
        [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self, source: npt.NDArray[Any], target: npt.NDArray[Any], axes: Sequence[int], sign: int, *,
        aligned: bool = True,
    ) -> None:  # fmt: skip
        kind = "dft" + ("_r2c" if source.dtype.kind == "f" else "_c2r" if target.dtype.kind == "f" else "")
        make, self.call, destroy = _functions(target.dtype.char in "fF", kind)
        shape = np.maximum(source.shape, target.shape).tolist()

        def dimensions(which: Sequence[int]) -> tuple[int, npt.NDArray[np.int64]]:
            strides = [(array.strides, array.itemsize) for array in (source, target)]
            rows = [[shape[axis], *(of[axis] // item for of, item in strides)] for axis in which]
            return len(rows), np.array(rows, np.int64).reshape(-1, 3)

        count, lines = dimensions(axes)
        others, batch = dimensions([axis for axis in range(source.ndim) if axis not in axes])
        ends = [_scratch(source)]  # measuring overwrites them
        ends.append(ends[0] if source.ctypes.data == target.ctypes.data else _scratch(target))
        flags = _MEASURE | (_PRESERVE_INPUT if count == 1 and kind == "dft_c2r" else 0) | (not aligned) * _UNALIGNED
        places = [count, lines.ctypes.data, others, batch.ctypes.data, *(first for first, _ in ends)]
        with _planning:
            self.address: int = make(*places, *([sign] if kind == "dft" else []), flags) or 0
        if not self.address:
            raise UsageError(f"FFTW cannot plan transforms of {source.shape} along axes {axes}: give positive numbers")
        weakref.finalize(self, _destroy, destroy, self.address).atexit = False


def _scratch(array: npt.NDArray[Any]) -> tuple[int, npt.NDArray[Any]]:
    """The address of memory in which an array can be laid out, and that memory."""
    extent = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
    place = array.ctypes.data % ALIGNMENT
    memory = aligned((extent + place,), np.uint8)
    return memory.ctypes.data + place, memory


@functools.cache
def _functions(single: bool, kind: str) -> tuple[Any, Any, Any]:
    """The functions that make, execute and destroy plans."""
    library, prefix = ctypes.CDLL(str(SINGLE) if single else require()), "fftwf" if single else "fftw"
    names = f"plan_guru64_{kind}", f"execute_{kind}", "destroy_plan"
    make, call, destroy = (getattr(library, f"{prefix}_{name}") for name in names)
    place, number = ctypes.c_void_p, ctypes.c_int
    make.argtypes = [number, place, number, place, place, place, *([number] if kind == "dft" else []), ctypes.c_uint]
    make.restype, call.argtypes, destroy.argtypes = place, [place] * 3, [place]
    call.restype = destroy.restype = None
    return make, call, destroy


def _destroy(destroy: Any, address: int) -> None:
    with _planning:
        destroy(address)
