"""Rounds that are taken again because of other programs: all ranks take the same ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import gondwana as gw
from gondwana_bench import disturbance


@pytest.mark.parallel
@pytest.mark.ranks(2, timeout=280)
def test_ranks_take_the_same_rounds_again(monkeypatch: pytest.MonkeyPatch) -> None:
    team = gw.world
    spent = {"time": 0.0, "machine": 0.0, "own": 0.0}
    monkeypatch.setattr(disturbance, "_left_out", disturbance._Reading(0.0, 0.0, 0.0, 0))
    monkeypatch.setattr(disturbance, "time", SimpleNamespace(perf_counter=lambda: spent["time"]))
    monkeypatch.setattr(disturbance, "_busy_machine", lambda: spent["machine"])
    monkeypatch.setattr(disturbance, "busy_family", lambda pid: spent["own"])
    taken: list[int] = []

    def take(number: int) -> int:
        # A window of rank 1 has two rounds, one of rank 0 alone would have three; others load the first two.
        seconds = (0.2, 0.4)[team.rank]
        spent["time"] += seconds
        spent["own"] += seconds / 4
        spent["machine"] += seconds if len(taken) < 2 else (0.15, 0.2)[team.rank]
        taken.append(number)
        return len(taken) - 1

    assert disturbance.undisturbed(take, 2, team) == [2, 3]
    assert taken == [0, 1, 0, 1]
    assert team.allgather(taken) == [taken] * 2
