"""FFTW: plans of one-dimensional complex transforms, made in Python, executed there and in compiled code.

The one file that binds FFTW's C interface. The library comes with the wheel of pyfftw; nothing of its Python is used.
Importing this module loads neither.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.arguments import Described
from gondwana.compiler.types.handles import describe_handle, extend
from gondwana.errors import UsageError

FORWARD, BACKWARD = -1, 1
"""Directions of a transform: the sign of its exponent. Neither divides by the number of points."""

ALIGNMENT = 64
"""Bytes: where `aligned` arrays begin. FFTW wants 16, the cache lines of the processor 64."""

FAMILY = "fftw_plan"
"""The family of the handles by which compiled code knows plans."""

_MEASURE = 0
_planning = threading.Lock()  # of FFTW's functions only the execution of a plan may be called by several threads


@functools.cache
def library() -> ctypes.CDLL:
    """Return FFTW's library for double precision. Local.

    Raises:
        UsageError: there is none.
    """
    path = _path()
    if path is None:
        raise UsageError("FFTW is not there: pip install 'gondwana[npb]', whose package pyfftw brings it")
    fftw = ctypes.CDLL(path)
    pointer: Any = ctypes.c_void_p
    ints: Any = ctypes.POINTER(ctypes.c_int)
    layout = [pointer, ints, ctypes.c_int, ctypes.c_int]
    fftw.fftw_plan_many_dft.restype = pointer
    batch = [ctypes.c_int, ints, ctypes.c_int]
    fftw.fftw_plan_many_dft.argtypes = [*batch, *layout, *layout, ctypes.c_int, ctypes.c_uint]
    fftw.fftw_execute_dft.restype = None
    fftw.fftw_execute_dft.argtypes = [pointer, pointer, pointer]
    fftw.fftw_destroy_plan.restype = None
    fftw.fftw_destroy_plan.argtypes = [pointer]
    return fftw


def _path() -> str | None:
    """The library of the wheel, else the system's."""
    found = importlib.util.find_spec("pyfftw")
    if found is not None and found.origin is not None:
        beside = Path(found.origin).parents[1] / "pyfftw.libs"
        for file in sorted(beside.glob("libfftw3-*.so*")):
            return str(file)
    return ctypes.util.find_library("fftw3")


def version() -> str:
    """Return what FFTW says of itself: its version and the instructions that it can use. Local."""
    text = ctypes.addressof(ctypes.c_char.in_dll(library(), "fftw_version"))
    return ctypes.string_at(text).decode()


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike = complex) -> npt.NDArray[Any]:
    """Return a new array that begins at a cache line, its elements not set. Local."""
    wanted = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * wanted.itemsize
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + nbytes].view(wanted).reshape(shape)


class Plan:
    """Transforms of `n` points each, `count` at a time, in place. Local.

    FFTW measures which of its algorithms is fastest here; it remembers that while the process lives, so a second plan
    of the same transforms takes no longer than its tables of roots of unity.

    Args:
        n: points of a transform.
        count: transforms that one execution does.
        stride: elements from a point to the next.
        distance: elements from the first point of a transform to that of the next.
        sign: FORWARD or BACKWARD.

    Example:
        >>> plan = Plan(8, 1, 1, 8, FORWARD)
        >>> line = aligned((8,))
        >>> line[:] = 1.0
        >>> execute(plan, line)
        >>> line.real.tolist()
        [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, n: int, count: int, stride: int, distance: int, sign: int) -> None:
        fftw = library()
        self.extent = (n - 1) * stride + (count - 1) * distance + 1
        scratch = aligned((self.extent,))  # measuring overwrites it
        layout = scratch.ctypes.data, None, stride, distance
        with _planning:
            self._plan = fftw.fftw_plan_many_dft(1, ctypes.c_int(n), count, *layout, *layout, sign, _MEASURE)
        if not self._plan:
            raise UsageError(f"FFTW cannot plan {count} transforms of {n} points: give positive numbers")
        weakref.finalize(self, _destroy, fftw, self._plan).atexit = False

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: the address of FFTW's function, and that of the plan."""
        return describe_handle(FAMILY, (), (_execute_address(), self._plan))


def execute(plan: Plan, data: npt.NDArray[np.complex128]) -> None:
    """Transform the elements from the first one of an array on; callable in compiled code too. Local.

    Args:
        plan: what to transform; any number of threads may execute one plan.
        data: complex128, without gaps, at least as many elements as the plan reaches; compiled code does not look.

    Raises:
        UsageError: the array is too small, or not such a one.
    """
    if data.dtype != np.complex128 or not data.flags.c_contiguous or data.size < plan.extent:
        raise UsageError(f"{data.dtype} {data.shape}: the plan needs {plan.extent} complex128 elements without gaps")
    library().fftw_execute_dft(plan._plan, data.ctypes.data, data.ctypes.data)


@functools.cache
def _execute_address() -> int:
    return ctypes.cast(library().fftw_execute_dft, ctypes.c_void_p).value or 0


def _destroy(fftw: ctypes.CDLL, plan: int) -> None:
    with _planning:
        fftw.fftw_destroy_plan(plan)


extend("gondwana.compiler.fftw_overloads")
