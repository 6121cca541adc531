"""What CONTRIBUTING and the design notes say about files is true: the table of rooms, the map, the names of modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages" / "gondwana" / "src" / "gondwana"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP = re.findall(r"^\| .+ \| `\w+/`.* \| `([\w/]+\.py)`.* \| `(\w+)` \|$", CONTRIBUTING, re.MULTILINE)
NOTES = sorted((ROOT / "docs" / "design").glob("*.md"))


def test_the_table_of_rooms_is_that_of_the_layer_test() -> None:
    layers = ast.parse((ROOT / "tests" / "repository" / "test_layers.py").read_text(encoding="utf-8"))
    (rooms,) = (
        node.value for node in layers.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    )
    assert tuple(re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE)) == ast.literal_eval(rooms)


@pytest.mark.parametrize(("file", "function"), MAP)
def test_the_map_leads_somewhere(file: str, function: str) -> None:
    defined = ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8")))
    assert function in {node.name for node in defined if isinstance(node, ast.FunctionDef)}


def test_every_row_of_the_map_is_checked() -> None:
    table = CONTRIBUTING.split("## The map")[1].split("##")[0]
    assert len(MAP) == table.count("\n| ") - 1 > 5


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_modules_named_in_design_notes_exist(note: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)`", note.read_text(encoding="utf-8"))
    assert [file for file in named if not (SOURCE / file).is_file()] == []
