"""The tables of examples and of sparse products beside programs by hand have the figures of the recorded results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from support.by_hand.lines import lines_of

ROOT = Path(__file__).parents[2]
NAMES = {
    "lattice Boltzmann": "lattice_boltzmann",
    "shallow water": "shallow_water",
    "masked diffusion": "masked_diffusion",
    "particles in cells, 10^6 particles": "particles",
}
RIVALS = "mpi4py and Numba", "mpiarray and Numba"


def ratios(example: str, cells: str, file: str = "examples.json", rivals: tuple[str, ...] = RIVALS) -> Iterator[str]:
    """Our time relative to each rival's with its interval, on one and two ranks; a dash for what was not recorded."""
    stored = json.loads((ROOT / "docs" / "results" / file).read_text(encoding="utf-8"))
    rows = [row for one in stored["results"] for row in one["panels"]["examples"]]
    found = {(row["ranks"], row["rival"]): row for row in rows if (row["example"], row["cells"]) == (example, cells)}
    for ranks in (1, 2):
        for rival in rivals:
            row = found.get((ranks, rival))
            if row is None:
                yield "-"
                continue
            assert row["verified"]
            yield "{:.2f} ({:.2f} to {:.2f})".format(*(1 / row[f"ratio{end}"] for end in ("", "_high", "_low")))


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the page."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]


def test_the_figures_are_those_of_the_recorded_results() -> None:
    rows = rows_of("Examples beside the same programs by hand")
    assert {row[0] for row in rows} == set(NAMES)
    for title, lines, cells, *shown in rows:
        name = NAMES[title]
        by_hand = ROOT / "tests" / "support" / "by_hand"
        programs = ROOT / "examples" / f"{name}.py", by_hand / f"{name}.py", by_hand / f"{name}_mpiarray.py"
        assert lines == ", ".join(str(lines_of(program)) for program in programs), title
        assert shown == list(ratios(name, cells)), title


def test_the_figures_of_sparse_products_are_those_of_the_recorded_results() -> None:
    stored = json.loads((ROOT / "docs" / "results" / "sparse.json").read_text(encoding="utf-8"))
    rows = rows_of("Sparse matrices beside SciPy and C")
    measured = {(row["example"], row["cells"]) for one in stored["results"] for row in one["panels"]["examples"]}
    assert {(matrix, size.replace(",", "")) for matrix, size, *_ in rows} == measured
    for matrix, size, *shown in rows:
        assert shown == list(ratios(matrix, size.replace(",", ""), "sparse.json", ("SciPy", "C"))), matrix


def test_the_figures_of_multigrid_are_those_of_the_recorded_results() -> None:
    shown = rows_of("Multigrid beside a program in C")
    stored = json.loads((ROOT / "docs" / "results" / "solvers.json").read_text(encoding="utf-8"))
    rows = [row for one in stored["results"] for row in one["panels"]["examples"]]
    assert all(row["verified"] for row in rows)
    for line, row in zip(shown, sorted(rows, key=lambda row: row["ranks"]), strict=True):
        times = f"{row['milliseconds']:.0f} ms", f"{row['rival_milliseconds']:.0f} ms"
        ratio = "{:.2f} ({:.2f} to {:.2f})".format(*(row[f"ratio{end}"] for end in ("", "_low", "_high")))
        factors = f"{row['factor']:.2f}", f"{row['rival_factor']:.2f}"
        assert line == [row["cells"], str(row["ranks"]), *times, ratio, *factors]
