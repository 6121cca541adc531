"""BP5 datasets of one step, and the last step of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gondwana.arrays.global_array import GlobalArray
from gondwana.errors import UsageError
from gondwana.io.dataset import Dataset
from gondwana.io.files import contents
from gondwana.io.files.contents import Output, Stored, copied
from gondwana.io.layout import field_of, leaves
from gondwana.io.paths import is_dataset as is_one
from gondwana.io.writer import StepWriter
from gondwana.teams import Team

LIBRARY = "adios2"
__all__ = ["LIBRARY", "Reader", "is_one", "write"]


def write(path: Path, outputs: Mapping[str, Output], attributes: Mapping[str, Any], team: Team) -> None:
    """Write a new dataset. Collective over team; the node of rank 0 writes."""
    sources = {name: output.source for name, output in outputs.items() if output.source is not None}
    arrays = {name: array if isinstance(array, GlobalArray) else copied(array) for name, array in sources.items()}
    if not arrays:
        raise UsageError(f"{', '.join(outputs)}: no elements, and a BP5 dataset needs some; write another format")
    about = {**attributes, contents.DESCRIPTIONS: contents.described(outputs)}
    with StepWriter(path, arrays, attributes=about, background=False, team=team) as out:
        step = attributes.get("step")
        out.write(step if isinstance(step, int) and 0 <= step < 2**31 else 0, arrays)


class Reader(contents.Reader):
    """The last step of a dataset, which is open for reading. Local.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self._data = Dataset(path)
        super().__init__(self._data.attributes, self._others)

    def _others(self) -> dict[str, Stored]:
        variables, last = self._data.variables, len(self._data.steps) - 1
        found = {name: about for name, about in variables.items() if about.shape and last in about.at}
        return {name: Stored(self._data.shape_of(name, -1), about.dtype) for name, about in found.items()}

    def read(self, name: str, where: contents.Box, out: contents.Values) -> None:
        """Read a box of a variable. Local."""
        turned = self.stored[name].order == "F"
        for leaf, field, dtype in leaves(name, out.dtype):
            boxes = [(along.start, along.stop - along.start) for along in where] + [(0, n) for n in dtype.shape]
            found = self._data.read(leaf, -1, *zip(*(boxes[::-1] if turned else boxes), strict=True))
            field_of(out, field)[...] = found.T if turned else found

    def close(self) -> None:
        """Close the dataset. Local."""
        self._data.close()
