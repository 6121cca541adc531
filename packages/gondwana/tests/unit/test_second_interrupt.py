"""Ctrl-C while compiled code runs: the first one waits for its answer, the second one ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from support import jobs

SPIN = """
import numpy as np
import gondwana as gw

@gw.jit
def spin(number, seen):
    while number >= 0:
        number = (number * 7 + 3) % 8
        seen[number] = 1
    return number

spin(1, np.memmap("seen", "u1", "w+", shape=8))
"""

ANSWER = """
import time
import gondwana as gw

gw.world.rank
for number in range(4):
    try:
        print("here", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("answered", flush=True)
"""

ASYNCIO = """
import asyncio
import gondwana as gw

async def main():
    try:
        print("here", flush=True)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "tidied up"

@gw.jit
def one():
    return 1

for number in range(2):
    assert one() == 1
    print(asyncio.run(main()), flush=True)
"""


def started(program: str, folder: Path | None = None) -> subprocess.Popen[str]:
    # A shell that runs tests in the background has SIGINT ignored, and what it starts inherits that.
    return jobs.start_command(["env", "--default-signal=INT", sys.executable, "-c", program], cwd=folder)


def test_a_second_one_ends_endless_compiled_code(tmp_path: Path) -> None:
    with started(SPIN, tmp_path) as process:
        try:
            seen, end = tmp_path / "seen", time.monotonic() + 60
            while not (seen.exists() and any(seen.read_bytes())):
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            time.sleep(1)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == -signal.SIGINT
        finally:
            jobs.kill_group(process)


def test_each_one_that_is_answered_is_a_first_one() -> None:
    with started(ANSWER) as process:
        try:
            for _ in range(4):
                assert process.stdout.readline() == "here\n"
                process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == "answered\n"
            assert process.wait(timeout=30) == 0
        finally:
            jobs.kill_group(process)


def test_asyncio_cancels_the_main_task_as_without_us() -> None:
    with started(ASYNCIO) as process:
        try:
            for _ in range(2):
                assert process.stdout.readline() == "here\n"
                process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == "tidied up\n"
            assert process.wait(timeout=30) == 0
        finally:
            jobs.kill_group(process)
