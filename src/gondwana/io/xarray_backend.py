"""BP datasets in xarray: ``xarray.open_dataset("gs.bp")`` opens one lazily.

The first dimension is time, the others are those that the dataset names (z, y, x for fields). Only what is used is
read; with dask (``chunks={}``) the chunks are the blocks in which the ranks wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from gondwana.io.adios import as_settings
from gondwana.io.dataset import Dataset
from gondwana.io.paths import is_dataset

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
        """Open a dataset with the steps that it has now.

        Args:
            filename_or_obj: the path.
            drop_variables: the names of variables to leave out.
        """
        data = Dataset(filename_or_obj)
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        variables = {name: _variable(data, name) for name in data.variables if name not in dropped}
        coordinates = {"step": ("time", data.steps)} if "step" not in dropped else {}
        variables.pop("step", None)
        described = as_settings({name: value for name, value in data.attributes.items() if not name.endswith("/dims")})
        opened = xr.Dataset(variables, coords=coordinates, attrs=described)
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
        if isinstance(times, slice) and abs(times.step) > 1:
            # Of strided steps only those asked for are read; of strided cells the box around them.
            wanted = range(first, first + number)[times]
            box = np.stack([self._data.read(self._name, step, start, count) for step in wanted])
            times = slice(None)
        else:
            box = self._data.read_steps(self._name, first, number, start, count)
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


def _variable(data: Dataset, name: str) -> xr.Variable:
    # A variable that misses steps has a time axis of its own: one name, one length.
    time = "time" if data.variable(name).steps == len(data.steps) else f"time_{name}"
    dims = (time, *data.dims(name))
    lazy = indexing.LazilyIndexedArray(_LazyArray(data, name))
    variable = xr.Variable(dims, lazy)
    variable.encoding = {"preferred_chunks": dict(zip(dims, _chunks(data, name), strict=True))}
    return variable


def _chunks(data: Dataset, name: str) -> list[tuple[int, ...]]:
    """Return the chunks along each axis: one step, and the cuts between the blocks of the first step."""
    variable = data.variable(name)
    if not variable.shape:
        return [(variable.steps,)]
    cuts: list[set[int]] = [{0, n} for n in variable.shape]
    for stored in data.blocks(name, 0):
        for axis, (start, count) in enumerate(zip(stored.block.start, stored.block.count, strict=True)):
            cuts[axis] |= {start, start + count}
    return [(1,) * variable.steps, *(tuple(int(n) for n in np.diff(sorted(axis))) for axis in cuts)]
