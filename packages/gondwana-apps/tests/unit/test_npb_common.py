"""What the NAS benchmarks share, proved by a benchmark that computes next to nothing."""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.results import count_lines
from gondwana_apps.npb.common import app, sections, stream
from gondwana_apps.npb.common.benchmark import Echo, Outcome
from gondwana_apps.npb.common.clock import Clock


@dataclass(frozen=True)
class Sum:
    letter: str
    iterations: int
    reference: float

    def size_text(self) -> str:
        return str(self.iterations)


@gw.jit
def add_up(count: int) -> int:
    """Compiled functions count, too."""
    total = 0
    # As slow as can be.
    for i in range(count):
        total += i
    return total


class Adder:
    """Adds the numbers below its size. --spoil replaces the value."""

    name, program = "MG", "npb-adder"
    sections: tuple[str, ...] = ("total", "resid", "comm3", "totcomp", "totcomm")
    variants: tuple[str, ...] = ("plain", "fancy")
    problems: Mapping[str, Sum] = {"S": Sum("S", 4, 6.0), "A": Sum("A", 5, 10.0), "D": Sum("D", 6, 15.0)}

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--spoil", type=float)
        parser.add_argument("--unknown", action="store_true")

    def check(self, problem: Sum, options: argparse.Namespace, ranks: int | None) -> None:
        if ranks == 3:
            raise UsageError("npb-adder: 3 ranks: legal are powers of two")

    def needs(self, problem: Sum, options: argparse.Namespace, ranks: int) -> int:
        return 2**60 if problem.letter == "D" else ranks

    def describe(self, problem: Sum, options: argparse.Namespace, team: gw.Team) -> list[str]:
        return [f" Size: {problem.size_text()} (class {problem.letter})"]

    def run(
        self, problem: Sum, options: argparse.Namespace, team: gw.Team, sections: sections.Sections, echo: Echo
    ) -> Outcome:
        with Clock(team) as clock, sections("resid"):
            value = float(add_up(problem.iterations))
        with sections("comm3"):
            time.sleep(1e-4)
        value = value if options.spoil is None else options.spoil
        error = abs(value - problem.reference) / problem.reference
        return Outcome(
            seconds=clock.seconds,
            value=value,
            error=error,
            verified=None if options.unknown else not error > 1e-8,  # wrong for NaN, on purpose
            active=team.size,
            seconds_setup=0.0,
            seconds_compile=0.0,
            extra={"grid": [1, 1, team.size]},
        )

    def mops(self, problem: Sum) -> float:
        return 1e-6 * problem.iterations

    def reference(self, problem: Sum) -> float:
        return problem.reference

    def lines(self) -> Mapping[str, Sequence[object]]:
        return {"computation": [add_up], "declarations": [Sum]}


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, str], str]:
    """The exit status, what a reader of `key = value` lines finds, and all of the output."""
    status = app.main(Adder(), list(argv))
    out = capsys.readouterr().out
    pairs = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    return status, {key.strip(): value.strip() for key, value in pairs.items()}, out


def test_lines_fit_a_terminal_and_words_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPB_TIMER_FLAG", "1")
    _, found, out = run(capsys, "--class", "A")
    monkeypatch.setenv("GONDWANA_TERMINAL", "80,0")
    _, folded, narrow = run(capsys, "--class", "A")
    assert max(map(len, out.splitlines())) > 80 >= max(map(len, narrow.splitlines()))
    assert found.keys() == folded.keys()
    changing = r"-?[\d.]+(E.\d+)?"
    assert re.sub(changing, "", narrow).split() == re.sub(changing, "", out).split()


def test_stream_has_its_official_values() -> None:
    assert [stream.state_after(k) for k in (1, 2, 3, 4)] == [
        55909509111989, 61155031930969, 45573031421645, 55279057169489
    ]  # fmt: skip
    assert [stream.power(k) for k in (2, 3, 64, 1024, 16384)] == [
        57961422730425, 8081127688877, 50673755460353, 30953364860929, 45249578860545
    ]  # fmt: skip
    out = np.zeros(4)
    assert stream.fill(out, stream.SEED) == 55279057169489
    assert out.tolist() == [0.7945219111887383, 0.8690652738745399, 0.6476317284643329, 0.7855626502289539]


@pytest.mark.parametrize("count", [0, 1, 3, 5, 8, 1001])
def test_stream_by_lanes_is_the_stream_one_by_one(count: int) -> None:
    state, steps = stream.SEED, []
    for _ in range(count):
        state = stream.MULTIPLIER * state % stream.MODULUS
        steps.append(state * stream.UNIT)
    out = np.zeros(count)
    assert stream.fill(out, stream.SEED) == state
    assert out.tolist() == steps


def test_jump_is_as_many_steps() -> None:
    draw = random.Random(7)
    for _ in range(20):
        first, more = draw.randrange(10**6), draw.randrange(1000)
        out = np.zeros(more)
        assert stream.fill(out, stream.state_after(first)) == stream.state_after(first + more)
    assert stream.power(0) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", True), ("1", True), ("9", True), ("on", True), ("YES", True), ("true", True)]
    + [("0", False), ("off", False), ("no", False), ("12", False)],
)
def test_timer_flag_is_read_as_officially(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPB_TIMER_FLAG", value)
    assert sections.wanted() is expected


def test_timer_file_counts_without_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NPB_TIMER_FLAG", raising=False)
    assert not sections.wanted()
    Path("timer.flag").touch()
    assert sections.wanted()
    monkeypatch.setenv("NPB_TIMER_FLAG", "0")
    assert not sections.wanted()


def test_sections_add_up_and_divide_into_computation_and_communication() -> None:
    timers = sections.Sections(gw.world, ("resid", "comm3"), enabled=True)
    timers.add("comm3", 9.0)
    timers.clear()
    timers.add("comm3", 0.25)
    with timers("resid"):
        pass
    spreads = timers.spreads(1.0)
    assert list(spreads) == ["total", "resid", "comm3", "totcomp", "totcomm"]
    assert spreads["totcomm"].average == 0.25
    assert spreads["totcomp"] == (0.75, 0.75, 0.75)
    assert 0 < spreads["resid"].maximum < 0.25
    assert sections.table(spreads, 1)[3].startswith(" timer  3(comm3   ) :      0.2500")


def test_disabled_sections_are_one_shared_nothing() -> None:
    timers = sections.Sections(gw.world, ("resid",), enabled=False)
    assert timers("resid") is timers("anything")


def test_output_has_the_official_keys_in_their_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "adder.json"
    status, pairs, out = run(capsys, "--class", "A", "--json", str(file))
    assert status == 0
    assert " NAS Parallel Benchmarks 3.4 -- MG Benchmark\n\n Size: 5 (class A)\n" in out
    assert list(pairs)[:12] == [
        "Class", "Size", "Iterations", "Time in seconds", "Total processes", "Active procs", "Mop/s total",
        "Mop/s/process", "Operation type", "Verification", "Version", "Compile date",
    ]  # fmt: skip
    assert (pairs["Class"], pairs["Size"], pairs["Verification"]) == ("A", "5", "SUCCESSFUL")
    assert "VERIFICATION SUCCESSFUL\n L2 Norm is  1.0000000000000E+01\n Error is    0.0" in out
    assert "computation 6" in out
    assert "197 lines in all" in out
    result: dict[str, Any] = json.loads(file.read_text())
    assert result["verified"] is True
    assert (result["app"], result["class"], result["ranks"], result["variant"]) == ("npb-adder", "A", 1, "plain")
    assert (result["value"], result["reference"], result["error"], result["grid"]) == (10.0, 10.0, 0.0, [1, 1, 1])
    assert 0 < result["seconds_min"] <= result["seconds"]
    assert result["mops"] == pytest.approx(5e-6 / result["seconds"])
    assert result["lines"] == {"communication": 0, "computation": 6, "declarations": 7}
    assert result["peak_memory"] > 2**20
    assert result["config"]["letter"] == "A"
    assert result["sections"] == {}


def test_timer_table_is_printed_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPB_TIMER_FLAG", "1")
    file = tmp_path / "adder.json"
    _, _, out = run(capsys, "--json", str(file))
    assert " timer  2(resid   ) :" in out
    written = json.loads(file.read_text())["sections"]
    assert written["totcomm"]["average"] == written["comm3"]["average"] > 0


@pytest.mark.parametrize("value", ["7.5", "nan", "inf"])
def test_wrong_values_and_nan_fail(value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "adder.json"
    status, pairs, out = run(capsys, "--spoil", value, "--json", str(file))
    assert status == 1
    assert pairs["Verification"] == "UNSUCCESSFUL"
    assert "VERIFICATION FAILED" in out
    assert "The correct L2 Norm is  6.0000000000000E+00" in out
    result = json.loads(file.read_text())
    assert result["verified"] is False
    assert result["value"] == (7.5 if math.isfinite(float(value)) else None)


def test_nothing_to_compare_with_is_unsuccessful_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, pairs, out = run(capsys, "--unknown")
    assert status == 0
    assert pairs["Verification"] == "UNSUCCESSFUL"
    assert "NO VERIFICATION PERFORMED" in out


@pytest.mark.parametrize(
    ("argv", "ranks", "expected"),
    [
        (["--class", "Q"], 1, "npb-adder: there is no --class Q: legal are S, A, D"),
        (["--variant", "odd"], 1, "npb-adder: there is no --variant odd: legal are plain, fancy"),
        (["--frobnicate"], 1, "npb-adder: unrecognized arguments: --frobnicate; see gondwana run npb-adder --help"),
        (["--class"], 1, "npb-adder: argument --class: expected one argument; see gondwana run npb-adder --help"),
        ([], 3, "npb-adder: 3 ranks: legal are powers of two"),
        (["--json", "/no/such/folder/x.json"], 1, "--json /no/such/folder/x.json: the folder /no/such/folder does not"),
        (["--json", "/tmp"], 1, "--json /tmp: this is a folder; name another file"),
        (
            ["--class", "D"],
            2,
            "npb-adder: --class D needs 1,073,741,824 GiB of memory and 8 GiB are free; take --class",
        ),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(
    argv: list[str], ranks: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "available_memory", lambda: 8 * 2**30)
    with pytest.raises(UsageError) as error:
        app.check(Adder(), argv, ranks)
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


def test_what_can_run_passes() -> None:
    app.check(Adder(), ["--class", "A", "--variant", "fancy"], 4)
    app.check(Adder(), [])


def test_clock_keeps_the_collector_out() -> None:
    import gc

    with Clock(gw.world) as clock:
        assert not gc.isenabled()
    assert gc.isenabled()
    assert clock.seconds > 0


def test_lines_of_a_part_inside_another_count_once() -> None:
    inner = count_lines({"communication": [Adder.lines]})["communication"]
    whole = count_lines({"communication": [Adder]})["communication"]
    assert count_lines({"communication": [Adder.lines], "computation": [Adder]}) == {
        "communication": inner, "computation": whole - inner, "declarations": 0
    }  # fmt: skip
    assert inner == 2


def test_lines_of_timers_do_not_count() -> None:
    def timed(run: Any) -> int:
        start = gw.clock()
        with run.sections("comm3"):
            found = len("sections")
        return found + gw.clock() - start

    assert count_lines({"computation": [timed]})["computation"] == 5
    assert count_lines({"computation": [timed]}, sections.TIMERS)["computation"] == 2  # the head, and what is timed
