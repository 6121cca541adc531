"""How jobs end when a rank fails, leaves or hangs: soon, with one readable message and a faithful status."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.runtime.supervisor import descendants
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "misbehave.py"
APPLICATION = PROGRAM.with_name("broken_app.py")
STUBBORN = 20.0
"""Seconds within which a job must have ended: ten, and what a loaded machine takes to start it."""


def gondwana_run(ranks: int, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", "1", *arguments]


def count(text: str, part: str) -> int:
    return text.count(part)


@pytest.mark.parametrize("through", ["script", "rank entry"])
def test_an_exception_on_one_rank_ends_the_job_with_its_traceback_once(through: str) -> None:
    started = time.monotonic()
    if through == "script":
        outcome = jobs.run_ranks(3, PROGRAM, "raise")
    else:
        outcome = jobs.run_command(gondwana_run(3, str(PROGRAM), "raise"))
    assert time.monotonic() - started < STUBBORN
    assert outcome.status == 1, str(outcome)
    assert count(outcome.stderr, "ValueError: the odd one") == 1, str(outcome)
    assert count(outcome.stderr, "Traceback") == 1
    assert f"[rank 2 on {os.uname().nodename}] ValueError: the odd one" in outcome.stderr
    assert "runpy" not in outcome.stderr
    if through == "rank entry":  # without the launcher's notices that the job was ended
        assert all(line.startswith("[rank 2 on ") for line in outcome.stderr.splitlines()), str(outcome)
        assert outcome.stderr.endswith("ValueError: the odd one\n")


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        ("all raise", 1, "ValueError: everybody"),
        ("all usage", 2, "gondwana: error: steps = -1"),
        ("usage", 2, "gondwana: error: steps = -1"),
        ("launch", 2, "gondwana: error: no memory of 8 bytes"),
        ("all launch", 2, "gondwana: error: no memory of 8 bytes"),
        ("thread", 1, "ValueError: the odd one"),
        ("agree", 1, "KeyError: 'missing'"),
        ("interrupt", 130, "KeyboardInterrupt"),
        ("exit", 3, "exits with status 3, but other ranks are still running"),
        ("text", 1, "a last word"),
    ],
)
def test_one_message_and_the_right_status(what: str, status: int, message: str) -> None:
    outcome = jobs.run_ranks(3, PROGRAM, what)
    assert outcome.status == status, str(outcome)
    # The source line of a traceback may show the message too, but never the end of a line.
    lines = [line for line in outcome.stderr.splitlines() if message in line and "raise " not in line]
    assert len(lines) == 1, str(outcome)
    assert "Traceback" not in outcome.stderr or "usage" not in what


@pytest.mark.parametrize(
    ("what", "ranks", "line"),
    [
        ("all", 3, "the fields are not finite after step 7: choose a smaller dt"),
        ("agreed", 3, "gs.bp: data.0 is damaged"),
        ("disk", 1, "ckpt.bp/data.0: No space left on device"),
        ("disk", 2, "ckpt.bp/data.0: No space left on device"),
    ],
)
def test_an_application_reports_errors_of_data_and_disk_in_one_line(what: str, ranks: int, line: str) -> None:
    outcome = jobs.run_ranks(ranks, APPLICATION, what)
    assert outcome.status == 1, str(outcome)
    assert outcome.stdout == "the result is printed\n"
    assert [text for text in outcome.stderr.splitlines() if "gondwana" in text] == [f"gondwana: error: {line}"]
    assert "Traceback" not in outcome.stderr
    assert ranks > 1 or outcome.stderr.count("\n") == 1


def test_a_mistake_in_an_application_keeps_its_traceback() -> None:
    outcome = jobs.run_ranks(2, APPLICATION, "mistake")
    assert outcome.status == 1, str(outcome)
    assert count(outcome.stderr, "KeyError: 'missing'") == 1
    assert count(outcome.stderr, "Traceback") == 1


def test_all_ranks_may_exit_with_a_status_and_lose_no_output() -> None:
    outcome = jobs.run_ranks(3, PROGRAM, "all exit")
    assert outcome.status == 4, str(outcome)
    assert count(outcome.stdout, "is here") == 3
    assert "ending the job" not in outcome.stderr


def test_a_rank_may_finish_long_before_the_others() -> None:
    outcome = jobs.run_ranks(3, PROGRAM, "leave early")
    assert outcome.status == 0, str(outcome)
    assert outcome.stderr == ""


@pytest.mark.parametrize(("what", "status"), [("usage", 2), ("raise", 1), ("interrupt", 130), ("exit", 3)])
def test_serial_programs_end_with_the_same_status(what: str, status: int) -> None:
    outcome = jobs.run_command([sys.executable, str(PROGRAM), what])
    assert outcome.status == status, str(outcome)
    assert what != "usage" or outcome.stderr == "gondwana: error: steps = -1: legal is a number from 1\n"


def test_the_time_limit_names_the_odd_rank_and_ends_the_job() -> None:
    outcome = jobs.run_command(gondwana_run(4, "--time-limit", "3", str(PROGRAM), "wander"))
    assert outcome.status == 124, str(outcome)
    assert "the time limit of 3 s is over" in outcome.stderr
    assert "ranks 0-2 in solve (misbehave.py:" in outcome.stderr
    assert "rank 3 in wander (misbehave.py:" in outcome.stderr
    assert ": look at rank 3\n" in outcome.stderr
    assert count(outcome.stderr, "where the ranks stand") == 1


def test_a_rank_that_holds_the_interpreter_is_named_and_shows_its_stack() -> None:
    outcome = jobs.run_command(gondwana_run(3, "--time-limit", "3", str(PROGRAM), "compiled"))
    assert outcome.status == 124, str(outcome)
    assert "rank 2 did not answer" in outcome.stderr
    assert "look at rank 2" in outcome.stderr
    # Printed by the C level of that rank; those that answered stay silent.
    assert count(outcome.stderr, "Timeout (0:") == 1, str(outcome)


def test_the_time_limit_holds_for_one_rank() -> None:
    outcome = jobs.run_command(gondwana_run(1, "--time-limit", "1", str(PROGRAM), "wander"))
    assert outcome.status == 124, str(outcome)
    assert "rank 0 in wander" in outcome.stderr


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan"])
def test_an_illegal_time_limit_is_refused(value: str) -> None:
    outcome = jobs.run_command([sys.executable, str(PROGRAM), "raise"], variables={"GONDWANA_TIME_LIMIT": value})
    assert outcome.status == 2
    assert outcome.stderr.count("\n") == 1
    assert "GONDWANA_TIME_LIMIT" in outcome.stderr


def wait_for_ranks(process, ranks: int) -> None:
    for _ in range(ranks):
        assert "is here" in process.stdout.readline()
    time.sleep(1)


def test_a_signal_prints_the_roll_call_and_the_job_goes_on_until_it_is_terminated() -> None:
    with jobs.start_command(gondwana_run(3, str(PROGRAM), "wander")) as process:
        try:
            wait_for_ranks(process, 3)
            os.kill(process.pid, signal.SIGUSR1)
            lines = [process.stderr.readline() for _ in range(2)]
            assert "SIGUSR1" in lines[0]
            assert "rank 2 in wander (misbehave.py:" in lines[1], lines
            assert lines[1].endswith(": look at rank 2\n"), lines
            time.sleep(1)
            assert process.poll() is None
            family = descendants(process.pid)
            assert len(family) >= 3
            process.terminate()
            assert process.wait(timeout=STUBBORN) != 0
            assert count("".join(lines) + process.stderr.read(), "where the ranks stand") == 1
        finally:
            jobs.kill_group(process)
    assert jobs.left_behind(family) == []


FINISHED = "where the ranks stand (ranks 1, 2 wait for rank 0, which has finished)"


@pytest.mark.parametrize(
    ("then", "status", "message"),
    [
        ("before one more sum", 1, FINISHED),
        ("before a message is received", 1, FINISHED),
        ("beside a thread", 3, "[rank 2 on {host}] exits with status 3, but its threads are still running (worker)"),
        ("and the last two still work", 0, ""),
    ],
)
def test_what_ranks_that_have_finished_would_have_to_do_ends_the_job(then: str, status: int, message: str) -> None:
    outcome = jobs.run_command(gondwana_run(3, str(PROGRAM), f"others finish {then}"), timeout=60)
    assert outcome.status == status, str(outcome)
    assert count(outcome.stderr, message.format(host=os.uname().nodename)) == 1 or outcome.stderr == message, str(
        outcome
    )
    assert "Traceback" not in outcome.stderr, str(outcome)


def rank_of(process: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        return next((word.partition(b"=")[2].decode() for word in words if word.startswith(b"PMIX_RANK=")), "")
    return ""


@pytest.mark.parametrize("whom", ["rank 0", "everybody"])
def test_the_time_limit_holds_for_ranks_that_are_stopped(whom: str) -> None:
    with jobs.start_command(gondwana_run(3, "--time-limit", "8", str(PROGRAM), "wander")) as process:
        try:
            for _ in range(3):
                assert "is here" in process.stdout.readline()
            for pid in descendants(process.pid):
                if whom == "everybody" or rank_of(pid) == "0":
                    os.kill(pid, signal.SIGSTOP)
            stderr = process.communicate(timeout=80)[1]
        finally:
            jobs.kill_group(process)
    assert process.returncode == 124, stderr
    assert count(stderr, "where the ranks stand (the time limit of 8 s is over") == 1, stderr
    assert "ranks 0, 1 in solve (misbehave.py:" in stderr, stderr


def test_without_gondwana_run_another_rank_keeps_the_time_limit_of_a_stopped_one() -> None:
    command = launch.command(3, [str(PROGRAM), "wander"], threads=1, time_limit=4)
    with jobs.start_command(command.argv, variables=command.variables) as process:
        try:
            for _ in range(3):
                assert "is here" in process.stdout.readline()
            os.kill(next(pid for pid in descendants(process.pid) if rank_of(pid) == "0"), signal.SIGSTOP)
            stderr = process.communicate(timeout=80)[1]
        finally:
            jobs.kill_group(process)
    assert process.returncode == 124, stderr
    assert "the time limit of 4 s is over, and rank 0 does not end the job" in stderr, stderr


def test_a_rank_that_is_killed_while_it_starts_is_named_in_one_line() -> None:
    with jobs.start_command(gondwana_run(2, str(PROGRAM), "wander")) as process:
        try:
            end = time.monotonic() + 60
            while not (found := [pid for pid in descendants(process.pid) if rank_of(pid) == "1"]):
                assert time.monotonic() < end
            os.kill(found[0], signal.SIGKILL)
            stderr = process.communicate(timeout=60)[1]
        finally:
            jobs.kill_group(process)
    assert process.returncode == 137, stderr
    named = f"gondwana: rank 1 (process {found[0]} on {os.uname().nodename}) was ended by signal 9 (Killed)"
    assert [line for line in stderr.splitlines() if "signal 9" in line] == [f"{named}; ending the job"], stderr
    assert "prterun noticed" not in stderr


def test_a_signal_and_the_time_limit_work_after_rank_0_has_finished() -> None:
    with jobs.start_command(gondwana_run(3, "--time-limit", "12", str(PROGRAM), "leave first")) as process:
        try:
            wait_for_ranks(process, 3)
            os.kill(process.pid, signal.SIGUSR1)
            lines = [process.stderr.readline() for _ in range(2)]
            assert "SIGUSR1" in lines[0]
            assert "rank 0 at the end of the program; ranks 1, 2 in wander (misbehave.py:" in lines[1], lines
            assert process.wait(timeout=60) == 124
            rest = process.stderr.read()
            assert "the time limit of 12 s is over" in rest
            assert count(rest, "rank 0 at the end of the program; ranks 1, 2 in wander") == 1, rest
        finally:
            jobs.kill_group(process)


def test_ctrl_c_ends_the_job_and_leaves_nothing() -> None:
    # A shell that runs tests in the background has SIGINT ignored, and so would the job.
    command = ["env", "--default-signal=INT", *gondwana_run(2, str(PROGRAM), "wander")]
    with jobs.start_command(command) as process:
        try:
            wait_for_ranks(process, 2)
            family = descendants(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=STUBBORN) != 0
        finally:
            jobs.kill_group(process)
    assert jobs.left_behind(family) == []


def test_a_death_that_the_launcher_lets_pass_is_reported_once_and_ends_the_job() -> None:
    argv = launch.command(3, [str(PROGRAM), "die"], threads=1)
    tolerant = (argv.argv[0], "--runtime-options", "recoverable", *argv.argv[1:])
    outcome = jobs.run_command(tolerant, variables=argv.variables, timeout=STUBBORN)
    assert outcome.status != 0
    assert count(outcome.stderr, "gondwana: rank 2 (process") == 1, str(outcome)


def test_a_killed_rank_ends_the_job() -> None:
    with jobs.start_command(gondwana_run(3, str(PROGRAM), "wander")) as process:
        try:
            wait_for_ranks(process, 3)
            family = descendants(process.pid)
            os.kill(max(family), signal.SIGKILL)
            assert process.wait(timeout=STUBBORN) != 0
        finally:
            jobs.kill_group(process)
    assert jobs.left_behind(family) == []


WITHOUT_A_WORLD = """
import gondwana as gw

@gw.foreach
def scale(p, a):
    a[p] *= 2.0

scale(gw.RectDomain(0, 4), object())
"""


def test_a_kernel_that_cannot_be_compiled_before_the_ranks_are_connected_is_reported_once(tmp_path: Path) -> None:
    program = tmp_path / "scale.py"
    program.write_text(WITHOUT_A_WORLD, encoding="utf-8")
    outcome = jobs.run_ranks(3, program)
    assert outcome.status == 1, str(outcome)
    assert count(outcome.stderr, "KernelError: compiled code cannot take") == 1, str(outcome)
    assert count(outcome.stderr, 'File "') == 2, str(outcome)  # the program's line, and the kernel that was called
