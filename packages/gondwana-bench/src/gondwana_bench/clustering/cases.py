"""Data for the clustering applications, how each is run on them, and rivals of scikit-learn on the same data."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana_apps.davs import app as davs_app, outputs, settings
from gondwana_apps.davs.generator import generate
from gondwana_apps.davs.presets import PRESETS
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_apps.pwc import generators

APPS = ("davs", "pwc")
PRESET = "charge6"
POINTS, CLUSTERS = 1000, 8
"""Default points of pairwise clustering; the fewest whose clusters it keeps; clusters of them."""

_BYTES_A_PAIR = 32
"""Upper bound of the bytes that generating a matrix, and average linkage, take for each of its elements."""

Labels = npt.NDArray[np.int64]
"""The cluster of each point, -1 for none."""


@dataclass(frozen=True)
class Case:
    """An application with its data.

    Attributes:
        app: name of the application.
        title: the data in words.
        points: number of points.
        options: options of the application, which is run in a folder below that of the data.
        timers: the parts of its seconds.
        agreement: returns the adjusted Rand index of labels and the true clusters.
        rivals: functions of scikit-learn on the same data, by name; empty if it is not installed.
    """

    app: str
    title: str
    points: int
    options: tuple[str, ...]
    timers: tuple[str, ...]
    agreement: Callable[[Labels], float | None]
    rivals: Mapping[str, Callable[[], Labels]] = field(default_factory=dict)

    def read_labels(self, folder: Path, clusters: int) -> Labels:
        """Read the labels that a run has written into a folder. Local."""
        [file] = folder.glob("labels-M*-C*.txt")
        labels = np.loadtxt(file, np.int64, usecols=-1, max_rows=self.points)
        # The sponge of davs has the label after the last.
        return np.where(labels == clusters, -1, labels)


def has_rivals() -> bool:
    """Return whether scikit-learn is installed. Local."""
    return importlib.util.find_spec("sklearn") is not None


def davs(preset: str) -> Case:
    """Return the case of the points that a preset generates, which DBSCAN gets in units of their width. Local."""
    peaks = generate(PRESETS[preset].field)
    options = ("--preset", preset, "--set", "ClusterFile=labels.txt")
    rivals = {}
    if has_rivals():
        from sklearn.cluster import DBSCAN

        scaled = outputs.scaled(peaks.points, settings.load(None, preset)[1])
        rivals["DBSCAN"] = _on(scaled, DBSCAN(eps=2.0, min_samples=2).fit_predict)
    title = f"preset {preset}, {len(peaks.points)} points in {PRESETS[preset].field.clusters} clusters"
    timers = ("compute", "allreduce", "send_receive", "splitting")
    return Case("davs", title, len(peaks.points), options, timers,
                lambda labels: davs_app.agreement(labels, peaks.truth)[0], rivals)  # fmt: skip


def check_memory(points: int) -> None:
    """Check that the dissimilarities of so many points fit. Local.

    Raises:
        UsageError: they do not fit.
    """
    needed, free = _BYTES_A_PAIR * points**2, available_memory()
    if needed > free:
        raise UsageError(f"--points {points}: needs {in_gib(needed)} of memory and {in_gib(free)} are free; give fewer")


def pwc(points: int, folder: Path) -> Case:
    """Write the squared distances of normally distributed points into a folder, and return their case. Local.

    Average linkage gets the same integers, k-means the coordinates; both get the number of clusters.
    """
    x, truth = generators.blobs(points, CLUSTERS)
    d = generators.quantised(generators.squared_distances(x, x))
    d.tofile(folder / "distance.bin")
    keys = ("DistanceMatrixFile=../distance.bin", "ClusterFile=labels.txt", "CenterFile=", f"MaxNcent={CLUSTERS}")
    options = tuple(word for key in keys for word in ("--set", key))
    rivals = {}
    if has_rivals():
        from sklearn.cluster import AgglomerativeClustering, KMeans

        linkage = AgglomerativeClustering(CLUSTERS, metric="precomputed", linkage="average")
        means = KMeans(CLUSTERS, n_init=10, random_state=0)
        rivals = {"average linkage": _on(d.astype(float), linkage.fit_predict), "KMeans": _on(x, means.fit_predict)}
    title = f"{points} points in {CLUSTERS} clusters"
    timers = ("compute", "allreduce", "send_receive", "eigen_send_receive", "splitting")
    return Case("pwc", title, points, options, timers, lambda labels: adjusted_rand_index(labels, truth), rivals)


def _on(data: npt.NDArray[Any], method: Callable[[Any], Any]) -> Callable[[], Labels]:
    return lambda: np.asarray(method(data), np.int64)
