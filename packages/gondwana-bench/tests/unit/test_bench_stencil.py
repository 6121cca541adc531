"""`gondwana bench stencil`: every case computes what C computes, and wrong options are one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gondwana import results
from gondwana.cli.main import main
from gondwana_bench import build, stencil

pytestmark = pytest.mark.usefixtures("c_compiler")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gondwana", "bench", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


def test_every_case_equals_c_in_both_precisions_and_on_two_threads() -> None:
    rows = list(stencil.measure(sizes=(6,), thread_counts=(1, 2), repeat=2, batch_seconds=0.0005))
    assert len(rows) == len(stencil.CASES) * 2 * 2
    assert all(row["verified"] for row in rows)
    for row in rows:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["ns_per_cell"] > 0.0
        assert row["seconds"]["n"] == row["c_seconds"]["n"] == 2


def test_a_second_compiler_has_rows_of_its_own(
    second_compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "stencil.json"
    options = "--kernels sweep7,gray_scott_pair,fsum --sizes 6 --dtypes float64 --threads 1 --repeat 2 --batch 0.0005"
    assert run(monkeypatch, "stencil", *options.split(), "--second-cc", second_compiler, "--json", str(file)) == 0
    [report] = results.read(file)
    first = build.compilers()[build.FIRST]
    assert [(row["kernel"], row["compiler"]) for row in report["panels"]["stencil"]] == [
        *((kernel, compiler) for kernel in ("sweep7", "gray_scott_pair") for compiler in (first, second_compiler)),
        ("fsum", "Numba"),
    ]
    assert report["environment"]["second_compiler"] == build.compiler_version(build.SECOND)


def test_effective_bandwidth_counts_every_array_once() -> None:
    samples = {"ours": [1e-3], "c": [2e-3]}
    for name, arrays, cells in (
        ("sweep7", 2, 10**3),
        ("gray_scott", 4, 10**3),
        ("gray_scott_one", 2, 10**3),
        ("copy", 2, 12**3),
        ("triad", 3, 12**3),
    ):
        row = stencil.row_of(name, 10, "float64", 1, samples, verified=True)
        assert row["gb_per_s"] == pytest.approx(arrays * cells * 8 / 1e-3 / 1e9)
        assert row["ratio"] == row["ratio_of_best"] == pytest.approx(2.0)


def test_a_wrong_result_is_noticed_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = stencil.Case(stencil.copy, 1, 1, ghosts=False)
    monkeypatch.setitem(stencil.CASES, "sweep7", wrong)
    monkeypatch.setattr(stencil.Sweeps, "sweep7", lambda self, out, a: out.fill(0.0))
    options = "--kernels sweep7 --sizes 4 --dtypes float64 --threads 1 --repeat 1 --batch 0.0005"
    assert run(monkeypatch, "stencil", *options.split()) == 1
    assert "NO" in capsys.readouterr().out


def test_command_writes_table_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "stencil.json"
    options = "--kernels sweep7,triad --sizes 4,5 --dtypes float32 --threads 1 --repeat 2 --batch 0.0005 --json"
    assert run(monkeypatch, "stencil", *options.split(), str(file)) == 0
    shown = capsys.readouterr().out
    assert "C/ours" in shown
    assert "triad" in shown
    [report] = results.read(file)
    assert [(row["kernel"], row["size"]) for row in report["panels"]["stencil"]] == [
        ("sweep7", 4),
        ("triad", 4),
        ("sweep7", 5),
        ("triad", 5),
    ]
    assert report["command"][:2] == ["gondwana", "bench"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("stencil --kernels sweep9", "--kernels sweep9: legal are sweep7"),
        ("stencil --dtypes float16", "--dtypes float16: legal are float64, float32"),
        ("stencil --sizes 0", "--sizes 0: give numbers of at least 1"),
        ("stencil --sizes 6x4", "--sizes 6x4: legal are whole numbers"),
        ("stencil --sizes ,", "--sizes ,: legal are whole numbers"),
        ("stencil --threads 0", "--threads 0: give numbers of at least 1"),
        ("stencil --batch 0", "--batch 0: legal is"),
        ("stencil --batch nan", "--batch nan: legal is"),
        ("stencil --json /no/such/folder/x.json", "/no/such/folder does not exist"),
        ("stencil --second-cc no-such-compiler", "no C compiler: 'no-such-compiler' is not in PATH"),
        ("stencil -n 2 --second-cc cc", "--second-cc cc: ranks compute doubles on one thread; leave out"),
        ("exchange --ranks 1", "--ranks 1: an exchange needs at least 2 ranks"),
        ("exchange --fields 0", "--fields 0: give numbers of at least 1"),
    ],
)
def test_wrong_options_are_one_line(
    options: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(build.SECOND, "")  # so that what --second-cc sets does not stay
    assert run(monkeypatch, *options.split()) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("options", ["stencil --fields 2", "exchange --threads 2", "nonsense", "kinds --ranks 2"])
def test_options_of_other_benchmarks_are_refused(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, *options.split()) == 2


def test_no_compiler_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert run(monkeypatch, "stencil") == 2
    assert "no C compiler" in capsys.readouterr().err
