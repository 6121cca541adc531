"""`gondwana bench clustering` as a command: both applications on ranks, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gondwana.cli.bench.command import bench
from support import jobs

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there")]


def test_both_are_run_and_compared(tmp_path: Path) -> None:
    words = ["--preset", "tiny", "--points", "200", "--patterns", "1x1x2", "--repeat", "1", "--json", "out.json"]
    argv = [sys.executable, "-m", "gondwana.cli.main", "bench", "clustering", *words]
    outcome = jobs.run_command(argv, timeout=400, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["complete"] is True
    for app, points in (("davs", 20), ("pwc", 8)):
        one, two = report["panels"][f"{app}, speed-up"]
        assert (one["pattern"], two["pattern"], two["ranks"], two["simulated"]) == ("1x1x1", "1x1x2", 2, True)
        assert one["clusters"] == two["clusters"] == points
        assert one["ari"] == two["ari"] == 1.0
        assert one["digest"] == two["digest"]
        assert two["labels"] == "same"
        assert two["seconds_allreduce"] > 0.0
        assert two["efficiency"] == pytest.approx(two["speedup"] / 2)
        assert [row["ranks"] for row in report["panels"][f"{app}, means over PxN"]] == [1, 2]
        assert [row["parallelism"] for row in report["panels"][f"{app}, means over TxPxN"]] == [1, 2]
        assert report["panels"][f"{app}, beside scikit-learn"][0]["program"] == "ours, 1x1x1"
    assert report["panels"]["pwc, speed-up"][1]["seconds_eigen_send_receive"] > 0.0


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
