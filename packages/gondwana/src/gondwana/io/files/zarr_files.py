"""Zarr: the only module that imports zarr. All ranks write and read, each chunk is written by one rank.

The format is version 3, without compression. Fields of records are arrays of their own, such as `stars.mass`, since
the specification of Zarr has no records.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import gcd, prod
from pathlib import Path
from typing import Any

from gondwana.arrays.divided import Divided, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.io.files import contents
from gondwana.io.files.contents import Output, Stored, copied, imported
from gondwana.io.layout import field_of, leaves
from gondwana.teams import Team
from gondwana.teams.team import failing_together

LIBRARY = "zarr"
_CHUNK = 32 << 20
"""Largest number of bytes of a chunk."""


def is_one(path: Path) -> bool:
    """Return whether there is a group or an array of Zarr, of any program. Local."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zarray"))


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new group. Collective over team; each rank writes its own chunks."""
    with failing_together(team):
        if team.rank == 0:
            _create(path, outputs, {**attributes, contents.DESCRIPTIONS: contents.described(outputs)})
    for name, output in outputs.items():
        if output.source is not None:
            source = _aligned(output.source)
            with failing_together(team):
                _write_chunks(path, name, source)


def _create(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any]) -> None:
    zarr = imported(LIBRARY)
    group = zarr.create_group(path, overwrite=True, zarr_format=3, attributes=attributes)
    for name, output in outputs.items():
        chunks = (1,) * len(output.dims) if output.source is None else chunks_of(output.source)
        for leaf, _, dtype in leaves(name, output.stored.dtype):
            shape, items = output.stored.shape + dtype.shape, chunks + dtype.shape
            dims = [*output.dims, *(f"{leaf}_{axis}" for axis in range(dtype.ndim))]
            group.create_array(
                leaf, shape=shape, chunks=items, dtype=dtype.base, compressors=None, dimension_names=dims
            )
    with warnings.catch_warnings():  # that the specification does not have yet what xarray asks for
        warnings.filterwarnings("ignore", "Consolidated metadata")
        zarr.consolidate_metadata(path)


def _write_chunks(path: Path, name: str, source: Divided) -> None:
    zarr, part = imported(LIBRARY), source.part(source.team.rank)
    if not part.is_empty:
        cells = contents.cells_of_end(source, source.team.rank, part)
        with zarr.config.set({"array.write_empty_chunks": True}):  # without looking whether there are only zeros
            for leaf, field, _ in leaves(name, source.dtype):
                zarr.open_array(path / leaf, mode="r+")[slices_of(part)] = field_of(cells, field)


def chunks_of(source: Divided) -> tuple[int, ...]:
    """Return the shape of chunks such that the blocks of the ranks have whole ones, if they are about equal. Local."""
    chunks = []
    for extent, ends in zip(source.shape, _ends(source), strict=True):
        common = gcd(*ends) or extent
        chunks.append(common if 4 * (len(ends) + 1) * common >= extent else -(-extent // (len(ends) + 1)))
    for axis, whole in enumerate(chunks):
        pieces = min(whole, -(-prod(chunks) * source.dtype.itemsize // _CHUNK))
        chunks[axis] = -(-whole // next((more for more in range(pieces, 2 * pieces) if whole % more == 0), pieces))
    return tuple(chunks)


def _ends(source: Divided) -> list[set[int]]:
    """For each axis the positions at which blocks end and others begin."""
    parts = [part for rank in range(source.team.size) if not (part := source.part(rank)).is_empty]
    return [{part.hi[axis] for part in parts} - {extent} for axis, extent in enumerate(source.shape)]


def _aligned(source: Divided) -> Divided:
    """Return the elements divided such that no chunk has those of two ranks. Collective over the team; blocks."""
    chunks, shape = chunks_of(source), source.shape
    if all(end % chunk == 0 for ends, chunk in zip(_ends(source), chunks, strict=True) for end in ends):
        return source
    cuts, grid = [], source.grid if isinstance(source, GlobalArray) else Layout.divide(shape, source.team.size).grid
    for extent, chunk, blocks in zip(shape, chunks, grid, strict=True):
        width = -(-extent // (blocks * chunk)) * chunk
        cuts.append([max(0, min(width, extent - place * width)) for place in range(blocks)])
    return copied(source, grid=grid, cuts=cuts)


class Reader(contents.Reader):
    """A group of Zarr that is open for reading, of any program: the arrays in it. Local.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self._group = imported(LIBRARY).open_group(path, mode="r")
        super().__init__(dict(self._group.attrs), self._others)

    def _others(self) -> dict[str, Stored]:
        return {name: Stored(data.shape, data.dtype) for name, data in self._group.arrays()}

    def read(self, name: str, where: contents.Box, out: contents.Values) -> None:
        """Read a box of an array. Local."""
        wrapped = imported("zarr.registry").get_ndbuffer_class().from_numpy_array
        for leaf, field, _ in leaves(name, out.dtype):
            self._group[leaf].get_basic_selection(where, out=wrapped(field_of(out, field)))  # no copy in between
