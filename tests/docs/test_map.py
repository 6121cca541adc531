"""What CONTRIBUTING and the design notes say about files is true: the rooms, the map, its walks, the doors, modules."""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from gondwana.cli import library, main
from support import jobs, walks

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages" / "gondwana" / "src" / "gondwana"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP = re.findall(r"^\| .+ \| `\w+/`.* \| `([\w/]+\.py)`.* \| `(\w+)` \|$", CONTRIBUTING, re.MULTILINE)
WORDS = re.compile(r"`([\w/.]+)`")
CALLED = re.compile("Callable|Poll|Scheduler")
"""In the annotations of what a function is given to call."""
DOORS = CONTRIBUTING.split("\n## Doors\n")[1].split("\n## ")[0]
DOOR = re.compile(r"^\| `([\w/]+\.py)` \| (`.+`) \| (`.+`) \| (`.+`) \| .+ \|$", re.MULTILINE)
KEPT, NAMED = (
    [(file, *map(WORDS.findall, cells)) for file, *cells in DOOR.findall(table)] for table in DOORS.split("\nNames ")
)
"""Rows of the two tables: a file, what keeps or names functions, where these are, what calls them."""
NOTES = sorted((ROOT / "docs" / "design").glob("*.md"))


@functools.cache
def tree(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text(encoding="utf-8"))


def names(file: str) -> set[str]:
    """All that a module defines, reads or sets by name."""
    found = set()
    for node in ast.walk(tree(file)):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
    return found


def functions(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """The qualified names of the functions and methods of a module."""
    for one in node.body:
        if isinstance(one, ast.ClassDef):
            yield from functions(one, f"{one.name}.")
        elif isinstance(one, ast.FunctionDef):
            yield prefix + one.name


def keeping(file: str) -> Iterator[str]:
    """The functions of a module that keep what they are given to call, in the module's own variables."""
    for function in tree(file).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = [one for one in function.args.args + function.args.kwonlyargs if one.annotation is not None]
        given = {one.arg for one in arguments if CALLED.search(ast.unparse(one.annotation))}
        shared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("append", "add")
            ):
                values, targets = node.args, [node.func.value]
            elif isinstance(node, ast.Assign):
                values = [node.value, *(node.value.elts if isinstance(node.value, ast.Tuple) else ())]
                targets = [one for target in node.targets for one in getattr(target, "elts", [target])]
            else:
                continue
            own = any(not isinstance(target, ast.Name) or target.id in shared | variables(file) for target in targets)
            if own and any(isinstance(value, ast.Name) and value.id in given for value in values):
                yield function.name


def variables(file: str) -> set[str]:
    """The variables of a module."""
    made = (getattr(node, "targets", [getattr(node, "target", None)]) for node in tree(file).body)
    return {target.id for targets in made for target in targets if isinstance(target, ast.Name)}


@functools.cache
def rooms() -> list[str]:
    """From the ground up, as the layer test has them."""
    layers = ast.parse((ROOT / "tests" / "repository" / "test_layers.py").read_text(encoding="utf-8"))
    (found,) = (
        node.value for node in layers.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    )
    return list(ast.literal_eval(found))


def height(file: str) -> int:
    """The number of the room of a module."""
    return rooms().index(file.split("/")[0].removesuffix(".py"))


def named_above(file: str) -> set[str]:
    """The modules of upper rooms that a module names in its texts."""
    texts = {node.value for node in ast.walk(tree(file)) if isinstance(node, ast.Constant)}
    found = set()
    for text in texts:
        if isinstance(text, str) and re.fullmatch(r"gondwana(\.\w+)+(:\w+)?", text):
            path = SOURCE / text.removeprefix("gondwana.").partition(":")[0].replace(".", "/")
            for one in (path, path.parent):  # the second for what a module defines
                here = next((end for end in (one.with_suffix(".py"), one / "__init__.py") if end.is_file()), None)
                if here is not None:
                    above = here.relative_to(SOURCE).as_posix()
                    if above != "__init__.py" and height(above) > height(file):
                        found.add(above)
                    break
    return found


def test_the_table_of_rooms_is_that_of_the_layer_test() -> None:
    assert re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE) == rooms()


@pytest.mark.parametrize(("file", "function"), MAP)
def test_the_map_leads_somewhere(file: str, function: str) -> None:
    defined = ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8")))
    assert function in {node.name for node in defined if isinstance(node, ast.FunctionDef)}


def test_every_row_of_the_map_is_checked() -> None:
    table = CONTRIBUTING.split("## The map")[1].split("##")[0]
    assert len(MAP) == table.count("\n| ") - 1 > 5


@pytest.mark.parametrize("title", walks.TO_HARDWARE)
def test_a_walk_to_the_hardware_has_four_files_at_most(title: str) -> None:
    assert 2 <= len({step.file for step in walks.walk(title)}) <= 4


@pytest.mark.parametrize("title", [*walks.TO_HARDWARE, walks.START])
def test_the_functions_of_a_walk_exist(title: str) -> None:
    steps = walks.walk(title)
    assert len(steps) > (10 if title in (walks.PUT, walks.START) else 3)
    assert [step for step in steps if step.function not in functions(tree(step.file))] == []


def steps_of_a_start() -> tuple[list[walks.Step], list[walks.Step]]:
    """The steps of the command, and those of a rank; between them is the supervisor, which has no other modules."""
    steps = walks.walk(walks.START)
    supervised = [place for place, step in enumerate(steps) if step.file == "runtime/supervisor.py"]
    assert len(supervised) > 1
    return steps[: supervised[0]], steps[supervised[-1] + 1 :]


def test_the_walk_of_a_start_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py")
    command, _ = steps_of_a_start()
    program = str(ROOT / "examples" / "heat.py")

    def become(*_: object) -> NoReturn:
        raise SystemExit(0)

    monkeypatch.setattr(sys, "argv", ["gondwana", "run", "-n", "2", program])
    monkeypatch.setattr(os, "execvpe", become)
    library.mpi_library.cache_clear()  # other tests of this process may have asked
    before = sys.getprofile()
    walks.record()
    try:
        with pytest.raises(SystemExit):
            main.main()
    finally:
        sys.setprofile(before)
    assert walks.first_missing(command[1:], walks.recorded) is None  # the first is called by the first import


def test_the_walk_of_a_rank_is_what_runs(tmp_path: Path) -> None:
    _, rank = steps_of_a_start()
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nsys.setprofile(None)\nfrom support import walks\nprint(*walks.recorded, sep='\\n')\n"
    )
    start = tmp_path / "start.py"
    start.write_text(
        f"import runpy, sys\nfrom support import walks\nwalks.record()\nsys.argv = ['rank', {str(program)!r}]\n"
        "runpy.run_module('gondwana.cli.rank', run_name='__main__')\n"
    )
    launched = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PYTHONPATH": str(ROOT / "tests")}
    outcome = jobs.run_command([sys.executable, "-P", str(start)], cwd=tmp_path, variables=launched)
    assert outcome.status == 0, str(outcome)
    assert walks.first_missing(rank, outcome.stdout.splitlines()) is None


def test_the_doors_are_where_the_tables_say() -> None:
    assert len(KEPT) + len(NAMED) == DOORS.count("\n| ") - 2
    for file, keepers, others, callers in KEPT:
        assert {*keepers, *callers} <= names(file), file
        assert [other for other in others if not names(other) & set(keepers)] == [], (file, keepers)
    for file, constants, others, callers in NAMED:
        assert {*constants, *callers} <= names(file), file
        assert set(others) <= named_above(file), file


def test_there_are_no_other_doors() -> None:
    files = [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py"))]
    below = [file for file in files if file not in ("__init__.py", "moved.py")]
    assert {(file, name) for file in below for name in keeping(file)} <= {
        (file, name) for file, keepers, *_ in KEPT for name in keepers
    }
    assert {(file, above) for file in below for above in named_above(file)} <= {
        (file, other) for file, _, others, _ in NAMED for other in others
    }


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_modules_named_in_design_notes_exist(note: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)`", note.read_text(encoding="utf-8"))
    assert [file for file in named if not (SOURCE / file).is_file()] == []
