"""Two jobs in one folder, with the same names of dataset and checkpoints: one is refused, or comes after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gondwana.io.dataset import Dataset
from support.trials import FAILURES, Judged, Running, Trials
from torture import _grayscott as grayscott

SIDE, STEPS = 32, 40
OTHER = "other.bp"
LONGEST = 6.0
"""Seconds between the two starts at most."""

Job = tuple[Mapping[str, Any], Judged]
"""The settings of a job, and how it ended."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        with TemporaryDirectory() as root:
            folder = Path(root)
            jobs = race(rng, folder)
            trials.record(verdict_of(folder, jobs), "".join(str(ended) for _, ended in jobs))
    return trials.counts


def race(rng: random.Random, folder: Path) -> Sequence[Job]:
    """Run the two jobs, which share the dataset, the checkpoints, or both."""
    keys = grayscott.settings(SIDE, STEPS)
    other = keys | rng.choice(({}, {"output": OTHER}, {"checkpoint_output": OTHER, "restart_input": OTHER}))
    words = grayscott.words(folder, other, rng.choice((1, 2)))
    (folder / grayscott.NAME).rename(folder / "second.json")
    words = ["second.json" if word == grayscott.NAME else word for word in words]
    one = Running(grayscott.words(folder, keys, rng.choice((1, 2))), cwd=folder)
    time.sleep(LONGEST * rng.random() * rng.choice((0.02, 1.0)))
    two = Running(words, cwd=folder)
    return (keys, one.end(120)), (other, two.end(120))


def verdict_of(folder: Path, jobs: Sequence[Job]) -> str:
    """At least one job runs, none fails but by a refusal, and what those that ran have written is complete."""
    for _, ended in jobs:
        if ended.verdict in FAILURES:
            return ended.verdict
    ran = [keys for keys, ended in jobs if ended.verdict == "ran"]
    if not ran or any(ended.verdict not in ("ran", "refused") for _, ended in jobs):
        return "wrong"
    if not all(is_complete(folder, keys) for keys in ran):
        return "wrong"
    return "both ran" if len(ran) == 2 else "refused"


def is_complete(folder: Path, keys: Mapping[str, Any]) -> bool:
    """Return whether a job's dataset has all steps, and its checkpoints continue to the right end."""
    with Dataset(folder / keys["output"]) as data:
        if [int(step) for step in data.steps] != [STEPS // 4 * n for n in (1, 2, 3, 4)]:
            return False
    _, found = grayscott.result_of(folder, keys | {"restart": True}, 1)
    return found == grayscott.undisturbed(SIDE, STEPS)
