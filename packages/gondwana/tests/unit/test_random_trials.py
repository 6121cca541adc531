"""A small part of `make torture` that is the same every time, and what counts its tries."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter

import pytest

from gondwana.cli import main
from support.datasets import make_dataset
from support.trials import Trials, judge, verdict_of
from torture import __main__ as torture, options

pytest.importorskip("adios2")


class Started(BaseException):
    """Raised where the command would become the launcher or the program: all was legal."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data") / "gs.bp", steps=2)


def started(*args: object) -> None:
    raise Started


@pytest.mark.parametrize("seed", range(3))
def test_malformed_options_never_give_a_traceback(seed, dataset, tmp_path, monkeypatch, capsys) -> None:
    """In this process, up to the moment when ranks would start; what runs then is left to `make torture`."""
    monkeypatch.setattr(os, "execve", started)
    outcomes: Counter[str] = Counter()
    for number in range(400):
        if number >= 40 and outcomes["started"]:
            break  # few of the cases are without a mistake
        folder = tmp_path / str(number) / "try"
        kinds = options.furnish(folder, dataset)
        case = options.make(random.Random(f"{seed} {number}"), folder)
        if case.words[0] == "bench":
            continue  # might measure
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            patched.setattr(sys, "argv", ["gondwana", *case.words])
            for name, value in case.variables.items():
                patched.setenv(name, value)
            with pytest.raises((SystemExit, Started)) as end:
                main.main()
        said = capsys.readouterr()
        status = getattr(end.value, "code", None)
        outcomes["started" if status is None else str(status)] += 1
        assert status in (None, 0, 1, 2), case
        assert said.err.count("\n") == (status in (1, 2)), (case, said.err)
        assert not said.err or said.err.startswith("gondwana: error: "), (case, said.err)
        assert kinds == {name: options.kind_of(folder / name) for name in kinds}, case
    assert outcomes["started"] > 0
    assert outcomes["2"] > 10


def test_tries_are_the_same_for_the_same_seed_and_number() -> None:
    def numbers(**settings) -> list[float]:
        part = Trials("torture.part", 1e-4, 7, **settings)
        found = [rng.random() for rng in part]
        assert part.counts["tries"] == len(found)
        return found

    every = numbers()
    assert len(every) > 3
    assert numbers(only=2) == [every[2]]
    assert numbers()[:3] == every[:3]


def test_a_failure_is_printed_with_what_repeats_it(capsys) -> None:
    part = Trials("torture.part", 0, 7, only=12)
    for _ in part:
        part.record("ran", "nothing")
        part.record("hang", "what hung")
    assert capsys.readouterr().out == "part: seed 7, try 12: HANG\nwhat hung\n"
    assert part.counts == {"tries": 1, "ran": 1, "hang": 1}
    counted = {"part": part.counts, "other": Counter(tries=3, refused=3)}
    assert torture.table(counted).splitlines() == [
        "part               1 tries: 1 ran, 1 HANG",
        "other              3 tries: 3 refused, no failure",
    ]


@pytest.mark.parametrize(
    ("status", "stdout", "stderr", "verdict"),
    [
        (0, "", "", "ran"),
        (2, "", "gondwana: error: no\n", "refused"),
        (1, "", "gondwana: error: no\n", "failed"),
        (1, "VERIFICATION FAILED", "", "failed"),
        (1, "", "", "unclear"),
        (2, "", "gondwana: error: no\ngondwana: error: no\n", "unclear"),
        (1, "", "Traceback (most recent call last):\n", "traceback"),
        (-11, "", "", "crash"),
        (134, "", "", "crash"),
        (-2, "", "", "ended"),
    ],
)
def test_ends_of_commands_are_judged(status: int, stdout: str, stderr: str, verdict: str) -> None:
    assert verdict_of(status, stdout, stderr) == verdict


def test_what_hangs_or_stays_behind_is_found_and_ended(monkeypatch) -> None:
    assert judge(["sleep", "1000"], timeout=0.5).verdict == "hang"
    monkeypatch.setattr("support.jobs.left_behind", lambda pids: list(pids))
    # The command ends when the other process is the program `sleep`: in the middle of execve it has no environment.
    started = '[ "$(cat /proc/$!/comm)" = sleep ] && grep -qz TORTURE_TRY= /proc/$!/environ'
    leave = f"setsid sleep 1000 > /dev/null 2>&1 & until {started}; do sleep 0.01; done"
    orphan = judge(["bash", "-c", leave], timeout=60)
    assert orphan.verdict == "orphan"


def test_parts_are_run_in_turns_and_a_broken_one_does_not_stop_the_others(monkeypatch, capsys) -> None:
    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        def main(self, minutes: float, seed: int) -> dict[str, int]:
            if self.name == "broken":
                raise ZeroDivisionError
            turns.append((minutes, seed))
            return {"tries": 2, "ran": 2}

    turns: list[tuple[float, int]] = []
    monkeypatch.setattr(torture.importlib, "import_module", lambda name: Part(name.rpartition(".")[2]))
    counts = torture.run(["good", "broken"], 8.0, 5)
    assert turns == [(2.0, 5), (2.0, 6)]
    assert counts == {"good": Counter(tries=4, ran=4), "broken": Counter(broken=2)}
    assert "broken             0 tries: 2 BROKEN" in torture.table(counts)
    assert set(torture.names()) >= {"options", "signals", "two_jobs", "full_disks", "second_user"}
