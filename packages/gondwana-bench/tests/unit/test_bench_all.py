"""`gondwana bench --list` and `gondwana bench all`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer.main

from gondwana import results
from gondwana.cli.main import main
from gondwana_bench.cli.bench import every
from gondwana_bench.cli.bench.command import bench


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gondwana", "bench", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


def test_list_has_every_benchmark_and_all_runs_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines]
    assert set(listed) == {*every.QUICK, *every.NEED_A_GPU, "all"}
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)


@pytest.mark.parametrize("name", [*every.QUICK, *every.NEED_A_GPU])
def test_the_quick_options_are_those_of_the_benchmark(name: str) -> None:
    command = typer.main.get_command(bench).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, [*every._words(name, quick=True), "--json", "out.json"])


def test_a_failure_leaves_the_results_of_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "--kernels copy --sizes 4 --dtypes float64 --threads 1 --repeat 2 --batch 0.0005"
    monkeypatch.setattr(every, "QUICK", {"exchange": "--sizes 0", "stencil": words})
    file = tmp_path / "all.json"
    assert run(monkeypatch, "all", "--quick", "--only", "exchange,stencil", "--json", str(file)) == 1
    assert [result["benchmark"] for result in results.read(file)] == ["stencil"]
    said = capfd.readouterr().err
    assert "exchange took" in said
    assert said.rstrip().endswith("FAILED: exchange")


def test_what_all_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "all", "--only", "stencil,nonsense") == 2
    assert "--only nonsense: legal are stencil, " in capsys.readouterr().err
    assert run(monkeypatch, "all", "--json", "/no/such/folder/f.json") == 2
