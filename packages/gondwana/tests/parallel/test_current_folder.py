"""What lies in the current folder under the name of a module is not run by applications, commands and programs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

GONDWANA = [sys.executable, "-P", "-m", "gondwana.cli.main"]
"""As the script `gondwana` does, without the current folder."""

HOSTILE = "open({marker!r}, 'a').write(__name__ + '\\n')\nraise SystemExit('a hostile module was run')\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that leave a mark elsewhere."""
    folder = tmp_path / "hostile"
    (folder / "gondwana").mkdir(parents=True)
    text = HOSTILE.format(marker=str(tmp_path / "marker"))
    for name in ("queue", "selectors", "numpy", "socket", "random", "mpi4py", "typer", "gondwana/__init__"):
        (folder / f"{name}.py").write_text(text)
    return folder


def test_commands_run_their_own_modules(hostile: Path, tmp_path: Path) -> None:
    findings = tmp_path / "findings.json"
    for words in (
        ["run", "npb-cg", "--class", "S"],
        ["doctor", "--json", str(findings)],
    ):
        outcome = jobs.run_command(
            [*GONDWANA, *words], cwd=hostile, timeout=120, variables={"GONDWANA_TERMINAL": "80,80"}
        )
        assert not (tmp_path / "marker").exists(), f"{words}: {outcome}"
        assert outcome.status == 0, f"{words}: {outcome}"
        wide = [line for line in outcome.stdout.splitlines() if len(line) > 80 and len(line.split()) > 1]
        assert wide == [], "only words that are longer than the terminal leave it"
    shown = set(outcome.stdout.split())
    for finding in json.loads(findings.read_text())["findings"]:
        assert {word for key in ("subject", "found", "remedy") for word in finding[key].split()} <= shown, finding


def test_interpreters_of_ours_start_without_the_current_folder() -> None:
    """A session of ranks for pytest decides itself: it imports what the session that started it does."""
    packages = jobs.ROOT / "packages"
    started = [
        f"{file.relative_to(packages)}: {line.strip()}"
        for file in packages.glob("*/src/**/*.py")
        if file.parts[-3:] != ("gondwana", "testing", "groups.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r'"-[mc]", *[A-Za-z]*"?(gondwana|[_A-Z])', line) and not line.strip().startswith("#")
    ]
    assert len(started) > 8
    assert [line for line in started if not re.search(r'"-P", "-[mc]"', line)] == []


def test_a_program_finds_its_own_folder_and_not_the_current_one(hostile: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sched.py").write_text("mine = True\n")
    (own / "program.py").write_text(
        "import sys, queue, numpy, gondwana as gw, sched\n"
        "assert sched.mine and gw.world.size == 2\n"
        "here = gw.world.allgather(sys.path[0])\n"
        "if gw.world.rank == 0:\n"
        "    print(here)\n"
    )
    outcome = jobs.run_command([*GONDWANA, "run", "-n", "2", str(own / "program.py")], cwd=hostile)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout == f"{[str(own)] * 2}\n"
    assert not (tmp_path / "marker").exists()


def test_a_folder_with_a_main_module_is_a_program(hostile: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside.py").write_text("value = 5\n")
    (tmp_path / "folder" / "__main__.py").write_text("import sys, beside\nprint(beside.value, sys.argv[1:])\n")
    outcome = jobs.run_command([*GONDWANA, "run", str(tmp_path / "folder"), "x"], cwd=hostile)
    assert (outcome.status, outcome.stdout) == (0, "5 ['x']\n"), str(outcome)
