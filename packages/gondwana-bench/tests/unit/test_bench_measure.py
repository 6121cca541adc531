"""Statistics, interleaved timing and reports of the benchmarks."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gondwana.compiler.linker import Compilation
from gondwana.errors import GondwanaError, UsageError
from gondwana.results import ResultError, check_writable, host, read
from gondwana_bench import disturbance, measure
from gondwana_bench.cli.bench.command import bench
from gondwana_bench.measure import interleave, timed
from gondwana_bench.panels import Panels, environment
from gondwana_bench.rows import WIDE
from gondwana_bench.statistics import ratio, summarize

# --- statistics ------------------------------------------------------------------------------------------------------


def test_summary_of_known_values() -> None:
    s = summarize([float(i) for i in range(1, 102)])
    assert (s.n, s.median, s.mean, s.minimum, s.p5, s.p95, s.p99) == (101, 51.0, 51.0, 1.0, 6.0, 96.0, 100.0)
    assert s.sd == pytest.approx(np.std(np.arange(1, 102), ddof=1))
    assert s.cv == pytest.approx(s.sd / 51.0)
    assert 40.0 < s.low < 51.0 < s.high < 62.0
    assert summarize([float(i) for i in range(1, 102)]) == s


def test_outliers_are_left_out_and_counted() -> None:
    s = summarize([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (s.n, s.removed, s.median, s.median_of_all, s.mean) == (4, 1, 2.5, 3.0, 2.5)
    assert (s.minimum, s.p99) == (1.0, pytest.approx(np.percentile([1.0, 2.0, 3.0, 4.0, 100.0], 99.0)))
    assert summarize([1.0, 1.0, 1.0, 1.0, 5.0]).removed == 1


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
    monkeypatch.setattr(disturbance, "_busy_machine", lambda: 0.0)
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


def test_compiling_while_the_clock_runs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setattr(measure, "compilation", lambda: Compilation(compiled=next(calls)))
    with pytest.raises(GondwanaError, match="compiled while the clock ran"):
        interleave({"a": timed(lambda: None)}, repeat=1, batch_seconds=0.0001)


def test_what_is_compiled_once_is_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library compiles the code of some paths when they have been used often enough."""
    counts, log = iter([0, 1]), []
    monkeypatch.setattr(measure, "compilation", lambda: Compilation(compiled=next(counts, 1)))
    samples = interleave({"a": timed(lambda: log.append(1))}, repeat=3, calls=(0, 10), batch_seconds=0.0001)
    assert len(samples["a"]) == 3
    assert len(log) == measure.WARM_UP + 2 * 3 * 10


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="0 variants"):
        interleave({})
    with pytest.raises(UsageError, match="0 rounds"):
        interleave({"a": timed(lambda: None)}, repeat=0)


# --- reports ---------------------------------------------------------------------------------------------------------


def test_report_is_written_whole_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"size": 64, "ratio": 1.25, "ratio_low": 1.0, "ratio_high": 1.5, "verified": True}
    path = tmp_path / "report.json"
    report = Panels("stencil", path, command=["gondwana"])
    report.add("stencil", {"size": "size", "ratio": "C/ours", "verified": "same"}, [row], 1)
    report.complete = True
    report.write()
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    [found] = read(path)
    [written] = found["panels"]["stencil"]
    assert {key: written[key] for key in row} == row
    assert written["foreign_load"] is None  # nothing that took time was measured
    assert written["involuntary_switches"] >= 0
    assert found["units"] == {
        **dict.fromkeys(("involuntary_switches", "ratio", "ratio_high", "ratio_low"), "1"),
        "size": "cells",
    }
    assert (found["verified"], found["complete"], found["command"]) == (True, True, ["gondwana"])
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("64", "1.25 (1.00-1.50)", "yes", "C/ours"))


def test_report_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot be written"):
        Panels("stencil", tmp_path, environment={}).write()
    with pytest.raises(UsageError, match="does not exist"):
        check_writable(tmp_path / "absent" / "report.json")
    check_writable(tmp_path / "report.json")
    report = Panels("stencil", tmp_path / "report.json", environment={})
    report.panels["stencil"] = [{"ratio": float("nan"), "verified": True}]
    with pytest.raises(ValueError, match="JSON"):
        report.write()
    assert list(tmp_path.iterdir()) == []


def test_environment_without_optional_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "PACKAGES", ("no-such-package",))
    assert environment()["versions"] == {"no-such-package": None}


def test_rows_say_what_else_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = iter(
        disturbance._Reading(time=t, machine=m, own=o, switches=n)
        for t, m, o, n in [
            (0.0, 0.0, 0.0, 0), (2.0, 5.0, 2.0, 7),  # three seconds of two by others
            (2.0, 5.0, 2.0, 7), (2.0, 5.0, 2.0, 7),  # the second row was measured with the first
            (2.0, 5.0, 2.0, 7), (4.0, 6.9, 4.0, 8),  # all of the machine's work was ours
            (4.0, 6.9, 4.0, 8),
        ]
    )  # fmt: skip
    monkeypatch.setattr(disturbance, "_read", lambda: next(clocks))
    rows = list(disturbance.watched([{"case": 1}, {"case": 2}, {"case": 3}, {"case": 4, "foreign_load": 9.0}][:3]))
    assert [row["foreign_load"] for row in rows] == [1.5, 1.5, 0.0]
    assert [row["involuntary_switches"] for row in rows] == [7, 7, 1]


def test_a_short_measurement_is_seen_with_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = (0.05, 0.45, 0.55, 2.0, 2.1)  # each row was measured in one go
    times = [0.0, *(time for end in ends for time in (end, end))]
    clocks = iter(disturbance._Reading(time=t, machine=1.5 * t, own=t, switches=0) for t in times)
    monkeypatch.setattr(disturbance, "_read", lambda: next(clocks))
    windows: list[float] = []
    of_window = disturbance._disturbance

    def noted(spent: disturbance._Reading, team: None) -> dict[str, object]:
        windows.append(round(spent.time, 2))
        return of_window(spent, team)

    monkeypatch.setattr(disturbance, "_disturbance", noted)
    rows = list(disturbance.watched({"case": case} for case in range(len(ends))))
    assert windows == [0.05, 0.45, 0.5, 1.45, 1.55]
    assert [row["foreign_load"] for row in rows] == [None, 0.5, 0.5, 0.5, 0.5]


def test_work_of_this_process_and_its_children_is_not_foreign() -> None:
    program = "import time\nwhile time.process_time() < 0.5: pass"
    before, start = disturbance._read(), time.process_time()
    with subprocess.Popen([sys.executable, "-c", program]):
        while time.process_time() < start + 0.1:
            pass
    spent = disturbance._read() - before
    assert 0.5 <= spent.own <= spent.machine + 0.1


class _Machine:
    """A machine whose clocks advance by what is run on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = self.foreign = 0.0
        monkeypatch.setattr(disturbance, "_left_out", disturbance._Reading(0.0, 0.0, 0.0, 0))
        monkeypatch.setattr(time, "perf_counter", lambda: self.time)
        monkeypatch.setattr(time, "sleep", lambda seconds: self.run(seconds, next(self.loads)))
        monkeypatch.setattr(disturbance, "_busy_machine", lambda: self.time + self.foreign)
        monkeypatch.setattr(disturbance, "busy_family", lambda pid: self.time)
        self.loads: Iterator[float] = itertools.repeat(0.0)

    def run(self, seconds: float, load: float) -> None:
        """Be busy by ours, and by others as much as they load it."""
        self.time += seconds
        self.foreign += seconds * load

    def rounds(self, seconds: float, loads: Sequence[float], asked: int) -> tuple[list[int], list[int]]:
        """Take rounds under loads one after the other; return which were taken, and the place of each that is kept."""
        taken: list[int] = []

        def take(number: int) -> int:
            self.run(seconds, loads[len(taken)])
            taken.append(number)
            return len(taken) - 1

        return taken, disturbance.undisturbed(take, asked)


def test_disturbed_rounds_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)
    assert machine.rounds(1.0, [0.0, 0.0, 0.1], 3) == ([0, 1, 2], [0, 1, 2])
    assert machine.rounds(1.0, [0.0, 1.0, 0.0, 0.0], 3) == ([0, 1, 2, 1], [0, 3, 2])
    # Again and again, as many more as were asked for: then they are kept as they are.
    assert machine.rounds(1.0, [1.0] * 6, 3) == ([0, 1, 2, 0, 1, 2], [3, 4, 5])
    assert machine.rounds(1.0, [0.0, 1.0, 0.0, 1.0, 1.0, 0.0], 3) == ([0, 1, 2, 1, 1, 1], [0, 5, 2])


def test_short_rounds_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)
    # Windows of two rounds: of the first one is disturbed; the last round is judged with the window before it.
    assert machine.rounds(0.3, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 5) == ([0, 1, 2, 3, 4, 0, 1], [5, 6, 2, 3, 4])
    assert machine.rounds(0.25, [0.0, 0.0, 0.9, 0.0], 3) == ([0, 1, 2, 2], [0, 1, 3])
    # Less than half a second says nothing.
    assert machine.rounds(0.2, [1.0, 1.0], 2) == ([0, 1], [0, 1])


def test_rounds_that_were_taken_again_do_not_count_for_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)

    def rows() -> Iterator[dict[str, object]]:
        for loads in ([1.0, 0.1, 0.1], [1.0] * 4, [0.0, 0.0]):
            yield {"kept": machine.rounds(2.0, loads, 2)[1]}

    found = list(disturbance.watched(rows()))
    assert [(row["kept"], row["foreign_load"]) for row in found] == [([2, 1], 0.1), ([2, 3], 1.0), ([0, 1], 0.0)]


def test_all_variants_of_a_disturbed_round_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, log = _Machine(monkeypatch), list[str]()
    loads = iter([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])

    def variant(name: str) -> int:
        log.append(name)
        machine.run(0.5, next(loads, 0.0))
        return len(log)

    found = measure.in_turns({name: partial(variant, name) for name in "ab"}, 2, discard=1)
    assert "".join(log) == "ab" + "ba" + "ab" + "ba"
    assert found == {"a": [8, 5], "b": [7, 6]}


def test_a_benchmark_waits_for_a_quiet_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = _Machine(monkeypatch)
    for limit, waited in (("0", 0.0), ("10", 3.0), ("2.5", 2.5)):
        machine.loads = iter([1.0, 0.5, 0.0])
        monkeypatch.setenv(disturbance.QUIET_WAIT, limit)
        before = machine.time
        assert [row["case"] for row in disturbance.watched([{"case": 1}])] == [1]
        assert machine.time == before + waited
        said = capsys.readouterr().err
        assert said == ("gondwana: waiting for other programs, which keep 1.0 processors busy\n" if waited else "")


def test_rows_of_jobs_say_what_else_ran_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)
    report = Panels("io", environment={"cpu": "one"})

    def jobs() -> Iterator[int]:
        for number, load in enumerate([0.0, 1.0, 0.5, 0.5]):
            machine.run(3.0, load)
            yield number

    assert report.run(jobs(), 4, "io") == [0, 1, 2, 3]
    report.put("io", {"way": "way"}, [{"way": "there"}, {"way": "back", "foreign_load": 2.0}])
    assert [row["foreign_load"] for row in report.panels["io"]] == [0.5, 2.0]
    assert all(row["involuntary_switches"] >= 0 for row in report.panels["io"])


def test_rows_under_foreign_load_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    report = Panels("stencil", environment={})
    report.panels = {"a": [{"foreign_load": 0.1}, {"foreign_load": None}, {}]}
    report.finish()
    assert report.complete
    assert capsys.readouterr().err == ""
    report.panels["b"] = [{"foreign_load": 0.3}, {"foreign_load": 1.52}]
    report.finish(complete=False)
    assert not report.complete
    [line] = capsys.readouterr().err.splitlines()
    assert "--quiet-wait" in line


@pytest.mark.parametrize("given", ["-1", "nan", "86401"])
def test_a_wait_that_is_no_length_of_time_is_refused(given: str) -> None:
    outcome = CliRunner().invoke(bench, ["init", "--quiet-wait", given])
    assert isinstance(outcome.exception, UsageError)
    assert "legal are seconds from 0 to 86400" in str(outcome.exception)


def test_all_processes_of_a_benchmark_know_that_tables_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WIDE, "")  # is set back
    CliRunner().invoke(bench, ["init", "--sizes", "7", "--wide"])
    assert os.environ[WIDE] == "1"


def test_all_processes_of_a_benchmark_know_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disturbance.QUIET_WAIT, "0")  # is set back
    for words, expected in ([], "0"), (["--quiet-wait", "1.5"], "1.5"):
        outcome = CliRunner().invoke(bench, ["init", "--sizes", "7", *words])
        assert "multiples of 8" in str(outcome.exception)
        assert os.environ[disturbance.QUIET_WAIT] == expected
