"""`gondwana bench gpu`: on the emulated GPU every kernel is measured and right; figures are what they are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana.gpu.interface import CudaError
from gondwana_bench.gpu import sweeps
from gondwana_bench.gpu.sweeps import Case
from gondwana_bench.panels import Panels
from support import jobs

SMALL = "--sizes 12 --dtypes float64 --repeat 1 --batch 0.0001"


def bench(*options: str, **variables: str) -> jobs.Outcome:
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "gpu", *options]
    return jobs.run_command(command, variables=variables, timeout=240)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("gpu") / "gpu.json"
    outcome = bench("--panels", "copy,sweeps", *SMALL.split(), "--json", str(file), GONDWANA_CUDA="emulated")
    assert outcome.status == 0, str(outcome)
    assert "T_eff" in outcome.stdout
    found: dict[str, Any] = results.read(file)[0]
    return found


def test_every_kernel_is_measured_and_right(report: dict[str, Any]) -> None:
    rows = report["panels"]["sweeps"]
    assert [(row["noise"], row["variables"], row["variant"]) for row in rows] == [
        (noise, variables, variant)
        for noise, variables in ((False, 2), (True, 2), (False, 1))
        for variant in ("one sweep", "two steps fused", "CUDA C", "CUDA C, marching")
    ]
    for row in rows:
        assert row["verified"]
        assert row["registers"] > 0
        assert row["gcells_per_s"] == pytest.approx(12**3 / row["seconds"]["median"] / 1e9)
        assert row["t_eff"] == pytest.approx(16 * row["variables"] * row["gcells_per_s"])
        assert row["of_copy_low"] <= row["of_copy"] <= row["of_copy_high"]
        assert row["goal"] is row["met"] is None  # those are for the largest size


def test_copies_are_measured_and_right(report: dict[str, Any]) -> None:
    [row] = report["panels"]["copy"]
    assert row["verified"]
    assert row["nbytes"] == 8 * 14**3
    assert row["kernel_gb_per_s"] == pytest.approx(2e-9 * row["nbytes"] / row["seconds"]["kernel"]["median"])


def test_the_report_names_the_device_and_is_complete(report: dict[str, Any]) -> None:
    assert report["device"]["name"] == "emulated GPU"
    assert report["complete"]
    assert report["notes"] == report["failures"] == []
    assert report["environment"]["versions"]["numba"]


def test_what_there_is_no_time_for_is_said(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    outcome = bench(
        "--budget", "1", "--panels", "sweeps,kinds", *SMALL.split(), "--json", str(file), GONDWANA_CUDA="emulated"
    )
    assert outcome.status == 0, str(outcome)
    found = results.read(file)[0]
    assert not found["complete"]
    assert [note.split(":")[0] for note in found["notes"]] == [
        "left out 12^3, float64",
        "left out 12^3, float64, noise",
        "left out 12^3, float64, one variable",
        "left out the memories of two ranks",
    ]


def test_a_kernel_that_fails_does_not_keep_the_others_from_being_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fields:
        domain = None
        arrays: tuple[Any, ...] = ()

        def __init__(self, *given: object) -> None: ...

        def spread(self) -> None: ...

    class Broken:
        name = "broken"

        def prepare(self, fields: object) -> None:
            raise CudaError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many registers")

    class EnoughError(Exception):
        """The test need not go on."""

    class Good(Broken):
        name = "good"

        def prepare(self, fields: object) -> None:
            raise EnoughError

    monkeypatch.setattr(sweeps, "Fields", Fields)
    failures: list[str] = []
    kind: Any = type("Kind", (), {"device": None})
    with pytest.raises(EnoughError):
        list(sweeps._measure_case(kind, Case(8, "float64", False), [Broken(), Good()], failures.append, {}))
    assert failures == ["8^3, float64: broken: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many registers"]


def test_bytes_are_counted_as_in_the_paper() -> None:
    assert sweeps.effective_bytes(1024, 8) / 1e9 == pytest.approx(34.259, abs=5e-4)
    assert sweeps.effective_bytes(1024, 8, 1) / 1e9 == pytest.approx(17.1295, abs=5e-5)
    assert sweeps.effective_bytes(4, 1) == 2 * ((64 - 8 - 24) + 8)


def test_goals_hold_for_the_largest_size() -> None:
    one = Case(1024, "float64", False)
    assert sweeps.judge(one, "one sweep", 121.0, 0.91, "NVIDIA H200") == (">= 120, >= 0.9 of copy", True)
    assert sweeps.judge(one, "one sweep", 121.0, 0.89, "NVIDIA H200") == (">= 120, >= 0.9 of copy", False)
    assert sweeps.judge(one, "one sweep", 80.0, 0.91, "NVIDIA H100") == (">= 0.9 of copy", True)
    assert sweeps.judge(one, "CUDA C", 121.0, 0.91, "NVIDIA H200") == (None, None)
    assert sweeps.judge(Case(1024, "float64", True), "one sweep", 89.0, 0.5, "NVIDIA H200") == (">= 90", False)
    assert sweeps.judge(Case(1024, "float64", False, 1), "one sweep", 89.0, 0.5, "NVIDIA H200") == (None, None)
    assert sweeps.judge(Case(512, "float64", False), "one sweep", 89.0, 0.5, "NVIDIA H200") == (None, None)


def test_a_failure_or_a_wrong_row_is_no_success() -> None:
    panels = Panels("gpu", environment={"cpu": "x"})
    panels.panels["copy"] = [{"verified": True}]
    assert panels.verified
    panels.fail("something broke")
    assert not panels.verified
    assert not Panels("gpu", panels={"copy": [{"verified": False}]}, environment={}).verified


@pytest.mark.parametrize(
    ("sizes", "dtypes", "problem"),
    [([], ["float64"], "--sizes"), ([3], ["float64"], "--sizes 3"), ([8], ["float16"], "--dtypes float16")],
)
def test_what_cannot_be_measured_is_refused(sizes: list[int], dtypes: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        sweeps.check(sizes, dtypes)


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        (["--panels", "speed"], {"GONDWANA_CUDA": "emulated"}, "--panels speed: legal are numerics, copy"),
        ([], {"GONDWANA_CUDA": "imagined"}, "GONDWANA_CUDA='imagined'"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], variables: dict[str, str], expected: str) -> None:
    outcome = bench(*options, **variables)
    assert outcome.status == 2
    assert expected in outcome.stderr
    assert outcome.stderr.count("\n") == 1
