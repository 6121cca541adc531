"""The gallery has every example, with a picture, a command and the page that explains it; tests execute it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = ROOT / "docs" / "guide" / "gallery.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n### ")[1:]
FOLDER = ROOT / "packages" / "gondwana" / "tests" / "parallel"
TESTS = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))


@pytest.mark.parametrize("example", [*(file.name for file in EXAMPLES), "gray-scott"])
def test_every_example_has_a_section(example: str) -> None:
    name = f"examples/{example}"
    sections = [text.split("\n## ")[0] for text in SECTIONS if name in text]
    assert len(sections) == 1, f"{PAGE} has {len(sections)} sections with {name}"
    assert re.search(rf"`gondwana run -n \d [^`]*{name}", sections[0]), "how it is run"
    pictures = re.findall(r"^!\[.{20,}\]\((.*)\)$", sections[0], re.MULTILINE)
    assert len(pictures) == 1
    assert (PAGE.parent / pictures[0]).is_file()
    explained = re.search(r"\[[^\]]+\]\(([\w-]+\.md)(?:#[\w-]+)?\)", sections[0])
    assert explained is not None, "the page of the guide that explains it"
    assert example.removesuffix(".py") in (PAGE.parent / explained[1]).read_text(encoding="utf-8"), explained[1]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_every_example_is_executed(example: Path) -> None:
    """On one, two and three ranks: by a test in the folder of those that start ranks."""
    assert re.search(rf"\b{example.stem}\b", TESTS)


@pytest.mark.parametrize("other", ["notebooks/gray-scott.py", "notebooks/pools.py", "own-package", "tests"])
def test_what_else_is_there_is_named(other: str) -> None:
    assert (ROOT / "examples" / other).exists()
    assert f"examples/{other}" in PAGE.read_text(encoding="utf-8")


def test_the_gallery_is_found() -> None:
    for page, link in (("README.md", "docs/guide/gallery.md"), ("docs/index.md", "guide/gallery.md")):
        assert f"]({link})" in (ROOT / page).read_text(encoding="utf-8")
