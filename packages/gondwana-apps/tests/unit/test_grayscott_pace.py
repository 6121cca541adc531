"""The time loop of the Gray-Scott app: how many steps are started together, and when anybody waits for a device."""

from __future__ import annotations

from typing import Any

import pytest

import gondwana as gw
from gondwana_apps import run_files
from gondwana_apps.grayscott import pace
from gondwana_apps.grayscott.kernels import inside
from gondwana_apps.grayscott.pace import Pace
from gondwana_apps.grayscott.settings import resolve

STEP = 2.0**-10


class Clock:
    """Time that passes when steps are waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Run:
    """Stands for a simulation on a device: notes the calls; a step takes about a millisecond."""

    def __init__(self, clock: Clock, fuse_steps: int) -> None:
        self.clock, self.fuse_steps, self.team, self.device = clock, fuse_steps, gw.world, object()
        self.calls: list[Any] = []
        self.waiting = 0

    def prepare(self) -> None:
        self.calls.append("prepare")
        self.clock.now += 5.0

    def advance(self, steps: int) -> None:
        self.calls.append(steps)
        self.waiting += steps

    def keep_up(self) -> None:
        self.calls.append("keep up")

    def finish(self) -> None:
        self.calls.append("finish")
        self.clock.now += STEP * self.waiting
        self.waiting = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(pace, "time", one)
    return one


@pytest.mark.parametrize("fused", [1, 2])
def test_a_device_is_waited_for_a_few_times_a_second(clock: Clock, fused: int) -> None:
    run = Run(clock, fused)
    steps = Pace(run)  # type: ignore[arg-type]
    looks = 0
    while steps.steps < 1000:
        steps.advance(1000 - steps.steps)
        looks += steps.is_time_to_look()
    steps.pause()
    assert run.calls[:5] == ["prepare", fused, "finish", "keep up", fused]
    assert run.calls[-1] == "finish"
    assert run.calls.count("finish") == 3
    assert looks == run.calls.count("keep up") == 1 + 1000 // 102
    assert [call for call in run.calls if isinstance(call, int)] == [fused, fused, 102 - 2 * fused, *8 * [102], 82]
    assert steps.first == pytest.approx(5.0 + STEP * fused)
    assert steps.seconds == pytest.approx(5.0 + 1000 * STEP)
    assert steps.seconds_per_step() == pytest.approx(STEP)


def test_the_clock_stands_while_something_else_is_done(clock: Clock) -> None:
    run = Run(clock, 1)
    steps = Pace(run)  # type: ignore[arg-type]
    for _ in range(4):
        steps.advance(1)
        steps.pause()
        steps.pause()
        clock.now += 7.0
    assert steps.seconds == pytest.approx(5.0 + 4 * STEP)
    assert run.calls.count("finish") == 4


def test_a_run_of_one_sweep_has_a_speed(clock: Clock) -> None:
    run = Run(clock, 2)
    steps = Pace(run)  # type: ignore[arg-type]
    assert steps.seconds_per_step() == 0.0
    steps.advance(1)
    assert steps.seconds_per_step() == pytest.approx(5.0 + STEP)


def test_steps_end_where_something_is_written() -> None:
    def steps_to_next(done: int, **keys: Any) -> int:
        settings = resolve({"steps": 100, "plotgap": 30, "checkpoint_freq": 35, **keys})
        return run_files.steps_to_next(settings, done, settings.steps - done)

    assert steps_to_next(0) == 30
    assert steps_to_next(30, checkpoint=True) == 5
    assert steps_to_next(35, checkpoint=True, output=None) == 35
    assert steps_to_next(0, output=None) == 100
    assert steps_to_next(90, checkpoint=True) == 10


def test_cells_outside_are_those_on_the_other_side() -> None:
    assert [inside(x, 12) for x in (-2, -1, 0, 11, 12, 13)] == [10, 11, 0, 11, 0, 1]
    assert inside(-1, None) == -1
