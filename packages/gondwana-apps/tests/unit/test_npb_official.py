"""`gondwana bench npb`: which official programs are found, what is read from them, and what the rows say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gondwana.cli import launch
from gondwana.errors import UsageError
from gondwana_bench.npb import binaries, comparison as npb
from gondwana_bench.npb.jobs import Finished, Job, run

OUTPUT = """
 MG Benchmark Completed.
 Class           =                        A
 Time in seconds =                     0.91
 Total processes =                        2
 Mop/s total     =                  4277.25
 Verification    =               SUCCESSFUL

 nprocs =     2           minimum     maximum     average
 timer  8(comm3   ) :      0.0003      0.0005      0.0004
 timer 11( totcomm) :      0.0003      0.0007      0.0005
"""


def finished(output: str, status: int = 0, errors: str = "") -> Finished:
    return Finished(status, output, errors, 2**20, 2**19)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("mg.A.x", "mg.S.x", "ft.A", "mg.A.x.txt", "readme"):
        (tmp_path / name).touch(mode=0o755)
    (tmp_path / "cg.A.x").touch(mode=0o644)
    return tmp_path


def test_programs_are_found_by_their_names(folder: Path) -> None:
    found = binaries.find(folder, ["mg", "ft", "cg"], ["S", "A"], all_=False)
    assert {key: path.name for key, path in found.items()} == {
        ("mg", "S"): "mg.S.x", ("mg", "A"): "mg.A.x", ("ft", "A"): "ft.A"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("benchmarks", "classes", "all_", "expected"),
    [
        (["mg"], ["A", "B"], True, "mg.B.x is not there; there are ft.A, mg.A.x, mg.S.x"),
        (["cg"], ["S", "A"], False, "cg.S.x, cg.A.x is not there"),
    ],
)
def test_missing_programs_are_named(
    benchmarks: list[str], classes: list[str], all_: bool, expected: str, folder: Path
) -> None:
    with pytest.raises(UsageError, match=expected):
        binaries.find(folder, benchmarks, classes, all_=all_)


def test_folders_without_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no program of NPB is there"):
        binaries.find(tmp_path, ["mg"], ["S"], all_=False)
    with pytest.raises(UsageError, match="there is no such folder"):
        binaries.find(tmp_path / "nowhere", ["mg"], ["S"], all_=False)


def test_output_is_read() -> None:
    official = binaries.read(finished(OUTPUT), "mg.A.x", 2)
    assert official == binaries.Official(4277.25, True, 0.0005, 2**20, 2**19)
    wrong = binaries.read(finished(OUTPUT.replace("  SUCC", "UNSUCC").split("nprocs")[0]), "mg.A.x", 2)
    assert (wrong.verified, wrong.communication) == (False, None)


@pytest.mark.parametrize(
    ("output", "ranks", "expected"),
    [
        (finished(OUTPUT), 4, "ran on 2 processes instead of 4: if it was built with another MPI"),
        (finished("what\nis this\n"), 2, "mg.A.x is no program of NPB, or failed: what | is this"),
        (finished(OUTPUT.replace("4277.25", "0.00")), 2, "took no time that its clock could measure"),
        (finished("", 7, "a\nb\nc\nno memory\n------\n"), 2, "ended with status 7: b | c | no memory; if it was built"),
        (finished("", 7), 2, "ended with status 7: it printed nothing"),
    ],
)
def test_programs_that_fail_are_named_with_their_last_lines(output: Finished, ranks: int, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        binaries.read(output, "mg.A.x", ranks)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="/no/such/mpirun cannot be started"):
        run(Job(["/no/such/mpirun"], os.environ, lambda command: True))


def test_memory_of_ranks_is_watched() -> None:
    words = [sys.executable, "-c", "import time; data = bytearray(50 * 2**20); time.sleep(0.3); print('done')"]
    ended = run(Job(words, os.environ, lambda command: command[0] == sys.executable), with_peak_memory=True)
    assert (ended.status, ended.output) == (0, "done\n")
    assert ended.peak_rss is not None
    assert ended.peak_memory is not None
    assert 50 * 2**20 < ended.peak_memory < ended.peak_rss < 150 * 2**20
    unknown = run(Job(words, os.environ, lambda command: False))
    assert (unknown.peak_rss, unknown.peak_memory) == (None, None)


def test_programs_are_started_by_our_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = launch.native(1, ["mg.A.x"], {"NPB_TIMER_FLAG": "1"})
    assert alone.argv == ("mg.A.x",)
    assert alone.variables == {"OMP_NUM_THREADS": "1", "NPB_TIMER_FLAG": "1"}
    monkeypatch.setattr(launch, "mpi_library", lambda python: launch.Library("Open MPI", "5", "libmpi.so"))
    monkeypatch.setattr(launch, "find_launcher", lambda library, python: "mpirun")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    together = launch.native(3, ["mg.A.x"], {})
    assert together.argv[:3] == ("mpirun", "-n", "3")
    assert together.argv[-1] == "mg.A.x"


def measured(monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of two numbers of ranks and two variants, where ours runs twice as fast and as `ours` says."""

    def fake(job: Job, *, with_peak_memory: bool) -> Finished:
        words = list(job.argv)
        timers = job.environment["NPB_TIMER_FLAG"] == "1"
        if words[0] == "official":
            text = OUTPUT if timers else OUTPUT.split(" nprocs")[0]
            return finished(text.replace("        2\n", f"        {words[1]}\n"))
        communicating = {"totcomm": {"minimum": 0.01, "maximum": 0.03, "average": 0.02}} if timers else {}
        result = {
            "seconds": 3892.3 / 8554.5, "mops": 8554.5, "verified": True, "sections": communicating, "value": 1.0,
            "error": 0.0, "lines": {}, **ours,
        }  # fmt: skip
        Path(words[-1]).write_text(json.dumps(result))
        return finished("")

    def official(ranks: int, program: Path, variables: Mapping[str, str]) -> Job:
        return Job(["official", str(ranks)], variables, lambda command: True)

    monkeypatch.setattr(npb, "run", fake)
    cases = [npb.Case("mg", "A", ranks, ("6msg", "26msg"), Path("mg.A.x")) for ranks in (1, 2)]
    return list(npb.measure(cases, official, repeat=3))


def test_rows_compare_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measured(monkeypatch, {})
    assert [(row["ranks"], row["variant"]) for row in rows] == [
        (1, "6msg"), (1, "26msg"), (2, "6msg"), (2, "26msg")
    ]  # fmt: skip
    row = rows[0]
    assert (row["time_ratio"], row["ratio"]) == pytest.approx((0.5, 2.0))
    assert row["official_median"] == pytest.approx(3892.3 / 4277.25)
    assert (row["memory_ratio"], row["rss_ratio"]) == (1.0, 1.0)
    assert (row["communication"], row["official_communication"]) == (0.02, 0.0005)
    assert row["share"] == pytest.approx(0.02 / row["median"])  # the runs with timers took as long
    assert len(row["samples"]) == len(row["official_samples"]) == 3
    assert row["verified"]
    assert all(key in row for key in (*npb.TIME, *npb.COMMUNICATION))
    assert len(npb.communication(rows)) == 4


def test_scaling_counts_from_the_fewest_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = npb.scaling(measured(monkeypatch, {}))
    assert [(row["variant"], row["ranks"], round(row["speedup"], 9)) for row in table] == [
        ("26msg", 1, 1.0), ("26msg", 2, 1.0), ("6msg", 1, 1.0), ("6msg", 2, 1.0)
    ]  # fmt: skip
    assert all(key in table[0] for key in npb.SCALING)
    assert npb.scaling(table[:1]) == []


def test_what_is_not_verified_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measured(monkeypatch, {"verified": False})
    assert not any(row["verified"] for row in rows)
    assert all(row["official_verified"] and not row["ours_verified"] for row in rows)
