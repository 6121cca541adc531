"""Tables: they fit a terminal of 80 columns, are plain columns elsewhere, and say what they say first and last."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gondwana_bench.cli.model import CHECKED
from gondwana_bench.report import read, text_tables as tables
from gondwana_bench.report.rows import Panel
from gondwana_bench.report.verdicts import verdict_of_panel
from gondwana_bench.rows import WIDE
from support.result_files import row

RESULTS = Path(__file__).parents[4] / "docs" / "results"
RECORDED = {
    "collectives": "collectives.COLUMNS", "exchange": "exchange.COLUMNS", "fib": "fibonacci.recursion.COLUMNS",
    "heat": "heat.regularity.COLUMNS", "heat-against-1": "heat.against.COLUMNS", "hpcg": "hpcg.RATING",
    "init": "initialisation.COLUMNS", "io": "io.bandwidth.COLUMNS", "loops": "loops.COLUMNS",
    "npb": "npb.comparison.TIME", "osu": "messages.osu.COLUMNS", "ping-pong": "messages.ping_pong.COLUMNS",
    "pools": "pools.uses.COLUMNS", "ring": "messages.ring.COLUMNS", "rma": "rma.transfers.COLUMNS",
    "rma-mpich": "rma.transfers.COLUMNS", "scaling": "scaling.steps.COLUMNS", "start": "start.costs.COLUMNS",
    "stencil": "stencil.COLUMNS", "stencil-by-hand": "stencil_on_ranks.COLUMNS", "tasks": "tasks.durations.COLUMNS",
}  # fmt: skip
LATER: dict[str, dict[str, Any]] = {
    "fib": {"compiler": "clang"}, "init": {"compiler": "clang"}, "stencil": {"compiler": "clang"},
    "scaling": {"nodes": 12, "node_kind": "pretended", "slowest_over_fastest": 1.02},
}  # fmt: skip
"""Entries of rows that were not there when these were recorded."""
COLUMNS = {"operation": "operation", "size": "bytes", "microseconds": "us", "ratio": "ratio", "met": "met"}


def recorded(name: str) -> Iterator[tuple[dict[str, str], str, Panel]]:
    """The recorded panels with the columns of a benchmark."""
    module, _, constant = RECORDED[name].rpartition(".")
    columns = getattr(importlib.import_module(f"gondwana_bench.{module}"), constant)
    for source in read([RESULTS / f"{name}.json"]):
        for old in source.panels:
            panel = replace(old, rows=[{**LATER.get(source.name, {}), **row} for row in old.rows])
            if columns.keys() <= set(panel.keys):
                yield columns, source.name, panel


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_tables_fit_80_columns_without_breaking_words(name: str) -> None:
    found = [*recorded(name)]
    assert found
    for columns, benchmark, panel in found:
        verdict = verdict_of_panel(benchmark, panel.name, panel.rows)
        narrow = tables.table("title", "Processor X", columns, panel.rows, verdict, 80)
        assert max(map(len, narrow)) <= 80
        plain = tables.table("title", "Processor X", columns, panel.rows, verdict, None)
        start = next(at for at, line in enumerate(narrow) if line and not line.strip("- ")) + 1
        body = narrow[start : narrow.index("", start)]
        assert len(body) >= len(panel.rows)
        assert set(" ".join(body).split()) <= set(" ".join(plain).split())


def test_a_narrow_table_by_golden_text() -> None:
    rows = [
        row("put of a word", 8, foreign_load=0.0, rival_microseconds=0.016),
        row("put of a word", 4096, ratio=0.5, ratio_low=0.4, ratio_high=600.0, met=False, foreign_load=0.4),
    ]
    columns = {**COLUMNS, "rival": "rival", "rival_microseconds": "rival us", "verified": "right"}
    given = ("gondwana bench rma", "Processor X", columns, rows, verdict_of_panel("rma", "rma", rows))
    assert "\n".join(tables.table(*given, 60)) == GOLDEN
    assert not any(line.startswith("in all rows") for line in tables.table(*given, 200))


GOLDEN = """\
gondwana bench rma: 1 of 2 rows with a goal miss it; 0 of 2
rows are slower than their rival, 1 faster

                                     rival         foreign
bytes     us             ratio  met     us  right     load
-----  -----  ----------------  ---  -----  -----  -------
    8  0.008  2.00 (1.50-2.50)  yes  0.016  yes
 4096    4.1   0.50 (0.40-600)  NO    8.19  yes       0.40

in all rows: operation put of a word, rival C
Processor X
1 of 2 rows were measured while other programs kept up to
0.40 processors busy
1 of 2 rows with a goal miss it; 0 of 2 rows are slower than
their rival, 1 faster"""


def test_piped_tables_are_plain_columns() -> None:
    rows = [row("put of a word", size, goal=None, met=None) for size in (8, 64)]
    lines = tables.table("title", "Processor X", COLUMNS, rows, "fine", None)
    assert (lines[0], lines[-1]) == ("# title: fine", "# fine")
    cells = [re.split("  +", line) for line in lines if not line.startswith("#")]
    assert cells == [
        ["operation", "bytes", "us", "ratio", "met"],
        ["put of a word", "8", "0.008", "2.00 (1.50-2.50)", "-"],
        ["put of a word", "64", "0.064", "2.00 (1.50-2.50)", "-"],
    ]


def test_wide_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("put of a word " * 9, 8)] * 2
    assert max(map(len, tables.table("title", "X", COLUMNS, rows, "fine", 60))) <= 60
    monkeypatch.setenv(WIDE, "1")
    assert max(map(len, tables.table("title", "X", COLUMNS, rows, "fine", 60))) > 126


@pytest.mark.parametrize("rows", [[], [{"app": "heat", **dict.fromkeys([*CHECKED][1:], 1.0)}] * 3])
def test_tables_of_the_model_fit_as_they_are(rows: Sequence[dict[str, Any]]) -> None:
    lines = tables.table("gondwana model check", "two_cores", CHECKED, rows, "no steps", 80)
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "no steps"


def test_verdicts_of_panels() -> None:
    rows = [row("put", 8), row("get", 8, ratio=0.5, ratio_high=0.6, met=False, verified=False)]
    assert verdict_of_panel("rma", "rma", rows) == (
        "1 of 2 rows WRONG; 1 of 2 rows with a goal miss it; 1 of 2 rows are slower than their rival, 1 faster"
    )
    assert verdict_of_panel("rma", "rma", [{"a": 1}]) == "1 row"
