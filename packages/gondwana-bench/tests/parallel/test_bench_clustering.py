"""`gondwana bench clustering` as a command: both applications on ranks, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gondwana import results
from gondwana_bench.cli.bench.command import bench
from support import jobs

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there")]


def test_patterns_are_run_and_compared(tmp_path: Path) -> None:
    words = ["--app", "pwc", "--points", "200", "--patterns", "2x1x2", "--repeat", "1", "--json", "out.json"]
    argv = [sys.executable, "-m", "gondwana.cli.main", "bench", "clustering", *words]
    outcome = jobs.run_command(argv, timeout=400, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    report = results.read(tmp_path / "out.json")[0]
    assert report["complete"] is True
    assert "pwc: 200 points in 8 clusters" in outcome.stdout
    one, four = report["panels"]["pwc, speed-up"]
    assert (one["pattern"], one["node_kind"], one["remarks"]) == ("1x1x1", "one", "")
    assert (four["pattern"], four["ranks"], four["node_kind"]) == ("2x1x2", 2, "pretended")
    assert one["clusters"] == four["clusters"] == 8
    assert one["ari"] == four["ari"] == 1.0
    assert one["digest"] == four["digest"]
    assert one["labels"] == four["labels"] == "same"
    assert four["efficiency"] == pytest.approx(four["speedup"] / 4)
    assert min(four[f"seconds_{part}"] for part in ("allreduce", "eigen_send_receive", "splitting")) > 0.0
    assert [row["ranks"] for row in report["panels"]["pwc, means over PxN"]] == [1, 2]
    assert [row["parallelism"] for row in report["panels"]["pwc, means over TxPxN"]] == [1, 4]
    assert report["panels"]["pwc, beside scikit-learn"][0]["program"] == "ours, 1x1x1"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--app", "hpcg"], "--app hpcg: legal are davs, pwc"),
        (["--app", "pwc", "--preset", "tiny"], "--preset tiny: only davs has this"),
        (["--app", "davs", "--points", "500"], "--points 500: only pwc has this"),
        (["--preset", "huge"], "--preset huge: legal are tiny"),
        (["--patterns", "1x1"], "--patterns 1x1: legal are"),
        (["--patterns", "999999x1x1"], "--patterns 999999x1x1: 1 rank of 999999 threads: more than 8 threads"),
        (["--json", "nowhere/out.json"], "nowhere"),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], part: str) -> None:
    outcome = CliRunner().invoke(bench, ["clustering", *words])
    assert outcome.exit_code != 0
    assert part in str(outcome.exception)
