"""Pictures of a dataset: planes of fields, a montage over time, and histograms, as PNG files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError
from gondwana.runtime import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

#: One colour map for each field, in the order of the fields.
COLOURS = ("viridis", "magma", "cividis", "plasma")
_DPI = 150
_PANEL_IN = 2.3

PLANES = ("xy", "xz", "yz")


def heat_maps(planes: Sequence[Plane], target: Path) -> Path:
    """Draw planes of one step side by side, each field with its own scale. Local; the file appears when complete.

    Args:
        planes: the planes, one for each field.
        target: the file to write.
    """
    figure = _figure(4.2 * len(planes), 3.9)
    for plane, axes, colours in zip(planes, _grid(figure, 1, len(planes))[0], _colours(len(planes)), strict=True):
        image = _show(axes, plane, colours, None)
        axes.set_title(plane.name, fontweight="bold")
        axes.set_xlabel(plane.axes[0])
        axes.set_ylabel(plane.axes[1], rotation=0, labelpad=10)
        figure.colorbar(image, ax=axes, shrink=0.82)
    figure.suptitle(_caption(planes[0], f"step {planes[0].step}"))
    return _save(figure, target)


def montage(rows: Sequence[Sequence[Plane]], target: Path) -> Path:
    """Draw fields over time: a row for each field, with one colour scale, and a column for each step. Local.

    Args:
        rows: planes of each field, in the order of the steps.
        target: the file to write; it appears when complete.
    """
    columns = len(rows[0])
    figure = _figure(_PANEL_IN * columns + 1.2, _PANEL_IN * len(rows) + 0.7)
    for row, (planes, line, colours) in enumerate(
        zip(rows, _grid(figure, len(rows), columns), _colours(len(rows)), strict=True)
    ):
        limits = min(float(plane.cells.min()) for plane in planes), max(float(plane.cells.max()) for plane in planes)
        for plane, axes in zip(planes, line, strict=True):
            image = _show(axes, plane, colours, limits)
            axes.tick_params(labelbottom=row == len(rows) - 1, labelleft=plane is planes[0])
            if row == 0:
                axes.set_title(f"step {plane.step}", fontsize=10)
            if row == len(rows) - 1:
                axes.set_xlabel(plane.axes[0])
        line[0].set_ylabel(planes[0].axes[1], rotation=0, labelpad=10)
        figure.colorbar(image, ax=line, shrink=0.9, pad=0.01, label=planes[0].name)
    figure.suptitle(_caption(rows[0][0], " and ".join(planes[0].name for planes in rows)))
    return _save(figure, target)


def histogram_curves(pdfs: Dataset, name: str, target: Path) -> Path:
    """Draw the histograms of a field, of the whole volume over the steps and of the slices of the last step. Local.

    Args:
        pdfs: a dataset that ``gondwana.io.analysis.pdf.write_pdfs`` wrote.
        name: the field.
        target: the file to write; it appears when complete.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    figure = _figure(10.5, 3.9)
    (curves, slices), *_ = _grid(figure, 1, 2)
    # One by one: the slices of a field may differ from step to step.
    counts = [pdfs.read(f"{name}/pdf", step) for step in range(len(pdfs.steps))]
    edges = pdfs.read_steps(f"{name}/range", 0, 1)[0]
    bins = np.linspace(edges[0], edges[1], counts[0].shape[1] + 1)
    shades = colormaps["viridis"](np.linspace(0, 0.9, len(counts)))
    for step, count, shade in zip(pdfs.steps, counts, shades, strict=True):
        total = count.sum(axis=0)
        curves.stairs(total / total.sum() / np.diff(bins), bins, color=shade, label=f"step {step}", linewidth=1.3)
    curves.set_yscale("log")
    curves.set_xlabel(name)
    curves.set_ylabel("density, whole volume")
    curves.legend(fontsize=8, frameon=False)
    curves.grid(alpha=0.3)
    last = np.ma.masked_equal(counts[-1], 0)
    mesh = slices.pcolormesh(
        bins, np.arange(len(last) + 1), last, cmap="magma", norm=LogNorm(1, max(2, counts[-1].max())), rasterized=True
    )
    slices.set_xlabel(name)
    slices.set_ylabel(f"slice {pdfs.dims(f'{name}/pdf')[0]}")
    slices.set_title(f"step {pdfs.steps[-1]}", fontsize=10)
    figure.colorbar(mesh, ax=slices, label="cells")
    figure.suptitle(f"{name}: histograms of {counts[0].shape[1]} bins")
    return _save(figure, target)


def joint_map(pdfs: Dataset, names: tuple[str, str], target: Path) -> Path:
    """Draw the joint histogram of two fields in the last step. Local; see ``histogram_curves``."""
    from matplotlib.colors import LogNorm

    one, other = names
    counts = pdfs.read(f"{one}-{other}/joint", -1)
    limits = [pdfs.read(f"{name}/range", -1) for name in names]
    figure = _figure(5.2, 4.2)
    axes = _grid(figure, 1, 1)[0][0]
    bins = [np.linspace(low, high, len(counts) + 1) for low, high in limits]
    mesh = axes.pcolormesh(
        *bins, np.ma.masked_equal(counts, 0).T, cmap="magma", norm=LogNorm(1, max(2, counts.max())), rasterized=True
    )
    axes.set_xlabel(one)
    axes.set_ylabel(other)
    axes.set_title(f"{one} and {other} together, step {pdfs.steps[-1]}")
    figure.colorbar(mesh, ax=axes, label="cells")
    return _save(figure, target)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib ({error}): pip install 'gondwana[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _grid(figure: Figure, rows: int, columns: int) -> list[list[Axes]]:
    grid: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False).tolist()
    return grid


def _colours(number: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(number)]


def _show(axes: Axes, plane: Plane, colours: str, limits: tuple[float, float] | None) -> AxesImage:
    up, across = plane.cells.shape
    settings: dict[str, Any] = {} if limits is None else {"vmin": limits[0], "vmax": limits[1]}
    return axes.imshow(
        plane.cells, origin="lower", cmap=colours, extent=(0, across, 0, up), interpolation="nearest", **settings
    )


def _caption(plane: Plane, what: str) -> str:
    where = f"in the {plane.axes[0]}{plane.axes[1]} plane" + (f" at {plane.across}" if plane.across else "")
    return f"{what} {where}"


def _save(figure: Figure, target: Path) -> Path:
    """Write the figure so that the name means a complete picture."""
    picture = io.BytesIO()
    # The canvas that savefig chooses for a file needs no display.
    figure.savefig(picture, dpi=_DPI, format="png")
    try:
        files.write(target, picture.getvalue())
    except OSError as error:
        raise DatasetError(f"cannot write the picture {target}: {error.strerror}") from None
    return target


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
        index: position of the cut along the third axis, in cells; None: the centre.

    Raises:
        UsageError: the variable, step, plane or index does not exist.
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
