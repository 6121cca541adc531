"""HPCG on several ranks: runs from the command line to the result file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gondwana import results
from support import jobs

pytestmark = pytest.mark.parallel

KEYS = Path(__file__).parent / "programs" / "hpcg_keys.txt"
"""All keys of the official result file in their order, for one height of ranks and the quick path."""


@pytest.mark.more
@pytest.mark.parametrize(("ranks", "side", "residual"), [(1, 32, "1.02983e-20"), (4, 16, "6.20367e-25")])
def test_the_reference_has_the_residual_of_the_official_program(
    ranks: int, side: int, residual: str, tmp_path: Path
) -> None:
    """As compiled with -ffp-contract=off; with fused additions, rounding gives other digits after 50 iterations.

    So does another order of sums: on 4 ranks it had an MPI_Allreduce that adds in the order of the ranks, as ours does.
    With Open MPI's own, which adds in pairs, it has 6.2037e-25.
    """
    words = ["run", "-n", str(ranks), "-t", "1", "hpcg", f"--nx={side}", "--rt=0", "--json=result.json"]
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], timeout=200, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    result = results.read(tmp_path / "result.json")[0]
    assert f"{result['scaled_residual_reference']:.6g}" == residual


def test_a_run_writes_every_official_key(tmp_path: Path) -> None:
    words = ["run", "-n", "2", "hpcg", "--nx", "16", "--ny", "16", "--nz", "16", "--rt", "0", "--json", "result.json"]
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], timeout=200, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    assert "VALID: " in outcome.stdout
    (official,) = tmp_path.glob("HPCG-Benchmark_3.1_*.txt")
    lines = official.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "HPCG-Benchmark"
    assert [line.partition("=")[0] for line in lines[1:]] == KEYS.read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines[1:])
    result = results.read(tmp_path / "result.json")[0]
    rating = values["Final Summary::HPCG result is VALID with a GFLOP/s rating of"]
    assert rating == f"{result['rating_gflops']:.6g}"
    assert values["Machine Summary::Distributed Processes"] == "2"
    assert values["Global Problem Dimensions::Global nx"] == "32"
    assert values["Linear System Information::Number of Nonzero Terms"] == str(94 * 46 * 46)
    assert result.keys() >= {
        "app", "ranks", "threads", "local", "valid", "verified", "rating_gflops", "raw_gflops", "iterations_reference",
        "iterations_optimised", "bandwidth_gb_s", "seconds",
    }  # fmt: skip
    assert (result["app"], result["ranks"], result["valid"], result["verified"]) == ("hpcg", 2, True, True)
    assert f"{result['scaled_residual_reference']:.6g}" == "7.53688e-32"  # the official program's, too
    (log,) = tmp_path.glob("hpcg2*.txt")
    text = log.read_text(encoding="utf-8")
    assert len(re.findall(r"^Call \[\d+\] Number of Iterations \[\d+\] Scaled Residual \[", text, re.M)) == 4
    assert text.count("SpMV call [") == 2
