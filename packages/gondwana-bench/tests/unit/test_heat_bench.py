"""The benchmark of time steps: statistics, verdicts, files and what is refused; and one short run."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench.heat import against, regularity as bench
from support import jobs


def job(seed: int, **medians: float) -> bench.Job:
    """A job of 300 steps on two ranks; every second step takes 10 us longer, rank 1 takes 1 us longer."""
    names = {name.replace("_", "-"): value for name, value in medians.items()}
    alternate = np.where(np.arange(300) % 2, 10.0, 0.0)
    random = np.random.default_rng(seed)
    steps = {
        name: value + alternate + random.normal(0.0, value / 100, 300) for name, value in names.items() if name != "C"
    }
    steps["C"] = names["C"] + alternate + random.normal(0.0, names["C"] / 100, 300)
    return bench.Job({name: np.stack([t, t + 1.0]) for name, t in steps.items()}, dict.fromkeys(steps, 5.0))


def jobs_of(number: int = 3) -> list[bench.Job]:
    medians = {
        "C": 100.0,
        "two_sided": 200.0,
        "one_sided": 50.0,
        "copy_notify": 100.0,
        "application": 100.0,
        "fused": 80.0,
    }
    return [job(seed, **medians) for seed in range(number)]


def test_a_sample_is_two_steps_and_the_first_do_not_count() -> None:
    steps = np.arange(20.0)
    assert bench.pairs(steps).tolist() == [10 + 11 + 2 * k for k in range(9)]
    assert bench.spread_of(np.arange(101.0)) == 50.0


def test_rows_and_verdicts() -> None:
    rows = {row["variant"]: row for row in bench.rows(16, 2, jobs_of())}
    assert list(rows) == list(bench.VARIANTS)
    assert rows["C"]["median"] == pytest.approx(210.0, rel=0.01)
    assert rows["one-sided"]["slowest"] == pytest.approx(112.0, rel=0.01)
    assert rows["one-sided"]["speed"] == pytest.approx(210 / 110, rel=0.01)
    assert rows["one-sided"]["speed_low"] <= rows["one-sided"]["speed"] <= rows["one-sided"]["speed_high"]
    assert rows["one-sided"]["verdict"] == "faster, more regular"
    assert rows["two-sided"]["verdict"] == "slower, less regular"
    assert rows["copy-notify"]["verdict"] == "tie (faster), tie (regular)"
    assert rows["C"]["samples"] == 3 * 289
    assert all(row["verified"] for row in rows.values())


def test_other_temperatures_are_not_verified() -> None:
    measured = jobs_of()
    wrong = {**measured[1].sums, "one-sided": 5.0 * (1 + 1e-9)}
    measured[1] = measured[1]._replace(sums=wrong)
    assert [row["variant"] for row in bench.rows(16, 2, measured) if not row["verified"]] == ["one-sided"]


def test_files(tmp_path: Path) -> None:
    measured = {16: jobs_of(2)}
    rows = list(csv.DictReader(bench.as_csv(measured).splitlines()))
    assert len(rows) == 2 * 6 * 2 * 300
    assert rows[0].keys() == {"size", "job", "variant", "rank", "step", "seconds"}
    assert sum(float(row["seconds"]) for row in rows) == pytest.approx(
        sum(steps.sum() for one in measured[16] for steps in one.microseconds.values()) * 1e-6, rel=1e-4
    )
    bench.draw(measured, str(tmp_path / "steps.png"))
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([16], 1, 100), "--ranks 1: "),
        (([], 2, 100), "--sizes : "),
        (([0], 2, 100), "--sizes 0: "),
        (([16], 2, 5), "--steps 5"),
    ],
)  # fmt: skip
def test_illegal_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bench.check(*arguments)


def run(folder: Path, *words: str) -> jobs.Outcome:
    return jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", "bench", "heat", *words], timeout=250, cwd=folder
    )


def test_a_short_run(tmp_path: Path) -> None:
    words = "--sizes 6 --steps 20 --jobs 1 --json r.json --csv r.csv --plot r.png".split()  # noqa: SIM905
    outcome = run(tmp_path, *words)
    assert outcome.status == 0, str(outcome)
    result = results.read(tmp_path / "r.json")[0]
    [rows] = result["panels"].values()
    assert [row["variant"] for row in rows] == list(bench.VARIANTS)
    assert all(row["verified"] and row["samples"] == 19 for row in rows)
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 1 + 6 * 2 * 30
    assert (tmp_path / "r.png").exists()


OTHER = """#!/bin/sh
echo "0 T=0.000000 Time (0.001 0.001)"
echo "$STEPS T=$VALUE Time (4.001 4.0)"
"""


@pytest.mark.parametrize(("value", "status"), [("{}", 0), ("1.5", 1)])
def test_beside_a_program_of_the_user(value: str, status: int, tmp_path: Path) -> None:
    words = against.options_of(6)
    steps = words[-1]
    own = jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", "run", "heat", *words], timeout=100, cwd=tmp_path
    )
    found = against.read(own.stdout, int(steps))
    assert found is not None, str(own)
    program = tmp_path / "heat3d"
    program.write_text(OTHER.replace("$STEPS", steps).replace("$VALUE", value.format(f"{found.value:.6f}")))
    program.chmod(0o755)
    outcome = run(
        tmp_path,
        "-n",
        "1",
        "--sizes",
        "6",
        "--repeat",
        "1",
        "--against",
        "heat3d",
        "--mpirun",
        "env RANKS={ranks}",
        "--json",
        "r.json",
    )
    assert outcome.status == status, str(outcome)
    [row] = results.read(tmp_path / "r.json")[0]["panels"]["against"]
    assert row["theirs"] == pytest.approx(4e6 / int(steps))
    assert row["ratio"] == pytest.approx(row["theirs"] / row["ours"])
    assert row["verified"] is (status == 0)


def test_a_program_that_prints_something_else(tmp_path: Path) -> None:
    program = tmp_path / "other"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    outcome = run(tmp_path, "-n", "1", "--sizes", "6", "--against", "other", "--mpirun", "env RANKS={ranks}")
    assert outcome.status == 2
    assert "without the lines of steps 0 and 20000: hello; if it was built with another MPI" in outcome.stderr
    outcome = run(tmp_path, "--against", "missing")
    assert outcome.status == 2
    assert "--against missing: there is no such file" in outcome.stderr
    outcome = run(tmp_path, "--against", "other", "--plot", "x.png")
    assert outcome.status == 2
    assert "--against has no record of steps" in outcome.stderr
