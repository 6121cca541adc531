"""Copies of rows of bytes."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from gondwana.gpu.interface import CudaError, Grid


class Box(NamedTuple):
    """Rows in memory: `counts` are bytes of a row, rows, planes; `strides` lead to the next row and plane."""

    counts: Grid
    strides: tuple[int, int]

    @property
    def extent(self) -> int:
        """The number of bytes from the first to the last.

        Raises:
            CudaError: the driver could not describe the box.
        """
        (width, rows, planes), (row, plane) = self.counts, self.strides
        pitch = row if rows > 1 else plane
        bad = (rows > 1 and row < width) or (planes > 1 and (plane % max(pitch, 1) or plane < rows * pitch))
        if bad or (planes > 1 and plane < width):
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: rows of {self.counts} bytes, rows, planes at {self.strides}")
        return (rows - 1) * row * (rows > 1) + (planes - 1) * plane * (planes > 1) + width

    def at(self, real: int) -> NDArray[np.uint8]:
        """Return the bytes, as an array of planes, rows and bytes."""
        whole = np.ctypeslib.as_array((ctypes.c_uint8 * self.extent).from_address(real))
        return as_strided(whole, self.counts[::-1], (self.strides[1], self.strides[0], 1))


def copy(target: Box, target_real: int, source: Box, source_real: int) -> None:
    """Copy a box of this process."""
    np.copyto(target.at(target_real), source.at(source_real))
