"""Figures of the documentation are those of their files, which are not older than the release before this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gondwana import __version__
from support import figures

PAGES = [page for page in figures.PAGES if figures.MARK.search(page.read_text(encoding="utf-8"))]
RESULTS = sorted((figures.ROOT / "docs" / "results").glob("*.json"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_are_those_of_the_recorded_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- figure: ") == text.count("<!-- end -->") == len(figures.MARK.findall(text))
    for _, mark, shown, _ in figures.MARK.findall(text):
        assert shown == figures.figure(mark), f"{mark}: run make figures"


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


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_results_are_not_older_than_the_last_release(file: Path) -> None:
    stored = json.loads(file.read_text(encoding="utf-8"))
    now = [int(part) for part in __version__.split(".")[:2]]
    for result in stored.get("results", [stored]):
        major, minor = map(int, result["environment"]["versions"]["gondwana"].split(".")[:2])
        assert major == now[0], file
        assert minor >= now[1] - 1, file
