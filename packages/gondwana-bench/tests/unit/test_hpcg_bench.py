"""`gondwana bench hpcg` beside a program that stands for an official one."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench import hpcg
from support import jobs

STAND_IN = """#!{python}
# Writes what an official program would, for the points a side and seconds that it was told.
import sys
words = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
side = int(words["nx"])
assert words["rt"] == "0" and len(words) == 4
open("HPCG-Benchmark_3.1_2026-01-01_00-00-00.txt", "w").write(f'''HPCG-Benchmark
version=3.1
Machine Summary::Distributed Processes={ranks}
Processor Dimensions::npx=1
Processor Dimensions::npy=1
Processor Dimensions::npz=1
Linear System Information::Number of Nonzero Terms={{(3 * side - 2) ** 3}}
Iteration Count Information::Total number of optimized iterations=50
Benchmark Time Summary::DDOT=0.001
Benchmark Time Summary::WAXPBY=0.001
Benchmark Time Summary::SpMV=0.01
Benchmark Time Summary::MG=0.1
Benchmark Time Summary::Total=0.112
Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.5
''')
"""


def stand_in(folder: Path, ranks: int = 1) -> Path:
    path = folder / "xhpcg"
    path.write_text(STAND_IN.format(python=sys.executable, ranks=ranks))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def bench(folder: Path, *words: str) -> jobs.Outcome:
    argv = [sys.executable, "-m", "gondwana.cli.main", "bench", "hpcg", *words]
    return jobs.run_command(argv, timeout=100, cwd=folder)


def test_both_are_run_and_compared(tmp_path: Path) -> None:
    words = ["--against", str(stand_in(tmp_path)), "--sizes", "16", "-n", "1", "--rt", "0", "--repeat", "2"]
    outcome = bench(tmp_path, *words, "--json", "out.json")
    assert outcome.status == 0, str(outcome)
    report = json.loads((tmp_path / "out.json").read_text())
    (row,) = report["panels"]["rating"]
    assert report["complete"] is True
    assert (row["size"], row["ranks"], row["verified"], row["official_rating"]) == (16, 1, True, 1.5)
    assert row["official_milliseconds"] == pytest.approx(2.24)
    assert row["cycle"] > 0.0
    assert row["of_triad"] == pytest.approx(row["bandwidth_gb_s"] / row["triad_gb_s"])
    assert 0.1 < row["triad_gb_s"] < 10_000.0
    assert len(row["samples"]) == len(row["official_samples"]) == 2
    assert row["ratio"] == pytest.approx(row["rating"] / 1.5, rel=0.5)
    assert list(tmp_path.glob("HPCG*")) == []


def test_without_an_official_program_ours_is_measured_alone(tmp_path: Path) -> None:
    outcome = bench(tmp_path, "--sizes", "16", "-n", "1", "--rt", "0", "--repeat", "1", "--json", "out.json")
    assert outcome.status == 0, str(outcome)
    assert "no official program to compare with" in outcome.stderr
    [report] = results.read(tmp_path / "out.json")
    [row] = report["panels"]["rating"]
    assert row["rating"] > 0.0
    assert [row[key] for key in ("official_rating", "ratio", "cycle", "official_milliseconds")] == [None] * 4


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--against", "nothing"], "there is no such program"),
        (["--against", "xhpcg", "--sizes", "17"], "nx is 17"),
        (["--against", "xhpcg", "-n", "11"], "the grid of 11 ranks"),
        (["--against", "xhpcg", "-n", "0"], "legal are whole numbers from 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, words: list[str], part: str) -> None:
    stand_in(tmp_path)
    outcome = bench(tmp_path, *words)
    assert outcome.status == 2, str(outcome)
    assert part in outcome.stderr


def test_another_problem_and_a_failure_are_seen(tmp_path: Path) -> None:
    other = stand_in(tmp_path, ranks=2)

    def official(ranks: int, words: list[str]) -> hpcg.Command:
        return [str(other), *words], {}

    with pytest.raises(UsageError, match="Distributed Processes 2 and ours 1"):
        list(hpcg.measure([(16, 1)], official, seconds=0, repeat=1))
    with pytest.raises(UsageError, match="0 result files"):
        hpcg.run(([sys.executable, "-c", "raise SystemExit(3)"], {}), "official")
    with pytest.raises(UsageError, match="cannot be started"):
        hpcg.run((["/nowhere/xhpcg"], {}), "official")
