"""The page of the studies has a row for each of their figures, and the command line takes every command in it."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from gondwana.cli.main import application
from gondwana.cli.programs import program as application_of
from gondwana.cli.run import check_target
from gondwana.results import LINE_KINDS, count_lines
from gondwana_apps.npb.common.sections import TIMERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
REQUIRED = {
    "Communication-intensive programs in Julia": ["Figure 1(a)", "Figure 1(b)", *(f"Figure {n}" for n in range(2, 11))],
    "The Gray-Scott workflow on Frontier": [
        *(f"Table {n}" for n in range(1, 4)),
        "Listing 1",
        "Listings 2, 3",
        "Listing 4",
        *(f"Figure {n}" for n in range(1, 10)),
    ],
    "The NAS benchmarks in Titanium": [*(f"Figure {n}" for n in range(1, 22)), "Tables A, B"],
    "Message passing in Java: clustering": ["Figures 1, 3", *(f"Figure {n}" for n in (2, *range(4, 24)))],
    "Memory kinds in GASNet-EX": [f"Panel {n}" for n in range(1, 5)],
}
"""The figures, tables and listings of each study."""

COLUMNS = ["figure", "what it shows", "command", "ours", "what we found"]


def rows(study: str) -> Iterator[list[str]]:
    """Yield the cells of the table of a study, the line of names first."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{study}\n"))
    lines = [line for line in text.split("\n### ")[0].splitlines() if line.startswith("|")]
    for line in lines[:1] + lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def commands() -> list[str]:
    """Return all commands of the tables, each once."""
    cells = (row[2] for study in REQUIRED for row in list(rows(study))[1:])
    return list(dict.fromkeys(command for cell in cells for command in re.findall(r"`([^`]+)`", cell)))


@functools.cache
def program() -> Any:
    """Return the whole command line."""
    return typer.main.get_command(application())


def parse(words: list[str]) -> dict[str, Any]:
    """Parse a command as `gondwana` does, without running it; return its options and arguments."""
    command = program()
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    options: dict[str, Any] = command.make_context(command.name, words).params
    return options


@pytest.mark.parametrize("study", REQUIRED)
def test_every_figure_of_the_studies_has_a_row(study: str) -> None:
    names, *found = rows(study)
    assert names == COLUMNS
    assert [row[0] for row in found if row[0] not in REQUIRED[study]] == []
    assert sorted(row[0] for row in found) == sorted(REQUIRED[study])


@pytest.mark.parametrize("study", REQUIRED)
def test_every_row_has_a_command_and_what_it_gave(study: str) -> None:
    for cells in list(rows(study))[1:]:
        assert len(cells) == len(COLUMNS), cells
        assert all(cells), cells
        assert all(command.startswith("gondwana ") for command in re.findall(r"`([^`]+)`", cells[2])), cells
        assert "`" in cells[2] or cells[2] == "-", cells


@pytest.mark.parametrize("command", commands())
def test_the_command_line_takes_every_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = shlex.split(command)
    assert program == "gondwana"
    options = parse(words)
    if words[0] == "run":
        check_target(options["target"], options["arguments"] or [], options["ranks"])


@pytest.mark.parametrize("name", ["mg", "ft", "cg"])
def test_lines_of_code_are_those_that_are_counted(name: str) -> None:
    benchmark = application_of(f"npb-{name}").BENCHMARK
    counted = count_lines(benchmark.lines(), TIMERS)
    row = [name.upper(), *(str(counted[kind]) for kind in LINE_KINDS), str(sum(counted.values()))]
    assert f"| {' | '.join(row)} | " in PAGE
