"""The layout of a global array in a dataset: the blocks of the ranks, and the order of the axes.

ADIOS2 stores the last axis contiguously. An array of order "F" (axis 0 contiguous) is stored with its axes reversed,
so that its memory is written as it is: a field over x, y, z becomes a variable of shape {Lz, Ly, Lx}. An array of order
"C" keeps its axes.

Datasets hold numbers, so the fields of records are variables of their own: `stars.mass`, `stars.place.x`, and truth
values are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array
from gondwana.arrays.create import empty
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.divided import Divided
from gondwana.domains.rect import RectDomain
from gondwana.errors import UsageError
from gondwana.io.adios import check_type
from gondwana.io.staging import Block
from gondwana.teams import Team
from gondwana.teams.team import failing_together
from gondwana.transfer.verbs import copy

AXES = "xyz"


class Cells(Protocol):
    """One rank's memory of a distributed array."""

    def restrict(self, domain: RectDomain, /) -> Cells:
        """Return the view on a part of the domain."""

    def numpy(self) -> npt.NDArray[Any]:
        """Return the memory as an array with the axes of the domain; not called for memory of a GPU."""


class Distributed(Protocol):
    """The part of a distributed array that reading and writing need, such as ``gondwana.arrays.GlobalArray``."""

    @property
    def domain(self) -> RectDomain:
        """The index domain of the whole array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""

    @property
    def order(self) -> Literal["C", "F"]:
        """The axis that is contiguous in memory: the last ("C") or the first ("F")."""

    @property
    def owned(self) -> RectDomain:
        """The cells of this rank, maybe none."""

    @property
    def local(self) -> Cells:
        """This rank's memory: its cells and the ghosts around them."""

    def owned_of(self, rank: int, /) -> RectDomain:
        """Return the cells of any rank."""


Arrays = Mapping[str, Distributed]


@dataclass(frozen=True)
class Field:
    """A field of the records of an array as an array of numbers; its items are along further axes. See `Distributed`.

    Truth values are bytes here.

    Attributes:
        array: the array of records, or of truth values.
        names: names of the field, from the outermost record inwards; none of an array of truth values.
        dtype: type of its numbers.
        items: number of its items along each further axis.
    """

    array: Distributed
    names: tuple[str, ...]
    dtype: np.dtype[Any]
    items: tuple[int, ...]

    @property
    def domain(self) -> RectDomain:
        """The cells and items."""
        return self._with_items(self.array.domain)

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of the array."""
        return self.array.order

    @property
    def owned(self) -> RectDomain:
        """The cells and items of this rank."""
        return self._with_items(self.array.owned)

    @property
    def local(self) -> Field:
        """The field itself: `restrict` and `numpy` give the cells of this rank."""
        return self

    def owned_of(self, rank: int, /) -> RectDomain:
        """Return the cells and items of any rank. Local."""
        return self._with_items(self.array.owned_of(rank))

    def restrict(self, domain: RectDomain, /) -> Field:
        """Return the field itself, whose cells here are those that this rank owns. Local."""
        return self

    def numpy(self) -> npt.NDArray[Any]:
        """Return this rank's own cells: a view of host memory, a copy of a GPU's. Local."""
        return self._of(cells_of(self.array) if self.order == "C" else cells_of(self.array).T)

    def set(self, cells: npt.NDArray[Any]) -> None:
        """Set this rank's own cells, converted to the type of the field. Local; blocks."""
        owned = self.array.local.restrict(self.array.owned)
        records = owned.copy() if isinstance(owned, DeviceArray) else owned
        np.copyto(self._of(records.numpy()), cells, casting="unsafe")
        if isinstance(owned, DeviceArray):
            owned.copy_from(records)

    def _of(self, records: npt.NDArray[Any]) -> npt.NDArray[Any]:
        part = field_of(records, self.names)
        return part.view(self.dtype) if part.dtype == bool else part

    def _with_items(self, cells: RectDomain) -> RectDomain:
        return RectDomain.from_axes([*cells.axes, *map(range, self.items)])


def fields_of(arrays: Arrays) -> Arrays:
    """Return the arrays of numbers that a dataset stores: those given, records replaced by their fields. Local.

    Truth values are replaced by bytes.

    Raises:
        UsageError: these are no arrays over ranks, or a field has the name of another array.
    """
    check_global(arrays)
    items = [(array, *leaf) for name, array in arrays.items() for leaf in leaves(name, array.dtype)]
    found = [(name, _field(array, path, dtype)) for array, name, path, dtype in items]
    if len(dict(found)) < len(found):
        raise UsageError(f"a field of a record has the name of another array: {', '.join(name for name, _ in found)}")
    return dict(found)


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
    for field in dtype.names or ():
        for inner, path, found in leaves(f"{name}.{field}", dtype[field]):
            yield inner, (field, *path), found


def field_of(records: npt.NDArray[Any], path: Sequence[str]) -> npt.NDArray[Any]:
    """Return a field of records by the names from the outermost one: the same memory. Local."""
    return field_of(records[path[0]], path[1:]) if path else records


def _field(array: Distributed, path: tuple[str, ...], dtype: np.dtype[Any]) -> Distributed:
    kind = np.dtype(np.uint8) if dtype.base.kind == "b" else dtype.base
    return Field(array, path, kind, dtype.shape) if path or kind != dtype else array


def _on_disk(array: Distributed, per_axis: Sequence[int]) -> tuple[int, ...]:
    return tuple(per_axis) if array.order == "C" else tuple(reversed(per_axis))


def shape_of(array: Distributed) -> tuple[int, ...]:
    """Return the shape of the variable that stores an array, in cells. Local."""
    return _on_disk(array, array.domain.shape)


def axes_of(array: Distributed) -> list[str]:
    """Return the names of the variable's axes: x, y, z for the array's first ones, and those of a field. Local."""
    items = array.items if isinstance(array, Field) else ()
    ndim = array.domain.ndim - len(items)
    names = [*(AXES[:ndim] if ndim <= len(AXES) else [f"x{axis}" for axis in range(ndim)])]
    names += [f"{array.names[-1]}{axis}" for axis in range(len(items))] if isinstance(array, Field) else []
    return names if array.order == "C" else names[::-1]


def block_of(array: Distributed, rank: int) -> Block:
    """Return the part of the variable that a rank owns; without cells if it owns none. Local."""
    owned, whole = array.owned_of(rank), array.domain
    if owned.is_empty:
        return Block((0,) * whole.ndim, (0,) * whole.ndim)
    start = [(first - lo) // step for first, lo, step in zip(owned.lo, whole.lo, whole.stride, strict=True)]
    return Block(_on_disk(array, start), _on_disk(array, owned.shape))


def cells_of(array: Distributed) -> npt.NDArray[Any]:
    """Return this rank's own cells, without ghosts, with the axes of the variable. Local.

    A view of host memory; cells in the memory of a GPU are copied, after the kernels launched so far.
    """
    owned = array.local.restrict(array.owned)
    cells = owned.copy().numpy() if isinstance(owned, DeviceArray) else owned.numpy()
    return cells if array.order == "C" else cells.T


def copy_cells(array: Distributed, target: npt.NDArray[Any]) -> None:
    """Copy this rank's own cells to host memory. Local; blocks. On GPUs after the kernels launched so far.

    Args:
        array: the array of the cells.
        target: memory of the same type, with the axes of the variable.
    """
    owned = array.local.restrict(array.owned)
    target = target if array.order == "C" else target.T
    if isinstance(owned, DeviceArray):
        copy(owned, target).wait()
    else:
        np.copyto(target, owned.numpy())


def set_cells(array: Distributed, cells: npt.NDArray[Any]) -> None:
    """Set this rank's own cells, converted to the type of the array. Local; blocks.

    Args:
        array: the array of the cells.
        cells: the cells, with the axes of the variable.
    """
    cells = cells if array.order == "C" else cells.T
    if isinstance(array, Field):
        array.set(cells)
        return
    owned = array.local.restrict(array.owned)
    if isinstance(owned, DeviceArray):
        owned.copy_from(Array(cells.astype(array.dtype, copy=False), array.owned))
    else:
        np.copyto(owned.numpy(), cells, casting="unsafe")


def check_global(arrays: Arrays) -> None:
    """Raise UsageError unless these are arrays over ranks, by name. Local."""
    check_names(arrays)
    for name, array in arrays.items():
        if not hasattr(type(array), "owned_of"):
            raise UsageError(
                f"{name!r} is a {type(array).__module__.partition('.')[0]}.{type(array).__name__}, memory of one rank: "
                "a dataset stores global arrays; make one with gw.zeros(domain) or gw.from_numpy(array)"
            )


def check_names(arrays: Any) -> None:
    """Raise UsageError unless these are arrays, or others, by name. Local."""
    if not isinstance(arrays, Mapping):
        raise UsageError(f"arrays = {type(arrays).__name__}: give the arrays by name, as in {{'U': U}}")
    for name in arrays:
        if not isinstance(name, str):
            raise UsageError(f"an array is named {name!r}: give a text, as in {{'U': U}}")


def divide_rows(arrays: Mapping[str, Any], team: Team) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return arrays over ranks for arrays of each rank: their rows, one rank after the other. Collective over team.

    Args:
        arrays: arrays by name; ndarrays are replaced, others are not.
        team: the ranks.

    Returns:
        The arrays, with an ndarray where no rank has rows; and the number of rows of each rank by name.

    Raises:
        UsageError: an array has no rows, or the ranks have different ones but for their number.
    """
    check_names(arrays)
    rows = {name: arrays[name] for name in sorted(arrays) if isinstance(arrays[name], np.ndarray)}
    same: dict[str, object] = {"names": list(rows)}
    with failing_together(team, "rows of ranks", same):
        for name, own in rows.items():
            if not own.ndim:
                raise UsageError(f"{name!r} is a single number: give numbers as attributes, and here rows of this rank")
            same[name] = f"shape (..., {str(own.shape[1:])[1:]} {own.dtype}"
    lengths = team.allgather([len(own) for own in rows.values()]) if rows else []
    found = dict(arrays)
    of_ranks = {name: [of_rank[index] for of_rank in lengths] for index, name in enumerate(rows)}
    for name, own in rows.items():
        shape = (sum(of_ranks[name]), *own.shape[1:])
        if all(shape):
            cuts = [of_ranks[name], *(None for _ in shape[1:])]
            found[name] = empty(shape, own.dtype, cuts=cuts, grid=(team.size, *(1 for _ in shape[1:])), team=team)
            if len(own):  # the box of a rank without any has no extent along the other axes either
                found[name].values = own
    return found, of_ranks


def labels_of(arrays: Mapping[str, Distributed | Divided]) -> list[str]:
    """Return descriptions of arrays, sorted by name: the same on all ranks. Local."""
    return [f"{name}: {_label(array)}" for name, array in sorted(arrays.items())]


def _label(array: Distributed | Divided) -> str:
    return array.label if isinstance(array, Divided) else f"{array.domain} {array.dtype} {array.order}"


def check_arrays(arrays: Arrays) -> None:
    """Raise UsageError unless all arrays can be written. Local."""
    arrays = fields_of(arrays)
    if not arrays:
        raise UsageError("a dataset needs at least one array, got none")
    for name, array in arrays.items():
        check_type(name, array.dtype)
        if array.domain.is_empty:
            raise UsageError(f"{name!r} has no cells: a dataset stores arrays with at least one")
        if name == "step":
            raise UsageError("an array named 'step': the name is that of the step's number; rename the array")
