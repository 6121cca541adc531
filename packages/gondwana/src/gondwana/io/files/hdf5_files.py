"""HDF5 and NetCDF-4 files: the only module that imports h5py.

Wheels of h5py have no MPI, so rank 0 writes, and every rank reads its own part. Each axis has a dimension scale as in
NetCDF-4, so that xarray and the netCDF library find the names of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.io.files.contents import DESCRIPTIONS, Output, Stored, described, descriptions, imported, slabs
from gondwana.teams import Team
from gondwana.teams.team import failing_together

_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def check() -> None:
    """Raise UsageError if h5py cannot be imported. Local."""
    imported("h5py")


def is_one(path: Path) -> bool:
    """Return whether there is an HDF5 file of any program. Local."""
    return path.is_file() and bool(imported("h5py").is_hdf5(path))


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new file. Collective over team; rank 0 takes the elements of the others, a slab at a time."""
    with failing_together(team):
        if team.rank == 0:
            _write(path, outputs, attributes, netcdf=".nc" in path.suffixes)


def _write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], *, netcdf: bool) -> None:
    # Files of HDF5 1.8 are what the netCDF library reads, and their attributes may be longer than 64 KiB.
    with imported("h5py").File(path, "w", libver=("v108", "v108")) as file:
        file.attrs.update({**attributes, DESCRIPTIONS: described(outputs)})
        for name, output in outputs.items():
            stored = output.stored
            # NetCDF has no truth values: xarray takes bytes for them that have this attribute, and writes such, too.
            as_bytes = netcdf and stored.dtype == bool
            data = file.create_dataset(name, stored.shape, np.int8 if as_bytes else stored.dtype)
            if as_bytes:
                data.attrs["dtype"] = "bool"
            for axis, (dim, extent) in enumerate(zip(output.dims, stored.shape, strict=True)):
                if dim not in file:
                    scale = file.create_dataset(dim, (extent,), "f4")  # has no memory in the file
                    scale.make_scale(f"{_NO_VARIABLE}.{extent:10d}")
                data.dims[axis].attach_scale(file[dim])
            for box, cells in slabs(output.source) if output.source is not None else ():
                data[box] = cells.view(np.int8) if as_bytes else cells


def open_file(path: Path) -> HDF5Reader:
    """Open a file for reading. Local."""
    return HDF5Reader(path)


class HDF5Reader:
    """An HDF5 file that is open for reading, of any program: the datasets of its outermost group. Local.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        h5py = imported("h5py")
        self._file = h5py.File(path, "r")
        found = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in self._file.attrs.items()}
        text = found.pop(DESCRIPTIONS, None)
        found.pop("_NCProperties", None)
        self.attributes: Mapping[str, Any] = found
        self.stored = descriptions(text) if text else {
            name: Stored(data.shape, self._type(data), (0,) * data.ndim)
            for name, data in self._file.items()
            if isinstance(data, h5py.Dataset) and not data.attrs.get("NAME", b"").startswith(_NO_VARIABLE.encode())
        }

    def read(self, name: str, where: tuple[slice, ...], out: np.ndarray[Any, Any]) -> None:
        """Read a box of a dataset. Local."""
        data = self._file[name]
        if out.flags.c_contiguous and out.size:
            data.read_direct(out.view(data.dtype) if out.dtype == bool else out, where)
        else:
            out[...] = data[where]

    def close(self) -> None:
        """Close the file. Local."""
        self._file.close()

    @staticmethod
    def _type(data: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = data.dtype
        return np.dtype(bool) if dtype == np.int8 and data.attrs.get("dtype") == "bool" else dtype
