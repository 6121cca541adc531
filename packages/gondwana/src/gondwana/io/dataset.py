"""Reading of BP datasets: finished ones, growing ones, and those of a writer that was killed."""

from __future__ import annotations

import difflib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array
from gondwana.arrays.divided import Divided
from gondwana.errors import UsageError
from gondwana.io import bp5, checksums
from gondwana.io.adios import LOCK, TEXT, TYPE_OF_NAME, BPReader, Description, integers
from gondwana.io.layout import AXES
from gondwana.io.other_process import OtherProcessReader
from gondwana.io.paths import DatasetError, StrPath, has_steps, is_dataset
from gondwana.io.staging import Block
from gondwana.runtime.tracing import traced

D = TypeVar("D", bound=Divided)


@dataclass(frozen=True, slots=True)
class Variable:
    """The description of a variable, which is available without reading its data.

    Attributes:
        name: name of the variable.
        type_name: ADIOS2's name of the element type.
        shape: the global shape in cells, of the first step that has it; () for one value, and for local blocks.
        steps: the number of steps that have it.
        minimum: the least value of all steps, or None if the dataset has no statistics of it.
        maximum: the greatest value of all steps, or None.
        at: the indices of the steps of the dataset that have it.
        shapes: the global shape in each of these steps.
        local: whether the variable has blocks only, without a global shape.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    steps: int
    minimum: float | int | None
    maximum: float | int | None
    at: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    local: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, object for texts; types other than numbers and texts are refused."""
        if self.type_name == TEXT:
            return np.dtype(object)
        if self.type_name not in TYPE_OF_NAME:
            raise UsageError(f"{self.name!r} has elements of type {self.type_name}: only numbers and texts can be read")
        return TYPE_OF_NAME[self.type_name]

    @property
    def nbytes(self) -> int:
        """The size of the first step in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def index(self, step: int) -> int:
        """Return the number of earlier steps of the dataset that have the variable. Local.

        Args:
            step: the index of the step in the dataset, from 0.

        Raises:
            UsageError: the variable is not in that step.
        """
        place = bisect_left(self.at, step)
        if place == len(self.at) or self.at[place] != step:
            raise UsageError(f"{self.name!r} is not in step {step}: it is in {_some(self.at)}")
        return place


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
        UsageError: no dataset has that name.
        DatasetError: the dataset is damaged.

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
        """The number of the simulation step of every step of the dataset; 0, 1, 2 ... if it is not ``numbered``."""
        return self.read_steps("step", 0, self._total) if self.numbered else np.arange(self._total)

    @property
    def numbered(self) -> bool:
        """Whether the dataset stores the numbers of the steps: every step has one integer named ``step``."""
        found = self.variables.get("step")
        return (
            found is not None
            and found.type_name in TYPE_OF_NAME
            and found.dtype.kind in "iu"
            and found.steps == self._total
            and not any(found.shapes)
            and not found.local
        )

    @cached_property
    def _total(self) -> int:
        """The number of steps of the dataset; ADIOS2 counts one in a dataset into which nothing was written."""
        with LOCK:
            return self._reader.steps() if self._reader and self.variables else 0

    def variable(self, name: str) -> Variable:
        """Return a variable; the error for an unknown name lists the legal ones."""
        if name not in self.variables:
            raise UsageError(f"{self.path} has no variable {name!r}{did_you_mean(name, self.variables)}")
        return self.variables[name]

    def shape_of(self, name: str, step: int) -> tuple[int, ...]:
        """Return the global shape of a variable in a step of the dataset, from 0, or from the end if negative.

        Raises:
            UsageError: the variable or step does not exist, or the variable has no shape there.
        """
        variable = self.variable(name)
        place = variable.index(self._place(name, step))
        _check_boxes(variable)
        return variable.shapes[place]

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the names of a variable's axes: as stored, else z, y, x for fields and its own names for others."""
        variable = self.variable(name)
        stored = self.attributes.get(f"{name}/dims")
        if isinstance(stored, list) and len(stored) == len(variable.shape):
            return tuple(stored)
        largest = max(self.variables.values(), key=lambda other: prod(other.shape))
        if variable.shape == largest.shape and len(variable.shape) <= len(AXES):
            return tuple(reversed(AXES[: len(variable.shape)]))
        return tuple(f"{name}_{axis}" for axis in range(len(variable.shape)))

    @overload
    def read(
        self,
        name: str,
        step: int,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
        *,
        block: int | None = None,
    ) -> npt.NDArray[Any]: ...
    @overload
    def read(self, name: str, step: int, start: Sequence[int] | None = None, *, out: D) -> D: ...
    @traced("io", "read a variable")
    def read(
        self,
        name: str,
        step: int,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
        *,
        block: int | None = None,
        out: Any = None,
    ) -> Any:
        """Return a variable, a box of it, or one of its blocks, in one step.

        Unwritten cells are 0. One value is a number of NumPy, or a text.

        Args:
            name: the variable.
            step: the index of the step in the dataset, from 0, or from the end if negative.
            start: the corner of the box in cells; None: the origin.
            count: the shape of the box in cells; None: up to the end.
            block: the number of a block, which is read as a whole, instead of a box.
            out: a global array, or a view of one, that gets the box, which has its shape, on any number of ranks. This
                rank reads the elements that it owns; `T.permute((2, 1, 0))` takes what was written from order "F".

        Returns:
            The cells; `out` if there is one.

        Raises:
            UsageError: the variable, step, box or block does not exist, or the variable is not in this step.
            DatasetError: the data are damaged.
        """
        variable = self.variable(name)
        place = self._place(name, step)
        if out is not None:
            return self._read_part(name, step, start, out, count, block)
        if block is not None:
            if start is not None or count is not None:
                raise UsageError(f"block={block} with start or count: give a block or a box, not both")
            return self._read_block(variable, place, block)
        cells: npt.NDArray[Any] = self.read_steps(name, place, 1, start, count)[0]
        if variable.dtype.hasobject:
            cells = np.array(cells, np.str_)[()]
        return cells

    def _read_part(self, name: str, step: int, start: Sequence[int] | None, out: Any, *options: object) -> Any:
        """Read into the part of a global array that this rank owns."""
        if not isinstance(out, Divided) or options != (None, None):
            raise UsageError(f"out={out!r}: give a global array or a view of one, which says how much is read")
        shape, positions = self.shape_of(name, step), out.part(out.team.rank)
        corner = [0] * len(shape) if start is None else list(start)
        if len(corner) != out.ndim or (start is None and shape != out.shape):
            raise UsageError(f"{name!r} has shape {shape}, and out has {out.shape}: make them equal, or say the start")
        if not positions.is_empty:
            cells = self.read(name, step, [a + b for a, b in zip(corner, positions.lo, strict=True)], positions.shape)
            part = out.end(out.team.rank, positions)
            part.copy_from(Array(cells, part.domain))
        return out

    def read_steps(
        self,
        name: str,
        first: int,
        number: int,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
    ) -> npt.NDArray[Any]:
        """Return a box of consecutive steps of the dataset; the step is the first axis. See ``read``.

        All these steps must have the variable, in one shape.
        """
        variable, total = self.variable(name), self._total
        if not 0 <= first <= first + number <= total:
            raise UsageError(f"{name!r} has no {number} steps from {first} on: legal are steps 0 to {total - 1}")
        _check_boxes(variable)
        places = [variable.index(step) for step in range(first, first + number)]
        shape, *others = {variable.shapes[place]: None for place in places} or {variable.shape: None}
        if others:
            raise UsageError(f"{name!r} has shape {shape} and then {others[0]}: read one step at a time")
        corner = [0] * len(shape) if start is None else list(start)
        box = [n - i for n, i in zip(shape, corner, strict=False)] if count is None else list(count)
        inside = len(corner) == len(box) == len(shape) and all(
            min(i, n) >= 0 and i + n <= whole for i, n, whole in zip(corner, box, shape, strict=True)
        )
        if not inside:
            raise UsageError(f"{name!r} has shape {shape}; the box from {corner} of shape {box} is not inside")
        with LOCK:
            return self._opened().read(name, (places[0] if places else 0, number), corner, box, variable.dtype)

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks in which a variable was written in a step of the dataset, from 0.

        Raises:
            UsageError: the variable is not in this step.
            DatasetError: ADIOS2 cannot tell where the blocks are.
        """
        variable = self.variable(name)
        found = list(self._blocks(variable, variable.index(step)))
        if any(len(stored.block.start) < len(stored.block.count) for stored in found):
            raise DatasetError(f"ADIOS2 cannot tell where the blocks of {name!r} ({variable.type_name}) are")
        return found

    def refresh(self) -> int:
        """Open a dataset that is being written again, and return its present number of steps."""
        self.close()
        self._reader = _reader(self.path)
        return len(self.steps)

    def close(self) -> None:
        """Close the dataset; ``refresh`` opens it again."""
        for name in ("variables", "attributes", "attribute_types", "steps", "_total"):
            self.__dict__.pop(name, None)
        with LOCK:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _opened(self) -> BPReader | OtherProcessReader:
        if self._reader is None:
            raise DatasetError(f"{self.path} is closed, or has no steps yet: call refresh()")
        return self._reader

    def _place(self, name: str, step: int) -> int:
        """Return the index of a step from 0."""
        if not -self._total <= step < self._total:
            raise UsageError(
                f"{self.path} has no step {step} of {name!r}: legal are -{self._total} to {self._total - 1}"
            )
        return step % self._total

    def _read_block(self, variable: Variable, step: int, block: int) -> npt.NDArray[Any]:
        if any(variable.shapes) or variable.local:
            found = list(self._blocks(variable, place := variable.index(step)))
            if 0 <= block < len(found):
                count = found[block].block.count
                with LOCK:
                    read = self._opened().read(variable.name, (place, 1), (), count, variable.dtype, block)
                cells: npt.NDArray[Any] = read[0]
                return cells
            legal = f"legal are 0 to {len(found) - 1}"
        else:
            legal = "it is one value; read it without block"
        raise UsageError(f"{variable.name!r} has no block {block} in step {step}: {legal}")

    def _blocks(self, variable: Variable, place: int) -> Iterator[StoredBlock]:
        """Return the blocks of a variable in one of its steps, given the number of earlier ones that have it.

        Without starts if ADIOS2 cannot tell them.
        """
        with LOCK:
            found = self._opened().blocks(variable.name, place)
        ndim = len(variable.shapes[place])
        # The extremes of bytes come as characters of a text, and those of a block without cells are the type's limits.
        stated = TYPE_OF_NAME.get(variable.type_name, np.dtype(object)).itemsize > 1
        for about in found:
            count = integers(about["Count"]) if variable.local else integers(about["Count"])[:ndim]
            start = (0,) * len(count) if variable.local else integers(about.get("Start", ""))[:ndim]
            block = Block(start, count)
            extremes = (about.get("Min", ""), about.get("Max", "")) if stated and block.size else ("", "")
            yield StoredBlock(block, *_extremes(*extremes))

    def _describe(self, name: str, about: Description) -> Variable:
        extremes = _extremes(about.minimum, about.maximum)
        shape = about.shapes[0] if about.shapes else ()
        number = len(about.at)
        described = Variable(name, about.type_name, shape, number, *extremes, about.at, about.shapes, about.local)
        if not shape and not about.local:
            return described
        # Without statistics ADIOS2 reports zeros; the blocks show that there are none.
        if extremes == (0, 0) and all(stored.minimum is None for stored in self._blocks(described, 0)):
            return replace(described, minimum=None, maximum=None)
        # Blocks without cells have the type's limits as their extremes, and with one of them the variable has, too.
        if not _are_limits(described):
            return described
        stored = [found for place in range(number) for found in self._blocks(described, place)]
        if all(found.block.size for found in stored):
            return described
        least = min((found.minimum for found in stored if found.minimum is not None), default=None)
        greatest = max((found.maximum for found in stored if found.maximum is not None), default=None)
        return replace(described, minimum=least, maximum=greatest)

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

    None if it has no complete step yet, so that ADIOS2 cannot open it.
    """
    steps = bp5.check(path).steps if has_steps(path) else 0
    vouched = checksums.vouches(path, steps)
    if steps == 0:
        return None
    with LOCK:
        return BPReader(path) if vouched else OtherProcessReader(path)


def _check_boxes(variable: Variable) -> None:
    """Raise UsageError for a variable that has no boxes."""
    if variable.local:
        raise UsageError(f"{variable.name!r} has blocks without a global shape: read one of them with block=0, 1, ...")
    if len({len(shape) for shape in variable.shapes}) > 1:
        raise UsageError(f"{variable.name!r} changes its number of axes: ADIOS2 reads it only with adios2.Stream")


def _are_limits(variable: Variable) -> bool:
    """Return whether the extremes of a variable are the limits of its type, as far as ADIOS2 prints them."""
    kind = TYPE_OF_NAME.get(variable.type_name)
    if variable.minimum is None or variable.maximum is None or kind is None or kind.kind == "c":
        return False
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    near = 1 - 1e-5
    return variable.minimum <= float(limits.min) * near and variable.maximum >= float(limits.max) * near


def _some(steps: Sequence[int]) -> str:
    """Return the first of some steps as text."""
    shown = ", ".join(map(str, steps[:8])) + (f" ... {steps[-1]}" if len(steps) > 8 else "")
    return f"step {shown}" if len(steps) == 1 else f"steps {shown}"


def did_you_mean(name: str, legal: Iterable[str]) -> str:
    """Return the end of a message about an unknown name. Local."""
    names = sorted(legal)
    close = difflib.get_close_matches(name, names, n=1) or [n for n in names if n.lower() == name.lower()]
    hint = f"did you mean {close[0]!r}?" if close else ""
    return f": {hint} It has {', '.join(names)}" if hint else f"; it has {', '.join(names) or 'none yet'}"


def missing(path: Path) -> str:
    """Return why a path is not a dataset, and which datasets are beside it. Local."""
    if path.is_file():
        kind = _kind_of_file(path)
        advice = {"a file": "a dataset is a directory like gs.bp", "an HDF5 file": "gw.load reads one that ends in .h5"}
        return f"{path} is {kind}; {advice.get(kind, _SUPPORTED)}"
    if path.is_dir():
        return f"{path} is a directory without a BP dataset in it (no md.idx)"
    near = sorted(str(other) for other in path.parent.glob("*.bp") if is_dataset(other))
    return f"there is no dataset {path}" + (f"; there is {', '.join(near[:5])}" if near else "")


_SUPPORTED = "only BP5 datasets can be read: have it written by ADIOS2's engine BP5"


def _kind_of_file(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            head = opened.read(8)
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - 56))
            foot = opened.read()
    except OSError:
        return "a file"
    if head == b"\x89HDF\r\n\x1a\n":
        return "an HDF5 file"
    return "a file of BP3" if foot.startswith(b"ADIOS-BP v") else "a file"


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
