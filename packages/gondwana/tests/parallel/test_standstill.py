"""Jobs in which no rank can go on say who waits for whom, and end; those that only look like it go on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from gondwana.runtime.supervisor import descendants
from support import jobs
from support.jobs import Outcome

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "standstill.py"
NODES = {"GONDWANA_RANKS_PER_NODE": "1"}
AT_ONCE = 6
"""Jobs that run at a time: most of the time they wait."""

STUCK = {
    "receives": (2, {}, "ranks 0, 1 wait for each other", r"rank 0 in receives \(standstill.py:\d+\) waits for a "
                 "message from rank 1 with tag 3"),
    "buffers_received": (3, NODES, "ranks 0-2 wait for what no rank is left to do",
                         "waits? for a message from any rank with tag 4"),
    "large_sends": (2, NODES, "ranks 0, 1 wait for each other", "rank 0 .* waits for rank 1 to receive a message"),
    "request": (3, {}, "ranks 0-2 wait for each other", "rank 2 .* waits for a message from rank 1 with tag 5"),
    "collective": (3, {}, "wait for each other", r"ranks 0, 1 .* wait in an allgather of objects, collective \d+ of "),
    "signal": (2, NODES, "wait for each other", "for 2 arrivals on channel 1 of Signal .*, which has 0"),
    "lock": (3, {}, "wait for each other", "ranks 1, 2 .* for Lock .* of world, which rank 0 holds"),
    "locks_in_two_orders": (2, {}, "ranks 0, 1 wait for each other", "which rank 1 holds"),
    "empty_channel": (2, NODES, "no rank is left to do", "ranks? .* for an item of <.*Channel 1 at rank 0>"),
    "full_channel": (2, {}, "no rank is left to do", "for room in <RemoteChannel 1 at rank 0>, which has 1 of 1 items"),
    "future": (2, {}, "no rank is left to do", "for the result of Stuck.future.<locals>.<lambda> on rank 1"),
    "exchange": (2, {}, "ranks 0, 1 wait for each other", "rank 0 .* waits for rank 1 to come to this exchange"),
    "ended": (3, {}, "rank 2 waits for ranks 0, 1, which have finished", "rank 2 .* waits for a message from rank 0"),
    "tasks": (2, {}, "no rank is left to do", "in <Task .*consume.*> .*for an item of <RemoteChannel 1"),
    "compiled_receive": (2, {}, "wait for each other", "rank 0 .* waits for a message from rank 1 with tag 7"),
    "compiled_signal": (3, {}, "wait for each other", "for 2 arrivals on channel 0 of Signal"),
    "compiled_barrier": (2, {}, "wait for each other", r"rank 0 .* waits in a barrier, collective \d+ of world"),
    "compiled_take": (2, {}, "no rank is left to do", "for an item of <RemoteChannel 1 of float64 at rank 0>"),
    "compiled_put": (2, {}, "no rank is left to do", "for room in <.*, which has 3 of 3 items"),
    "compiled_exchange": (2, {}, "wait for each other", "rank 0 .* waits for rank 1 to come to this exchange"),
    "compiled_request": (2, NODES, "wait for each other", "rank 1 .* waits for a message from rank 0 with tag 8"),
}  # fmt: skip
"""Ranks and environment of each program; who waits, and for what one of them does."""

PATIENT = (
    "sleep limited_wait events",
    "compute thread alarm",
    "process sleeping_task progress_thread",
    "standard_input",
)
"""Programs that go on, several in a job."""


def run(ranks: int, variables: dict[str, str], *arguments: str, stdin: int | None = None) -> Outcome:
    words = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", "1", str(PROGRAM), *arguments]
    return jobs.run_command(words, variables=variables, timeout=120)


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Future[Outcome]]]:
    """All jobs side by side: alone, each would take the seconds in which it is certain that it stands still."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = {name: pool.submit(run, ranks, set_, name) for name, (ranks, set_, *_) in STUCK.items()}
        found["collectives"] = pool.submit(run, 3, {}, "collectives")
        found |= {names: pool.submit(run, 3, {}, *names.split()) for names in PATIENT[:3]}
        yield found


@pytest.mark.parametrize("name", STUCK)
def test_a_job_that_stands_still_says_who_waits_for_whom(name: str, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[name].result()
    assert outcome.status == 1, str(outcome)
    lines = outcome.stderr.splitlines()
    assert lines[0].startswith("gondwana: where the ranks stand ("), str(outcome)
    assert STUCK[name][2] in lines[0], str(outcome)
    assert re.search(STUCK[name][3], lines[1]), str(outcome)
    assert "standstill.py:" in lines[1], str(outcome)
    assert outcome.stderr.count("where the ranks stand") == 1, str(outcome)
    assert "look at" not in lines[1]
    assert lines[2].endswith("."), "what to change"


def test_different_collectives_are_reported_with_the_place_of_each_rank(outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes["collectives"].result()
    assert outcome.status == 2, str(outcome)
    lines = outcome.stderr.splitlines()
    assert lines[0] == "gondwana: where the ranks stand (the ranks of world call different collectives):"
    # Ranks 1 and 2 are named together unless one of them looks for the mistake just then, and the other still waits.
    found = re.findall(r"ranks? ([0-9, ]+) in collectives \(standstill.py:(\d+)\)", lines[1])
    lines_of_ranks = {rank: line for ranks, line in found for rank in ranks.split(", ")}
    assert set(lines_of_ranks) == {"0", "1", "2"}, str(outcome)
    assert lines_of_ranks["0"] != lines_of_ranks["1"] == lines_of_ranks["2"]
    assert "call different collectives: rank" in lines[-1]


@pytest.mark.parametrize("names", PATIENT[:3])
def test_a_job_that_only_waits_for_long_goes_on(names: str, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[names].result()
    assert (outcome.status, outcome.stderr) == (0, ""), str(outcome)
    assert outcome.stdout.count("went on") == 3


def test_a_rank_that_is_stopped_or_reads_is_waited_for() -> None:
    words = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", str(PROGRAM), "standard_input"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            time.sleep(6)
            ranks = [pid for pid in descendants(process.pid) if b"PMIX_RANK=1" in environment(pid)]
            os.kill(ranks[-1], signal.SIGSTOP)
            process.stdin.write(b"go on\n")
            process.stdin.flush()
            time.sleep(4)
            assert process.poll() is None
            os.kill(ranks[-1], signal.SIGCONT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, stderr) == (0, b"")
    assert stdout.count(b"went on") == 2


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def test_ctrl_c_says_who_waits_for_whom() -> None:
    words = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", str(PROGRAM), "never"]
    with jobs.start_command(["env", "--default-signal=INT", *words]) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == 2 * ["is here\n"]
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            stderr = process.communicate(timeout=60)[1]
        finally:
            jobs.kill_group(process)
    assert process.returncode == 130, stderr
    assert "rank 1 in wait_for_first (standstill.py:" in stderr, stderr
    assert "waits for a message from rank 0" in stderr, stderr
