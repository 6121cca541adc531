"""Reading of BP datasets: finished ones, growing ones, and those of a writer that was killed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.io import bp5, checksums
from gondwana.io.adios import LOCK, TYPE_OF_NAME, BPReader, integers
from gondwana.io.layout import AXES, Block
from gondwana.io.other_process import OtherProcessReader
from gondwana.io.paths import DatasetError, StrPath, has_steps, is_dataset
from gondwana.runtime.tracing import traced


@dataclass(frozen=True, slots=True)
class Variable:
    """The description of a variable, which is available without reading its data.

    Attributes:
        name: its name.
        type_name: ADIOS2's name of the element type.
        shape: the global shape in cells; () for a number.
        steps: the number of steps that have it.
        minimum: the least value of all steps, or None if the dataset has no statistics of it.
        maximum: the greatest value of all steps, or None.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    steps: int
    minimum: float | int | None
    maximum: float | int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type; refused if it is not a number."""
        if self.type_name not in TYPE_OF_NAME:
            raise UsageError(f"{self.name!r} has elements of type {self.type_name}: only numbers can be read")
        return TYPE_OF_NAME[self.type_name]

    @property
    def nbytes(self) -> int:
        """The size of one step in bytes."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """One block of a variable in one step, and its extremes if the dataset has them."""

    block: Block
    minimum: float | int | None
    maximum: float | int | None


class Dataset:
    """A BP dataset that is open for reading, with the steps that were complete when it was opened. Local.

    Threads may share it (one at a time reads). A pickled dataset is opened anew from its name.

    Args:
        path: the dataset, a directory.

    Raises:
        UsageError: there is no dataset of that name.
        DatasetError: it is damaged.

    Example:
        >>> with Dataset("gs.bp") as data:  # doctest: +SKIP
        ...     last = data.read("U", -1)
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        if not is_dataset(self.path):
            raise UsageError(missing(self.path))
        self._reader = _reader(self.path)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The variables by name, sorted."""
        with LOCK:
            found = self._reader.variables() if self._reader else {}
            return {name: self._describe(name, found[name]) for name in sorted(found)}

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name, sorted: str, list of str, NumPy numbers and arrays."""
        with LOCK:
            return self._reader.attributes() if self._reader else {}

    @cached_property
    def attribute_types(self) -> dict[str, str]:
        """ADIOS2's name of each attribute's type."""
        with LOCK:
            return self._reader.attribute_types() if self._reader else {}

    @cached_property
    def steps(self) -> npt.NDArray[np.integer[Any]]:
        """The number of the simulation step of every step of the dataset; 0, 1, 2 ... if it does not store them."""
        if "step" in self.variables:
            return self.read_steps("step", 0, self.variables["step"].steps)
        return np.arange(max((variable.steps for variable in self.variables.values()), default=0))

    def variable(self, name: str) -> Variable:
        """Return a variable; the error for an unknown name lists the legal ones."""
        if name not in self.variables:
            raise UsageError(f"{self.path} has no variable {name!r}{did_you_mean(name, self.variables)}")
        return self.variables[name]

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the names of a variable's axes: as stored, else z, y, x for fields and names of its own for others."""
        variable = self.variable(name)
        stored = self.attributes.get(f"{name}/dims")
        if isinstance(stored, list) and len(stored) == len(variable.shape):
            return tuple(stored)
        largest = max(self.variables.values(), key=lambda other: prod(other.shape))
        if variable.shape == largest.shape and len(variable.shape) <= len(AXES):
            return tuple(reversed(AXES[: len(variable.shape)]))
        return tuple(f"{name}_{axis}" for axis in range(len(variable.shape)))

    @traced("io", "read a variable")
    def read(
        self, name: str, step: int, start: Sequence[int] | None = None, count: Sequence[int] | None = None
    ) -> npt.NDArray[Any]:
        """Return a variable, or a box of it, in one step.

        Args:
            name: the variable.
            step: the index of the step in the dataset, from 0, or from the end if negative.
            start: the corner of the box in cells; None: the origin.
            count: the shape of the box in cells; None: up to the end.

        Raises:
            UsageError: no such variable, step or box.
            DatasetError: the data are damaged.
        """
        steps = self.variable(name).steps
        if not -steps <= step < steps:
            raise UsageError(f"{self.path} has no step {step} of {name!r}: legal are -{steps} to {steps - 1}")
        cells: npt.NDArray[Any] = self.read_steps(name, step % steps, 1, start, count)[0]
        return cells

    def read_steps(
        self,
        name: str,
        first: int,
        number: int,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
    ) -> npt.NDArray[Any]:
        """Return a box of consecutive steps; the step is the first axis. See ``read``."""
        variable = self.variable(name)
        corner = [0] * len(variable.shape) if start is None else list(start)
        box = [n - i for n, i in zip(variable.shape, corner, strict=True)] if count is None else list(count)
        inside = len(corner) == len(box) == len(variable.shape) and all(
            min(i, n) >= 0 and i + n <= whole for i, n, whole in zip(corner, box, variable.shape, strict=True)
        )
        if not inside:
            raise UsageError(f"{name!r} has shape {variable.shape}; the box from {corner} of shape {box} is not inside")
        if not 0 <= first <= first + number <= variable.steps:
            raise UsageError(
                f"{name!r} has no {number} steps from {first} on: legal are steps 0 to {variable.steps - 1}"
            )
        with LOCK:
            return self._opened().read(name, (first, number), corner, box, variable.dtype)

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks in which a variable was written in a step."""
        ndim = len(self.variable(name).shape)
        with LOCK:
            found = self._opened().blocks(name, step)
        return [
            StoredBlock(
                Block(integers(about["Start"])[:ndim], integers(about["Count"])[:ndim]),
                *_extremes(about.get("Min", ""), about.get("Max", "")),
            )
            for about in found
        ]

    def refresh(self) -> int:
        """Open a dataset that is being written again, and return its present number of steps."""
        self.close()
        self._reader = _reader(self.path)
        return len(self.steps)

    def close(self) -> None:
        """Close the dataset; ``refresh`` opens it again."""
        for name in ("variables", "attributes", "attribute_types", "steps"):
            self.__dict__.pop(name, None)
        with LOCK:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _opened(self) -> BPReader | OtherProcessReader:
        if self._reader is None:
            raise DatasetError(f"{self.path} is closed, or has no steps yet: call refresh()")
        return self._reader

    def _describe(self, name: str, about: dict[str, str]) -> Variable:
        shape = integers(about["Shape"])
        extremes = _extremes(about.get("Min", ""), about.get("Max", ""))
        # Without statistics ADIOS2 reports zeros; the blocks show that there are none.
        if shape and extremes == (0, 0) and all(stored.minimum is None for stored in self._first_blocks(name, shape)):
            extremes = (None, None)
        return Variable(name, about["Type"], shape, int(about["AvailableStepsCount"]), *extremes)

    def _first_blocks(self, name: str, shape: tuple[int, ...]) -> Iterable[StoredBlock]:
        for about in self._opened().blocks(name, 0):
            yield StoredBlock(Block((), shape), *_extremes(about.get("Min", ""), about.get("Max", "")))

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Dataset], tuple[Path]]:
        return Dataset, (self.path,)

    def __repr__(self) -> str:
        return f"<Dataset {str(self.path)!r}: {len(self.steps)} steps of {', '.join(self.variables) or 'nothing yet'}>"


def _reader(path: Path) -> BPReader | OtherProcessReader | None:
    """Open a dataset, in another process if nothing vouches for its metadata.

    None: it has no complete step yet, and ADIOS2 cannot open it.
    """
    steps = bp5.check(path).steps if has_steps(path) else 0
    vouched = checksums.vouches(path, steps)
    if steps == 0:
        return None
    with LOCK:
        return BPReader(path) if vouched else OtherProcessReader(path)


def did_you_mean(name: str, legal: Iterable[str]) -> str:
    """Return the end of a message about an unknown name. Local."""
    names = sorted(legal)
    close = difflib.get_close_matches(name, names, n=1) or [n for n in names if n.lower() == name.lower()]
    hint = f"did you mean {close[0]!r}?" if close else ""
    return f": {hint} It has {', '.join(names)}" if hint else f"; it has {', '.join(names) or 'none yet'}"


def missing(path: Path) -> str:
    """Return why a path is no dataset, and which datasets are beside it. Local."""
    if path.is_file():
        return f"{path} is a file; a dataset is a directory like gs.bp"
    if path.is_dir():
        return f"{path} is a directory without a BP dataset in it (no md.idx)"
    near = sorted(str(other) for other in path.parent.glob("*.bp") if is_dataset(other))
    return f"there is no dataset {path}" + (f"; there is {', '.join(near[:5])}" if near else "")


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _extremes(least: str, greatest: str) -> tuple[float | int | None, float | int | None]:
    """Return the extremes, (None, None) without statistics: ADIOS2 then has no text, or a minimum above the maximum."""
    try:
        low, high = _number(least), _number(greatest)
    except ValueError:
        return None, None
    return (None, None) if low > high else (low, high)
