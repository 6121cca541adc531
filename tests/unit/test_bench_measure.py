"""Statistics, interleaved timing and reports of the benchmarks."""

from __future__ import annotations

import gc
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest

from gondwana import results
from gondwana.bench.measure import interleave, timed
from gondwana.bench.report import Report, environment
from gondwana.bench.statistics import ratio, summarize
from gondwana.errors import GondwanaError, UsageError
from gondwana.results import ResultError, check_writable

# --- statistics ------------------------------------------------------------------------------------------------------


def test_summary_of_known_values() -> None:
    s = summarize([float(i) for i in range(1, 102)])
    assert (s.n, s.median, s.mean, s.minimum, s.p5, s.p95, s.p99) == (101, 51.0, 51.0, 1.0, 6.0, 96.0, 100.0)
    assert s.sd == pytest.approx(np.std(np.arange(1, 102), ddof=1))
    assert s.cv == pytest.approx(s.sd / 51.0)
    assert 40.0 < s.low < 51.0 < s.high < 62.0
    assert summarize([float(i) for i in range(1, 102)]) == s


def test_summary_of_one_value() -> None:
    s = summarize([2.0])
    assert (s.median, s.low, s.high, s.sd, s.cv) == (2.0, 2.0, 2.0, 0.0, 0.0)


def test_interval_covers_the_median_of_the_distribution() -> None:
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(100):
        s = summarize(list(random.lognormal(0.0, 0.5, 30)))
        hits += s.low <= 1.0 <= s.high
    assert hits >= 88


def test_ratio_cancels_what_slows_a_whole_round() -> None:
    moods = [1.0, 10.0, 2.0, 30.0, 1.5]
    r = ratio([2.0 * m for m in moods], moods)
    assert (r.value, r.low, r.high) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [float("nan")], [float("inf")]])
def test_values_that_are_no_timings_are_refused(values: list[float]) -> None:
    with pytest.raises(UsageError, match="finite positive"):
        summarize(values)


def test_ratio_of_unpaired_samples_is_refused() -> None:
    with pytest.raises(UsageError, match="2 and 1 values"):
        ratio([1.0, 2.0], [1.0])


# --- measuring -------------------------------------------------------------------------------------------------------


def test_variants_are_timed_in_turns_and_in_rotating_order(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    log: list[str] = []

    def variant(name: str, seconds: float) -> None:
        nonlocal clock
        clock += seconds
        log.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    samples = interleave(
        {"slow": timed(lambda: variant("slow", 0.5)), "fast": timed(lambda: variant("fast", 0.001))},
        repeat=4,
        batch_seconds=0.1,
    )
    assert samples["slow"] == pytest.approx([0.5] * 4)
    assert samples["fast"] == pytest.approx([0.001] * 4)
    turns = [name for name, _ in itertools.groupby(log)]
    # Calibration first, then slow fast | fast slow | slow fast | fast slow.
    assert turns == ["slow", "fast", "slow", "fast", "slow", "fast", "slow"]
    assert log.count("slow") == 2 + 2 + 4 * 2
    assert log.count("fast") >= 4 * 110


def test_garbage_is_not_collected_while_the_clock_runs() -> None:
    states: list[bool] = []
    interleave({"a": timed(lambda: states.append(gc.isenabled()))}, repeat=1, batch_seconds=0.0001)
    assert not states[-1]
    assert gc.isenabled()


def test_compiling_while_the_clock_runs_is_an_error() -> None:
    calls = itertools.count()
    with pytest.raises(GondwanaError, match="compiled while the clock ran"):
        interleave({"a": timed(lambda: None)}, repeat=1, batch_seconds=0.0001, compilations=lambda: next(calls))


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="0 variants"):
        interleave({})
    with pytest.raises(UsageError, match="0 rounds"):
        interleave({"a": timed(lambda: None)}, repeat=0)


# --- reports ---------------------------------------------------------------------------------------------------------


def test_report_is_written_whole_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"size": 64, "ratio": 1.25, "ratio_low": 1.0, "ratio_high": 1.5, "verified": True}
    result = Report("stencil", [row], command=["gondwana"])
    path = tmp_path / "report.json"
    result.write(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    read = json.loads(path.read_text())
    assert read["rows"] == result.rows
    assert {"cpu", "cores", "governor", "compiler", "versions", "load_average"} <= read["environment"].keys()
    result.show({"size": "size", "ratio": "C/ours", "verified": "same"})
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("64", "1.25 (1.00-1.50)", "yes", "C/ours"))


def test_report_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    result = Report("stencil", environment={})
    with pytest.raises(ResultError, match="cannot be written"):
        result.write(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        check_writable(tmp_path / "absent" / "report.json")
    check_writable(tmp_path / "report.json")
    with pytest.raises(ValueError, match="JSON"):
        Report("stencil", [{"ratio": float("nan")}], environment={}).write(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_environment_without_optional_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PACKAGES", ("no-such-package",))
    assert environment()["versions"] == {"no-such-package": None}
