"""The progress bar: what is shown on a terminal, and that nothing is shown elsewhere."""

from __future__ import annotations

import os
import pty
import re
import sys
import types
from typing import Any

import pytest

import gondwana as gw
from gondwana.runtime import terminal
from gondwana_bench.panels import with_progress


def shown(capfd: pytest.CaptureFixture[str], team: Any, steps: range, *, done: int = 0) -> str:
    with gw.ProgressBar(team, "steps", 400, done=done) as progress:
        for step in steps:
            progress.show(step, f"{step / 2:.1f} Mcells/s")
    captured = capfd.readouterr()
    assert not captured.out
    return captured.err


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one cannot erase a line
    monkeypatch.setenv(terminal.VARIABLE, "0,100")
    monkeypatch.delenv(terminal.SWITCH, raising=False)
    monkeypatch.setattr(terminal, "_opened", lambda: sys.stderr)


@pytest.mark.usefixtures("at_a_terminal")
def test_label_count_speed_and_remaining_time_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    last = next(line for line in shown(capfd, gw.world, range(1, 401)).splitlines() if "400/400" in line)
    assert "steps" in last
    assert "200.0 Mcells/s" in last
    assert "00:00" in last
    assert re.search(r"\d+ MiB", last)


@pytest.mark.usefixtures("at_a_terminal")
def test_it_begins_at_what_was_done_before(capfd: pytest.CaptureFixture[str]) -> None:
    assert "100/400" in shown(capfd, gw.world, range(0), done=100)


@pytest.mark.usefixtures("at_a_terminal")
def test_not_every_step_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert shown(capfd, gw.world, range(1, 401)).count("/400") < 400


@pytest.mark.usefixtures("at_a_terminal")
def test_other_ranks_and_finished_work_have_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    assert not shown(capfd, types.SimpleNamespace(rank=1, size=2), range(1, 401))
    assert not shown(capfd, gw.world, range(400, 401), done=400)


@pytest.fixture
def without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(terminal.VARIABLE, "120,0")
    monkeypatch.delenv(terminal.SWITCH, raising=False)


@pytest.mark.usefixtures("without_a_terminal")
def test_without_a_terminal_there_is_a_line_every_ten_seconds(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: float(next(clock)))  # a second for each step
    lines = shown(capfd, gw.world, range(1, 41)).splitlines()
    assert [re.sub(r"\d+ MiB", "N MiB", line) for line in lines] == [
        "steps: 10 of 400, 5.0 Mcells/s, 0:06:30 left, N MiB",
        "steps: 20 of 400, 10.0 Mcells/s, 0:06:20 left, N MiB",
        "steps: 30 of 400, 15.0 Mcells/s, 0:06:10 left, N MiB",
        "steps: 40 of 400, 20.0 Mcells/s, 0:06:00 left, N MiB",
    ]


@pytest.mark.usefixtures("without_a_terminal")
def test_in_a_notebook_a_line_is_replaced(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "in_notebook", lambda: True)
    text = shown(capfd, gw.world, range(0, 401, 200))
    assert text.count("\r") >= 2
    assert text.rpartition("\r")[2].startswith("steps: 400 of 400, 200.0 Mcells/s, 0:00:00 left, ")
    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_it_can_be_switched_off(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(terminal.SWITCH, "0")
    monkeypatch.setattr(terminal, "in_notebook", lambda: True)
    assert not shown(capfd, gw.world, range(1, 401))


def test_the_terminal_of_the_launcher_is_found_on_its_own_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    try:
        with open(os.dup(slave), "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            monkeypatch.delenv(terminal.VARIABLE, raising=False)
            described = terminal.describe()
            assert re.fullmatch(r"\d+,\d+,[^,]+,\d+\.\d+\.\d+,/dev/pts/\d+", described)
            assert terminal._opened() is stderr
        with open(os.devnull, "w") as nowhere:
            monkeypatch.setattr(sys, "stderr", nowhere)
            monkeypatch.setenv(terminal.VARIABLE, described)
            found = terminal._opened()
            assert found is not None
            found.write("here\n")
            found.close()
            assert os.read(master, 100) == b"here\r\n"
            for place, other in ((2, "elsewhere"), (3, "1.2.3")):  # another host; another container
                words = described.split(",")
                words[place] = other
                monkeypatch.setenv(terminal.VARIABLE, ",".join(words))
                assert terminal._opened() is None
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.usefixtures("at_a_terminal")
def test_rows_are_passed_on_below_a_bar_that_disappears(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(with_progress(iter("abc"), 3, "panel")) == ["a", "b", "c"]
    shown = capfd.readouterr().err
    assert "panel" in shown
    assert "3/3" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased
