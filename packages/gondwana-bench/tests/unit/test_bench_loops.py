"""`gondwana bench loops`: every variant computes what NumPy computes, and wrong options are one line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana import results
from gondwana.cli.main import main
from gondwana_bench import loops

pytestmark = pytest.mark.usefixtures("c_compiler")

VARIANTS = ["jit", "jit, reassociate", "Numba"]
WITH_KERNEL = {"product", "transposition"}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gondwana", "bench", "loops", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


def test_every_variant_computes_what_numpy_computes() -> None:
    sizes = (1500, 1)
    rows = list(loops.measure(gw.world, list(loops.LOOPS), sizes, repeat=2, batch_seconds=1e-4))
    expected = []
    for size in sizes:
        for loop in loops.LOOPS:
            names = ["foreach", "jit"] if loop in loops.TOGETHER else ["foreach"] * (loop in WITH_KERNEL) + VARIANTS
            expected += [(loop, size, 1, name) for name in names]
    assert [(row["loop"], row["size"], row["ranks"], row["variant"]) for row in rows] == expected
    assert all(row["verified"] for row in rows)
    assert np.float64(5e-324) * 1.0 > 0.0  # -ffast-math has changed nothing for the rest of the process
    assert all(row[f"{key}_low"] <= row[key] <= row[f"{key}_high"] for row in rows for key in ("ratio", "fast_ratio"))


@pytest.mark.parametrize("loop", list(loops.LOOPS))
def test_a_loop_that_does_nothing_is_noticed(loop: str) -> None:
    problem = loops.LOOPS[loop](np.random.default_rng(0), 2000)
    start = problem.arrays[0].copy()
    assert not loops._is_right(gw.world, problem, start, lambda: None)
    assert loops._is_right(gw.world, problem, start, problem.variants["jit"])


def test_the_command_measures_one_rank_and_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "loops.json"
    options = "--loops updates,dot --sizes 1000 --repeat 2 --batch 0.0001 --json"
    assert run(monkeypatch, *options.split(), str(file)) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("foreach", *VARIANTS))
    [report] = results.read(file)
    assert report["complete"]
    assert [(row["loop"], row["ranks"]) for row in report["panels"]["loops"]] == [
        *[("updates", 1)] * 2,
        *[("dot", 1)] * 3,
        *[("updates", 2)] * 2,
    ]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--loops", "sort"], "--loops sort: legal are product, transposition"),
        (["--sizes", "0"], "--sizes 0: give numbers of at least 1"),
        (["--batch", "0"], "--batch 0"),
    ],
)
def test_wrong_options_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], part: str
) -> None:
    assert run(monkeypatch, *options) == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1
