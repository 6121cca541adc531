"""The progress bar: what is shown on a terminal, and that nothing is shown elsewhere."""

from __future__ import annotations

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


@pytest.mark.usefixtures("at_a_terminal")
def test_label_count_speed_and_remaining_time_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    last = next(line for line in shown(capfd, gw.world, range(1, 401)).splitlines() if "400/400" in line)
    assert "steps" in last
    assert "200.0 Mcells/s" in last
    assert "0:00:00" in last


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


def test_without_a_terminal_there_is_no_bar(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(terminal.VARIABLE, "120,0")
    assert not shown(capfd, gw.world, range(1, 401))


@pytest.mark.usefixtures("at_a_terminal")
def test_rows_are_passed_on_below_a_bar_that_disappears(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(with_progress(iter("abc"), 3, "panel")) == ["a", "b", "c"]
    shown = capfd.readouterr().err
    assert "panel" in shown
    assert "3/3" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased
