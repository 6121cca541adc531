"""`gondwana bench fib` on one rank: every result is checked, and wrong options are one line."""

from __future__ import annotations

import sys

import pytest

import gondwana as gw
from gondwana.cli.main import main
from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.fibonacci import loops, recursion
from gondwana_bench.fibonacci.recursion import Calls

pytestmark = pytest.mark.usefixtures("c_compiler")


def test_one_rank_calls_and_spawns_nothing() -> None:
    rows = list(recursion.measure(gw.world, numbers=[0, 7], repeat=2, batch_seconds=1e-4))
    assert [(row["case"], row["n"], row["rival"]) for row in rows] == [
        ("call", n, rival) for n in (0, 7) for rival in ("C", "Python")
    ]
    assert all(row["verified"] and row["ranks"] == 1 for row in rows)
    assert all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows)
    assert all(set(recursion.COLUMNS) <= set(row) for row in rows)


def test_a_second_compiler_is_one_more_rival(second_compiler: str) -> None:
    rows = list(recursion.measure(gw.world, numbers=[7], repeat=1, batch_seconds=1e-4))
    assert [(row["rival"], row["compiler"]) for row in rows] == [
        ("C", build.compilers()[build.FIRST]),
        (f"C, {second_compiler}", second_compiler),
        ("Python", None),
    ]
    assert all(row["verified"] for row in rows)


def test_all_means_find_the_same_numbers() -> None:
    known = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
    for n, number in enumerate(known):
        pair = Calls(n).pair
        in_c = [recursion._in_c("C", f"fibonacci_{what}", pair)["C"](3) for what in ("calls", "threads")]
        sums = (loops.total(pair, 3), *in_c)
        assert sums == (3 * number,) * 3
        assert loops.compiled(n) == loops.interpreted(n) == recursion._by_addition(n) == number


def test_another_number_is_noticed() -> None:
    calls = Calls(10)
    for name, number in (("right", 55), ("wrong", 54)):
        calls.timed(name, lambda count, number=number: count * number)(3)
    assert calls.wrong == {"wrong"}
    samples = {"ours": [1.0], "right": [2.0], "wrong": [3.0]}
    assert [row["verified"] for row in recursion.rows("call", 10, 1, samples, calls.wrong)] == [True, False]
    assert not any(row["verified"] for row in recursion.rows("call", 10, 1, samples, {"ours"}))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--numbers 41", "--numbers 41: legal are numbers from 0 to 40"),
        ("--numbers -1", "--numbers -1: legal are whole numbers"),
        ("--numbers ten", "--numbers ten: legal are whole numbers"),
        ("--batch 0", "--batch 0: legal is"),
        ("--ranks 0", "--ranks"),
    ],
)
def test_wrong_options_are_one_line(
    options: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gondwana", "bench", "fib", *options.split()])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="legal are numbers from 0 to 40"):
        recursion.check([])
