"""`gondwana bench init`: every variant sets every element, in every memory, and wrong options are one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gondwana import results
from gondwana.cli.main import main
from gondwana.compiler import threads
from gondwana_bench import build, initialisation
from gondwana_bench.initialisation import HUGE_PAGES, MEMORIES

pytestmark = pytest.mark.usefixtures("c_compiler")

VARIANTS = ["foreach", "parallel", "pthread in C", "NumPy"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gondwana", "bench", "init", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialisation, "REST_SECONDS", 0.0)


def test_every_variant_sets_all_elements_in_every_memory() -> None:
    before = threads()
    sizes, counts = (8, 8 * 1001), (1, 3)
    rows = list(initialisation.measure(sizes, counts, repeat=2, batch_seconds=1e-4))
    assert len(rows) == initialisation.total(sizes, counts)
    assert [(row["memory"], row["nbytes"], row["threads"], row["variant"]) for row in rows] == [
        (memory, nbytes, count, name)
        for memory in MEMORIES
        for nbytes in sizes
        for count in counts
        for name in VARIANTS
    ]
    assert all(row["verified"] and row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows)
    assert threads() == before


def test_a_second_compiler_has_rows_of_its_own(second_compiler: str) -> None:
    rows = list(initialisation.measure((800,), (1,), repeat=2, batch_seconds=1e-4))
    assert [(row["memory"], row["compiler"], row["variant"]) for row in rows] == [
        (memory, compiler, name)
        for memory in MEMORIES
        for compiler in (build.compilers()[build.FIRST], second_compiler)
        for name in VARIANTS
    ]
    assert all(row["verified"] for row in rows)


def test_a_variant_that_leaves_an_element_is_noticed() -> None:
    values = np.empty(100)

    def all_but_one(array: initialisation.Values) -> Callable[[float], object]:
        return array[1:].fill

    assert not initialisation._fills_all(all_but_one, values, 1.0)
    assert all(initialisation._fills_all(fill, values, 2.0) for fill in initialisation._fills(2).values())


def test_the_bandwidth_is_that_of_the_array() -> None:
    row = initialisation.row_of(
        HUGE_PAGES, 50_000_000, 2, "NumPy", {"NumPy": [1e-2], "OpenMP in C": [5e-3]}, verified=True
    )
    assert (row["gb_per_s"], row["c_gb_per_s"], row["ratio"]) == (pytest.approx(5.0), pytest.approx(10.0), 0.5)


def test_thread_counts_double_up_to_the_cores() -> None:
    assert [initialisation.thread_counts(cores) for cores in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]


def test_the_command_prints_and_writes_the_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "init.json"
    options = "--sizes 800 --threads 1 --workers 0 --repeat 2 --batch 0.0001 --json"
    assert run(monkeypatch, *options.split(), str(file)) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*MEMORIES, *VARIANTS))
    [report] = results.read(file)
    assert report["complete"]
    assert len(report["panels"]["init"]) == len(MEMORIES) * len(VARIANTS)


def test_the_status_says_that_an_element_was_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialisation, "_fills_all", lambda *_: False)
    assert run(monkeypatch, "--sizes=80", "--threads=1", "--workers=0", "--repeat=1", "--batch=0.0001") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--sizes 12", "--sizes 12: legal are bytes of whole doubles"),
        ("--sizes 0", "--sizes 0: legal are bytes of whole doubles"),
        ("--sizes x", "--sizes x: legal are whole numbers"),
        ("--threads 0", "--threads 0: give numbers of at least 1"),
        ("--workers x", "--workers x: legal are whole numbers"),
        ("--batch 11", "--batch 11: legal is"),
        ("--json /no/such/folder/x.json", "/no/such/folder does not exist"),
    ],
)
def test_wrong_options_are_one_line(
    options: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *options.split()) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
