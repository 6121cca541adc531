"""BP datasets in xarray: ``xarray.open_dataset("gs.bp")`` opens one lazily.

The first dimension is time, the others are those that the dataset names (z, y, x for fields). Only used data are read;
with dask (``chunks={}``) the chunks are the blocks in which the ranks wrote.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from gondwana.io.adios import TEXT, TYPE_OF_NAME, as_settings
from gondwana.io.dataset import Dataset, Variable
from gondwana.io.paths import DatasetError, is_dataset

#: One axis of a box: its start, its number of cells, and the index to apply to them afterwards.
_Selection = tuple[int, int, slice | int]


class BPBackend(BackendEntrypoint):
    """The engine ``gondwana``, by which xarray opens BP datasets. Local.

    Example:
        >>> import xarray
        >>> data = xarray.open_dataset("gs.bp")  # doctest: +SKIP
        >>> data["U"].isel(time=-1, z=32).plot()  # doctest: +SKIP
    """

    description = "ADIOS2 BP datasets, by Gondwana"
    open_dataset_parameters: ClassVar[tuple[str, ...]] = ("filename_or_obj", "drop_variables")

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None) -> xr.Dataset:
        """Open a dataset with its present steps.

        Args:
            filename_or_obj: the path.
            drop_variables: the names of variables to leave out.
        """
        data = Dataset(filename_or_obj)
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        coordinates: dict[str, tuple[Hashable, npt.NDArray[np.integer[Any]]]] = {}
        if "step" not in dropped and (data.numbered or "step" not in data.variables):
            coordinates["step"] = ("time", data.steps)
        if data.numbered:
            dropped.add("step")
        lengths = {"time": len(data.steps)}
        variables: dict[str, xr.Variable] = {}
        for name in (name for name in data.variables if name not in dropped):
            if reason := _why_not(data.variable(name)):
                warnings.warn(f"{data.path}: {name!r} is left out, since {reason}", stacklevel=2)
                continue
            variables[name] = _variable(data, name, lengths)
            time = variables[name].dims[0]
            if time != "time":
                coordinates[f"step_{name}"] = (time, data.steps[list(data.variable(name).at)])
        described = as_settings({name: value for name, value in data.attributes.items() if not name.endswith("/dims")})
        opened = xr.Dataset(
            variables, {name: of for name, of in coordinates.items() if name not in variables}, described
        )
        opened.set_close(data.close)
        return opened

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether a path is a BP dataset."""
        try:
            return is_dataset(Path(filename_or_obj))
        except TypeError:
            return False


class _LazyArray(BackendArray):
    """A variable over all its steps that is read when it is indexed."""

    def __init__(self, data: Dataset, name: str) -> None:
        variable = data.variable(name)
        self._data = data
        self._name = name
        self.shape = (variable.steps, *variable.shape)
        self.dtype = variable.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.BasicIndexer):  # the adapter fails for empty slices with negative steps
            return self._read(key.tuple)
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[int | slice, ...]) -> npt.NDArray[Any]:
        (first, number, times), *axes = [_select(part, n) for part, n in zip(key, self.shape, strict=True)]
        start, count = [axis[0] for axis in axes], [axis[1] for axis in axes]
        if number == 0 or 0 in count:
            return np.empty([number, *count], self.dtype)[times, *(axis[2] for axis in axes)]
        at = self._data.variable(self._name).at[first : first + number]
        if at[-1] - at[0] >= number or (isinstance(times, slice) and abs(times.step) > 1):
            # Of strided steps only those requested are read; of strided cells the box around them.
            wanted = at[times] if isinstance(times, slice) else at
            box = np.stack([self._data.read(self._name, step, start, count) for step in wanted])
            times = times if isinstance(times, int) else slice(None)
        else:
            box = self._data.read_steps(self._name, at[0], number, start, count)
        return box[times, *(axis[2] for axis in axes)]


def _select(key: int | slice, length: int) -> _Selection:
    """Return the range of cells around an index of an axis, and the index to apply to them."""
    if not isinstance(key, slice):
        return int(key) % length, 1, 0
    wanted = range(*key.indices(length))
    if not wanted:
        return 0, 0, slice(0, 0, 1)
    least = min(wanted[0], wanted[-1])
    stop = None if wanted.step < 0 else len(wanted) * wanted.step
    return least, max(wanted[0], wanted[-1]) - least + 1, slice(None, stop, wanted.step)


def _why_not(variable: Variable) -> str | None:
    """Return why a variable is not an array over its steps, or None if it is one."""
    if variable.type_name != TEXT and variable.type_name not in TYPE_OF_NAME:
        return f"its elements are of type {variable.type_name}"
    if variable.local:
        return "it has blocks without a global shape; Dataset.read(..., block=0) reads one"
    if len(set(variable.shapes)) > 1:
        same = len({len(shape) for shape in variable.shapes}) == 1
        return f"its {'shape' if same else 'number of axes'} changes from step to step" + (
            "; Dataset.read reads one step" if same else ""
        )
    return None


def _variable(data: Dataset, name: str, lengths: dict[str, int]) -> xr.Variable:
    """Return a variable that is read later; ``lengths`` has the axes of earlier ones, and gets its own."""
    variable = data.variable(name)
    # A variable that misses steps has its own time axis: one name, one length.
    dims = ["time" if variable.steps == len(data.steps) else f"time_{name}"]
    for axis, (dim, length) in enumerate(zip(data.dims(name), variable.shape, strict=True)):
        # So has an axis that another program has named as a longer one, or as another of the same variable.
        taken = dim in dims or lengths.setdefault(dim, length) != length
        dims.append(f"{name}_{axis}" if taken else dim)
    lazy = indexing.LazilyIndexedArray(_LazyArray(data, name))
    opened = xr.Variable(dims, lazy)
    opened.encoding = {"preferred_chunks": dict(zip(dims, _chunks(data, name), strict=True))}
    return opened


def _chunks(data: Dataset, name: str) -> list[tuple[int, ...]]:
    """Return the chunks along each axis: one step, and the cuts between the blocks of the first step."""
    variable = data.variable(name)
    if not variable.shape:
        return [(variable.steps,)]
    cuts: list[set[int]] = [{0, n} for n in variable.shape]
    with contextlib.suppress(DatasetError):  # the places of the blocks are unknown
        for stored in data.blocks(name, variable.at[0]):
            for axis, (start, count) in enumerate(zip(stored.block.start, stored.block.count, strict=True)):
                cuts[axis] |= {start, start + count}
    return [(1,) * variable.steps, *(tuple(int(n) for n in np.diff(sorted(axis))) or (0,) for axis in cuts)]
