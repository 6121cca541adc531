"""SIGTERM and SIGINT to a job: the checkpoint is written, or a second signal ends all at once; also while it starts."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from gondwana.runtime.supervisor import ECHO, descendants
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "slow_to_stop.py"
SOON = 20.0
"""Seconds in which a job has ended that ends at once, on a loaded machine."""


@contextmanager
def job(ranks: int, *arguments: str, python: str = sys.executable) -> Iterator[Popen[str]]:
    """A job whose ranks are in their loop."""
    # A shell that runs tests in the background has SIGINT ignored, and what it starts inherits that.
    words = ["env", "--default-signal=INT", python, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", "1"]
    with jobs.start_command([*words, str(PROGRAM), *arguments]) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "all ranks are here\n"
            yield process
        finally:
            jobs.kill_group(process)


def check_that_it_stops(number: signal.Signals, status: int, folder: Path, python: str = sys.executable) -> None:
    with job(2, str(folder / "ckpt.bp"), python=python) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=100)
    assert process.returncode == status, stdout + stderr
    assert f"stopped after step 7: signal {number.name}" in stdout, stdout + stderr
    assert [path.name for path in folder.iterdir()] == ["ckpt.00000007.bp"], stdout + stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_time_for_the_checkpoint(number: signal.Signals, status: int, tmp_path: Path) -> None:
    check_that_it_stops(number, status, tmp_path)


def test_a_signal_leaves_time_for_the_checkpoint_with_mpich(mpich_python: Path, tmp_path: Path) -> None:
    check_that_it_stops(signal.SIGINT, 130, tmp_path, str(mpich_python))


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_second_ctrl_c_ends_ranks_in_compiled_code(ranks: int, tmp_path: Path) -> None:
    with job(ranks, str(tmp_path / "ckpt.bp"), "never") as process:
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        time.sleep(2 * ECHO)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=SOON)
    assert process.returncode == (-signal.SIGINT if ranks == 1 else 130), stdout + stderr
    assert jobs.left_behind(family) == []


STOPS_AT_AN_IMPORT = """
import sys, time

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "gondwana.runtime.placement" and {when!r} in " ".join(sys.orig_argv):
            print("importing", flush=True)
            time.sleep(100)

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("when", ["gondwana.cli.main", "gondwana.cli.rank"])
def test_a_signal_ends_what_still_imports_without_a_word(number: signal.Signals, when: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(STOPS_AT_AN_IMPORT.format(when=when))
    words = ["env", "--default-signal=INT", sys.executable, "-m", "gondwana.cli.main", "run", "-t", "1", str(PROGRAM)]
    with jobs.start_command(words, variables={"PYTHONPATH": str(tmp_path)}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "importing\n"
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            jobs.kill_group(process)
    assert (process.returncode, stdout, stderr) == (-number, "", "")


def test_ctrl_c_between_the_command_and_its_program_is_kept_for_that() -> None:
    """As a process that has it blocked sends itself the signal before it executes a rank."""
    program = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); "
        "os.kill(os.getpid(), signal.SIGINT); python = sys.executable; "
        f"os.execv(python, [python, '-P', '-m', 'gondwana.cli.rank', {str(PROGRAM)!r}])"
    )
    outcome = jobs.run_command(["env", "--default-signal=INT", sys.executable, "-c", program])
    assert (outcome.status, outcome.stdout, outcome.stderr) == (-signal.SIGINT, "", "")
