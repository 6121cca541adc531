"""The README shows what `make demo` runs, and the program that the guide explains."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_PROGRAM = (ROOT / "docs" / "guide" / "first-program.md").read_text(encoding="utf-8")


def test_the_commands_of_make_demo_are_printed() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndemo:")[1].split("\n\n")[0]
    commands = re.findall(r"^\t(gondwana .*)$", recipe, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert f"$ {command}\n" in README
        assert f"$ {command}\n" in FIRST_PROGRAM


def program(page: str) -> str:
    """The first program of a page."""
    return page.split("```python\n")[1].split("```")[0]


def test_the_guide_explains_the_program_of_the_readme() -> None:
    """It has more lines, which set, print and draw something."""
    lines = iter(program(FIRST_PROGRAM).splitlines())
    assert [line for line in program(README).splitlines() if line not in lines] == []


def test_the_program_of_the_guide_prints_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = program(FIRST_PROGRAM)
    for old, new in (("256", "16"), ("96:160", "6:10"), ("128", "8")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "heat.py").write_text(text, encoding="utf-8")
    printed = subprocess.run([sys.executable, "heat.py"], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"heat: 256\.000000 before, 256\.000000 after 100 steps; at most 0\.\d+\n", printed)
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
