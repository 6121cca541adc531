"""Reading points: raw peak lists, and the cluster files of earlier runs."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.inputs import open_file, read_text, whole_number
from gondwana_apps.davs.settings import Settings
from gondwana_apps.settings_files import file_name, one_line

CENTRE_LABEL = 10**8
"""The label of centres in a cluster file is this, or the number of clusters if there are more."""

_LARGEST = 1 << 32
"""The most bytes of a file."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Points(NamedTuple):
    """Points sorted along axis 0.

    Attributes:
        points: N x D.
        truth: true cluster of each point, -1 for none; None if the file does not say.
        number: the number of each point in the file.
        labels: the selection label of its line.
    """

    points: Floats
    truth: Integers | None
    number: Integers
    labels: Integers


def check_readable(path: str) -> None:
    """Check that a file of points exists and can be read, before any rank starts. Local.

    Raises:
        UsageError: the file does not exist, is not a regular file, or is too large.
    """
    open_file(path, file_name(path), _LARGEST).close()


def read(path: str, settings: Settings, *, kind: int, selected: int) -> Points:
    """Read the selected points of a file and sort them. Local.

    Lines are numbers and texts between single tabs or blanks: of a raw file the index, the coordinates, a label (the
    charge), a text, and the number of the true cluster (-1: none); of a cluster file the index, the coordinates, 0 if
    there are two of them, and the label.

    Args:
        path: the file.
        settings: settings with the number of axes, and the reference of the widths.
        kind: 0: raw, where lines before the first with a label are a header; 1: a cluster file.
        selected: the label; -L: all lines but those with label L.

    Raises:
        UsageError: one line that says what is wrong in which line.
    """
    d = settings.dimension
    place = d + 1 + (kind == 1 and d == 2)
    found: list[tuple[list[float], int, int, int]] = []
    seen: Counter[int] = Counter()
    for number, line in enumerate(read_text(path, file_name(path), _LARGEST).split("\n"), 1):
        words = line.strip("\r").replace("\t", " ").split(" ")
        label = whole_number(words[place]) if len(words) > place else None
        if not line.strip() or (label is None and kind == 0 and not seen):
            continue
        if label is None:
            wanted = f"{place + 1} or more columns with a whole number in column {place + 1}"
            raise UsageError(f"davs: {path}: line {number} is {one_line(line)}; a point has {wanted}")
        seen[label] += 1
        if label == selected or (selected < 0 and label != -selected):
            index = whole_number(words[0])
            truth = whole_number(words[d + 3]) if len(words) > d + 3 and kind == 0 else -1
            if index is None:
                raise UsageError(
                    f"davs: {path}: line {number} is {one_line(line)}; column 1 is the number of the point"
                )
            coordinates = [_coordinate(word, path, number) for word in words[1 : d + 1]]
            if settings.relative and coordinates[0] <= 0.0:
                raise UsageError(
                    f"davs: {path}: line {number}: {words[1]} is not above 0, and widths are relative to it"
                )
            found.append((coordinates, -1 if truth is None else truth, index, label))
    if not found:
        labels = ", ".join(f"{label} ({count})" for label, count in seen.most_common(8)) or "none"
        raise UsageError(
            f"davs: {path}: no line is selected by SelectedInputLabel {selected}; labels (lines) of the file: {labels}"
        )
    points = np.array([one[0] for one in found])
    order = np.lexsort((*points.T[::-1],))
    owners, numbers, kept = (np.array([one[i] for one in found], np.int64)[order] for i in (1, 2, 3))
    return Points(points[order], owners if (owners >= 0).any() else None, numbers, kept)


def restart_rows(path: str, settings: Settings) -> Floats:
    """Read centres from a cluster file, with the share of points that have their labels. Local.

    Returns:
        Rows of position and weight.

    Raises:
        UsageError: one line that says what is wrong.
    """
    everything = read(path, settings, kind=1, selected=-(2**62))
    centres = everything.labels >= CENTRE_LABEL
    # In the order of the file, which is that of the labels.
    rows = everything.points[centres][np.argsort(everything.number[centres], kind="stable")]
    owners = everything.labels[~centres]
    if not len(rows):
        raise UsageError(f"davs: {path}: there are no centres, lines with a label of {CENTRE_LABEL} or more")
    counts = np.bincount(owners[(owners >= 0) & (owners < len(rows))], minlength=len(rows))
    return np.column_stack([rows, counts / max(len(owners), 1)])


def _coordinate(word: str, path: str, number: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not abs(value) <= 1e12:
        raise UsageError(f"davs: {path}: line {number}: {one_line(word)} is not a number of at most 1e12")
    return value
