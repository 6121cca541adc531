"""The table that compares MPIs has the figures of the recorded results."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MPIS = {"Open MPI 5": "openmpi", "MPICH 5": "mpich", "Intel MPI": "intel"}


def figures(benchmark: str, operation: str, rival: str, size: str, mpi: str) -> str:
    """A time of ours in microseconds, and the speed relative to the rival's, as the table has them."""
    stored = json.loads((DOCS / "results" / f"{benchmark}-{mpi}.json").read_text(encoding="utf-8"))
    key = (operation, rival, int(size))
    row = next(row for row in stored["panels"][benchmark] if (row["operation"], row["rival"], row["size"]) == key)
    assert row["verified"]
    return f"{1e6 * row['seconds']['median']:.3g} ({row['ratio']:.3g})"


def test_the_figures_are_those_of_the_recorded_results() -> None:
    page = (DOCS / "performance" / "address-space.md").read_text(encoding="utf-8")
    section = page.split("## With other MPIs\n")[1].split("\n## ")[0]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    titles, *rows = table
    assert titles[4:] == list(MPIS)
    assert len(rows) > 10
    for row in rows:
        assert row[4:] == [figures(*row[:4], mpi) for mpi in MPIS.values()], row
