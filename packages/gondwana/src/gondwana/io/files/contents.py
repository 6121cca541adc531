"""What a file holds, whatever its format: arrays, their descriptions, the names of their axes, and attributes."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from gondwana.arrays.array import Array, MemoryOrder
from gondwana.arrays.divided import Divided, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.io.layout import AXES
from gondwana.teams import Team

#: Attribute of a file that has the descriptions of its arrays; users' attributes do not begin like it.
PREFIX = "gondwana_"
DESCRIPTIONS = PREFIX + "arrays"

_SLAB = 64 << 20
"""Bytes that one rank gathers at a time."""


@dataclass(frozen=True)
class Stored:
    """The description of an array in a file.

    Attributes:
        shape: number of elements along each axis.
        dtype: type of an element.
        origin: coordinates of the first element.
        order: order of the array in memory, when it was saved.
        rows_of_ranks: number of rows of each rank, of an array of rows; none of a global array.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    origin: tuple[int, ...]
    order: MemoryOrder = "C"
    rows_of_ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Output:
    """An array to be written.

    Attributes:
        stored: its description.
        source: its elements; None: there are none.
        dims: names of its axes.
    """

    stored: Stored
    source: Divided | None
    dims: tuple[str, ...]


class Reader(Protocol):
    """A file that is open for reading on this rank. Local.

    Attributes:
        stored: descriptions of its arrays.
        attributes: attributes of the file.
    """

    stored: Mapping[str, Stored]
    attributes: Mapping[str, Any]

    def read(self, name: str, where: tuple[slice, ...], out: np.ndarray[Any, Any]) -> None:
        """Read a box of an array, each slice of which has a start and a stop, into memory of its shape and dtype."""

    def close(self) -> None:
        """Close the file."""


class Format(Protocol):
    """A format of files: the functions of the module that has it."""

    def check(self) -> None:
        """Raise UsageError if its library cannot be imported. Local."""

    def is_one(self, path: Path) -> bool:
        """Return whether there is such a file of any program. Local."""

    def write(self, path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
        """Write a new file. Collective over team."""

    def open_file(self, path: Path) -> Reader:
        """Open a file for reading. Local."""


def read_rows(reader: Reader, name: str, team: Team) -> np.ndarray[Any, Any]:
    """Return the rows of this rank, of an array of rows; or an array without axes. Local.

    They are those that the rank has saved, if as many ranks have; else all are divided as evenly as possible.
    """
    stored, rank = reader.stored[name], team.rank
    shape, lengths = stored.shape, stored.rows_of_ranks
    where = [slice(0, extent) for extent in shape]
    if len(lengths) == team.size:
        where[0] = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
    elif lengths:
        where[0] = slice(rank * shape[0] // team.size, (rank + 1) * shape[0] // team.size)
    rows = np.empty([along.stop - along.start for along in where], stored.dtype)
    if rows.size:
        reader.read(name, tuple(where), rows)
    return rows


def imported(name: str) -> ModuleType:
    """Import a library that is an extra; the error says how to install it. Local."""
    try:
        return __import__(name)
    except ImportError as error:
        raise UsageError(f"such files need {name} ({error}): pip install 'gondwana[io]'") from None


def outputs_of(arrays: Mapping[str, Any], rows: Mapping[str, Sequence[int]]) -> dict[str, Output]:
    """Return arrays with their descriptions, and names for their axes. Local.

    Args:
        arrays: global arrays or views; an ndarray where all ranks have no rows.
        rows: the number of rows of each rank, by the names of those arrays that have them.
    """
    found, taken = {}, {}
    for name in sorted(arrays):
        array, lengths = arrays[name], tuple(rows.get(name, ()))
        domain = array.domain if isinstance(array, GlobalArray) else RectDomain.from_shape(array.shape)
        order = array.order if isinstance(array, GlobalArray) else "C"
        dims = []
        for axis, extent in enumerate(array.shape):
            dim = f"{name}_{axis or 'row'}" if lengths else AXES[axis] if array.ndim <= len(AXES) else f"x{axis}"
            if taken.get(dim, extent) != extent or dim in arrays:
                dim = f"{name}_{dim}"
            while taken.get(dim, extent) != extent or dim in arrays:
                dim += "_"
            taken[dim] = extent
            dims.append(dim)
        stored = Stored(array.shape, array.dtype, tuple(domain.lo), order, lengths)
        found[name] = Output(stored, array if isinstance(array, Divided) else None, tuple(dims))
    return found


def described(outputs: Mapping[str, Output]) -> str:
    """Return the descriptions of arrays as a text, for an attribute of the file. Local."""
    found = {name: asdict(output.stored) for name, output in outputs.items()}
    for stored in found.values():
        stored["dtype"] = repr(np.lib.format.dtype_to_descr(stored["dtype"]))
    return json.dumps(found)


def descriptions(text: str) -> dict[str, Stored]:
    """Return the descriptions that `described` has made a text of. Local."""
    found = {}
    for name, given in json.loads(text).items():
        dtype = np.lib.format.descr_to_dtype(ast.literal_eval(given.pop("dtype")))
        order = given.pop("order")
        found[name] = Stored(dtype=dtype, order=order, **{key: tuple(value) for key, value in given.items()})
    return found


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as texts, numbers of Python, and lists of them. Local.

    Raises:
        UsageError: an attribute is nothing of that kind.
    """
    if not isinstance(attributes, Mapping):
        raise UsageError(f"attributes={attributes!r}: give values by name, as in {{'k': 0.1}}")
    found = {}
    for name, value in attributes.items():
        if not isinstance(name, str) or not name or "/" in name or name.startswith(PREFIX):
            raise UsageError(f"an attribute is named {name!r}: give a text without '/' that does not begin with {PREFIX}")
        try:
            content = np.asarray(value)
        except ValueError:  # lists of several lengths
            content = np.empty((0, 0))
        if content.dtype.kind not in "biufU" or content.ndim > 1 or not content.size:
            raise UsageError(f"the attribute {name!r} is {value!r}: give a text, a number, or a list of one of them")
        found[name] = content.tolist()
    return found


def leaves(name: str, dtype: np.dtype[Any]) -> Iterator[tuple[str, tuple[str, ...], np.dtype[Any]]]:
    """Return the fields of records, those of inner records, too, for formats that have no records. Local.

    Args:
        name: name of the array.
        dtype: type of an element.

    Returns:
        Names such as `stars.place.x`, names of the fields from the outermost one, and dtypes, of several items perhaps.
        An array that has no records is the only one.
    """
    if dtype.names is None:
        yield name, (), dtype
    else:
        fields: Any = dtype.fields
        for field in dtype.names:
            for inner, path, found in leaves(f"{name}.{field}", fields[field][0]):
                yield inner, (field, *path), found


def field_of(records: np.ndarray[Any, Any], path: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return a field of records by the names from the outermost one: the same memory. Local."""
    for field in path:
        records = records[field]
    return records


def cells_of_end(source: Divided, rank: int, positions: RectDomain) -> np.ndarray[Any, Any]:
    """Return elements that a rank owns: the same memory where this rank reaches it, a copy else. Local; blocks."""
    end = source.end(rank, positions)
    return (end if isinstance(end, Array) else end.copy()).numpy()


def slabs(source: Divided) -> Iterator[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]:
    """Return all elements on this rank, one box after the other, which are contiguous in a file of order C. Local.

    Of ranks of the node they are read where they lie, those of others are copied one-sidedly, 64 MiB at a time.
    """
    parts = [(rank, source.part(rank)) for rank in range(source.team.size)]
    for box in _boxes(source.shape, source.dtype.itemsize):
        found = [(rank, box & part) for rank, part in parts if not (box & part).is_empty]
        if len(found) == 1:
            cells = cells_of_end(source, *found[0])
        else:
            cells = np.empty(box.shape, source.dtype)
            for rank, part in found:
                cells[slices_of(part.translate(-box.lo))] = cells_of_end(source, rank, part)
        yield slices_of(box), cells


def _boxes(shape: tuple[int, ...], itemsize: int) -> Iterator[RectDomain]:
    """Divide an array into boxes of limited size, each contiguous in order C."""
    axis = next(axis for axis in range(len(shape)) if axis == len(shape) - 1 or itemsize * prod(shape[axis + 1 :]) <= _SLAB)
    step = max(1, _SLAB // (itemsize * prod(shape[axis + 1 :])))
    for outer in np.ndindex(shape[:axis]):
        for first in range(0, shape[axis], step):
            spans = [range(i, i + 1) for i in outer] + [range(first, min(first + step, shape[axis]))]
            yield RectDomain.from_axes([*spans, *map(range, shape[axis + 1 :])])
