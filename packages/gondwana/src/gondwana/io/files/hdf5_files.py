"""HDF5 and NetCDF-4 files: the only module that imports h5py.

Wheels of h5py have no MPI, so rank 0 writes, and every rank reads its own part. Each axis has a dimension scale as in
NetCDF-4, so that xarray and the netCDF library find the names of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.io.files import contents
from gondwana.io.files.contents import Output, Stored, imported
from gondwana.teams import Team
from gondwana.teams.team import failing_together

LIBRARY = "h5py"
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def is_one(path: Path) -> bool:
    """Return whether there is an HDF5 file of any program. Local."""
    return path.is_file() and bool(imported(LIBRARY).is_hdf5(path))


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new file. Collective over team; rank 0 takes the elements of the others, a slab at a time."""
    with failing_together(team):
        if team.rank == 0:
            _write(path, outputs, attributes, netcdf=".nc" in path.suffixes)


def _write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], *, netcdf: bool) -> None:
    # Files of HDF5 1.8 are what the netCDF library reads, and their attributes may be longer than 64 KiB.
    with imported(LIBRARY).File(path, "w", libver=("v108", "v108")) as file:
        file.attrs.update({**attributes, contents.DESCRIPTIONS: contents.described(outputs)})
        for name, output in outputs.items():
            # NetCDF has no truth values: xarray takes bytes for them that have this attribute, and writes such, too.
            as_bytes = netcdf and output.stored.dtype == bool
            data = file.create_dataset(name, output.stored.shape, np.int8 if as_bytes else output.stored.dtype)
            if as_bytes:
                data.attrs["dtype"] = "bool"
            for axis, (dim, extent) in enumerate(zip(output.dims, output.stored.shape, strict=True)):
                if dim not in file:
                    scale = file.create_dataset(dim, (extent,), "f4")  # takes no space in the file
                    scale.make_scale(f"{_NO_VARIABLE}.{extent:10d}")
                data.dims[axis].attach_scale(file[dim])
            for box, cells in contents.slabs(output.source) if output.source is not None else ():
                data[box] = cells.view(np.int8) if as_bytes else cells


class Reader(contents.Reader):
    """An HDF5 file that is open for reading, of any program: the datasets of its outermost group. Local.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = imported(LIBRARY).File(path, "r")
        super().__init__(dict(self._file.attrs), self._others)

    def _others(self) -> dict[str, Stored]:
        found = {name: data for name, data in self._file.items() if hasattr(data, "shape")}
        scales = {name for name, data in found.items() if data.attrs.get("NAME", b"").startswith(_NO_VARIABLE.encode())}
        return {name: Stored(found[name].shape, found[name].dtype) for name in found.keys() - scales}

    def read(self, name: str, where: contents.Box, out: contents.Values) -> None:
        """Read a box of a dataset. Local."""
        data = self._file[name]
        if out.flags.c_contiguous and out.size:
            data.read_direct(out.view(data.dtype) if out.dtype == bool else out, where)
        else:
            out[...] = data[where]

    def close(self) -> None:
        """Close the file. Local."""
        self._file.close()
