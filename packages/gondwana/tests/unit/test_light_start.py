"""What starting loads: few modules, and none of those that only compiling, tasks or other commands need."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import typer.main

import gondwana
from gondwana.cli import main, programs, run, run_options
from support import jobs

SOURCE = Path(gondwana.__file__).parent
HEAVY = ("typer", "click", "rich", "greenlet", "numba", "llvmlite", "scipy", "matplotlib", "asyncio")
TELL = "print(json.dumps([len(set(sys.modules) - before), sorted(sys.modules)]))"


def loaded(code: str) -> tuple[int, set[str]]:
    """How many modules a program loads behind the line `before = set(sys.modules)`, and all that there are then."""
    outcome = jobs.run_command([sys.executable, "-P", "-c", f"import json, sys\n{code}\n{TELL}"])
    assert outcome.status == 0, outcome.stderr
    count, names = json.loads(outcome.stdout.splitlines()[-1])
    return count, set(names)


def test_free_threaded_python_is_refused() -> None:
    outcome = jobs.run_command([sys.executable, "-c", "import sys; sys.abiflags += 't'; import gondwana"])
    assert outcome.status == 1
    assert "ImportError: gondwana does not support free-threaded Python" in outcome.stderr


@pytest.mark.parametrize(
    ("use", "most"),
    [("", 60), ("gw.world.barrier()", 130 + 2 * (sys.version_info >= (3, 14)))],
    ids=["only imported", "the world has met"],
)
def test_importing_the_library(use: str, most: int) -> None:
    count, names = loaded(f"import numpy\nbefore = set(sys.modules)\nimport gondwana as gw\n{use}")
    assert count <= most
    assert not names.intersection(HEAVY)


def test_importing_the_library_alone_does_not_load_numpy() -> None:
    _, names = loaded("before = set(sys.modules)\nimport gondwana")
    assert "numpy" not in names


def test_the_process_that_writes_datasets_loads_neither_arrays_nor_compilers() -> None:
    count, names = loaded("import numpy\nbefore = set(sys.modules)\nimport gondwana.io.background")
    assert count <= 100
    assert not names.intersection((*HEAVY, "gondwana.arrays", "gondwana.kernels", "gondwana.teams", "mpi4py"))


def test_the_command_that_starts_programs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("pass\n")
    words = ["gondwana", "run", "-n", "1", "--dry-run", str(program), "--an-option"]
    count, names = loaded(
        "before = set(sys.modules)\n"
        f"sys.argv = {words!r}\n"
        "from gondwana.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code"
    )
    assert count <= 160
    assert not names.intersection((*HEAVY, "numpy"))
    commands = {f"gondwana.cli.{name}" for name in programs.OWN if name != "run"}
    assert not names.intersection(commands)


def test_a_program_runs_where_typer_rich_and_greenlet_cannot_be_imported(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    for name in ("typer", "click", "rich", "greenlet"):
        (missing / f"{name}.py").write_text("raise ImportError(f'{__name__} is not here')\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import gondwana as gw\n"
        "T = gw.zeros(gw.RectDomain((0,), (8,)), ghost=1, periodic=True)\n"
        "T.exchange().wait()\n"
        "print(gw.rpc(0, max, 3, 4).result(), gw.world.allreduce(5))\n"
    )
    words = [sys.executable, "-P", "-m", "gondwana.cli.main", "run", "-n", "1", str(program)]
    outcome = jobs.run_command(words, variables={"PYTHONPATH": str(missing)})
    assert (outcome.status, outcome.stdout) == (0, "4 5\n"), outcome.stderr


# -- names that are loaded when they are first used --------------------------------------------------------------------


def packages() -> list[str]:
    files = (file for file in SOURCE.rglob("__init__.py") if "_later.later(" in file.read_text(encoding="utf-8"))
    return sorted(".".join(("gondwana", *file.parent.relative_to(SOURCE).parts)) for file in files)


def test_there_are_such_packages() -> None:
    assert {"gondwana", "gondwana.transfer", "gondwana.compiler"} <= set(packages())


@pytest.mark.parametrize("name", packages())
def test_names_are_loaded_from_where_they_are_for_types(name: str) -> None:
    """What a type checker sees and what a program gets are two lists: they have the same names, of the same modules."""
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
    blocks = [part.body for part in tree.body if isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test)]
    imports = [part for part in (*itertools.chain(*blocks), *tree.body) if isinstance(part, ast.ImportFrom)]
    aliases = [(alias.asname or alias.name, str(part.module)) for part in imports for alias in part.names]
    homes = {found: home for found, home in aliases if not found.startswith("_")}
    for found, home in homes.items():
        assert getattr(package, found) is getattr(importlib.import_module(home), found), found
    public = {found for found in dir(package) if found[0].isalpha()}
    modules = {found for found in public if isinstance(getattr(package, found), types.ModuleType)}
    assert public - modules == homes.keys()


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'gondwana' has no attribute 'allreduc'"):
        _ = gondwana.allreduc


# -- the options of `gondwana run`, with and without typer -------------------------------------------------------------

OPTIONS = [
    "-n 3",
    "--ranks=4 --ranks 2",
    "-t 2 --timing --live",
    "--bind core",
    "--device=cuda",
    "--time-limit 1.5",
    "-m",
]
OPTIONS += ["--trace t.json --oversubscribe", "--record run", "--replay=run", "--dry-run --ranks-per-node 2 -n 4"]
OPTIONS += ["--restarts 3", ""]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("variable", ["", "trace.json"])
def test_options_are_read_as_typer_reads_them(monkeypatch: pytest.MonkeyPatch, options: str, variable: str) -> None:
    started: list[dict[str, Any]] = []

    def start(target: str, arguments: list[str], **given: Any) -> None:
        values = ("ranks", "threads", "ranks_per_node", "bind", "device", "time_limit", "trace", "record", "replay")
        defaults = dict.fromkeys((*values, "restarts"))
        flags = dict.fromkeys(("module", "oversubscribe", "timing", "live", "dry_run"), False)
        started.append({**defaults, **flags, **given, "target": target, "arguments": arguments})

    for module in (run, run_options):
        monkeypatch.setattr(module, "start", start)
    monkeypatch.setenv("GONDWANA_TRACE", variable)
    words = [*options.split(), "heat.py", "-n", "9", "--help", "--", "x"]
    main.application()(["run", *words], standalone_mode=False)
    direct = run.read(words)
    assert direct is not None
    direct()
    assert started[0] == started[1]
    assert started[0]["arguments"] == words[words.index("heat.py") + 1 :]


def test_all_options_are_read_without_typer() -> None:
    command: Any = typer.main.get_command(main.application())
    options = itertools.chain(*(one.opts for one in command.commands["run"].params if one.opts[0].startswith("-")))
    assert set(options) == {*run._VALUES, *run._FLAGS}


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "-n",
        "-n 0 a",
        "-n x a",
        "--rank 2 a",
        "--bind all a",
        "--time-limit soon a",
        "-n2 a",
        "-- a",
        "-mn 2 a",
    ],
)
def test_the_rest_is_left_to_typer(words: str) -> None:
    assert run.read(words.split()) is None
