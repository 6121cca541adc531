"""What a file holds, whatever its format: arrays, their descriptions, the names of their axes, and attributes."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from gondwana.arrays.array import Array, MemoryOrder
from gondwana.arrays.create import empty
from gondwana.arrays.divided import Divided, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.io.layout import AXES
from gondwana.teams import Team
from gondwana.transfer.verbs import copy

Box = tuple[slice, ...]
Values = np.ndarray[Any, Any]

PREFIX = "gondwana_"
"""Begin of the names of our own attributes."""

DESCRIPTIONS = PREFIX + "arrays"
"""Attribute of a file that has the descriptions of its arrays."""

_SLAB = 64 << 20
"""Bytes that one rank gathers at a time."""


@dataclass(frozen=True)
class Stored:
    """The description of an array in a file.

    Attributes:
        shape: number of elements along each axis.
        dtype: type of an element.
        origin: coordinates of the first element; none: all 0.
        order: order of the array in memory, when it was saved.
        rows_of_ranks: number of rows of each rank, of an array of rows; none of a global array.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    origin: tuple[int, ...] = ()
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


class Reader:
    """A file that is open for reading on this rank. Local.

    Args:
        attributes: attributes of the file, as its library gives them.
        others: makes the descriptions of the arrays of a file of another program.
    """

    def __init__(self, attributes: Mapping[str, Any], others: Callable[[], dict[str, Stored]]) -> None:
        found = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in attributes.items()}
        self.stored = _stored(found[DESCRIPTIONS]) if DESCRIPTIONS in found else others()
        ours = (PREFIX, "_NC")
        self.attributes = {name: found[name] for name in found if "/" not in name and not name.startswith(ours)}

    def read(self, name: str, where: Box, out: Values) -> None:
        """Read a box of an array, each slice of which has a start and a stop, into memory of its shape and dtype."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file, if it stays open."""


def imported(name: str) -> Any:
    """Import a library that is an extra; the error says how to install it. Local."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"such files need {name} ({error}): pip install 'gondwana[io]'") from None


def outputs_of(arrays: Mapping[str, Any], rows: Mapping[str, Sequence[int]]) -> dict[str, Output]:
    """Return arrays with their descriptions, and names for their axes. Local.

    Args:
        arrays: global arrays or views; an ndarray where all ranks have no rows.
        rows: the number of rows of each rank, by the names of those arrays that have them.
    """
    found: dict[str, Output] = {}
    extents: dict[str, int] = {}
    for name in sorted(arrays):
        array, dims = arrays[name], []
        for axis, extent in enumerate(array.shape):
            dim = f"{name}_{axis or 'row'}" if name in rows else AXES[axis] if array.ndim <= 3 else f"x{axis}"
            while dim in arrays or extents.setdefault(dim, extent) != extent:
                dim = f"{name}_{dim}"
            dims.append(dim)
        about = (tuple(array.domain.lo), array.order) if isinstance(array, GlobalArray) else ((), "C")
        stored = Stored(array.shape, array.dtype, *about, tuple(rows.get(name, ())))
        found[name] = Output(stored, array if isinstance(array, Divided) else None, tuple(dims))
    return found


def described(outputs: Mapping[str, Output]) -> str:
    """Return the descriptions of arrays as a text, for an attribute of the file. Local."""
    found = {name: asdict(output.stored) for name, output in outputs.items()}
    return json.dumps(found, default=lambda dtype: repr(np.lib.format.dtype_to_descr(dtype)))


def _stored(text: str) -> dict[str, Stored]:
    """The descriptions that `described` has made a text of."""
    found = {}
    for name, given in json.loads(text).items():
        lists: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        lists["dtype"] = np.lib.format.descr_to_dtype(ast.literal_eval(given["dtype"]))
        found[name] = Stored(**lists)
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
        if not isinstance(name, str) or not name or "/" in name or name.startswith((PREFIX, "_NC")):
            raise UsageError(
                f"an attribute is named {name!r}: give a text without '/' that does not begin with {PREFIX}"
            )
        ragged = isinstance(value, list | tuple) and not all(map(np.isscalar, value))
        content = np.asarray(None if ragged else value)
        if content.dtype.kind not in "biufU" or content.ndim > 1 or not content.size:
            raise UsageError(f"the attribute {name!r} is {value!r}: give a text, a number, or a list of one of them")
        found[name] = content.tolist()
    return found


def cells_of_end(source: Divided, rank: int, positions: RectDomain) -> Values:
    """Return elements that a rank owns: the same memory where this rank reaches it, a copy else. Local; blocks."""
    end = source.end(rank, positions)
    return (end if isinstance(end, Array) else end.copy()).numpy()


def copied(source: Divided, **division: Any) -> GlobalArray:
    """Return the elements in an array of another division. Collective over the team; blocks."""
    target = empty(source.shape, source.dtype, team=source.team, **division)
    copy(source, target).wait()
    return target


def slabs(source: Divided) -> Iterator[tuple[Box, Values]]:
    """Return all elements on this rank, one box after the other, which are contiguous in a file of order C. Local.

    Of ranks of the node they are read where they lie, those of others are copied one-sidedly, 64 MiB at a time.
    """
    parts = [(rank, source.part(rank)) for rank in range(source.team.size)]
    for box in _boxes(source.shape, source.dtype.itemsize):
        found = [(rank, common) for rank, part in parts if not (common := box & part).is_empty]
        cells = np.empty(box.shape, source.dtype) if len(found) > 1 else cells_of_end(source, *found[0])
        for rank, part in found if len(found) > 1 else ():
            cells[slices_of(part.translate(-box.lo))] = cells_of_end(source, rank, part)
        yield slices_of(box), cells


def _boxes(shape: tuple[int, ...], itemsize: int) -> Iterator[RectDomain]:
    """Divide an array into boxes of limited size, each contiguous in order C."""
    sizes = [itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    axis = next(axis for axis, size in enumerate(sizes) if size <= _SLAB)
    step = max(1, _SLAB // sizes[axis])
    for outer in np.ndindex(shape[:axis]):
        for first in range(0, shape[axis], step):
            low = [*outer, first, *(0 for _ in shape[axis + 1 :])]
            high = [*(i + 1 for i in outer), min(first + step, shape[axis]), *shape[axis + 1 :]]
            yield RectDomain(low, high)


def read_rows(reader: Reader, name: str, team: Team) -> Values:
    """Return the rows of this rank, of an array of rows; or an array without axes. Local.

    They are those that the rank has saved, if as many ranks have; else all are divided as evenly as possible.
    """
    stored, rank, size = reader.stored[name], team.rank, team.size
    where = [slice(0, extent) for extent in stored.shape]
    if lengths := stored.rows_of_ranks:
        even = [stored.shape[0] * (index + 1) // size - stored.shape[0] * index // size for index in range(size)]
        widths = lengths if len(lengths) == size else even
        where[0] = slice(sum(widths[:rank]), sum(widths[: rank + 1]))
    rows = np.empty([along.stop - along.start for along in where], stored.dtype)
    if rows.size:
        reader.read(name, tuple(where), rows)
    return rows
