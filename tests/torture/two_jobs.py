"""Two jobs in one folder, with the same names of dataset and checkpoints: one is refused, or comes after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from gondwana.io.dataset import Dataset
from support.trials import FAILURES, Judged, Running, Trials
from torture import _grayscott as grayscott

SIDE, STEPS = 32, 40
LONGEST = 6.0
"""Seconds between the two starts at most."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        with TemporaryDirectory() as root:
            folder = Path(root)
            first, second = race(rng, folder)
            trials.record(verdict_of(folder, first, second), f"{first}{second}")
    return trials.counts


def race(rng: random.Random, folder: Path) -> tuple[Judged, Judged]:
    """Run the two jobs, which share the dataset, the checkpoints, or both."""
    keys = grayscott.settings(SIDE, STEPS)
    other = keys | rng.choice(({}, {"output": "other.bp"}, {"checkpoint_output": "other.bp", "output": keys["output"]}))
    words = grayscott.words(folder, other, rng.choice((1, 2)))
    (folder / grayscott.NAME).rename(folder / "second.json")
    words = ["second.json" if word == grayscott.NAME else word for word in words]
    one = Running(grayscott.words(folder, keys, rng.choice((1, 2))), cwd=folder)
    time.sleep(LONGEST * rng.random() * rng.choice((0.02, 1.0)))
    two = Running(words, cwd=folder)
    return one.end(120), two.end(120)


def verdict_of(folder: Path, *jobs: Judged) -> str:
    """At least one job runs, none fails but by a refusal, and what was written is complete."""
    for job in jobs:
        if job.verdict in FAILURES:
            return job.verdict
    ran = [job for job in jobs if job.verdict == "ran"]
    if not ran or any(job.verdict not in ("ran", "refused") for job in jobs):
        return "wrong"
    with Dataset(folder / grayscott.OUTPUT) as data:
        if [int(step) for step in data.steps] != [STEPS // 4 * n for n in (1, 2, 3, 4)]:
            return "wrong"
    _, found = grayscott.result_of(folder, grayscott.settings(SIDE, STEPS, restart=True), 1)
    if found != grayscott.undisturbed(SIDE, STEPS):
        return "wrong"
    return "both ran" if len(ran) == 2 else "refused"
