"""FFTW: plans of one-dimensional complex transforms, made in Python, executed there and in compiled code.

The one file that binds FFTW's C interface. The library comes with the wheel of pyfftw; nothing of its Python is used.
Importing this module loads the library if it is installed; `require` reports when it is not.
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

import gondwana as gw
from gondwana.errors import UsageError

FORWARD, BACKWARD = -1, 1
"""Directions of a transform: the sign of its exponent. Neither divides by the number of points."""

ALIGNMENT = 64
"""Bytes to which `aligned` arrays are aligned. FFTW needs 16, the cache lines of the processor 64."""

_MEASURE = 0
_planning = threading.Lock()  # of FFTW's functions only the execution of a plan may be called by several threads


def _find() -> str | None:
    """Find the library of the wheel, else the system's."""
    found = importlib.util.find_spec("pyfftw")
    if found is not None and found.origin is not None:
        beside = Path(found.origin).parents[1] / "pyfftw.libs"
        for file in sorted(beside.glob("libfftw3-*.so*")):
            return str(file)
    return ctypes.util.find_library("fftw3")


LIBRARY = _find()
"""The path or file name of FFTW's library for double precision, None without one."""

execute: Any = None if LIBRARY is None else gw.extern(LIBRARY, "fftw_execute_dft", "void(void*, c16*, c16*)")
"""Transform by a plan's `address` from one array to another, or in place; also in compiled code. Local.

Any number of threads may execute one plan. FFTW checks nothing: the arrays must have `Plan.extent` elements.
"""


def require() -> str:
    """Return the library. Local.

    Raises:
        UsageError: FFTW is not installed.
    """
    if LIBRARY is None:
        raise UsageError("FFTW is not installed: pip install 'gondwana[npb]', whose package pyfftw contains it")
    return LIBRARY


@functools.cache
def _planner() -> tuple[gw.Extern, gw.Extern]:
    """The functions that make and destroy plans."""
    layout = "c16*, void*, i4, i4"
    make = f"void*(i4, i4*, i4, {layout}, {layout}, i4, u4)"
    return gw.extern(require(), "fftw_plan_many_dft", make), gw.extern(require(), "fftw_destroy_plan", "void(void*)")


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
    """Transforms of `n` points each, `count` at a time, in place. Local.

    FFTW measures which of its algorithms is fastest here; it remembers that while the process lives, so a second plan
    of the same transforms takes no longer than its tables of roots of unity.

    Args:
        n: points of a transform.
        count: number of transforms of one execution.
        stride: elements from a point to the next.
        distance: elements from the first point of a transform to that of the next.
        sign: FORWARD or BACKWARD.

    Attributes:
        extent: elements that an array must have.
        address: address of the plan, for `execute`; valid while this object lives.

    Example:
        >>> plan = Plan(8, 1, 1, 8, FORWARD)
        >>> line = aligned((8,))
        >>> line[:] = 1.0
        >>> execute(plan.address, line, line)
        >>> line.real.tolist()
        [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, n: int, count: int, stride: int, distance: int, sign: int) -> None:
        make, destroy = _planner()
        self.extent = (n - 1) * stride + (count - 1) * distance + 1
        scratch = aligned((self.extent,))  # measuring overwrites it
        layout = scratch, 0, stride, distance
        with _planning:
            self.address: int = make(1, np.array([n], np.int32), count, *layout, *layout, sign, _MEASURE)
        if not self.address:
            raise UsageError(f"FFTW cannot plan {count} transforms of {n} points: give positive numbers")
        weakref.finalize(self, _destroy, destroy, self.address).atexit = False


def _destroy(destroy: gw.Extern, address: int) -> None:
    with _planning:
        destroy(address)
