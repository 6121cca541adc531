"""What a signal handler raises, and the exit of a rank, take effect wherever the signal is delivered: the job ends."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "signal_handlers.py"
LIMIT = 30.0
"""Seconds within which a job must have ended: five, and what a loaded machine takes to start it."""


def outcome_of(what: str, where: str) -> jobs.Outcome:
    started = time.monotonic()
    outcome = jobs.run_ranks(3, PROGRAM, what, where, timeout=60)
    assert time.monotonic() - started < LIMIT, str(outcome)
    return outcome


@pytest.mark.parametrize(
    "where", ["finalizer", "finalizers", "weak reference", "foreign callback", "call", "end", "call at the end"]
)
def test_an_exit_by_a_signal_handler_ends_the_job_wherever_it_is_delivered(where: str) -> None:
    outcome = outcome_of("exit", where)
    assert outcome.status == 3, str(outcome)
    assert outcome.stderr.count("exits with status 3") == 1, str(outcome)
    assert "[rank 1 on" in outcome.stderr


@pytest.mark.parametrize("where", ["finalizer", "call", "continuation", "device", "end", "row"])
def test_an_exception_of_a_signal_handler_ends_the_job_wherever_it_is_delivered(where: str) -> None:
    outcome = outcome_of("raise", where)
    assert outcome.status == 1, str(outcome)
    last = [line for line in outcome.stderr.splitlines() if line.endswith("HandlerError: the odd one")]
    assert len(last) == 1, str(outcome)
    assert last[0].startswith("[rank 1 on"), str(outcome)


@pytest.mark.parametrize("where", ["exit in a call", "exit at the end", "exit on a thread"])
def test_a_call_that_exits_ends_the_rank_that_serves_it(where: str) -> None:
    outcome = outcome_of("exit", where)
    assert outcome.status == 3, str(outcome)
    assert outcome.stderr.count("exits with status 3") == 1, str(outcome)
    assert "Traceback" not in outcome.stderr


def test_the_caller_is_informed_that_a_rank_has_left_in_its_call() -> None:
    outcome = outcome_of("exit", "leave in a call")
    assert outcome.status == 1, str(outcome)
    assert "rank 1 has left the program, with status 0, in a call of rank 0" in outcome.stderr


def test_on_one_rank_the_exit_takes_effect_too() -> None:
    outcome = jobs.run_command([sys.executable, str(PROGRAM), "exit", "finalizer"], timeout=30)
    assert outcome.status == 3, str(outcome)
    assert "Traceback" not in outcome.stderr
