"""The README shows what `make demo` runs, and the program that the guide explains."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_the_guide_explains_the_program_of_the_readme() -> None:
    program = README.split("```python\n")[1].split("```")[0]
    assert f"```python\n{program}```" in FIRST_PROGRAM


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
