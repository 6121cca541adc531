"""Pictures of a result: clusters and sponge in the plane of the first two axes, and clusters against temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gondwana_apps import pictures
from gondwana_apps.davs.exchange import Floats
from gondwana_apps.davs.quality import SPONGE
from gondwana_apps.davs.run import Result

_SIZE = 8.0, 5.0
_COLOURS = 10
_SHOWN = 3000
"""Points in the picture of the plane: those around the middle along the first axis, so that clusters can be seen."""


def draw(folder: str | Path, points: Floats, result: Result) -> list[Path]:
    """Draw a result. Local.

    Args:
        folder: where the pictures are written.
        points: all, sorted along axis 0.
        result: of the run.

    Returns:
        The files.

    Raises:
        UsageError: matplotlib is missing.
        ResultError: a file cannot be written.
    """
    files = [Path(folder) / "davs-temperatures.png"]
    drawn = [pictures.figure(*_SIZE)]
    _temperatures(drawn[0], result)
    if points.shape[1] > 1:
        files.append(Path(folder) / "davs-plane.png")
        drawn.append(pictures.figure(*_SIZE))
        _plane(drawn[1], points, result)
    for figure, file in zip(drawn, files, strict=True):
        pictures.save(figure, str(file))
    return files


def _temperatures(figure: Any, result: Result) -> None:
    temperature, clusters, _, sponge = np.array(result.progress.history).T
    left = figure.add_subplot()
    left.plot(temperature, clusters, color="C0")
    left.set(xscale="log", yscale="log", xlabel="temperature T", ylabel="clusters")
    left.invert_xaxis()
    right = left.twinx()
    right.plot(temperature, 100.0 * sponge, color="C1", linestyle="--")
    right.set_ylabel("points in the sponge [%]", color="C1")
    left.yaxis.label.set_color("C0")


def _plane(figure: Any, points: Floats, result: Result) -> None:
    first = max(len(points) - _SHOWN, 0) // 2
    x, labels = points[first : first + _SHOWN], result.labels[first : first + _SHOWN]
    axes = figure.add_subplot()
    outside = labels == SPONGE
    axes.scatter(*x[outside, :2].T, s=6, color="0.75", label="sponge", linewidths=0)
    axes.scatter(*x[~outside, :2].T, s=6, c=labels[~outside] % _COLOURS, cmap="tab10", linewidths=0)
    centres = result.rows[np.unique(labels[~outside]), :2]
    axes.scatter(*centres.T, s=24, facecolors="none", edgecolors="black", linewidths=0.6, label="centres")
    axes.set(xlabel="first axis (m/z)", ylabel="second axis (retention time)", xlim=(x[0, 0], x[-1, 0]))
    figure.legend(loc="outside upper right", ncols=2)
