"""Zarr: the only module that imports zarr. All ranks write and read, each chunk by one rank.

The format is version 3, without compression. Fields of records are arrays of their own, such as `stars.mass`, since
the specification of Zarr has no records.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import gcd, prod
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.arrays.create import empty
from gondwana.arrays.divided import Divided, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.io.files.contents import (
    DESCRIPTIONS,
    Output,
    Stored,
    cells_of_end,
    described,
    descriptions,
    field_of,
    imported,
    leaves,
)
from gondwana.teams import Team
from gondwana.teams.team import failing_together
from gondwana.transfer.verbs import copy

_CHUNK = 32 << 20
"""Largest number of bytes of a chunk."""


def check() -> None:
    """Raise UsageError if zarr cannot be imported. Local."""
    imported("zarr")


def is_one(path: Path) -> bool:
    """Return whether there is a group or an array of Zarr, of any program. Local."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zarray"))


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new group. Collective over team; each rank writes its own chunks."""
    zarr = imported("zarr")
    with failing_together(team):
        if team.rank == 0:
            group = zarr.create_group(path, zarr_format=3, attributes={**attributes, DESCRIPTIONS: described(outputs)})
            for name, output in outputs.items():
                chunks = chunks_of(output.source) if output.source is not None else (1,) * len(output.stored.shape)
                for leaf, _, dtype in leaves(name, output.stored.dtype):
                    group.create_array(
                        leaf,
                        shape=output.stored.shape + dtype.shape,
                        chunks=chunks + dtype.shape,
                        dtype=dtype.base,
                        compressors=None,
                        dimension_names=output.dims + tuple(f"{leaf}_{axis}" for axis in range(len(dtype.shape))),
                    )
    for name, output in outputs.items():
        if output.source is not None:
            source = _aligned(output.source)
            with failing_together(team):
                _write_chunks(path, name, source)
    with failing_together(team):
        if team.rank == 0:
            with warnings.catch_warnings():  # of what the specification does not have yet, and xarray asks for
                warnings.filterwarnings("ignore", "Consolidated metadata")
                zarr.consolidate_metadata(path)


def _write_chunks(path: Path, name: str, source: Divided) -> None:
    zarr, part = imported("zarr"), source.part(source.team.rank)
    if not part.is_empty:
        cells = cells_of_end(source, source.team.rank, part)
        # Without looking first whether all elements of a chunk are zero.
        with zarr.config.set({"array.write_empty_chunks": True}):
            for leaf, field, _ in leaves(name, source.dtype):
                zarr.open_array(path / leaf, mode="r+")[slices_of(part)] = field_of(cells, field)


def chunks_of(source: Divided) -> tuple[int, ...]:
    """Return the shape of chunks such that the blocks of the ranks have whole ones, if they are about equal. Local."""
    chunks = []
    for axis, ends in enumerate(_ends(source)):
        extent, blocks = source.shape[axis], len(ends) + 1
        common = gcd(*ends) or extent
        chunks.append(common if 4 * blocks * common >= extent else -(-extent // blocks))
    for axis, whole in enumerate(chunks):
        pieces = min(whole, -(-prod(chunks) * source.dtype.itemsize // _CHUNK))
        pieces = next((more for more in range(pieces, 2 * pieces) if whole % more == 0), pieces)
        chunks[axis] = -(-whole // pieces)
    return tuple(chunks)


def _ends(source: Divided) -> list[set[int]]:
    """For each axis the positions at which blocks end and others begin."""
    parts = [part for rank in range(source.team.size) if not (part := source.part(rank)).is_empty]
    return [{part.hi[axis] for part in parts} - {extent} for axis, extent in enumerate(source.shape)]


def _aligned(source: Divided) -> Divided:
    """Return the elements divided such that no chunk has those of two ranks. Collective over the team; blocks."""
    chunks = chunks_of(source)
    if all(end % chunk == 0 for ends, chunk in zip(_ends(source), chunks, strict=True) for end in ends):
        return source
    team, cuts = source.team, []
    grid = source.grid if isinstance(source, GlobalArray) else Layout.divide(source.shape, team.size).grid
    for extent, chunk, blocks in zip(source.shape, chunks, grid, strict=True):
        width = -(-(-(-extent // blocks)) // chunk) * chunk
        cuts.append([max(0, min(width, extent - place * width)) for place in range(blocks)])
    target = empty(source.shape, source.dtype, grid=grid, cuts=cuts, team=team)
    copy(source, target).wait()
    return target


def open_file(path: Path) -> ZarrReader:
    """Open a group for reading. Local."""
    return ZarrReader(path)


class ZarrReader:
    """A group of Zarr that is open for reading, of any program: the arrays in it. Local.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self._group = imported("zarr").open_group(path, mode="r")
        found = dict(self._group.attrs)
        text = found.pop(DESCRIPTIONS, None)
        self.attributes: Mapping[str, Any] = found
        self.stored = descriptions(text) if text else {
            name: Stored(data.shape, data.dtype, (0,) * data.ndim) for name, data in self._group.arrays()
        }

    def read(self, name: str, where: tuple[slice, ...], out: np.ndarray[Any, Any]) -> None:
        """Read a box of an array. Local."""
        for leaf, field, _ in leaves(name, out.dtype):
            field_of(out, field)[...] = self._group[leaf][where]

    def close(self) -> None:
        """Do nothing: no file stays open."""
