"""The processes of a job, found from the one that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from gondwana.errors import UsageError
from gondwana.runtime.supervisor import descendants
from gondwana_bench.processes import last_words, run

FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('here', flush=True); input()"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def start() -> tuple[subprocess.Popen[str], int]:
    """A process with a child in a group of its own: the process, and the child's number."""
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    said = {parent.stdout.readline().strip(), parent.stdout.readline().strip()} - {"here"}
    return parent, int(said.pop())


def test_children_and_theirs_are_found_whatever_thread_started_them() -> None:
    families: list[tuple[subprocess.Popen[str], int]] = []
    threads_may_end = threading.Event()

    def start_and_stay() -> None:
        families.append(start())
        threads_may_end.wait(60)

    thread = threading.Thread(target=start_and_stay)
    thread.start()
    families.append(start())
    while len(families) < 2 and thread.is_alive():
        thread.join(0.01)
    everybody = {pid for parent, child in families for pid in (parent.pid, child)}
    try:
        assert len(everybody) == 4
        assert everybody <= set(descendants(os.getpid()))
    finally:
        threads_may_end.set()
        for parent, _ in families:
            parent.communicate("\n", timeout=60)
        thread.join()
    assert not everybody & set(descendants(os.getpid()))


def test_who_is_not_there_has_no_children() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert descendants(gone.pid) == []


REPORT = "-----\nmpirun detected that a process exited with status 127\n  Process name: [1,0]\n-----\n"


@pytest.mark.parametrize(
    ("output", "errors", "expected"),
    [
        ("fine\n", "too bad\n", "too bad"),
        ("one\n\ntwo\n", "", "one | two"),
        ("1\n2\n3\n4\n", " \n", "2 | 3 | 4"),
        ("", "", "it printed nothing"),
        ("", f"mg.S.x: cannot open libmpi.so.40\n{REPORT}", "mg.S.x: cannot open libmpi.so.40"),
        ("needs 4 processes\n", REPORT, "needs 4 processes"),
        ("", REPORT, "mpirun detected that a process exited with status 127 | Process name: [1,0]"),
        ("", "-----\nno end of it\n", "no end of it"),
        ("", f"too bad\n{REPORT}\0", "too bad"),
    ],
)
def test_last_words_are_those_of_the_program(output: str, errors: str, expected: str) -> None:
    assert last_words(output, errors) == expected


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match=r"^/no/such/program cannot be started \(No such file"):
        run(["/no/such/program"])
