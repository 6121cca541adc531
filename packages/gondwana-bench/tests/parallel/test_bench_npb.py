"""`gondwana bench npb` beside a program that prints what an official one prints, and what it refuses."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = """#!{python}
import os
import sys
import time
ranks = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or "1"
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
time.sleep(0.1)
if rank == "0":
    print(" Time in seconds =                     0.01")
    print(" Total processes =  ", ranks)
    print(" Mop/s total     =                   760.22")
    print(" Verification    =              {verdict}")
    if os.environ.get("NPB_TIMER_FLAG") == "1":
        print(" timer 11( totcomm) :      0.0003      0.0007      0.0005")
{more}
"""


def official(folder: Path, verdict: str = "  SUCCESSFUL", more: str = "") -> Path:
    """A folder with a program that takes the part of an official MG."""
    folder.mkdir(exist_ok=True)
    program = folder / "mg.S.x"
    program.write_text(PROGRAM.format(python=sys.executable, verdict=verdict, more=more))
    program.chmod(0o755)
    return folder


def bench(folder: Path, options: str, file: Path | None = None) -> jobs.Outcome:
    words = ["bench", "npb", "--against", str(folder), "--repeat", "1", *shlex.split(options)]
    words += ["--json", str(file)] if file else []
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], timeout=120)


@pytest.mark.usefixtures("mpi4py_there")
def test_both_run_on_the_same_ranks_and_are_compared(tmp_path: Path) -> None:
    file = tmp_path / "npb.json"
    done = bench(official(tmp_path / "bin"), "--benchmarks mg --ranks 1,2", file)
    assert done.status == 0, str(done)
    assert all(text in done.stdout for text in ("official/ours", "npb, communication", "npb, scaling"))
    report: dict[str, Any] = results.read(file)[0]
    assert report["complete"]
    for ranks, row in zip((1, 2), report["panels"]["time"], strict=True):
        assert (row["benchmark"], row["class"], row["ranks"], row["variant"]) == ("MG", "S", ranks, "6msg")
        assert row["verified"]
        assert row["official_median"] == pytest.approx(7.602176 / 760.22)
        assert row["time_ratio"] == pytest.approx(row["median"] / row["official_median"])
        assert row["ratio"] == pytest.approx(1.0 / row["time_ratio"])
        assert row["peak_rss"] > row["official_peak_rss"] > 2**20 * ranks
        assert row["peak_memory"] > 2**20
        assert (row["communication"] > 0, row["official_communication"]) == (True, 0.0005)
    assert [row["official_speedup"] for row in report["panels"]["scaling"]] == pytest.approx([1.0, 1.0])


def test_without_official_programs_ours_are_measured_alone(tmp_path: Path) -> None:
    file = tmp_path / "npb.json"
    words = shlex.split("bench npb --benchmarks mg --classes S --ranks 1,2 --repeat 1 --json")
    done = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words, str(file)], timeout=120)
    assert done.status == 0, str(done)
    assert "no official programs to compare with" in done.stderr
    [found] = results.read(file)
    assert all(
        row["median"] > 0.0 and row["official_median"] is row["ratio"] is None for row in found["panels"]["time"]
    )
    assert [row["official_speedup"] for row in found["panels"]["scaling"]] == [None, None]


def test_all_variants_run_side_by_side_and_a_wrong_result_is_said(tmp_path: Path) -> None:
    file = tmp_path / "npb.json"
    done = bench(official(tmp_path, "UNSUCCESSFUL"), "--benchmarks mg --ranks 1 --variants", file)
    assert done.status == 1, str(done)
    rows = results.read(file)[0]["panels"]["time"]
    assert [row["variant"] for row in rows] == ["6msg", "26msg"]
    assert all(row["ours_verified"] and not row["official_verified"] and not row["verified"] for row in rows)
    assert "NO" in done.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--benchmarks lu", "--benchmarks lu: legal are mg, ft, cg"),
        ("--benchmarks mg --classes B", "mg.B.x is not there; there are mg.S.x"),
        ("--ranks 0", "--ranks 0: legal are whole numbers from 1"),
        ("--ranks two", "--ranks two: legal are whole numbers"),
        ("--mpirun /no/such/mpirun --ranks 1", "--mpirun /no/such/mpirun: there is no such command"),
        (
            "--mpirun 'env N={ranks}' --ranks 2",
            "mg.S.x ran on 1 processes instead of 2: if it was built with another MPI",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(options: str, expected: str, tmp_path: Path) -> None:
    done = bench(official(tmp_path), options)
    assert done.status == 2, str(done)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("gondwana: error: ")]
    assert expected in line


def test_a_program_that_fails_is_named_with_its_last_lines(tmp_path: Path) -> None:
    done = bench(official(tmp_path, more="sys.exit('no such luck')"), "--ranks 1")
    assert done.status == 2, str(done)
    assert "error: mg.S.x ended with status 1: no such luck" in done.stderr
