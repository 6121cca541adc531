"""Figures of the documentation are those of their files, which are not older than the release before this one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gondwana import __version__
from support import figures, result_tables

STUDIES = "Rizvi and Hale", "Godoy et al.", "Datta", "Ekanayake and Fox", "Hargrove et al."

RESULTS = sorted(file.stem for file in figures.RESULTS.glob("*.json"))
PAGES = pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)


def without_tables(page: Path) -> str:
    """Return a page without the rows of tables that are made from files."""
    text = page.read_text(encoding="utf-8")
    for name, heading in result_tables.TABLES:
        if figures.ROOT / "docs" / name == page:
            start, end = result_tables.place(text, heading)
            text = text[:start] + text[end:]
    return text


@PAGES
def test_the_figures_are_those_of_the_recorded_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    marks = figures.MARK.findall(text)
    assert len(re.findall("<!-- (?!end)", text)) == text.count("<!-- end -->") == len(marks)
    assert figures.filled(text) == text, "run make figures"
    assert re.findall(r"^[ -]*<!--.*", text, re.MULTILINE) == [], "what follows would be HTML"
    for _, kind, reason, shown, _ in marks:
        assert shown
        assert kind != "not measured" or reason in figures.REASONS, reason
        assert kind != "paper" or re.fullmatch(rf"({'|'.join(STUDIES)}), (section|tables?|figure) .*", reason), reason


@PAGES
def test_no_figure_is_without_a_source(page: Path) -> None:
    assert figures.unsourced(without_tables(page)) == []


@pytest.mark.parametrize(
    "text",
    [
        "it takes 0.4 µs",
        "in 12 ns a cell",
        "a ratio of 33",
        "32 times as fast",
        "five times as fast",
        "moved 17 GB/s",
        "sums at 0.71 of its speed",
        "(0.97 to 1.3)",
        "5 % slower",
        "a rank takes 1,200 ms",
        "reached 120 Gcell/s",
        "| 3 | 2.09 |",
    ],
)
def test_a_figure_that_stands_for_itself_is_found(text: str) -> None:
    assert figures.unsourced(f"Before, {text}, after.") != []
    assert figures.unsourced(f"Before, <!-- not measured: goal -->{text}<!-- end -->, after.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.11 and NPB 3.4, built by gcc 12.2",
        "Open MPI 5.0.11",
        "a box of 64³ cells in 256 blocks",
        "messages of 8 KiB, 50 MB in all",
        "with its 95 % interval",
        "`--repeat 0.5` and [a link](page.md#0.5)",
        "planes at six times",
        "```console\n$ sleep 0.5\n```",
    ],
)
def test_sizes_versions_and_code_need_no_source(text: str) -> None:
    assert figures.unsourced(f"{text}\n") == []


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_every_ratio_of_the_table_has_a_source(name: str) -> None:
    lines = (figures.ROOT / name).read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and "`gondwana bench " in line]
    assert len(rows) >= 10
    for row in rows:
        last = row.strip("| ").split(" | ")[-1]
        assert figures.MARK.sub("", last).strip("; ") == "", row


@pytest.mark.parametrize("mark", ["no_such_file ratio", "stencil ratio kernel=no_such_kernel"])
def test_a_source_that_does_not_exist_is_an_error(mark: str) -> None:
    with pytest.raises((AssertionError, FileNotFoundError)):
        figures.figure(mark)


@pytest.mark.parametrize("file", RESULTS)
def test_results_are_not_older_than_the_last_release(file: str) -> None:
    now = [int(part) for part in __version__.split(".")[:2]]
    for result in figures.results(file):
        major, minor = map(int, result["environment"]["versions"]["gondwana"].split(".")[:2])
        assert major == now[0]
        assert minor >= now[1] - 1
