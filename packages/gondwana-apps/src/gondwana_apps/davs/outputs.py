"""The files of a result: clusters, the same in units of sigma, a status table, the way through T, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gondwana.results import write_text
from gondwana_apps import pictures
from gondwana_apps.davs.annealing import Progress
from gondwana_apps.davs.exchange import Floats, Integers
from gondwana_apps.davs.points import CENTRE_LABEL, Points
from gondwana_apps.davs.quality import SPONGE, Quality
from gondwana_apps.davs.run import Result
from gondwana_apps.davs.settings import Settings

_SAMPLES = 500
_SIZE = 8.0, 5.0
_SHOWN = 3000
"""Points in the picture of the plane: the central ones along the first axis, so that clusters can be seen."""


def write(
    settings: Settings, peaks: Points, labels: Integers, rows: Floats, quality: Quality, progress: Progress
) -> list[str]:
    """Write all files of a result. Local.

    In cluster files the label of the sponge is the number of clusters, the label after the last.

    Returns:
        The names of the files.

    Raises:
        ResultError: a file cannot be written.
    """
    stem, count = Path(settings.ClusterFile), len(rows)
    centres = rows[:, : settings.dimension]

    def name(tag: str) -> str:
        suffix = stem.suffix or ".txt"
        return str(stem.with_name(f"{stem.stem}{tag}-M{settings.MaxNcentTotal}-C{count}{suffix}"))

    contents = {
        name(""): _clusters(peaks.points, peaks.number, labels, centres),
        name("-Scaled"): _clusters(scaled(peaks.points, settings), peaks.number, labels, scaled(centres, settings)),
        name("-Status"): _status(centres, quality, labels),
        name("-Temperatures"): _temperatures(progress),
    }
    for path, text in contents.items():
        write_text(path, text)
    return list(contents)


def draw(folder: str | Path, points: Floats, result: Result) -> list[Path]:
    """Draw a result. Local.

    Args:
        folder: folder of the pictures.
        points: all points, sorted along axis 0.
        result: result of the run.

    Returns:
        The files.

    Raises:
        UsageError: matplotlib is missing.
        ResultError: a file cannot be written.
    """
    files = [Path(folder) / "davs-temperatures.png"]
    drawn = [pictures.figure(*_SIZE)]
    _draw_temperatures(drawn[0], result)
    if points.shape[1] > 1:
        files.append(Path(folder) / "davs-plane.png")
        drawn.append(pictures.figure(*_SIZE))
        _draw_plane(drawn[1], points, result)
    for figure, file in zip(drawn, files, strict=True):
        pictures.save(figure, str(file))
    return files


def scaled(points: Floats, settings: Settings) -> Floats:
    """Return points in units of sigma; along a relative axis ln x over the relative width. Local."""
    widths = np.array(settings.SigmaVectorParameters)
    if settings.SigmaMethod == 0:
        widths[:] = 1.0
    if settings.SigmaMethod == 3:
        widths[0] = settings.FinalTargetSigma0
    first = np.log(points[:, :1]) if settings.relative else points[:, :1]
    return np.asarray(np.concatenate([first, points[:, 1:]], axis=1) / widths)


def raw(peaks: Points, label: int) -> str:
    """Return points as the text of a raw file. Local.

    Args:
        peaks: the points.
        label: label of all lines.
    """
    truth = np.full(len(peaks.points), -1) if peaks.truth is None else peaks.truth
    heads = "\t".join(("index", *(f"x{axis}" for axis in range(peaks.points.shape[1])), "charge", "peptide", "id"))
    lines = [
        "\t".join((str(i), *map(repr, x), str(label), "-" if t < 0 else f"P{t}", str(t), "-1", "-1", "0"))
        for i, x, t in zip(peaks.number.tolist(), peaks.points.tolist(), truth.tolist(), strict=True)
    ]
    return "\n".join([f"{heads}\tmclust\tmedea\texperiment", *lines, ""])


def _clusters(points: Floats, index: Integers, labels: Integers, centres: Floats) -> str:
    count = len(centres)
    zero = ["0.0"] if points.shape[1] == 2 else []
    shown = np.where(labels == SPONGE, count, labels)
    lines = [
        "\t".join((str(i), *map(repr, x), *zero, str(label)))
        for i, x, label in zip(index.tolist(), points.tolist(), shown.tolist(), strict=True)
    ]
    label = str(max(CENTRE_LABEL, count))
    lines += ["\t".join((str(k), *map(repr, x), *zero, label)) for k, x in enumerate(centres.tolist())]
    return "\n".join([*lines, ""])


def _status(centres: Floats, quality: Quality, labels: Integers) -> str:
    axes = [f"x{axis}" for axis in range(centres.shape[1])]
    head = [
        "cluster", *axes, "points", "width2", "largest2", "near_sponge", "near_others", "near_centres", "nearest:d2",
    ]  # fmt: skip
    lines = ["\t".join(head)]
    for k, centre in enumerate(centres.tolist()):
        points, sponge, others, near = quality.counts[k].tolist()
        mean, largest = quality.widths[k].tolist()
        pairs = zip(quality.nearest[0][k].tolist(), quality.nearest[1][k].tolist(), strict=True)
        nearest = " ".join(f"{other}:{square:.4g}" for other, square in pairs if other >= 0)
        numbers = (points, f"{mean:.4g}", f"{largest:.4g}", sponge, others, near, nearest)
        lines.append("\t".join((str(k), *map(repr, centre), *map(str, numbers))))
    lines += ["", f"sponge\t{int((labels == SPONGE).sum())}", "", "points\tclusters"]
    lines += [f"{size}\t{count}" for size, count in enumerate(quality.sizes.tolist()) if count]
    lines += ["", "d2 of centres\tpairs"]
    lines += [f"{square}\t{count}" for square, count in enumerate(quality.distances.tolist()) if count]
    return "\n".join([*lines, ""])


def _temperatures(progress: Progress) -> str:
    history = progress.history
    chosen = sorted({round(i) for i in np.linspace(0, len(history) - 1, min(_SAMPLES, len(history)))})
    lines = [f"{t:.8g}\t{k}\t{h:.8g}\t{s:.6g}" for t, k, h, s in (history[i] for i in chosen)]
    return "\n".join(["temperature\tclusters\tenergy\tsponge", *lines, ""])


def _draw_temperatures(figure: Any, result: Result) -> None:
    temperature, clusters, _, sponge = np.array(result.progress.history).T
    left = figure.add_subplot()
    ours, other = (pictures.style(number)["color"] for number in (0, 1))
    left.plot(temperature, clusters, color=ours)
    left.set(xscale="log", yscale="log", xlabel="temperature T", ylabel="clusters")
    pictures.plain(left.xaxis)
    pictures.plain(left.yaxis)
    left.invert_xaxis()
    right = left.twinx()
    right.plot(temperature, 100.0 * sponge, color=other, linestyle="--")
    right.set_ylabel("points in the sponge [%]", color=other)
    left.yaxis.label.set_color(ours)


def _draw_plane(figure: Any, points: Floats, result: Result) -> None:
    first = max(len(points) - _SHOWN, 0) // 2
    x, labels = points[first : first + _SHOWN], result.labels[first : first + _SHOWN]
    axes = figure.add_subplot()
    outside = labels == SPONGE
    styles = pictures.STYLES[:-1]  # centres are black
    axes.scatter(*x[outside, :2].T, s=6, color="0.75", label="sponge", linewidths=0)
    for number, (colour, _, marker) in enumerate(styles):
        own = ~outside & (labels % len(styles) == number)
        axes.scatter(*x[own, :2].T, s=9, color=colour, marker=marker, linewidths=0)
    centres = result.rows[np.unique(labels[~outside]), :2]
    axes.scatter(*centres.T, s=24, facecolors="none", edgecolors="black", linewidths=0.6, label="centres")
    axes.set(xlabel="first axis (m/z)", ylabel="second axis (retention time)", xlim=(x[0, 0], x[-1, 0]))
    figure.legend(loc="outside upper right", ncols=2)
