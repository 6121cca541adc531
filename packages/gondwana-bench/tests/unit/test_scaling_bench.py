"""`gondwana bench scaling`: problems, statistics, files, what is refused; and one short run of four applications."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.command import bench
from gondwana_bench.scaling import steps
from gondwana_bench.scaling.applications import APPLICATIONS, Problem, Size, grow
from gondwana_bench.scaling.steps import Case, Run
from support import jobs


def run(seconds: float, *, verified: bool | None = True, value: float | None = None) -> Run:
    return Run({"min": seconds / 2, "median": 0.75 * seconds, "max": seconds}, verified, value)


def case(kind: str, ranks: int, cells: int, words: tuple[str, ...] = ("heat",)) -> Case:
    return Case(APPLICATIONS["heat"], kind, ranks, Problem(words, cells, f"{cells} cells"))


def problem(app: str, kind: str, edge: int, ranks: int, folder: Path) -> Problem:
    return APPLICATIONS[app].problem(kind, Size(edge, 5, "W", folder), ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 12])
def test_a_weak_box_has_a_cube_for_each_rank(ranks: int) -> None:
    shape = grow(5, ranks)
    assert math.prod(shape) == ranks * 125
    assert all(side % 5 == 0 for side in shape)


def test_problems_of_each_kind(tmp_path: Path) -> None:
    strong, weak = (problem("heat", kind, 16, 8, tmp_path) for kind in ("strong", "weak"))
    assert (strong.text, weak.text) == ("16x16x16", "64x32x16")
    assert strong.words[:7] == ("heat", "-X", "16", "-Y", "16", "-Z", "16")
    weak = problem("gray-scott", "weak", 10, 8, tmp_path)
    assert (weak.cells, json.loads(Path(weak.words[1]).read_text())["L"]) == (8000, 20)
    strong, weak = (problem("hpcg", kind, 64, 4, tmp_path) for kind in ("strong", "weak"))
    assert (strong.text, weak.text) == ("64x64x64", "128x128x64")
    assert strong.words[:7] == ("hpcg", "--nx", "32", "--ny", "32", "--nz", "64")
    with pytest.raises(UsageError, match="--size 24: hpcg divides this cube over 2 ranks"):
        problem("hpcg", "strong", 24, 2, tmp_path)


def test_efficiency_compares_the_work_of_a_rank_and_second() -> None:
    strong = {case("strong", 1, 64): [run(4.0), run(8.0)], case("strong", 2, 64): [run(2.0), run(5.0)]}
    one, two = steps.rows("strong", strong)
    assert (one["efficiency"], two["efficiency"]) == (1.0, pytest.approx((4 / 4 + 8 / 10) / 2))
    assert (two["min"], two["median"], two["max"], two["slowest_over_fastest"]) == (1.75, 2.625, 3.5, 2.0)
    assert two["first_seconds_max"] is None
    # The second box is a little smaller than twice the first.
    weak = {case("weak", 2, 120): [run(5.0)], case("weak", 1, 64): [run(4.0)]}
    assert [row["ranks"] for row in steps.rows("weak", weak)] == [1, 2]
    assert steps.rows("weak", weak)[1]["efficiency"] == pytest.approx((120 / 2 / 5) / (64 / 4))


def test_other_values_and_failed_verification_are_reported() -> None:
    runs = {
        case("strong", 1, 64): [run(1.0, value=7.0)],
        case("strong", 2, 64): [run(1.0, value=7.0 * (1 + 1e-8))],
        case("strong", 4, 64, ("other",)): [run(1.0, value=9.0, verified=False)],
        case("strong", 8, 64, ("third",)): [run(1.0, verified=None)],
    }
    assert [row["verified"] for row in steps.rows("strong", runs)] == [False, False, False, True]


def test_csv_and_picture(tmp_path: Path) -> None:
    runs = {case(kind, ranks, 64): [run(1.0), run(2.0)] for kind in ("strong", "weak") for ranks in (1, 100_000)}
    rows = [row for kind in ("strong", "weak") for row in steps.rows(kind, runs)]
    assert [row["beyond_cores"] for row in rows] == [False, True, False, True]
    table = list(csv.DictReader(steps.as_csv(rows).splitlines()))
    assert len(table) == 8
    assert (table[1]["kind"], table[1]["job"], float(table[1]["max_s"])) == ("strong", "1", 2.0)
    pytest.importorskip("matplotlib")
    steps.draw(rows, str(tmp_path / "out.png"))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["davs"], "bench scaling davs: legal are heat, gray-scott"),
        (["heat", "--kind", "both"], "--kind both: legal are strong, weak"),
        (["npb-cg", "--kind", "weak"], "--kind weak: npb-cg has strong scaling only"),
        (["npb-cg", "--size", "16"], "--size 16: npb-cg has no such option"),
        (["hpcg", "--steps", "16"], "--steps 16: hpcg has no such option"),
        (["heat", "--class", "S"], "--class S: heat has no such option"),
        (["npb-mg", "--class", "SW"], "--class SW: legal are S, W"),
        (["heat", "--ranks", "0,2"], "--ranks 0,2: legal are whole numbers from 1"),
        (["heat", "--ranks", "1,99999"], "--ranks 1,99999: 99999 ranks of 1 thread"),
        (["heat", "--size", "100000"], "of memory"),
        (["heat", "--plot", "nowhere/x.png"], "nowhere"),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], part: str) -> None:
    outcome = CliRunner().invoke(bench, ["scaling", *words])
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, UsageError)
    assert part in str(outcome.exception)


@pytest.mark.parallel
@pytest.mark.usefixtures("mpi4py_there")
@pytest.mark.parametrize(
    "apps", [["gray-scott", "npb-mg"], pytest.param(["heat", "hpcg"], marks=pytest.mark.more)], ids="-".join
)
def test_applications_are_run(apps: list[str], tmp_path: Path) -> None:
    words = ["--ranks", "2", "--kind", "strong", "--size", "32", "--steps", "2", "--jobs", "1"]
    words += ["--class", "S"] if "npb-mg" in apps else []
    argv = [sys.executable, "-m", "gondwana.cli.main", "bench", "scaling", *apps, *words, "--json", "out.json"]
    outcome = jobs.run_command(argv, timeout=280, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    report = results.read(tmp_path / "out.json")[0]
    assert list(report["panels"]) == [f"{app}, strong" for app in apps]
    for [row] in report["panels"].values():
        assert (row["ranks"], row["jobs"], row["efficiency"], row["verified"]) == (2, 1, 1.0, True)
        assert 0.0 < row["min"] <= row["median"] <= row["max"]
        assert row["slowest_over_fastest"] == pytest.approx(row["max"] / row["min"])
        if row["app"] == "gray-scott":
            assert 0.0 < row["first_seconds_min"] <= row["first_seconds_median"] <= row["first_seconds_max"]
