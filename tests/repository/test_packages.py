"""The packages fit together: versions, extras, entry points, what is said of those that are not installed."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gondwana
from gondwana.cli import main, programs, run
from gondwana.errors import UsageError
from gondwana.gpu.driver import driver
from gondwana.kernels.cuda.launch import compiler_needed
from gondwana.moved import MOVED
from support import jobs

PROJECTS = {
    name: tomllib.loads((jobs.ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in ("gondwana", "gondwana-apps", "gondwana-bench", "gondwana-emulator")
}
OWN_PACKAGE = jobs.ROOT / "examples" / "own-package"


@pytest.mark.parametrize("name", PROJECTS)
def test_all_have_one_version(name: str) -> None:
    module = importlib.import_module(name.replace("-", "_"))
    assert module.__version__ == gondwana.__version__
    inside = [line for line in PROJECTS[name]["dependencies"] if line.startswith("gondwana")]
    assert all(line.endswith(f"=={gondwana.__version__}") for line in inside)
    assert bool(inside) == (name != "gondwana")


def test_extras_bring_the_other_packages() -> None:
    extras = PROJECTS["gondwana"]["optional-dependencies"]
    for name in PROJECTS:
        if name != "gondwana":
            assert extras[name.removeprefix("gondwana-")] == [name]


@pytest.mark.parametrize("group", [programs.PROGRAMS, programs.COMMANDS])
def test_names_of_packages_that_are_not_installed_are_known(group: str) -> None:
    extra, names = programs.EXTRAS[group]
    assert sorted(names) == sorted(PROJECTS[f"gondwana-{extra}"]["entry-points"][group])


@pytest.mark.parametrize("command", ["gondwana run -n 2 heat", "gondwana inspect hpcg", "gondwana bench rma"])
def test_a_package_that_is_not_installed_is_one_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "added", lambda group: {})
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as ending:
        main.main()
    assert ending.value.code == 2
    said = capsys.readouterr().err
    extra = "bench" if "bench" in command else "apps"
    assert said.startswith("gondwana: error: ")
    assert f"is not installed: pip install 'gondwana[{extra}]'" in said
    assert said.count("\n") == 1


def test_an_unknown_program_names_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="did you mean heat\\? applications are davs, "):
        run.check_target("heet", [], 1)
    monkeypatch.setattr(programs, "added", lambda group: {})
    with pytest.raises(UsageError, match="no file 'heet': a program is given by its path"):
        run.check_target("heet", [], 1)


def test_an_emulator_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: importlib.metadata.EntryPoints())
    monkeypatch.setenv("GONDWANA_CUDA", "emulated")
    driver.cache_clear()
    try:
        with pytest.raises(UsageError, match="pip install 'gondwana\\[emulator\\]'"):
            driver()
    finally:
        driver.cache_clear()


def test_a_compiler_for_gpus_that_is_not_installed_is_one_line() -> None:
    lacking = "^code for GPUs needs numba.cuda.lacking: pip install 'gondwana.cuda.'$"
    with pytest.raises(UsageError, match=lacking), compiler_needed():
        importlib.import_module("numba.cuda.lacking")
    with pytest.raises(ModuleNotFoundError), compiler_needed():
        importlib.import_module("of_the_program")


@pytest.mark.parametrize("old", MOVED)
def test_old_names_say_the_new_ones(old: str) -> None:
    new, extra = MOVED[old]
    importlib.import_module(new)
    for module in (old, f"{old}.anything"):
        with pytest.raises(ModuleNotFoundError, match=f"^{old} is called {new} now: pip install 'gondwana.{extra}.'$"):
            importlib.import_module(module)


@pytest.fixture(scope="module")
def own_package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which the example package counts as installed: pip would write the same two files."""
    project: dict[str, Any] = tomllib.loads((OWN_PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path_factory.mktemp("installed")
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(OWN_PACKAGE / "src")])}


def gondwana_with(variables: dict[str, str], *words: str, cwd: Path) -> str:
    command = [sys.executable, "-P", "-m", "gondwana.cli.main", *words]
    outcome = jobs.run_command(command, cwd=cwd, variables=variables)
    assert outcome.status == 0, str(outcome)
    return outcome.stdout


@pytest.mark.parallel
@pytest.mark.usefixtures("mpi4py_there")
def test_a_package_of_a_user_adds_a_program(own_package: dict[str, str], tmp_path: Path) -> None:
    said = gondwana_with(own_package, "run", "-n", "2", "poisson", "--cells", "15", "--steps", "800", cwd=tmp_path)
    assert said.startswith("largest error after 800 steps on 15 x 15 cells: ")
    assert float(said.split()[-1]) < 4e-3  # of the discretisation: h^2 pi^2 / 12


def test_a_package_of_a_user_adds_a_command(own_package: dict[str, str], tmp_path: Path) -> None:
    assert gondwana_with(own_package, "poisson-memory", "4094", "--ranks", "16", cwd=tmp_path) == "32.0 MiB a rank\n"
    said = gondwana_with(own_package, "--help", cwd=tmp_path)
    assert "Commands of poisson:\n  poisson-memory" in said
    assert "..." not in said.split("Commands:")[1]  # no sentence is cut off
    assert max(map(len, said.splitlines())) < 80
