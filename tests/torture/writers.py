"""Kills of the process that writes the output: one line, no process left, all steps right; then the run is continued.

``kill -9`` or the system's want of memory ends that process alone, while the ranks compute and write checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.trials import Judged, Running, Trials, judge, marked
from torture import _grayscott as grayscott

STEPS = 60
SIDES = (48, 64, 80)
LONGEST = 2.0
"""Seconds after which the writing process is killed at the latest, unless it has ended."""
START = 90.0
"""Seconds that a run has to start it."""
TOLD = "ended with signal SIGKILL; the steps before are readable"

READ = """
import hashlib, json, sys
from pathlib import Path
from gondwana.io.dataset import Dataset
from gondwana.io.paths import is_dataset
found = {}
if is_dataset(Path(sys.argv[1])):
    with Dataset(sys.argv[1]) as data:
        for place, step in enumerate(data.steps):
            cells = b"".join(data.read(name, place).tobytes() for name in "UV")
            found[int(step)] = hashlib.sha256(cells).hexdigest()
print(json.dumps(found))
"""

Digests = Mapping[str, str]
"""Of each step of a dataset, by its number, what its fields are."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        with TemporaryDirectory() as root:
            verdict, details = disturb(rng, Path(root))
            trials.record(verdict, details)
    return trials.counts


def settings(side: int) -> dict[str, Any]:
    """Settings with so much output that the process writes most of the time."""
    return grayscott.settings(side, STEPS, plotgap=1, checkpoint_freq=7)


def disturb(rng: random.Random, folder: Path) -> tuple[str, str]:
    """Kill the writing process of a run, look at what is there, and continue; return the verdict and what was seen.

    Sometimes that of the run that continues is killed, too: it cuts off steps and appends.
    """
    side, story = rng.choice(SIDES), ""
    for ranks in rng.sample((1, 2, 3), rng.choice((1, 1, 2))):
        delay = rng.choice((0.0, *[LONGEST * rng.random()] * 9))
        running = Running(grayscott.words(folder, next_settings(folder, side), ranks), cwd=folder)
        killed = kill_writer(running, delay)
        ended = running.end(90)
        story += f"  L={side}, {ranks} ranks, {'killed' if killed else 'ended before'} {delay:.3f} s\n{ended}"
        verdict = judged(ended, killed)
        problem = difference(folder, side, all_steps=False) if verdict in ("reported", "ran") else ""
        if problem or verdict not in ("reported", "ran"):
            return "wrong" if problem else verdict, f"{story}  {problem}\n"
        if verdict == "ran":
            break
    others = rng.choice([number for number in (1, 2, 3) if number != ranks])
    continued, found = grayscott.result_of(folder, next_settings(folder, side), others)
    problem = "" if found == undisturbed(side)[0] else "another result"
    problem = problem or difference(folder, side, all_steps=True)
    return "wrong" if problem else verdict, f"{story}{continued}  {problem}\n"


def next_settings(folder: Path, side: int) -> dict[str, Any]:
    """Settings of the run that follows in a folder: from the last checkpoint, or anew."""
    return settings(side) | ({"restart": True} if grayscott.checkpoints(folder) else {"overwrite": True})


def kill_writer(running: Running, delay: float) -> bool:
    """Kill the writing process some seconds after it has begun; return whether it was still there."""
    end = time.monotonic() + START
    while not writers(running) and running.process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(delay)
    found = writers(running)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def writers(running: Running) -> list[int]:
    """The writing processes of a run."""
    found = []
    for pid in marked(running.mark):
        with contextlib.suppress(OSError):
            if b"gondwana.io.background" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def judged(ended: Judged, killed: bool) -> str:
    """What the end of the run was: "reported" by one line that says what was killed, "ran" to its end, or bad."""
    if ended.verdict not in ("failed", "refused"):
        return ended.verdict
    return "reported" if killed and ended.verdict == "failed" and TOLD in ended.stderr else "unclear"


def difference(folder: Path, side: int, *, all_steps: bool) -> str:
    """What is wrong with the output: all steps that a checkpoint presupposes, or really all, are to be there; or ""."""
    right = undisturbed(side)[1]
    try:
        found = digests(folder / grayscott.OUTPUT)
    except ValueError as error:
        return str(error)
    saved = max((int(path.name.split(".")[1]) for path in grayscott.checkpoints(folder)), default=-1)
    missing = [step for step in right if (all_steps or int(step) <= saved) and step not in found]
    wrong = [step for step in found if found[step] != right.get(step)]
    return f"steps that are missing: {missing}; wrong: {wrong}" if missing or wrong else ""


def digests(dataset: Path) -> Digests:
    """Read a dataset in another process, in case that this is what ends it."""
    ended = judge([sys.executable, "-c", READ, str(dataset)])
    if ended.verdict != "ran":
        raise ValueError(f"the output cannot be read:\n{ended}")
    found: Digests = json.loads(ended.stdout)
    return found


@cache
def undisturbed(side: int) -> tuple[Mapping[str, Any], Digests]:
    """The result and the output of a run that nothing disturbs."""
    with TemporaryDirectory() as root:
        folder = Path(root)
        ended, found = grayscott.result_of(folder, settings(side), 1)
        assert ended.verdict == "ran", str(ended)
        return found, digests(folder / grayscott.OUTPUT)
