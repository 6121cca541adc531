"""What `compare_versions` computes: ratios, intervals, which rounds fit, and what it takes from results."""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path

import pytest

from support import compare_versions
from support.compare_versions import compare, fits, interval, times_of


@pytest.mark.parametrize(
    ("n", "left_out", "probability"), [(1, 0, 0), (3, 0, 0.75), (5, 0, 0.9375), (6, 0, 31 / 32), (8, 0, 127 / 128)]
)
def test_few_values_give_their_range(n: int, left_out: int, probability: float) -> None:
    assert interval([3.0 + number for number in reversed(range(n))]) == (3.0, 2.0 + n, probability)


def test_values_at_the_ends_are_left_out_where_enough_remain() -> None:
    # Binomial of 10 and 1/2: at most one on a side 11 of 1024 times, at most two 56 times.
    assert interval([float(number) for number in range(10)]) == (1.0, 8.0, 1 - 22 / 1024)
    assert interval([float(number) for number in range(20)])[:2] == (5.0, 14.0)  # as in tables of the sign test


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    draw, held = random.Random(7).random, 0
    for _ in range(2000):
        low, high, probability = interval([draw() ** 3 for _ in range(9)])
        held += low <= 0.125 <= high
    assert abs(held / 2000 - probability) < 0.02


def test_rows_are_compared_round_by_round() -> None:
    old = [{"a": 1.0, "b": 2.0, "gone": 1.0}, {"a": 3.0, "b": 2.0, "gone": 1.0}] * 3
    new = [{"a": 1.1, "b": 2.0, "new": 1.0}, {"a": 3.3, "b": 1.0, "new": 1.0}] * 3
    one, other = compare("rma", old, new)
    assert (one.row, one.old[:2], one.new[:2]) == ("a", (1.0, 3.0), (1.1, 3.3))
    assert (one.ratio, one.low, one.high) == pytest.approx((1.1, 1.1, 1.1))
    assert one.marked
    assert (other.ratio, other.low, other.high, other.marked) == (0.75, 0.5, 1.0, False)


@pytest.mark.parametrize(("factor", "marked"), [(0.96, True), (0.98, False), (1.02, False), (1.04, True)])
def test_small_changes_and_those_of_few_rounds_are_not_marked(factor: float, marked: bool) -> None:
    for rounds, is_marked in ((5, False), (6, marked)):
        [row] = compare("npb", [{"MG": 2.0}] * rounds, [{"MG": 2.0 * factor}] * rounds)
        assert row.marked == is_marked


def test_a_round_that_would_end_late_does_not_begin() -> None:
    assert fits(1e9, [], 1.0)
    assert fits(60.0, [90.0, 40.0], 100.0)
    assert not fits(61.0, [20.0, 40.0], 100.0)


def test_times_of_results() -> None:
    def row(seconds: float, **words: object) -> dict[str, object]:
        return {**words, "seconds": {"median": seconds, "n": 3}, "rival_seconds": {"median": 9.0}}

    rma = [row(2.0, operation="put", rival="C", size=8), row(2.0, operation="put", rival="mpi4py", size=8)]
    rma += [row(3.0, operation="put", rival="C", size=8), {"operation": "peak", "peak_nbytes": 4}]
    assert times_of({"panels": {"rma": rma}}) == {"put 8": 2.0, "put 8 (2)": 3.0}
    heat = [{"variant": variant, "size": 16, "median": 250.0} for variant in ("C", "one-sided")]
    assert times_of({"panels": {"16^3": heat}}) == {"one-sided 16": 250e-6}
    npb = {"time": [row(1.0, benchmark="MG", variant="6msg")], "communication": [row(0.5, benchmark="MG")]}
    assert times_of({"panels": npb}) == {"MG 6msg": 1.0}


COMMAND = """#!{python}
import json, sys
assert sys.argv[1:3] == ["bench", "stencil"], sys.argv
seconds = {{"copy": {factor} * 1e-6, "sweep7": {factor} * 2e-3}}
rows = [{{"kernel": name, "size": 64, "seconds": {{"median": median}}}} for name, median in seconds.items()]
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({{"panels": {{"stencil": rows}}}}, file)
"""


def checkout(folder: Path, factor: float) -> str:
    command = folder / ".venv" / "bin" / "gondwana"
    command.parent.mkdir(parents=True)
    command.write_text(COMMAND.format(python=sys.executable, factor=factor))
    command.chmod(0o755)
    return str(folder)


def test_two_versions_in_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = checkout(tmp_path / "old", 1.0), checkout(tmp_path / "new", 1.25)
    words = ["--benchmarks", "stencil", "--rounds", "6", "--json", str(tmp_path / "found.json")]
    assert compare_versions.main([old, new, *words]) == 1
    assert compare_versions.main([new, str(tmp_path / "old" / ".venv" / "bin" / "python"), *words]) == 0
    printed = capsys.readouterr().out
    assert "stencil sweep7 64       2 ms     2.5 ms    1.250  1.250-1.250  SLOWER" in printed
    assert "6 rounds, intervals of 96.9 %" in printed
    compare_versions.main([old, new, "--benchmarks", "stencil", "--rounds", "1"])
    assert "too few rounds to mark any row" in capsys.readouterr().out
    assert "0 of 2 rows slower and 2 faster by more than 3 % beyond noise" in printed
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rounds"] == 6
    assert [row["row"] for row in found["rows"]] == ["copy 64", "sweep7 64"]
    assert statistics.median(found["rows"][1]["new"]) == 2e-3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{old}", "elsewhere"], "new version elsewhere: there is no "),
        (["{old}", "{old}", "--benchmarks", "rma,fft"], "there is no fft: legal are stencil, "),
        (["{old}", "{old}", "--rounds", "0"], "0: give a whole number from 1"),
    ],
)
def test_wrong_words(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = checkout(tmp_path, 1.0)
    with pytest.raises(SystemExit) as ended:
        compare_versions.main([word.format(old=old) for word in words])
    assert message in f"{ended.value}{capsys.readouterr().err}"
