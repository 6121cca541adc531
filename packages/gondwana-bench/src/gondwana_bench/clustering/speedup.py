"""A clustering application on patterns of threads, ranks and nodes, and scikit-learn, in the same rounds."""

from __future__ import annotations

import hashlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gondwana.errors import UsageError
from gondwana.runtime import cores
from gondwana_apps.partitions import adjusted_rand_index
from gondwana_bench import processes
from gondwana_bench.clustering.cases import Case, Labels
from gondwana_bench.rows import Row, relative
from gondwana_bench.statistics import summarize

PATTERNS = "1x1x1,2x1x1,1x2x1,1x1x2"
QUALITY = {
    "program": "", "median": "seconds", "ratio": "theirs/ours", "ari": "adjusted Rand index", "clusters": "clusters",
}  # fmt: skip

MEANS = {"means over PxN": "ranks", "means over TxPxN": "parallelism"}
"""Names of tables of averages, and the figure that the patterns of one row have in common."""

_PATTERN = re.compile(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})x([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True)
class Pattern:
    """Threads of a rank x ranks of a node x nodes, written as in the study: 2x4x1."""

    threads: int
    ranks_per_node: int
    nodes: int

    def __str__(self) -> str:
        return f"{self.threads}x{self.ranks_per_node}x{self.nodes}"

    @property
    def ranks(self) -> int:
        """The number of ranks in all."""
        return self.ranks_per_node * self.nodes

    @property
    def parallelism(self) -> int:
        """The number of threads in all."""
        return self.threads * self.ranks

    @property
    def places(self) -> processes.Nodes:
        """The nodes of the ranks."""
        return processes.nodes_for(self.ranks, self.ranks_per_node)

    @property
    def node_kind(self) -> str:
        """What the nodes are: one, or several real or pretended ones."""
        return self.places.kind(self.nodes)

    @property
    def crowded(self) -> bool:
        """Whether threads outnumber cores."""
        on_host = self.ranks_per_node if self.node_kind == "real" else self.ranks
        return self.threads * on_host > cores.count()


@dataclass(frozen=True)
class Run:
    """The outcome of a program.

    Attributes:
        seconds: seconds of the run.
        labels: cluster of each point.
        result: the other results of an application.
    """

    seconds: float
    labels: Labels
    result: Row = field(default_factory=dict)


Runs = Mapping[str, Sequence[Run]]
"""The runs of all rounds by pattern or name of a rival; the first run was a warm-up."""


def parse(text: str) -> list[Pattern]:
    """Read a list of patterns. 1x1x1 comes first: speed-ups are relative to it. Local.

    Raises:
        UsageError: the list has other entries.

    Example:
        >>> [str(pattern) for pattern in parse("2x1x1,1x2x1")]
        ['1x1x1', '2x1x1', '1x2x1']
    """
    found = [_PATTERN.fullmatch(part.strip()) for part in text.split(",")]
    patterns = [Pattern(*map(int, match.groups())) for match in found if match]
    if len(patterns) < len(found):
        raise UsageError(
            f"--patterns {text}: legal are threads x ranks of a node x nodes with commas between, such as {PATTERNS}"
        )
    return list(dict.fromkeys([Pattern(1, 1, 1), *patterns]))


def total(case: Case, patterns: Sequence[Pattern], repeat: int) -> int:
    """Return how many runs `measure` yields. Local."""
    return (repeat + 1) * (len(patterns) + len(case.rivals))


def measure(case: Case, patterns: Sequence[Pattern], folder: Path, repeat: int) -> Iterator[tuple[str, Run]]:
    """Run the application with every pattern, and the rivals, in every round. Local: starts jobs one after another.

    The order rotates from round to round. One more round is the first: it compiles, and reads files for the first time.

    Args:
        case: the data and the application.
        patterns: patterns to measure.
        folder: folder of the data.
        repeat: rounds that count.

    Returns:
        Each run, with the pattern or the name of the rival.

    Raises:
        UsageError: the application failed.
    """
    programs: dict[str, Callable[[], Run]] = {
        str(pattern): partial(_run_ours, case, pattern, folder) for pattern in patterns
    }
    programs |= {name: partial(_run_rival, rival) for name, rival in case.rivals.items()}
    names = list(programs)
    for number in range(repeat + 1):
        for position in range(len(names)):
            name = names[(number + position) % len(names)]
            yield name, programs[name]()


def scaling(case: Case, patterns: Sequence[Pattern], runs: Runs) -> list[Row]:
    """Return a row for each pattern: figures 7 to 22 of the study. Local."""
    expected = runs[str(patterns[0])][0].labels
    base = [run.seconds for run in runs[str(patterns[0])][1:]]
    rows = []
    for pattern in patterns:
        own = runs[str(pattern)]
        speedup = relative(base, [run.seconds for run in own[1:]], "speedup")
        remarks = "more threads than cores" if pattern.crowded else ""
        different = [run.labels for run in own if not np.array_equal(run.labels, expected)]
        rows.append({
            "pattern": str(pattern), "data": case.title, "points": case.points, "threads": pattern.threads,
            "ranks_per_node": pattern.ranks_per_node, "nodes": pattern.nodes, "ranks": pattern.ranks,
            "parallelism": pattern.parallelism,
            "node_kind": pattern.node_kind, "crowded": pattern.crowded, **_seconds(own), **speedup,
            "efficiency": speedup["speedup"] / pattern.parallelism,
            **{f"seconds_{part}": _middle(own, part) for part in case.timers},
            "ari": case.agreement(own[0].labels), "clusters": _clusters(own[0].labels),
            "digest": hashlib.sha256(own[0].labels.astype("<i8").tobytes()).hexdigest()[:16],
            "labels": f"OTHER, ARI {adjusted_rand_index(different[0], expected):.4f}" if different else "same",
            "remarks": remarks,
            "verified": not different and all(run.result["verified"] is not False for run in own),
        })  # fmt: skip
    return rows


def scaling_columns(case: Case) -> dict[str, str]:
    """Return the headings of `scaling`. Local."""
    return {
        "pattern": "TxPxN", "node_kind": "nodes", **_means(case), "labels": "labels", "verified": "verified",
        "remarks": "",
    }  # fmt: skip


def averages(case: Case, rows: Sequence[Row], key: str) -> list[Row]:
    """Return the means over the patterns that have as many ranks or as much parallelism: the study's figure 23. Local.

    Args:
        case: the data and the application.
        rows: rows of `scaling`.
        key: "ranks" (PxN) or "parallelism" (TxPxN).
    """
    means = _means(case)
    found = []
    for size in sorted({row[key] for row in rows}):
        group = [row for row in rows if row[key] == size]
        found.append({
            key: size, "patterns": " ".join(row["pattern"] for row in group),
            **{name: statistics.fmean(row[name] for row in group) for name in means},
            "verified": all(row["verified"] for row in group),
        })  # fmt: skip
    return found


def averages_columns(case: Case, key: str) -> dict[str, str]:
    """Return the headings of `averages`. Local."""
    return {key: key, **_means(case), "patterns": "patterns"}


def quality(case: Case, scaled: Sequence[Row], runs: Runs) -> list[Row]:
    """Return a row for ours on one thread and with its fastest pattern, and for each rival: time and quality. Local.

    The ratio is the time of a rival to our time on one thread.
    """
    fastest = min(scaled, key=lambda row: float(row["median"]))["pattern"]
    ours = dict.fromkeys([scaled[0]["pattern"], fastest])
    base = [run.seconds for run in runs[scaled[0]["pattern"]][1:]]
    found = []
    for name in (*ours, *case.rivals):
        own = runs[name]
        theirs = None if name in ours else [run.seconds for run in own[1:]]
        found.append({
            "program": f"ours, {name}" if name in ours else f"scikit-learn, {name}", **_seconds(own),
            **relative(theirs, base), "ari": case.agreement(own[0].labels), "clusters": _clusters(own[0].labels),
            "verified": True,
        })  # fmt: skip
    return found


def _run_ours(case: Case, pattern: Pattern, data: Path) -> Run:
    nodes = pattern.places
    words = [*nodes.options(), case.app, *case.options, "--json", "result.json"]
    with tempfile.TemporaryDirectory(dir=data) as folder:
        argv = processes.our_command(pattern.ranks, *words, threads=pattern.threads)
        what, file = f"{case.app} with {pattern}", Path(folder) / "result.json"
        result = processes.result(what, argv, file, nodes.environment(), folder)
        if (placed := result["environment"]["placement"]["pattern"]) != str(pattern):
            raise UsageError(f"{what} ran as {placed} instead: threads x ranks of a node x nodes")
        return Run(result["seconds"], case.read_labels(Path(folder), result["clusters"]), result)


def _run_rival(rival: Callable[[], Labels]) -> Run:
    start = time.perf_counter()
    labels = rival()
    return Run(time.perf_counter() - start, labels)


def _seconds(runs: Sequence[Run]) -> Row:
    samples = [run.seconds for run in runs[1:]]
    found = summarize(samples)
    return {"median": found.median, "seconds": asdict(found), "samples": samples}


def _middle(runs: Sequence[Run], part: str) -> float:
    return float(statistics.median(run.result[f"seconds_{part}"] for run in runs[1:]))


def _clusters(labels: Labels) -> int:
    return len(np.unique(labels[labels >= 0]))


def _means(case: Case) -> dict[str, str]:
    """The headings of figures whose means are shown."""
    parts = {f"seconds_{part}": part.replace("_", " ") for part in case.timers}
    return {"median": "seconds", "speedup": "speed-up", "efficiency": "efficiency", **parts}
