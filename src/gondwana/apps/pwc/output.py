"""The files of a run: the cluster of each point, the centre of each cluster, and a picture of the annealing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from gondwana.apps import text_files
from gondwana.apps.pwc.annealing import Partition, Step
from gondwana.apps.pwc.settings import Settings
from gondwana.errors import UsageError
from gondwana.results import write_bytes, write_text


def names(settings: Settings, clusters: int) -> list[Path]:
    """Return the names of the files for so many clusters: `cluster-M8-C5.txt` and `centers-M8-C5.txt`. Local."""
    stems = [Path(stem) for stem in (settings.ClusterFile, settings.CenterFile) if stem]
    return [stem.with_name(f"{stem.stem}-M{settings.MaxNcent}-C{clusters}{stem.suffix}") for stem in stems]


def write(settings: Settings, partition: Partition) -> list[Path]:
    """Write the file of the points and the file of the clusters, each complete or not at all. Local.

    Raises:
        ResultError: a file cannot be written.
    """
    members = "".join(f"{point}\t{label}\n" for point, label in enumerate(partition.labels.tolist()))
    centers = "cluster\tpoints\tcenter\twidth\n" + "".join(
        f"{cluster}\t{points}\t{center}\t{width:.9g}\n"
        for cluster, (points, center, width) in enumerate(
            zip(partition.sizes.tolist(), partition.centers.tolist(), partition.widths.tolist(), strict=True)
        )
    )
    texts = [text for stem, text in ((settings.ClusterFile, members), (settings.CenterFile, centers)) if stem]
    files = names(settings, len(partition.sizes))
    for file, text in zip(files, texts, strict=True):
        write_text(file, text)
    return files


def read_labels(name: str, points: int) -> list[str]:
    """Read true labels: the last word of each line. Local.

    Raises:
        UsageError: the file cannot be read, or has another number of lines.
    """
    words = [line.split()[-1] for line in text_files.read(Path(name), name, 1 << 30).splitlines() if line.strip()]
    if len(words) != points:
        raise UsageError(f"{name}: {len(words)} labels for {points} points; give one line for each point")
    return words


def draw(trace: Sequence[Step], file: str) -> None:
    """Draw eigenvalues and clusters over temperature as PNG. Local.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib ({error}): pip install 'gondwana[plot]'") from None
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    known = [step for step in trace if step.eigenvalue is not None]
    upper.plot([step.temperature for step in known], [step.eigenvalue for step in known], "o-", ms=3, lw=1)
    upper.axhline(0.0, color="black", lw=0.8)
    upper.set_ylabel("lowest eigenvalue / largest")
    lower.step([step.temperature for step in trace], [step.clusters for step in trace], where="post")
    lower.set_ylabel("clusters")
    lower.set_xlabel("temperature")
    lower.set_xscale("log")
    lower.invert_xaxis()
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    write_bytes(file, picture.getvalue(), f"--plot {file}")
