"""The file of the dissimilarities: what it holds, the rows of a rank, and everything that may be wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.apps.pwc.generators import FULL, MISSING
from gondwana.apps.pwc.rows import Rows, divide
from gondwana.apps.pwc.settings import Settings
from gondwana.errors import UsageError

Matrix = npt.NDArray[Any]

_TILE = 1024
"""Points of a tile that is compared with its transpose."""
_ASYMMETRY = 1e-5
"""Relative difference of two floats that should be the same."""


class Source(NamedTuple):
    """A matrix in a file.

    Attributes:
        name: of the file.
        stored: the matrix [N / repetitions, N / repetitions], in the file; changes are kept in memory.
        points: N.
    """

    name: str
    stored: Matrix
    points: int


def locate(settings: Settings) -> Source:
    """Open the file and check its kind and size. Local.

    Raises:
        UsageError: one line that says what is wrong with it.
    """
    name = settings.DistanceMatrixFile
    stored = _open_array(name) if name.endswith(".npy") else _open_integers(name, settings)
    points = len(stored) * settings.Repetitions
    if settings.NumberDataPoints not in (-1, points):
        raise UsageError(
            f"{name}: {len(stored)} points, repeated {settings.Repetitions} times: NumberDataPoints is "
            f"{settings.NumberDataPoints}; set it to {points}, or to -1"
        )
    if points < 2:
        raise UsageError(f"{name}: {points} points; give 2 or more")
    return Source(name, stored, points)


def read(source: Source, settings: Settings, team: gw.Team) -> Rows:
    """Read the rows of this rank, check them and fill in what is missing. Collective over team.

    A missing dissimilarity becomes the mean of the mean dissimilarities of its two points.

    Raises:
        UsageError: on all ranks, if a value of any rank's rows is illegal.
    """
    first, last = divide(source.points, team.size)[1][team.rank : team.rank + 2]
    base, integers = len(source.stored), source.stored.dtype.kind == "i"
    numbers = np.arange(first, last) % base
    d = (
        source.stored[first:last]
        if settings.Repetitions == 1
        else np.tile(source.stored[numbers], settings.Repetitions)
    )
    if not (settings.IsMemoryMapped and d.dtype.isnative):
        d = np.array(d, d.dtype.newbyteorder("="))
    d = np.asarray(d)
    problem, missing = None, np.zeros(len(d), np.int64)
    try:
        for row in range(0, len(d), _TILE):
            missing[row : row + _TILE] = _check(source, d[row : row + _TILE], first + row)
    except UsageError as error:
        problem = error
    team.agree(problem)
    rows = Rows(team, d, 1.0 / FULL if integers else 1.0, settings.Exchange)
    if team.allreduce(int(missing.sum())):
        _fill(source, rows, d, missing)
    return rows


def _open_integers(name: str, settings: Settings) -> Matrix:
    size = _size(name)
    points = round((size / 2) ** 0.5)
    if size != 2 * points * points:
        given = settings.NumberDataPoints // settings.Repetitions if settings.NumberDataPoints > 0 else points
        raise UsageError(
            f"{name}: {size} bytes are no square matrix of 16-bit integers: {given} points have {2 * given * given} "
            "bytes; check that the file is complete, or give a .npy file"
        )
    if not points:
        raise UsageError(f"{name}: the file is empty; give 16-bit integers, row after row")
    return np.memmap(name, ">i2" if settings.IsBigEndian else "<i2", "c", shape=(points, points))


def _open_array(name: str) -> Matrix:
    _size(name)
    try:
        stored = np.load(name, mmap_mode="c", allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError) as error:
        raise UsageError(f"{name}: no complete file of numpy.save: {error}") from None
    if not isinstance(stored, np.ndarray) or stored.ndim != 2 or stored.shape[0] != stored.shape[1]:
        raise UsageError(f"{name}: shape {getattr(stored, 'shape', 'unknown')}; legal is a square matrix")
    if stored.dtype.newbyteorder("=") not in (np.int16, np.float32, np.float64):
        raise UsageError(f"{name}: dtype {stored.dtype}; legal are int16, float32 and float64")
    return stored


def _size(name: str) -> int:
    try:
        if not Path(name).is_file():
            raise UsageError(f"{name}: no such file; check DistanceMatrixFile")
        with open(name, "rb") as file:
            return file.seek(0, 2)
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name}: cannot be read ({error}); check the path and its permissions") from None


def _check(source: Source, d: Matrix, first: int) -> npt.NDArray[np.int64]:
    """Refuse illegal values in some rows from `first` on; return how many each of them lacks."""
    absent = _absent(d)
    wrong = ~(np.isfinite(d) & ((d >= 0) | absent))
    _refuse(source, d, wrong, first, "legal are finite numbers of 0 or more, and the mark of a missing one")
    base = len(source.stored)
    own = np.arange(len(d))
    diagonal = np.zeros_like(wrong)
    diagonal[own, first + own] = d[own, first + own] != 0
    _refuse(source, d, diagonal, first, "a point has the dissimilarity 0 from itself")
    for column in range(0, base, _TILE):
        here = d[:, column : min(column + _TILE, base)]
        there = source.stored[column : column + _TILE][:, (first + own) % base].T
        differs = np.abs(here.astype(float) - there) > (0 if d.dtype.kind == "i" else _ASYMMETRY) * here.max(initial=0)
        _refuse(
            source, here, differs, first, "the other direction has another value; make the matrix symmetric", column
        )
    missing: npt.NDArray[np.int64] = absent.sum(axis=1)
    return missing


def _absent(d: Matrix) -> npt.NDArray[np.bool_]:
    return np.asarray(d == (MISSING if d.dtype.kind == "i" else -1.0))


def _refuse(source: Source, d: Matrix, wrong: npt.NDArray[np.bool_], row: int, legal: str, column: int = 0) -> None:
    if wrong.any():
        i, j = (int(place[0]) for place in np.nonzero(wrong))
        raise UsageError(f"{source.name}: row {row + i}, column {column + j} is {d[i, j]}: {legal}")


def _fill(source: Source, rows: Rows, d: Matrix, missing: npt.NDArray[np.int64]) -> None:
    """Replace the missing values in the rows of this rank by estimates. Collective."""
    present = rows.points - 1 - missing
    known = np.array([row[~_absent(row)].sum(dtype=float) for row in d]) / np.maximum(present, 1)
    mean, some = rows.gather(np.stack([known, (present > 0).astype(float)]))
    if not some.all():
        raise UsageError(f"{source.name}: point {int(some.argmin())} has no dissimilarity; remove the point")
    for number in np.flatnonzero(missing):
        row = d[number]
        absent = _absent(row)
        estimate = 0.5 * (mean[rows.own.start + number] + mean[absent])
        row[absent] = np.rint(estimate) if d.dtype.kind == "i" else estimate
