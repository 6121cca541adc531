"""Planes of three-dimensional fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.io.dataset import Dataset

PLANES = ("xy", "xz", "yz")


@dataclass(frozen=True)
class Plane:
    """One plane of a field in one step.

    Attributes:
        name: the variable.
        step: the number of the simulation step.
        axes: the axes across and up, for example ("x", "y").
        across: position of the plane, for example "z = 32"; empty for a two-dimensional field.
        cells: the values; rows go up, columns go across.
    """

    name: str
    step: int
    axes: tuple[str, str]
    across: str
    cells: npt.NDArray[Any]


def plane_of(data: Dataset, name: str, place: int, plane: str = "xy", index: int | None = None) -> Plane:
    """Return a plane of a field; only its cells are read. Local.

    Args:
        data: the dataset.
        name: a variable with the axes of the plane.
        place: the index of the step in the dataset, from 0, or from the end if negative.
        plane: "xy", "xz" or "yz": the axis across, then the axis up.
        index: where to cut the third axis, in cells; None: through the middle.

    Raises:
        UsageError: no such variable, step, plane or index.
    """
    shape, dims = data.shape_of(name, place), data.dims(name)
    if plane not in PLANES:
        raise UsageError(f"plane {plane!r} is not known; legal are {', '.join(PLANES)}")
    across, up = plane[0], plane[1]
    rest = [axis for axis in dims if axis not in (across, up)]
    if across not in dims or up not in dims or len(rest) > 1:
        raise UsageError(f"{name!r} has the axes {', '.join(dims) or 'of a number'}: it has no {plane} plane")
    start, count = [0] * len(dims), list(shape)
    label = ""
    for axis in rest:
        where = dims.index(axis)
        cut = shape[where] // 2 if index is None else index
        if not 0 <= cut < shape[where]:
            raise UsageError(f"{axis} = {cut} is outside of {name!r}; legal is 0 to {shape[where] - 1}")
        start[where], count[where] = cut, 1
        label = f"{axis} = {cut}"
    box = data.read(name, place, start, count)
    cells = box.squeeze(tuple(dims.index(axis) for axis in rest))
    if dims.index(across) < dims.index(up):
        cells = cells.T
    return Plane(name, int(data.steps[place]), (across, up), label, np.ascontiguousarray(cells))


def fields_of(data: Dataset) -> list[str]:
    """Return the names of the variables that have planes. Local."""
    return [name for name in data.variables if {"x", "y"} <= set(data.dims(name)) <= {"x", "y", "z"}]
