"""The file of the dissimilarities: the rows of a rank, and checks of everything in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.inputs import open_file, printable
from gondwana_apps.pwc.generators import FULL, MISSING
from gondwana_apps.pwc.rows import Rows, divide
from gondwana_apps.pwc.settings import Settings

Matrix = npt.NDArray[Any]

_TILE = 1024
"""Points of a tile that is compared with its transpose."""
_ASYMMETRY = 1e-5
"""Relative difference of two floats that should be equal."""
_LEAST, _MOST = 1e-100, 1e100
"""Limits of the largest dissimilarity: its square and its inverse must be numbers, too."""
_LARGEST = 1 << 48
"""The most bytes of a file."""


def locate(settings: Settings) -> Matrix:
    """Return the matrix in its file, after a check of its kind and size; changes are kept in memory. Local.

    Raises:
        UsageError: one line that says what is wrong with it.
    """
    name, expected = settings.DistanceMatrixFile, settings.NumberDataPoints
    with open_file(name, name, _LARGEST, "check DistanceMatrixFile") as file:
        stored = _open_array(name, file) if name.endswith(".npy") else _open_integers(name, file, settings)
    points = len(stored) * settings.Repetitions
    if points < 2 or expected not in (-1, points):
        raise UsageError(f"{name}: {points} points, and NumberDataPoints is {expected}; legal are 2 or more, or -1")
    return stored


def read(stored: Matrix, settings: Settings, team: gw.Team) -> Rows:
    """Read the rows of this rank, check them and fill in missing values. Collective over team.

    A missing dissimilarity becomes the mean of the mean dissimilarities of its two points.

    Raises:
        UsageError: on all ranks, if a value of any rank's rows is illegal.
    """
    base, name = len(stored), settings.DistanceMatrixFile
    first, last = divide(base * settings.Repetitions, team.size)[1][team.rank : team.rank + 2]
    d = stored[first:last]
    if settings.Repetitions > 1:
        d = np.tile(stored[np.arange(first, last) % base], settings.Repetitions)
    if not (settings.IsMemoryMapped and d.dtype.isnative):
        d = np.array(d, d.dtype.newbyteorder("="))
    d, problem = np.asarray(d), None
    largest = team.allreduce(float(np.fmax.reduce(d, axis=None, initial=0)), gw.MAX)  # of the numbers among them
    try:
        for row in range(0, len(d), _TILE):
            _check(name, stored, d[row : row + _TILE], first + row, largest)
        check_range(name, largest)
    except UsageError as error:
        problem = error
    team.agree(problem)
    rows = Rows(team, d, 1.0 / FULL if d.dtype.kind == "i" else 1.0, settings.Exchange)
    _fill(name, rows)
    return rows


def check_range(name: str, largest: float) -> None:
    """Check the largest dissimilarity. Local.

    Raises:
        UsageError: values computed from it would not be numbers.
    """
    if largest and not _LEAST <= largest <= _MOST:
        legal = f"legal is 0, or from {_LEAST:g} to {_MOST:g}: multiply all by one number"
        raise UsageError(f"{name}: the largest dissimilarity is {largest:g}; {legal}")


def rounding(dtype: np.dtype[Any], largest: float) -> float:
    """Return the largest difference of zeros from 0 in a matrix with this largest value. Local.

    On the diagonal of `1 - corrcoef` they differ, in digits of the 1, which may be much larger than any dissimilarity.
    """
    return float(np.sqrt(np.finfo(dtype).eps)) * largest if dtype.kind == "f" else 0.0


def _open_integers(name: str, file: BinaryIO, settings: Settings) -> Matrix:
    size = os.fstat(file.fileno()).st_size
    points = round((size / 2) ** 0.5)
    if size != 2 * points * points or not points:
        expected = settings.NumberDataPoints // settings.Repetitions
        needed = f", which {expected} points have in {2 * expected * expected} bytes" if expected > 0 else ""
        raise UsageError(f"{name}: {size} bytes are no square matrix of 16-bit integers{needed}; give a complete file")
    return np.memmap(file, ">i2" if settings.IsBigEndian else "<i2", "c", shape=(points, points))


def _open_array(name: str, file: BinaryIO) -> Matrix:
    try:
        first = np.lib.format.read_magic(file) == (1, 0)
        header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("it holds objects of Python")
        stored: Matrix = np.memmap(file, dtype, "c", file.tell(), shape, "F" if by_columns else "C")
    except Exception as error:  # whatever the header of a damaged file makes NumPy do
        raise UsageError(printable(f"{name}: no complete file of numpy.save: {error}")) from None
    square = stored.ndim == 2 and stored.shape[0] == stored.shape[1]
    if not square or stored.dtype.newbyteorder("=") not in (np.int16, np.float32, np.float64):
        raise UsageError(f"{name}: {stored.shape} of {stored.dtype}; legal: a square of int16, float32 or float64")
    return stored


def _check(name: str, stored: Matrix, d: Matrix, first: int, largest: float) -> None:
    """Refuse illegal values in some rows from `first` on, and set those to 0 that differ from it by rounding."""
    small = rounding(d.dtype, largest)
    rows = first + np.arange(len(d))
    for start in range(0, len(stored), _TILE):
        here = d[:, start : min(start + _TILE, len(stored))]
        there = stored[start : start + _TILE][:, rows % len(stored)].T
        own = rows[:, None] == start + np.arange(here.shape[1])
        for legal, good in _rules(here, there, own, small):
            if not good.all():
                i, j = (int(place[0]) for place in np.nonzero(~good))
                raise UsageError(f"{name}: row {first + i}, column {start + j} is {here[i, j]}; legal is {legal}")
        if small:
            here[(own & (here != 0)) | ((here < 0) & ~_absent(here))] = 0


def _rules(here: Matrix, there: Matrix, diagonal: Matrix, small: float) -> Iterator[tuple[str, Matrix]]:
    yield "0 or more, or missing", np.isfinite(here) & ((here >= -small) | _absent(here))
    yield "0 from itself", (np.abs(here) <= small) | ~diagonal
    tolerance = 0.0 if here.dtype.kind == "i" else _ASYMMETRY * here.max(initial=0)
    yield "the same both ways", np.abs(here.astype(float) - there) <= tolerance


def _absent(d: Matrix) -> npt.NDArray[np.bool_]:
    return np.asarray(d == (MISSING if d.dtype.kind == "i" else -1.0))


def _fill(name: str, rows: Rows) -> None:
    """Replace the missing values in the rows of this rank by estimates. Collective over the team of the rows."""
    missing = np.array([np.count_nonzero(_absent(row)) for row in rows.d], float)
    if not rows.team.allreduce(float(missing.sum())):
        return
    present = rows.points - 1 - missing
    known = np.array([row[~_absent(row)].sum(dtype=float) for row in rows.d]) / np.maximum(present, 1)
    mean, some = rows.gather(np.stack([known, present]))
    if not some.all():
        raise UsageError(f"{name}: point {int(some.argmin())} has no dissimilarity; remove the point")
    for number in np.flatnonzero(missing):
        row, absent = rows.d[number], _absent(rows.d[number])
        estimate = 0.5 * (mean[rows.own.start + number] + mean[absent])
        row[absent] = np.rint(estimate) if row.dtype.kind == "i" else estimate
