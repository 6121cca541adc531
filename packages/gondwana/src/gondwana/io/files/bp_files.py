"""BP5 datasets of one step, written as checkpoints are, and the last step of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.arrays.create import empty
from gondwana.arrays.divided import Divided
from gondwana.arrays.global_array import GlobalArray
from gondwana.errors import UsageError
from gondwana.io import adios
from gondwana.io.dataset import Dataset
from gondwana.io.files.contents import DESCRIPTIONS, PREFIX, Output, Stored, described, descriptions, field_of, leaves
from gondwana.io.layout import Arrays
from gondwana.io.paths import is_dataset
from gondwana.io.writer import StepWriter
from gondwana.teams import Team
from gondwana.transfer.verbs import copy


def check() -> None:
    """Raise UsageError if adios2 cannot be imported. Local."""
    adios.load()


def is_one(path: Path) -> bool:
    """Return whether there is a dataset, of any program. Local."""
    return is_dataset(path)


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new dataset. Collective over team; the node of rank 0 writes."""
    arrays: Arrays = {name: _whole(output.source) for name, output in outputs.items() if output.source is not None}
    if not arrays:
        raise UsageError(f"{path.stem} would have no elements: a BP5 dataset has some; write another format")
    described_too = {**attributes, DESCRIPTIONS: described(outputs)}
    with StepWriter(path, arrays, attributes=described_too, background=False, team=team) as out:
        out.write(step if isinstance(step := attributes.get("step"), int) and 0 <= step < 2**31 else 0, arrays)


def _whole(source: Divided) -> GlobalArray:
    """Return the elements of a view as an array. Collective over its team."""
    if isinstance(source, GlobalArray):
        return source
    target = empty(source.shape, source.dtype, team=source.team)
    copy(source, target).wait()
    return target


def open_file(path: Path) -> BPReader:
    """Open a dataset for reading. Local."""
    return BPReader(Dataset(path))


class BPReader:
    """The last step of a dataset that is open for reading. Local.

    Args:
        data: the dataset.
    """

    def __init__(self, data: Dataset) -> None:
        self._data, self.path = data, data.path
        found = self._data.attributes
        self.attributes = {
            name: value.tolist() if hasattr(value, "tolist") else value
            for name, value in found.items()
            if "/" not in name and not name.startswith(PREFIX)
        }
        last = len(self._data.steps) - 1
        text = found.get(DESCRIPTIONS)
        self.stored = descriptions(text) if text else {
            name: Stored(variable.shape, variable.dtype, (0,) * len(variable.shape))
            for name, variable in self._data.variables.items()
            if variable.shape and last in variable.at
        }

    def read(self, name: str, where: tuple[slice, ...], out: np.ndarray[Any, Any]) -> None:
        """Read a box of a variable. Local."""
        turned = self.stored[name].order == "F"
        for leaf, field, dtype in leaves(name, out.dtype):
            boxes = [(along.start, along.stop - along.start) for along in where] + [(0, n) for n in dtype.shape]
            start, count = zip(*(reversed(boxes) if turned else boxes), strict=True)
            found = self._data.read(leaf, -1, start, count)
            field_of(out, field)[...] = found.T if turned else found

    def close(self) -> None:
        """Close the dataset. Local."""
        self._data.close()
