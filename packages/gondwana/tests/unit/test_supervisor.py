"""The supervisor of a job, with small scripts as launcher and rank: what it passes on, grants and returns."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from subprocess import Popen

import pytest
from hypothesis import given, strategies as st

from gondwana.runtime import launcher, supervisor
from gondwana.runtime.watching import notices
from support import jobs

# It starts a rank and ends like it; at SIGTERM it kills the rank, as launchers of MPI do.
LAUNCHER = """
import os, signal, subprocess, sys
rank = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "PMIX_RANK": "0"},
                        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []))
def end(number, frame):
    print("launcher: SIGTERM", flush=True)
    rank.kill()
signal.signal(signal.SIGTERM, end)
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: print("launcher:", signal.Signals(number).name, flush=True))
print("launcher: blocks SIGINT" if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []) else "", flush=True)
sys.exit(abs(rank.wait()))
"""

STOPS = """
import signal, time
asked = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: asked.append(signal.Signals(number).name))
print("rank: here", flush=True)
while not asked:
    time.sleep(0.01)
{work}
print("rank: stopped by", *asked, flush=True)
"""
SLOW = STOPS.format(work="time.sleep(2)")
ENDLESS = STOPS.format(work="time.sleep(1000)")
WRITES = STOPS.format(
    work="""
with open("output", "wb") as file:
    for _ in range(25):
        file.write(bytes(1 << 20))
        file.flush()
        time.sleep(0.2)
"""
)
WAITS = "print('rank: here', flush=True); import time; time.sleep(1000)"


@contextmanager
def supervised(folder: Path, rank: str, patience: float = 60.0) -> Iterator[Popen[str]]:
    """A supervisor whose rank has begun."""
    # By its path, as it is executed: the package would take a second to import.
    supervise = f"import runpy; supervisor = runpy.run_path({supervisor.__file__!r})['Supervisor']"
    program = f"{supervise}; import sys; sys.exit(supervisor(sys.argv[1:], {signal.SIGTERM:d}, {patience}).run())"
    (folder / "launcher.py").write_text(LAUNCHER)
    # A shell that runs tests in the background has SIGINT ignored.
    words = ["env", "--default-signal=INT", sys.executable, "-c", program]
    with jobs.start_command([*words, sys.executable, "launcher.py", rank], cwd=folder) as process:
        try:
            assert process.stdout is not None
            assert {process.stdout.readline(), process.stdout.readline()} == {
                "launcher: blocks SIGINT\n",
                "rank: here\n",
            }
            yield process
        finally:
            jobs.kill_group(process)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_rank_that_handles_sigterm_has_time_to_stop(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with supervised(tmp_path, SLOW) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert stdout == f"rank: stopped by {number.name}\n"
    assert stderr == (
        f"gondwana: {number.name}: the program has 60 s to stop, more while it writes; "
        "a second signal ends it at once\n"
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_other_ranks_are_left_to_the_launcher_at_once(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with supervised(tmp_path, WAITS) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (status, "launcher: SIGTERM\n", "")


def test_a_second_signal_ends_the_job_at_once_and_an_echo_of_the_first_does_not(tmp_path: Path) -> None:
    with supervised(tmp_path, ENDLESS) as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        time.sleep(2 * supervisor.ECHO)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (143, "launcher: SIGTERM\n")


def test_the_time_to_stop_is_bounded(tmp_path: Path) -> None:
    with supervised(tmp_path, ENDLESS, patience=1.0) as process:
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (143, "launcher: SIGTERM\n")
    assert stderr.splitlines()[1:] == ["gondwana: the program has not stopped in time: ending it"]


def test_a_rank_that_writes_has_more_time(tmp_path: Path) -> None:
    with supervised(tmp_path, WRITES, patience=3.0) as process:
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(timeout=60)
    assert time.monotonic() - begun > 3.0
    assert (process.returncode, stdout) == (143, "rank: stopped by SIGTERM\n")
    assert (tmp_path / "output").stat().st_size == 25 << 20


def test_a_failure_while_stopping_is_the_status(tmp_path: Path) -> None:
    with supervised(tmp_path, STOPS.format(work="raise SystemExit(7)")) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_are_for_the_launcher(tmp_path: Path, number: signal.Signals) -> None:
    with supervised(tmp_path, WAITS) as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == f"launcher: {number.name}\n"
        assert process.poll() is None


def test_a_launcher_outlives_no_supervisor(tmp_path: Path) -> None:
    with supervised(tmp_path, WAITS) as process:
        family = supervisor.descendants(process.pid)
        assert len(family) == 2
        process.kill()
        assert jobs.left_behind(family, patience=30) == []


def test_a_killed_launcher_is_reported(tmp_path: Path) -> None:
    with supervised(tmp_path, WAITS) as process:
        launcher, rank = supervisor.descendants(process.pid)
        try:
            os.kill(launcher, signal.SIGKILL)
            assert process.wait(timeout=30) == 137
            assert process.stderr is not None
            assert "launcher was ended by SIGKILL" in process.stderr.readline()
        finally:
            os.kill(rank, signal.SIGKILL)  # a real one would have ended with its launcher


RULE = b"-" * 74 + b"\n"
ABORT = RULE + b"MPI_ABORT was invoked on rank 1 in communicator X\n  Errorcode: 1\n\nNOTE: it ends.\n" + RULE
EXITED = RULE + b'prterun has exited due to process rank 1 with PID 0 on node vm calling\n"abort".\n' + RULE
STATUS = RULE + b"prterun detected that one or more processes exited with non-zero status,\nthus\n" + RULE
SIGNAL = RULE + b"prterun noticed that process rank 1 with PID 7 on node vm exited on\nsignal 9.\n" + RULE
KILLED = RULE + b"prterun noticed that process rank 1 with PID 7 on node vm exited on\nsignal 9 (Killed).\n" + RULE
REPORT = b"[rank 1 on vm] ValueError: no\n"
TABLE = b"a table\n" + RULE + b"MPI_ABORT is not in the first line\n" + RULE + b"-----\n\0 a \r b\xff"


@pytest.mark.parametrize(
    ("pieces", "printed"),
    [
        ((REPORT, ABORT, EXITED, b"\0"), (REPORT,)),
        ((ABORT, EXITED, REPORT), (REPORT,)),
        ((RULE, ABORT, b"gondwana: error: no\n", RULE[:40]), (RULE, b"gondwana: error: no\n", RULE[:40])),
        ((REPORT, b"unfinished", b"\n", STATUS, b"after\n"), (REPORT, b"unfinished\n", b"after\n")),
        ((REPORT, SIGNAL, TABLE), (REPORT, SIGNAL, TABLE)),
        (
            (b"late\n", KILLED, ABORT),
            (b"late\n", b"gondwana: rank 1 (process 7 on vm) was ended by signal 9 (Killed); ending the job\n"),
        ),
        ((REPORT, KILLED, TABLE), (REPORT, KILLED, TABLE)),
        ((b"no rank says why\n", ABORT, STATUS), (b"no rank says why\n", ABORT, STATUS)),
        ((b" [rank 1 on vm] is not at the start\n", ABORT), (b" [rank 1 on vm] is not at the start\n", ABORT)),
        ((REPORT, ABORT[:-80], b"more\n" * 30), (REPORT, ABORT[:-80], b"more\n" * 30)),
        ((REPORT, ABORT[:100]), (REPORT, ABORT[:100])),
        ((b"\0" + REPORT, ABORT), (REPORT,)),
        ((b"\0\0", b"\0", REPORT, ABORT, b"\0\0"), (REPORT,)),
        ((ABORT, b"\0gondwana: error: no\n", EXITED), (b"gondwana: error: no\n",)),
        ((b"\0not of ours\n", b"\0[ran"), (b"\0not of ours\n", b"\0[ran")),
    ],
)
@given(data=st.data())
def test_notices_below_a_report_are_left_out_and_nothing_else(
    pieces: tuple[bytes, ...], printed: tuple[bytes, ...], data: st.DataObject
) -> None:
    text = b"".join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    errors = notices.Errors()
    found = b"".join(errors.pass_on(text[a:b]) for a, b in pairwise([0, *cuts, len(text)]))
    assert found + errors.end() == b"".join(printed)


def test_what_cannot_be_a_notice_is_printed_at_once() -> None:
    errors = notices.Errors()
    for piece in (b"50 %\r", b"prompt> ", b"\n", b"- ", b"item\n", b"\n"):
        assert errors.pass_on(piece) == piece
    assert errors.pass_on(RULE) == b""
    assert errors.pass_on(b"M") == b""
    assert errors.pass_on(b"y table\n") == RULE + b"My table\n"


def test_a_launcher_that_is_not_there_is_reported(tmp_path: Path) -> None:
    outcome = jobs.run_command([sys.executable, "-I", "-S", supervisor.__file__, "15", "/no/launcher"], cwd=tmp_path)
    assert (outcome.status, outcome.stderr) == (127, "gondwana: error: /no/launcher: No such file or directory\n")


def test_the_status_is_that_of_the_launcher(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit(7)"]
    assert jobs.run_command([sys.executable, "-I", "-S", supervisor.__file__, "15", *program], cwd=tmp_path).status == 7


@pytest.mark.parametrize(
    ("said", "status"), [("gondwana: error: no", 2), ("[rank 0 on vm] ValueError: no", 1), ("anything", 134)]
)
def test_a_launcher_that_crashes_does_not_hide_the_status_of_a_rank(tmp_path: Path, said: str, status: int) -> None:
    crash = f"import os, sys; print({said!r}, file=sys.stderr, flush=True); os.abort()"
    words = [sys.executable, "-I", "-S", supervisor.__file__, "15", sys.executable, "-c", crash]
    outcome = jobs.run_command(words, cwd=tmp_path)
    assert outcome.status == status
    assert "launcher was ended by SIGABRT" in outcome.stderr


# Like Open MPI's launcher when it is killed, it leaves what it has made in the folder of its session.
SESSION = f"""
import os, stat
folder = os.environ["{supervisor.SESSIONS}"]
open(os.path.join(folder, "left"), "w").close()
print(folder, oct(stat.S_IMODE(os.stat(folder).st_mode)))
"""


def test_each_job_has_a_session_folder_and_leaves_none(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", supervisor.__file__, "15", sys.executable, "-c", SESSION]
    variables = {"TMPDIR": str(tmp_path), supervisor.SESSIONS: ""}
    found = [jobs.run_command(command, variables=variables).stdout.split() for _ in range(2)]
    assert [mode for _, mode in found] == ["0o700", "0o700"]
    assert len({folder for folder, _ in found}) == 2
    assert {str(Path(folder).parent) for folder, _ in found} == {str(tmp_path)}
    assert list(tmp_path.iterdir()) == []


def test_a_session_folder_of_the_user_is_used_and_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", supervisor.__file__, "15", sys.executable, "-c", SESSION]
    folder, _ = jobs.run_command(command, variables={supervisor.SESSIONS: str(tmp_path)}).stdout.split()
    assert folder == str(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["left"]


FILES_IN_MEMORY = f"""
import os, stat
folder = os.environ["{supervisor.MEMORY}"]
if folder != "given":
    open(os.path.join(folder, "sm_segment"), "w").close()
    print(folder, oct(stat.S_IMODE(os.stat(folder).st_mode)))
"""


def test_files_in_memory_of_ranks_that_were_ended_go_with_the_job() -> None:
    command = [sys.executable, "-I", "-S", supervisor.__file__, "15", sys.executable, "-c", FILES_IN_MEMORY]
    outcome = jobs.run_command(command, variables={supervisor.MEMORY: supervisor.SHARED_MEMORY})
    folder, mode = outcome.stdout.split()
    assert (Path(folder).parent, mode) == (Path("/dev/shm"), "0o700")
    assert not Path(folder).exists()


def test_a_folder_for_files_in_memory_that_a_user_names_is_left_alone() -> None:
    command = [sys.executable, "-I", "-S", supervisor.__file__, "15", sys.executable, "-c", FILES_IN_MEMORY]
    assert jobs.run_command(command, variables={supervisor.MEMORY: "given"}).stdout == ""


KILLED_NOTICE = """--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 20471 on node vm exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("printed", "lost"),
    [
        (KILLED_NOTICE, "rank 1 (process 20471 on vm) was ended by signal 9 (Killed)"),
        (
            "gondwana: rank 1 (process 5 on a) terminated abnormally: it was killed, crashed, or called os._exit; "
            "ending the job\n",
            "rank 1 (process 5 on a) terminated abnormally",
        ),
        (
            "gondwana: host b does not answer any more: it is gone, or what has started rank 1 there; ending the job\n",
            "host b does not answer any more",
        ),
        ("PRTE has lost communication with a remote daemon.\n", "PRTE has lost communication with a remote daemon"),
        ("srun: error: beta: task 1: Killed\n", "beta: task 1: Killed"),
        ("srun: error: beta: tasks 1-2: Segmentation fault (core dumped)\n", "beta: tasks 1-2: Segmentation fault"),
        ("[rank 0 on a] ValueError: x\nsrun: error: beta: task 1: Killed\n", ""),
        ("srun: error: beta: task 1: Exited with exit code 1\n", ""),
        ("gondwana: where the ranks stand (deadlock: ...):\n", ""),
        ("gondwana: rank 1 is of no interest\n", ""),
    ],
)
def test_what_a_job_has_lost_is_read_from_what_it_prints(printed: str, lost: str) -> None:
    errors = notices.Errors()
    for byte in printed.encode():
        errors.pass_on(bytes([byte]))
    errors.end()
    assert errors.lost == lost


def test_a_job_is_started_again_by_this_command_or_by_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, expected in (("GONDWANA_RESTARTED", 2), ("SLURM_RESTART_COUNT", 4)):
        monkeypatch.setenv(name, "2")
        assert launcher.restarted() == expected
