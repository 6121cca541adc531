"""What a job shows on a terminal of 80 columns while it runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gondwana.testing.jobs import kill_group

pytestmark = pytest.mark.parallel

PROGRAM = """
import sys, time
from pathlib import Path
import gondwana as gw

with gw.ProgressBar(gw.world, "relaxing", 3) as bar:
    for step in (1, 2, 3):
        while not Path(sys.argv[1], str(step)).exists():  # the test has seen the step before
            time.sleep(0.05)
        time.sleep(0.25)  # refreshes are a fifth of a second apart
        bar.show(step, "12.5 Mcells/s")
"""
STARTERS = {
    "gondwana run": [sys.executable, "-m", "gondwana.cli.main", "run", "--time-limit", "100", "-n", "2"],
    "mpirun": ["mpirun", "--oversubscribe", "-n", "2", sys.executable],
}


@contextmanager
def at_a_terminal(words: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command at a terminal of 80 columns, and the other end of that."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    variables = {**os.environ, "TERM": "xterm", "GONDWANA_PROGRESS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    variables |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=variables
    ) as process:
        os.close(slave)
        try:
            yield process, master
        finally:
            kill_group(process)
            os.close(master)


def read_until(master: int, text: str | None, end: float) -> str:
    """What comes from a terminal up to some text, or to its end."""
    found = ""
    while text is None or text not in found:
        assert time.monotonic() < end, found
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # Linux says so that the other end is closed
            part = b""
        if not part:
            assert text is None, found
            break
        found += part.decode(errors="replace")
    return found


@pytest.mark.parametrize("starter", STARTERS)
def test_the_bar_moves_on_two_ranks(starter: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    seen = ""
    end = time.monotonic() + 120
    with at_a_terminal([*STARTERS[starter], str(program), str(tmp_path)]) as (process, master):
        for step in (1, 2, 3):
            (tmp_path / str(step)).touch()
            seen += read_until(master, f"{step}/3", end)
        seen += read_until(master, None, end)
        assert process.wait(60) == 0
    frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).replace("\n", "\r").split("\r")
    assert max(map(len, frames)) <= 80
    last = next(frame for frame in frames if "3/3" in frame)
    assert re.match(r"relaxing .* 3/3 12.5 Mcells/s 00:00 \d+ MiB", last)
