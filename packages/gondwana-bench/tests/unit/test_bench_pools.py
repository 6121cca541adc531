"""The benchmark of pools without pools: rounds, rows, what is left out, and programs that fail."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Self

import pytest

from gondwana.errors import UsageError
from gondwana_bench.pools import candidates, programs, uses
from gondwana_bench.pools.programs import Command, Program


def native(ranks: int, words: Any) -> Command:
    """As a launcher would say: a program that ends with an error."""
    return [sys.executable, "-c", f"raise SystemExit('no launcher for {ranks} ranks')"], {}


class FakeProgram:
    """Says that a task takes as many microseconds as its name is long, and counts what it is asked."""

    asked: list[tuple[str, str, int]]
    open = 0

    def __init__(self, name: str, workers: int, native: Any, purpose: str = "use") -> None:
        if name == "MPIPoolExecutor" and workers > 4:
            raise UsageError("too many ranks")
        self._name, self._workers = name, workers
        self.start = float(len(name)), 2.0 * len(name)

    def ask(self, what: str, n: int) -> tuple[float, float]:
        FakeProgram.asked.append((self._name, what, n))
        return len(self._name) * 1e-6, n * len(self._name) * 2e-6

    def __enter__(self) -> Self:
        FakeProgram.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        FakeProgram.open -= 1


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> type[FakeProgram]:
    monkeypatch.setattr(uses, "Program", FakeProgram)
    monkeypatch.setattr(uses, "_has_dask", lambda: False)
    FakeProgram.asked = []
    return FakeProgram


def test_every_case_gives_a_row_for_each_of_ours_and_its_rivals(fakes: type[FakeProgram]) -> None:
    notes: list[str] = []
    rows = list(uses.measure(native, notes.append, tasks=1000, repeat=2))
    names = [*(case.name for case in uses.CASES), *uses.STARTS, uses.JOB]
    assert list(dict.fromkeys(row["case"] for row in rows)) == names
    first = [(row["name"], row["rival"], row["ours"], row["theirs"], row["goal"]) for row in rows[:3]]
    assert first == [
        ("ours", "ProcessPoolExecutor", pytest.approx(4.0), pytest.approx(19.0), 12.0),
        ("ours", "multiprocessing.Pool", pytest.approx(4.0), pytest.approx(20.0), 12.0),
        ("ours in a job", "MPIPoolExecutor", pytest.approx(13.0), pytest.approx(15.0), 12.0),
    ]
    assert [(row["processor"], row["rival_processor"]) for row in rows[:2]] == [
        (pytest.approx(8.0), pytest.approx(38.0)),
        (pytest.approx(8.0), pytest.approx(40.0)),
    ]
    assert all(set(uses.COLUMNS) <= set(row) for row in rows)
    assert all((row["ratio"] is None) == (row["rival"] is None) for row in rows)
    assert len(rows) == uses.total(None)
    assert fakes.open == 0
    assert notes == [
        "left out Dask: the package distributed is not installed",
        "left out MPIPoolExecutor with 16 workers: too many ranks",
    ]


def test_rounds_rotate_and_cases_can_be_chosen(fakes: type[FakeProgram]) -> None:
    rows = list(uses.measure(native, print, cases=["in batches"], tasks=1000, repeat=2))
    assert {row["case"] for row in rows} == {"null task of map, in batches"}
    assert len(rows) == uses.total(["in batches"]) == 3
    timed = [name for name, what, n in fakes.asked if (what, n) == ("batched", 1000)]
    order = ["ours", "ProcessPoolExecutor", "multiprocessing.Pool", "ours in a job", "MPIPoolExecutor"]
    assert timed == order + order[1:] + order[:1]


def test_a_program_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(UsageError, match="MPIPoolExecutor does not answer: no launcher for 3 ranks"):
        Program("MPIPoolExecutor", 2, native)


def test_a_map_that_loses_items_is_an_error() -> None:
    def lossy(function: Any, items: Iterable[int]) -> list[int]:
        return [function(item) for item in items][1:]

    candidate = candidates.Candidate(call=lambda: None, each=map, batched=lossy, work=map)
    assert candidates.perform(candidate, "each", 3) > 0.0
    with pytest.raises(RuntimeError, match="batched has not returned its items"):
        candidates.perform(candidate, "batched", 3)


def test_programs_are_started_as_what_they_are() -> None:
    ours, _ = programs.command("ours in a job", ["words"], 2, native)
    assert ours[ours.index("-n") + 1] == "3"
    assert "run" not in programs.command("ours", ["words"], 2, native)[0]
