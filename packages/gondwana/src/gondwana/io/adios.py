"""The only module that imports ADIOS2: calls that would write wrong data or end the interpreter are refused here.

Behaviour of the plain wheel (2.12), each found by experiment: it writes wrong data for arrays that are not C-contiguous
and for Python's ``bool``; it rejects NumPy's scalars; it ends the process for an operator that it was built without,
and for closing a reader of a dataset without steps; several writers of one name lose data silently; a reader that is
closed leaves ``NAME_PID_profiling.json`` in /tmp, whatever TMPDIR and the engine's parameters are.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.io import bp5
from gondwana.io.checksums import Ledger
from gondwana.io.paths import DatasetError, claim

AttributeValue = str | int | float | Sequence[str] | Sequence[int] | Sequence[float]

#: The element type of each of ADIOS2's type names.
TYPE_OF_NAME: dict[str, np.dtype[Any]] = {
    "int8_t": np.dtype(np.int8),
    "char": np.dtype(np.int8),
    "int16_t": np.dtype(np.int16),
    "int32_t": np.dtype(np.int32),
    "int64_t": np.dtype(np.int64),
    "uint8_t": np.dtype(np.uint8),
    "uint16_t": np.dtype(np.uint16),
    "uint32_t": np.dtype(np.uint32),
    "uint64_t": np.dtype(np.uint64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "float complex": np.dtype(np.complex64),
    "double complex": np.dtype(np.complex128),
}

#: ADIOS2's name of the type of texts, which are read as Python's.
TEXT = "string"

OPERATORS = ("blosc", "bzip2", "zfp", "sz", "sz3", "mgard", "png", "libpressio")

#: ADIOS2's reader is not thread-safe: all code that calls it holds this lock.
LOCK = RLock()

_UNCOPIED = 1 << 16
"""Bytes of the smallest block that ADIOS2 writes without a copy."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


INSTALL = "pip install 'gondwana[io]'"
"""The advice to a user without adios2."""
if platform.machine() == "aarch64":
    INSTALL = "PyPI has no wheel of it for aarch64, conda-forge has one: conda install -c conda-forge adios2"


@cache
def load() -> ModuleType:
    """Import and return adios2; the error explains how to install it. Local."""
    try:
        import adios2
    except ImportError as error:
        raise UsageError(f"datasets need adios2 ({error}): {INSTALL}") from None
    module: ModuleType = adios2
    return module


def version() -> str:
    """Return the version of adios2, and whether it was built with MPI. Local."""
    return f"{load().__version__} {'with' if built_with_mpi() else 'without'} MPI"


def built_with_mpi() -> bool:
    """Return whether adios2 was built with MPI, so that every rank can write its own block. Local."""
    return bool(load().is_built_with_mpi)


def check_type(name: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the element type; raise UsageError if ADIOS2 cannot store it. Local."""
    given = np.dtype(dtype)
    if given not in TYPE_OF_NAME.values():
        legal = sorted({str(t) for t in TYPE_OF_NAME.values()})
        raise UsageError(f"{name!r} has elements of type {given}; a dataset holds {', '.join(legal)}: convert it first")
    return given


@cache
def has_operator(name: str) -> bool:
    """Return whether this adios2 can apply an operator, tested in another process. Local.

    Requesting an operator that was not built in ends the process without an exception.
    """
    code = f"import adios2; adios2.Adios().define_operator('probe', {name!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def check_operator(name: str) -> None:
    """Raise UsageError for a compression operator that this adios2 was built without. Local."""
    if name in OPERATORS and has_operator(name):
        return
    legal = ", ".join(o for o in OPERATORS if has_operator(o)) or "none (the wheels from PyPI have no compressor)"
    raise UsageError(f"the operator {name!r} is not in this adios2 {version()}; legal are: {legal}")


def integers(text: str) -> tuple[int, ...]:
    """Return the numbers of a text of ADIOS2, such as "4, 6, 8". Local."""
    return tuple(int(part) for part in text.split(",") if part.strip())


def failure(action: str, error: Exception) -> DatasetError:
    """Return an error of ADIOS2 as one readable line. Local."""
    text = _COLOUR.sub("", str(error)).strip().replace("\n", " ")
    reason = re.sub(r"^\[[^]]*\] \[ADIOS2 EXCEPTION\] (<[^>]*>\s*)*:?\s*", "", text)
    return DatasetError(f"{action}: {reason}")


class BPWriter:
    """A writer of one BP5 dataset, step by step. Local, or collective over the communicator, if given.

    Blocks are read when the step ends, not before: they stay referenced until then and must not change.

    Args:
        path: the dataset, a directory that ends in ``.bp``.
        keep: number of existing steps to keep; new ones follow them. None: start a new dataset.
        operator: a compression operator for all arrays, from ``OPERATORS``.
        comm: an MPI communicator, for an adios2 that was built with MPI.
        replace: whether a new dataset may replace an existing one.
        lock: result of ``paths.claim`` for this dataset, which is taken over. None: it is claimed here.

    Raises:
        UsageError: the operator is not available, or another program is writing this dataset.
        DatasetError: ADIOS2 cannot create the dataset.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep: int | None = None,
        operator: str | None = None,
        comm: Any = None,
        replace: bool = True,
        lock: int | None = None,
    ) -> None:
        adios2 = load()
        self.path = Path(path)
        self._mode = adios2.bindings.Mode
        self._operator = operator
        if operator is not None:
            check_operator(operator)
        append = bool(keep)
        self._lock = self._claim(comm, empty=not append, replace=replace) if lock is None else lock
        self._adios = adios2.Adios(comm) if comm is not None else adios2.Adios()
        self._io = self._adios.declare_io("SimulationOutput")
        self._io.set_engine("BP5")
        # Readers, `gondwana ls` among them, need the minimum and maximum of every block, and an index that exists as
        # soon as the dataset is open, not once a thread of ADIOS2 has written it. Blocks are written directly from the
        # arrays, which ADIOS2 by itself does from 4 MiB on: copies of smaller ones cost as much as writing them.
        settings = {"StatsLevel": "1", "AsyncOpen": "Off", "MinDeferredSize": str(_UNCOPIED)}
        self._io.set_parameters(settings | ({"AppendAfterSteps": str(keep)} if append else {}))
        self._alive: list[npt.NDArray[Any]] = []
        self._in_step = False
        self._ledger: Ledger | None = None
        try:
            if append and self._lock is not None:
                bp5.trim(self.path)
            if self._lock is not None:
                self._ledger = Ledger(self.path, keep or 0)
            self._engine = self._io.open(str(self.path), self._mode.Append if append else self._mode.Write)
            if self._ledger is not None:
                self._ledger.begin()
        except DatasetError:
            self._release()
            raise
        except Exception as error:
            self._release()
            raise failure(f"cannot create the dataset {self.path}", error) from None

    def attribute(self, name: str, value: AttributeValue) -> None:
        """Store an attribute: text, a number, or a sequence of one of them. Truth values become 0 or 1. Local."""
        content: Any = value
        if isinstance(value, str):
            content = value
        elif isinstance(value, Sequence) and value and all(isinstance(item, str) for item in value):
            content = list(value)
        else:
            content = np.asarray(value)
            if content.dtype == np.bool_:
                content = content.astype(np.int32)
            if content.size == 0 or content.dtype not in TYPE_OF_NAME.values():
                raise UsageError(f"the attribute {name!r} = {value!r} must be text, numbers, or a sequence of them")
            content = np.ascontiguousarray(content) if content.ndim else content
        self._io.define_attribute(name, content)

    def begin_step(self) -> None:
        """Start a step."""
        try:
            self._engine.begin_step()
        except Exception as error:
            raise failure(f"cannot write to {self.path}", error) from None
        self._in_step = True

    def put(self, name: str, block: npt.NDArray[Any], start: Sequence[int], shape: Sequence[int]) -> None:
        """Add one block of a global array to this step. Local.

        Args:
            name: the variable.
            block: the cells; copied unless contiguous, and not to be changed before the step ends.
            start: the corner of the block in the global array, in cells.
            shape: the global array's shape, in cells.
        """
        check_type(name, block.dtype)
        block = np.ascontiguousarray(block)
        where, whole = [int(i) for i in start], [int(n) for n in shape]
        variable = self._io.inquire_variable(name)
        if variable is None:
            variable = self._io.define_variable(name, block, whole, where, list(block.shape))
            if self._operator is not None:
                variable.add_operation_string(self._operator, {})
        variable.set_shape(whole)
        variable.set_selection([where, list(block.shape)])
        self._alive.append(block)
        self._engine.put(variable, block, self._mode.Deferred)

    def put_scalar(self, name: str, value: int | float, dtype: npt.DTypeLike | None = None) -> None:
        """Add a number to this step; its type must be the same in every step. Local."""
        number = np.array(value, dtype)
        check_type(name, number.dtype)
        variable = self._io.inquire_variable(name) or self._io.define_variable(name, number)
        self._engine.put(variable, number, self._mode.Sync)

    def end_step(self) -> None:
        """Write the step: once it returns, readers can see it.

        Raises:
            DatasetError: the data could not be written; the earlier steps stay readable.
        """
        try:
            self._engine.end_step()
            self._in_step = False
            if self._ledger is not None:
                self._ledger.add_step()
        except Exception as error:
            self._in_step = False
            raise failure(f"cannot write to {self.path}", error) from None
        finally:
            self._alive.clear()

    def flush(self) -> None:
        """Wait for the checksums of the steps so far.

        Raises:
            DatasetError: the checksums could not be written.
        """
        try:
            if self._ledger is not None:
                self._ledger.wait()
        except Exception as error:
            raise failure(f"cannot write to {self.path}", error) from None

    def close(self) -> None:
        """Close the dataset. A step that has begun and not ended, because of an error, does not become part of it."""
        try:
            if self._in_step:
                self._engine = None  # ADIOS2's close would complete the step with its part of the data
            else:
                self._engine.close()
            if self._ledger is not None:
                self._ledger.close()
        except Exception as error:
            raise failure(f"cannot close {self.path}", error) from None
        finally:
            self._release()

    def _claim(self, comm: Any, *, empty: bool, replace: bool) -> int | None:
        """Lock the dataset for writing; of several ranks rank 0 does, and all raise if it cannot."""
        lock: int | None = None
        problem: Exception | None = None
        if comm is None or comm.Get_rank() == 0:
            try:
                lock = claim(self.path, empty=empty, replace=replace)
            except (UsageError, DatasetError) as error:
                problem = error
        if comm is not None:
            problem = comm.bcast(problem)
        if problem is not None:
            raise problem
        return lock

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@dataclass(frozen=True, slots=True)
class Description:
    """ADIOS2's description of a variable.

    Attributes:
        type_name: ADIOS2's name of the element type.
        at: the indices of the steps of the dataset that have the variable.
        shapes: its global shape in each of them; () for one value and for local blocks.
        local: whether the variable has blocks only, without a global shape.
        minimum: the least value as text; empty: unknown.
        maximum: the greatest value.
    """

    type_name: str
    at: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    local: bool
    minimum: str
    maximum: str


class BPReader:
    """Random access to the steps that a dataset had when it was opened. Local; hold ``LOCK`` around every call.

    If a method takes a step of a variable, steps without the variable do not count.

    Raises:
        DatasetError: ADIOS2 cannot open the dataset.
    """

    def __init__(self, path: Path) -> None:
        adios2 = load()
        self.path = path
        self._mode = adios2.bindings.Mode
        self._shape_id = adios2.bindings.ShapeID
        # The objects refer to one another by plain pointers, so they must live as long as the engine.
        self._adios = adios2.Adios()
        self._io, self._engine = self._open("reader", self._mode.ReadRandomAccess)

    def steps(self) -> int:
        """Return the number of steps."""
        return int(self._engine.steps())

    def variables(self) -> dict[str, Description]:
        """Return the description of each variable."""
        found: dict[str, dict[str, str]] = self._io.available_variables()
        numbers = {name: int(about["AvailableStepsCount"]) for name, about in found.items()}
        total = self.steps()
        everywhere = tuple(range(total))
        at = self._names_of_steps(total) if any(number != total for number in numbers.values()) else []
        described = {}
        for name, about in found.items():
            variable, number = self._io.inquire_variable(name), numbers[name]
            places = everywhere if number == total else tuple(step for step, names in enumerate(at) if name in names)
            if len(places) != number:
                raise DatasetError(f"cannot read the dataset {self.path}: it has {name!r} in {number} of its steps")
            shapes = tuple(tuple(variable.shape(step)) for step in range(number))
            local = variable.shape_id() == self._shape_id.LocalArray
            extremes = about.get("Min", ""), about.get("Max", "")
            described[name] = Description(about["Type"], places, shapes, local, *extremes)
        return described

    def attributes(self) -> dict[str, Any]:
        """Return every attribute: str, list of str, a NumPy number or an array."""
        return {name: self._attribute(name) for name in sorted(self._io.available_attributes())}

    def attribute_types(self) -> dict[str, str]:
        """Return ADIOS2's name of every attribute's type."""
        return {name: str(about["Type"]) for name, about in sorted(self._io.available_attributes().items())}

    def _attribute(self, name: str) -> Any:
        attribute = self._io.inquire_attribute(name)
        if attribute.type() != TEXT:
            return attribute.data()
        try:
            return attribute.data_string()
        except UnicodeDecodeError as error:
            return _readable(error)

    def blocks(self, name: str, step: int) -> list[dict[str, str]]:
        """Return the blocks of a variable in one step; of bytes without "Start" if ADIOS2 cannot tell it."""
        try:
            found: list[dict[str, str]] = self._engine.blocks_info(name, step)
        except UnicodeDecodeError:  # the extremes of bytes come as characters of a text
            found = self._counts(name, step)
        return found

    def read(
        self,
        name: str,
        steps: tuple[int, int],
        start: Sequence[int],
        count: Sequence[int],
        dtype: np.dtype[Any],
        block: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return a box of consecutive steps; the step is the first axis. Unwritten cells are 0.

        Args:
            name: the variable.
            steps: the first step, and the number of steps.
            start: the corner of the box, in cells; empty for a number.
            count: the box's shape, in cells.
            dtype: the variable's element type; object for texts.
            block: the number of a block that is read as a whole, of this shape; None: read the box.
        """
        try:
            cells = np.zeros((steps[1], *count), dtype)
        except (MemoryError, ValueError) as error:
            raise failure(f"cannot read {name!r} of {self.path}", error) from None
        if cells.size == 0:
            return cells
        variable = self._io.inquire_variable(name)
        variable.set_step_selection(list(steps))
        try:
            if dtype.hasobject:
                for place in range(steps[1]):
                    cells[place] = self._text(variable, steps[0] + place)
                return cells
            if block is not None:
                variable.set_block_selection(block)
            elif count:
                variable.set_selection([[int(i) for i in start], [int(n) for n in count]])
            self._engine.get(variable, cells.reshape(-1, *count[1:]) if count else cells, self._mode.Sync)
        except Exception as error:
            raise failure(f"cannot read {name!r} of {self.path}", error) from None
        return cells

    def close(self) -> None:
        """Close the dataset; nothing else may be called after that."""
        # ADIOS2's close leaves a profile in /tmp that no parameter turns off; deleting a reader closes its files, too.
        del self._engine, self._io
        self._adios.remove_io("reader")

    def _open(self, role: str, mode: Any) -> tuple[Any, Any]:
        io = self._adios.declare_io(role)
        io.set_engine("BP5")
        io.set_parameter("OpenTimeoutSecs", "0")
        try:
            return io, io.open(str(self.path), mode)
        except Exception as error:
            raise failure(f"cannot read the dataset {self.path}", error) from None

    def _names_of_steps(self, number: int) -> list[set[str]]:
        """Return the variables of each step, which ADIOS2 gives only to a reader that goes from step to step."""
        bindings = load().bindings
        io, engine = self._open("names", self._mode.Read)
        names = []
        for _ in range(number):
            if engine.begin_step(bindings.StepMode.Read, 0.0) != bindings.StepStatus.OK:
                break
            names.append(set(io.available_variables()))
            engine.end_step()
        del engine, io
        self._adios.remove_io("names")
        return names

    def _text(self, variable: Any, step: int) -> str:
        variable.set_step_selection([step, 1])
        try:
            text: str = self._engine.get(variable, mode=self._mode.Sync)
        except UnicodeDecodeError as error:
            text = _readable(error)
        return text

    def _counts(self, name: str, step: int) -> list[dict[str, str]]:
        """Return the shapes of the blocks of a variable in one step, one after the other until the last."""
        variable = self._io.inquire_variable(name)
        variable.set_step_selection([step, 1])
        found: list[dict[str, str]] = []
        while True:
            variable.set_block_selection(len(found))
            try:
                found.append({"Count": ",".join(map(str, variable.count()))})
            except ValueError:
                return found


def _readable(error: UnicodeDecodeError) -> str:
    """Return a text of another program that is not UTF-8, with marks in place of the illegal bytes."""
    return error.object.decode("utf-8", "replace")


def as_settings(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as plain Python values, for JSON and for xarray. Local."""
    return {name: value.tolist() if isinstance(value, np.generic) else value for name, value in attributes.items()}
