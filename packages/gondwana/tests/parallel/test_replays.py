"""`gondwana run --record` and `--replay`: what depends on who comes first comes out the same again."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "undetermined.py"
RANKS, ROUNDS = 3, 12  # the rounds as there
MOST_TRIES = 4
REPLAYS = [3, pytest.param(10, marks=pytest.mark.more)]


def run(way: str, folder: Path, *cases: str, **variables: str) -> jobs.Outcome:
    """Run cases of the program: the order of events is recorded in a folder, or repeated."""
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(RANKS), "-t", "1", way, str(folder)]
    return jobs.run_command([*command, str(PROGRAM), *cases], variables=variables)


def outcomes(job: jobs.Outcome) -> dict[str, list[str]]:
    """Return what each round of each case has seen."""
    assert job.status == 0, str(job)
    lines = [json.loads(line) for line in job.stdout.splitlines()]
    return {line["case"]: [json.dumps(seen) for seen in line["outcomes"]] for line in lines}


def record_several(folder: Path, *cases: str, **variables: str) -> list[tuple[Path, dict[str, list[str]]]]:
    """Record runs until each case has had two outcomes, each in some round; a few suffice if it has only one."""
    runs = []
    for number in range(MOST_TRIES):
        there = folder / str(number)
        runs.append((there, outcomes(run("--record", there, *cases, **variables))))
        assert [len(seen) for seen in runs[-1][1].values()] == [ROUNDS] * len(cases)
        if all(len({seen for _, found in runs for seen in found[case]}) > 1 for case in cases):
            break
    return runs


@pytest.mark.parametrize("replays", REPLAYS)
def test_all_outcomes_are_repeated(replays: int, tmp_path: Path) -> None:
    """Calls, active messages in compiled code, items of a channel, messages from any rank, and tasks; all in one job.

    One run has twelve rounds of each, most of them with outcomes of their own.
    """
    for folder, expected in record_several(tmp_path, "calls", "messages", "items", "anyone", "tasks"):
        for _ in range(replays):
            again = run("--replay", folder, *expected)
            assert outcomes(again) == expected
            assert "not repeated" not in again.stderr


@pytest.mark.parametrize("replays", REPLAYS)
def test_all_outcomes_are_repeated_between_nodes(replays: int, tmp_path: Path) -> None:
    nodes = {"GONDWANA_RANKS_PER_NODE": "1"}
    for folder, expected in record_several(tmp_path, "calls", "messages", **nodes):
        for _ in range(replays):
            assert outcomes(run("--replay", folder, *expected, **nodes)) == expected
    other = run("--replay", folder, *expected)
    assert other.status == 2
    assert "had 3 ranks, 1 of them on the node of rank" in other.stderr


def seen_at_failure(job: jobs.Outcome) -> list[object]:
    """Return what rank 0 has seen in the round in which it failed."""
    (line,) = {line for line in job.stderr.splitlines() if "RuntimeError: rank 2 came first: " in line}
    found: list[object] = ast.literal_eval(line.partition("first: ")[2])
    return found


def test_a_rare_failure_comes_every_time(tmp_path: Path) -> None:
    """A job that has ended by an error in one of its rounds ends by the same error in the same round.

    Behind the last event of its log, rank 0 may see entries of the next round before it fails. The others are ended by
    the launcher, and their logs shortened.
    """
    for number in range(MOST_TRIES):
        folder = tmp_path / str(number)
        recorded = run("--record", folder, "fails")
        assert all(log.stat().st_size < 1 << 16 for log in folder.glob("*.events"))
        if recorded.status:
            break
    for _ in range(3):
        again = run("--replay", folder, "fails")
        assert (again.status, again.stdout) == (recorded.status, recorded.stdout)
        if recorded.status:
            expected = seen_at_failure(recorded)
            assert seen_at_failure(again)[: len(expected)] == expected
