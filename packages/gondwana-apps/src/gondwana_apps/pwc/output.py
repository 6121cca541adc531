"""The files of labels: the true ones, and of a result the cluster of each point and the centre of each cluster."""

from __future__ import annotations

from pathlib import Path

from gondwana.errors import UsageError
from gondwana.inputs import read_text
from gondwana.results import write_text
from gondwana_apps.pwc.annealing import Partition
from gondwana_apps.pwc.settings import Settings


def names(settings: Settings, clusters: int) -> list[Path]:
    """Return the names of the files for `clusters` clusters: `cluster-M8-C5.txt` and `centers-M8-C5.txt`. Local."""
    stems = [Path(stem) for stem in (settings.ClusterFile, settings.CenterFile) if stem]
    return [stem.with_name(f"{stem.stem}-M{settings.MaxNcent}-C{clusters}{stem.suffix}") for stem in stems]


def write(settings: Settings, partition: Partition) -> list[Path]:
    """Write the file of the points and the file of the clusters, each complete or not at all. Local.

    Raises:
        ResultError: a file cannot be written.
    """
    columns = zip(partition.sizes, partition.centers, partition.widths, partition.related, strict=True)
    points = [f"{point}\t{label}\n" for point, label in enumerate(partition.labels)]
    clusters = ["cluster\tpoints\tcenter\twidth\trelated to each cluster\n"] + [
        f"{cluster}\t{size}\t{center}\t{width:.9g}\t{' '.join(f'{r:.6g}' for r in related)}\n"
        for cluster, (size, center, width, related) in enumerate(columns)
    ]
    files = names(settings, len(partition.sizes))
    lines = [text for stem, text in ((settings.ClusterFile, points), (settings.CenterFile, clusters)) if stem]
    for file, text in zip(files, lines, strict=True):
        write_text(file, "".join(text))
    return files


def read_labels(name: str, points: int) -> list[str]:
    """Read true labels: the last word of each line. Local.

    Raises:
        UsageError: the file cannot be read, or has another number of lines.
    """
    words = [line.split()[-1] for line in read_text(name, name, 1 << 30).splitlines() if line.strip()]
    if len(words) != points:
        raise UsageError(f"{name}: {len(words)} labels for {points} points; give one line for each point")
    return words
