"""Ctrl-C and SIGTERM at random moments of runs that write large checkpoints; then the run is continued to its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from support.trials import Running, Trials
from torture import _grayscott as grayscott

STEPS = 60
SIDES = (64, 96, 128, 160)
"""The last makes checkpoints of 65 MB."""
LONGEST = 12.0
"""Seconds after which the signal is sent at the latest."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        side, ranks = rng.choice(SIDES), rng.choice((1, 2, 2, 3))
        number, everyone = rng.choice((signal.SIGINT, signal.SIGTERM)), rng.random() < 0.3
        with TemporaryDirectory() as root:
            folder = Path(root)
            keys = grayscott.settings(side, STEPS)
            running = Running(grayscott.words(folder, keys, ranks), cwd=folder)
            time.sleep(LONGEST * rng.random())
            with contextlib.suppress(ProcessLookupError):
                # A terminal sends Ctrl-C to all processes of the job, `kill` a signal to the launcher.
                (os.killpg if everyone and number == signal.SIGINT else os.kill)(running.process.pid, number)
            ended = running.end(90)
            verdict = judged(ended.verdict, ended.status, number, ended.stdout, folder)
            if verdict in ("stopped", "ran", "early"):
                again = keys | ({"restart": True} if grayscott.checkpoints(folder) else {"overwrite": True})
                continued, found = grayscott.result_of(folder, again, rng.choice((1, 2, 3)))
                if found != grayscott.undisturbed(side, STEPS):
                    verdict, ended = "wrong", continued
            trials.record(verdict, f"  {number.name}, L={side}, {ranks} ranks\n{ended}")
    return trials.counts


def judged(verdict: str, status: int, number: int, stdout: str, folder: Path) -> str:
    """What the end of the signalled run was: "stopped" with a checkpoint of the last step, "early", "ran", or bad."""
    announced = re.search(r"^stopped after step (\d+)", stdout, re.MULTILINE)
    if announced and not (folder / f"ck.{int(announced[1]):08d}.bp").is_dir():
        return "wrong"
    if status in (128 + number, -number):
        return "stopped" if announced else "early"
    return verdict
