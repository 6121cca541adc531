"""MG on several ranks: every cell and ghost against plain NumPy, and the official norms."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gondwana import results
from support import jobs, npb_mg_oracle as oracle

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "npb_mg_runs.py"
CELLS, ITERATIONS = 16, 3
MORE = pytest.mark.more


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> tuple[Path, float]:
    u, r = oracle.solve(oracle.charges(CELLS), oracle.S_A, ITERATIONS)
    file = tmp_path_factory.mktemp("mg") / "expected.npz"
    np.savez(file, u=u, r=r)
    return file, oracle.norm(r)


def cases(ranks: int) -> list[str]:
    kinds = ["plain", "pipelined"] if ranks <= 3 else ["plain"]
    ways = [("6msg", 2), ("26msg", 4)]
    return [f"{CELLS}:{ITERATIONS}:{variant}:{side}:{kind}" for variant, side in ways for kind in kinds]


def run(ranks: int, expected: tuple[Path, float], per_node: int = 0) -> None:
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, str(expected[0]), *cases(ranks), variables=variables, timeout=200)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(cases(ranks))
    for line in lines:
        assert line["ranks"] == ranks
        assert max(line["u"], line["r"]) < 1e-13, line
        assert line["norm"] == pytest.approx(lines[0]["norm"], rel=1e-12)
        assert line["norm"] == pytest.approx(expected[1], rel=1e-10)


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=MORE), pytest.param(6, marks=MORE)])
def test_cells_and_ghosts(ranks: int, expected: tuple[Path, float]) -> None:
    run(ranks, expected)


def test_between_nodes(expected: tuple[Path, float]) -> None:
    run(4, expected, per_node=2)


def test_ranks_without_work(tmp_path: Path) -> None:
    u, r = oracle.solve(oracle.charges(4), oracle.S_A, 2)
    np.savez(tmp_path / "small.npz", u=u, r=r)
    outcome = jobs.run_ranks(3, PROGRAM, str(tmp_path / "small.npz"), "4:2:6msg:4:pipelined")
    assert outcome.status == 0, str(outcome)
    line = json.loads(outcome.stdout.splitlines()[-1])
    assert line["ranks"] == 1
    assert max(line["u"], line["r"]) < 1e-13


@pytest.mark.parametrize(
    ("letter", "ranks", "variant"),
    [
        ("S", 3, "26msg"),
        ("W", 2, "6msg"),
        pytest.param("W", 4, "26msg", marks=MORE),
        pytest.param("A", 1, "6msg", marks=MORE),
        pytest.param("A", 2, "26msg", marks=MORE),
        pytest.param("A", 4, "6msg", marks=MORE),
    ],
)
def test_official_norms(letter: str, ranks: int, variant: str, tmp_path: Path) -> None:
    result = application(tmp_path, letter, ranks, "--variant", variant)
    assert result["verified"] is True
    assert result["error"] < 1e-11
    assert (result["app"], result["class"], result["ranks"], result["active"]) == ("npb-mg", letter, ranks, ranks)
    assert result["mops"] > 0


def test_timers_by_section(tmp_path: Path) -> None:
    result = application(tmp_path, "S", 2, variables={"NPB_TIMER_FLAG": "on"})
    assert result["verified"] is True
    assert result["pipelined"] is False
    names = ["total", "init", "psinv", "resid", "rprj3", "interp", "norm2u3", "comm3", "rcomm", "totcomp", "totcomm"]
    assert list(result["sections"]) == names
    assert all(result["sections"][name]["maximum"] > 0 for name in names)


def application(tmp_path: Path, letter: str, ranks: int, *options: str, variables=None) -> dict:
    file = tmp_path / "result.json"
    command = ["run", "-n", str(ranks), "-t", "1", "npb-mg", "--class", letter, "--json", str(file), *options]
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *command], timeout=200, variables=variables)
    assert outcome.status == 0, str(outcome)
    return results.read(file)[0]
