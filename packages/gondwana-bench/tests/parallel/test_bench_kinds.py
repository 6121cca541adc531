"""`gondwana bench kinds` on devices that are none: every direction is measured, bytes are right, paths are named."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench.kinds import copies as kinds, memspeed
from gondwana_bench.kinds.memories import Memory
from gondwana_bench.statistics import summarize
from support import jobs

HAS_RANKS = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
OPTIONS = "--kind fake_device --sizes 8,4096 --windows 1,3 --volume 65536 --repeat 1 --batch 0.0001"


def run(file: Path, options: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "kinds", "--json", str(file), *options.split()]
    outcome = jobs.run_command(command, variables=variables, timeout=240)
    assert outcome.status == 0, str(outcome)
    assert "staged/ours" in outcome.stdout
    found: dict[str, Any] = results.read(file)[0]
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("kinds") / "kinds.json", OPTIONS)


@HAS_RANKS
@pytest.mark.parallel
def test_every_direction_is_measured_and_right(report: dict[str, Any]) -> None:
    rows = report["panels"]["transfers"]
    assert [(row["operation"], row["source"], row["target"], row["nbytes"], row["window"]) for row in rows] == [
        (pair.operation, str(pair.source), str(pair.target), size, window)
        for pair in kinds.pairs()
        for size in (8, 4096)
        for window in (1, 3)
    ]
    assert all(row["verified"] and row["microseconds"] > 0 and row["gb_per_s"] > 0 for row in rows)
    assert report["complete"]


@HAS_RANKS
@pytest.mark.parallel
def test_paths_are_named_and_compared_with_staging(report: dict[str, Any]) -> None:
    for row in report["panels"]["transfers"]:
        to_device = row["operation"] == "put" and row["target"] == "remote device"
        if row["source"] == "local device" and to_device:
            assert (row["path"], row["staged_ratio"]) == ("staged", None)
        elif to_device:
            assert row["path"] == "message"
            assert row["staged_ratio_low"] <= row["staged_ratio"] <= row["staged_ratio_high"]
        elif row["operation"] == "copy":
            assert row["path"] == ("driver" if "device" in row["source"] + row["target"] else "direct")
            assert row["staged_ratio"] is None
        assert row["driver_ratio"] is None  # a fake device has no driver to compare with


@HAS_RANKS
@pytest.mark.parallel
def test_every_memory_is_measured_against_every_other(report: dict[str, Any]) -> None:
    rows = report["panels"]["memories"]
    assert len({(row["source"], row["target"]) for row in rows}) == memspeed.PAIRS == len(rows)
    for row in rows:
        assert row["verified"]
        assert row["latency_us"] == pytest.approx(row["seconds"]["element"]["median"] * 1e6)
        assert row["whole_gb_per_s"] == pytest.approx(65536e-9 / row["seconds"]["whole"]["median"])


@HAS_RANKS
@pytest.mark.parallel
def test_memory_of_a_gpu_is_compared_with_its_driver(tmp_path: Path) -> None:
    options = "--sizes 4096 --windows 1 --volume 65536 --repeat 1 --batch 0.0001"
    found = run(tmp_path / "kinds.json", options, GONDWANA_CUDA="emulated")
    assert found["device"]["name"] == "emulated GPU"
    for row in found["panels"]["transfers"]:
        ends = row["source"], row["target"]
        if "remote device" in ends:
            assert row["path"] == "ipc"
            assert row["staged_ratio"] > 0
        assert (row["driver_ratio"] is None) == (not any("device" in end for end in ends))
    assert [(row["operation"], row["owner"]) for row in found["panels"]["atomics"]] == [
        (operation, f"{owner} device") for operation in ("fetch_add", "adds", "batch") for owner in ("local", "remote")
    ]
    for row in found["panels"]["atomics"]:
        assert row["verified"]
        assert row["microseconds"] > 0 < row["host_microseconds"]
    for row in found["panels"]["memories"]:
        assert row["verified"]
        assert (row["driver_gb_per_s"] is None) == ("device" not in row["source"] + row["target"])


@HAS_RANKS
@pytest.mark.parallel
@pytest.mark.parametrize("aware", [pytest.param("0", marks=pytest.mark.more), "1"])
def test_between_nodes_the_rivals_are_mpi_and_the_hosts(tmp_path: Path, aware: str) -> None:
    options = "--ranks-per-node 1 --sizes 300000 --windows 2 --volume 300000 --repeat 1 --batch 0.0001"
    variables = {"GONDWANA_CUDA": "emulated", "GONDWANA_MPI_CUDA": aware}
    found = run(tmp_path / "kinds.json", options, **variables)
    for row in found["panels"]["transfers"]:
        assert row["verified"]
        assert row["node_kind"] == "pretended"
        ends = row["source"] + row["target"]
        remote = row["operation"] != "copy"
        assert (row["host_ratio"] is not None) == (remote and "device" in ends)
        assert (row["mpi_ratio"] is not None) == (remote and ("device" not in ends or aware == "1"))
        if remote and "device" in ends:
            assert row["path"] == "aware" if aware == "1" else row["path"] in ("staged", "message", "delegated")
            assert (row["staged_ratio"] is not None) == (row["path"] != "staged")
    for row in found["panels"]["memories"]:
        assert row["verified"]
        across = {row["source"][:5], row["target"][:5]} == {"local", "remot"}
        mpi = across and ("device" not in row["source"] + row["target"] or aware == "1")
        assert (row["mpi_gb_per_s"] is not None) == (row["mpi_latency_us"] is not None) == mpi


def test_the_goal_is_for_large_copies_between_devices() -> None:
    here, there, host = Memory(0, "device"), Memory(1, "device"), Memory(1, "host")
    put = kinds.Pair("put", here, there)
    assert kinds.judge(put, 2**20, 0.8) == (">= 0.8 of driver", True)
    assert kinds.judge(put, 2**22, 0.7) == (">= 0.8 of driver", False)
    nothing = None, None
    assert kinds.judge(put, 2**19, 0.7) == kinds.judge(put, 2**20, None) == nothing
    assert kinds.judge(kinds.Pair("put", here, host), 2**20, 0.7) == nothing
    assert kinds.judge(kinds.Pair("copy", here, here), 2**20, 0.7) == nothing


def test_bandwidth_leaves_the_start_of_a_copy_out() -> None:
    assert memspeed.bandwidth(10**9, summarize([0.75]), summarize([0.25])) == 2.0
    assert memspeed.bandwidth(10**9, summarize([0.25]), summarize([0.25])) is None


@pytest.mark.parametrize(
    ("sizes", "windows", "volume", "kind", "problem"),
    [
        ([], [1], 64, "fake_device", "--sizes"),
        ([8], [0], 64, "fake_device", "--windows 0"),
        ([8], [1], 8, "fake_device", "--volume 8"),
        ([8], [1], 60, "fake_device", "--volume 60"),
        ([8], [1], 64, "tape", "--kind tape: legal are cuda, fake_device"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    sizes: list[int], windows: list[int], volume: int, kind: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        kinds.check(sizes, windows, volume, kind)
