"""The C functions of `stencil.c`, callable with NumPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gondwana.errors import UsageError
from gondwana_bench import build

REALS = {"float64": ("double", ctypes.c_double), "float32": ("float", ctypes.c_float)}

Field = NDArray[Any]


class Sweeps:
    """The sweeps of one precision. Arrays are indexed (z, y, x), C-contiguous, with one ghost layer on every side.

    Args:
        dtype: "float64" or "float32".
        compiler: the variable that names their compiler.

    Example:
        >>> sweeps = Sweeps("float64")
        >>> a = sweeps.empty((4, 4, 4))
        >>> a[...] = 1.0
        >>> out = sweeps.empty((4, 4, 4))
        >>> sweeps.sweep7(out, a, 0.5, 0.25)
        >>> float(out[1, 1, 1])
        2.0
    """

    def __init__(self, dtype: str, compiler: str = build.FIRST) -> None:
        if dtype not in REALS:
            raise UsageError(f"dtype {dtype!r}: legal are {' and '.join(REALS)}")
        name, self._real = REALS[dtype]
        self.dtype = np.dtype(dtype)
        self.threads = 1
        self._library = build.library("stencil.c", [f"-DREAL={name}", *build.openmp(compiler)], compiler)

    def empty(self, cells: tuple[int, int, int]) -> Field:
        """Allocate an array of (nz, ny, nx) cells and ghosts, which no thread has touched yet. Local."""
        return np.empty(tuple(n + 2 for n in cells), self.dtype)

    def sweep7(self, out: Field, a: Field, c0: float, c1: float) -> None:
        """Write c0*centre + c1*(6 face neighbours). Local."""
        self._call("sweep7", (out, a), (c0, c1))

    def sweep27(self, out: Field, a: Field, c0: float, c1: float, c2: float, c3: float) -> None:
        """Write c0*centre + c1*(6 faces) + c2*(12 edges) + c3*(8 corners). Local."""
        self._call("sweep27", (out, a), (c0, c1, c2, c3))

    def gray_scott(self, u_new: Field, v_new: Field, u: Field, v: Field, *rates: float) -> None:
        """Do one step of the Gray-Scott model without noise; the rates are Du, Dv, F, k, dt. Local."""
        self._call("gray_scott", (u_new, v_new, u, v), rates)

    def gray_scott_one(self, u_new: Field, u: Field, *rates: float) -> None:
        """Do one step of U alone, without the reaction; the rates are Du, F, dt. Local."""
        self._call("gray_scott_one", (u_new, u), rates)

    def copy(self, out: Field, a: Field) -> None:
        """Copy an array, ghosts included, with the threads that sweep its planes. Local."""
        self._call("copy", (out, a), ())

    def triad(self, out: Field, a: Field, b: Field, s: float) -> None:
        """Write a + s*b, ghosts included. Local."""
        arrays = [self._pointer(array, out.shape) for array in (out, a, b)]
        self._library.triad(*arrays, self._real(s), ctypes.c_long(out.size), ctypes.c_int(self.threads))

    def _call(self, name: str, arrays: tuple[Field, ...], numbers: tuple[float, ...]) -> None:
        shape = arrays[0].shape
        pointers = [self._pointer(array, shape) for array in arrays]
        cells = [ctypes.c_long(n - 2) for n in reversed(shape)]
        constants = [self._real(number) for number in numbers]
        getattr(self._library, name)(*pointers, *cells, *constants, ctypes.c_int(self.threads))

    def _pointer(self, array: Field, shape: tuple[int, ...]) -> ctypes.c_void_p:
        if array.dtype != self.dtype or not array.flags.c_contiguous or array.shape != shape or array.ndim != 3:
            raise UsageError(
                f"a native sweep takes C-contiguous {self.dtype} arrays of one 3-D shape, "
                f"not {array.dtype} {array.shape}"
            )
        return ctypes.c_void_p(array.ctypes.data)
