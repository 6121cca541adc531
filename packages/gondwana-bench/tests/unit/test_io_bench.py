"""`gondwana bench io`: what is made of the jobs, files, what is refused; and one short run."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.command import bench
from gondwana_bench.io import bandwidth
from gondwana_bench.rows import Row
from support import jobs

pytest.importorskip("adios2")


def profiles() -> set[Path]:
    """What plain readers of ADIOS2 leave behind, under names that others can foresee, wherever temporary files are."""
    return set(Path("/tmp").glob("rank-*.bp_*_profiling.json"))


def job(ranks: int, ours: float, plain: float, *, verified: bool = True) -> Row:
    def way(seconds: float) -> Row:
        parts = {"open": 0.5, "write": seconds, "sync": 2 * seconds, "read": seconds / 2}
        return {**parts, "verified": verified}

    ways = {"one dataset": way(ours), "a file a rank": way(plain)}
    return {"ranks": ranks, "nbytes": ranks * 8 * 2**20, "ways": ways}


def test_bandwidth_and_its_ratio_to_plain_adios2() -> None:
    rows = bandwidth.rows([job(2, 4.0, 2.0), job(1, 1.0, 1.0), job(2, 4.0, 1.0), job(1, 1.0, 1.0, verified=False)])
    assert [(row["ranks"], row["way"]) for row in rows] == [
        (ranks, way) for ranks in (1, 2) for way in ("one dataset", "a file a rank")
    ]
    ours, plain = rows[2:]
    assert (ours["mib"], ours["write"], ours["sync"], ours["read"]) == (16.0, 4.0, 2.0, 8.0)
    assert plain["write"] == pytest.approx(16 / 1.5)
    assert (ours["write_ratio"], ours["read_ratio"], plain["write_ratio"]) == (0.375, 0.375, None)
    assert [row["verified"] for row in rows] == [False, False, True, True]


def test_csv_and_picture(tmp_path: Path) -> None:
    rows = bandwidth.rows([job(1, 4.0, 2.0), job(100_000, 4.0, 2.0)])
    assert [row["beyond_cores"] for row in rows] == [False, False, True, True]
    table = list(csv.DictReader(bandwidth.as_csv(rows).splitlines()))
    assert [float(line["sync_s"]) for line in table] == [8.0, 4.0, 8.0, 4.0]
    pytest.importorskip("matplotlib")
    bandwidth.draw(rows, str(tmp_path / "out.png"))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--ranks", "two"], "--ranks two: legal are whole numbers"),
        (["--ranks", "99999"], "--ranks 99999: 99999 ranks of 1 thread"),
        (["--size", "4096", "--steps", "1000"], "--size 4096: 1000 steps of 4 ranks need"),
        (["--folder", "nowhere"], "--folder nowhere: there is no such folder"),
        (["--csv", "nowhere/x.csv"], "nowhere"),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], part: str) -> None:
    outcome = CliRunner().invoke(bench, ["io", *words])
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, UsageError)
    assert part in str(outcome.exception)


@pytest.mark.parallel
@pytest.mark.usefixtures("mpi4py_there")
def test_what_ranks_write_they_read(tmp_path: Path) -> None:
    words = ["--ranks", "1,2", "--size", "8", "--steps", "3", "--jobs", "1", "--json", "out.json"]
    argv = [sys.executable, "-m", "gondwana.cli.main", "bench", "io", *words]
    before = profiles()
    outcome = jobs.run_command(argv, timeout=280, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    assert profiles() == before
    report = results.read(tmp_path / "out.json")[0]
    assert report["notes"][0].startswith("adios2 ")
    [rows] = report["panels"].values()
    assert [(row["ranks"], row["mib"]) for row in rows] == [(n, n * 3 * 8**3 * 8 / 2**20) for n in (1, 1, 2, 2)]
    assert all(row["verified"] and min(row["open"], row["write"], row["sync"], row["read"]) > 0.0 for row in rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json"]
