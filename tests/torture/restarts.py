"""Kills of ranks and launchers at random moments under `--restarts`: the bits at the end are those without a kill."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np

from gondwana.io.dataset import Dataset
from gondwana.runtime.supervisor import descendants
from gondwana_apps.davs import outputs, points
from gondwana_apps.davs.generator import generate
from gondwana_apps.davs.presets import PRESETS
from gondwana_apps.pwc import generators
from support.trials import GONDWANA, Running, Trials

RESTARTS = 3
PATIENCE = 500.0
"""Seconds in which a job ends on a loaded machine."""
CHECKPOINTS = ["--set", "checkpoint=true", "--set", "checkpoint_freq=40", "--set", "plotgap=200"]


def heat(folder: Path) -> list[str]:
    files = ["--set", 'checkpoint_output="c.bp"', "--set", 'output="steps.bp"']
    return ["heat", *["-X", "24", "-Y", "24", "-Z", "24", "-N", "399", "-I", "200"], *CHECKPOINTS, *files]


def gray_scott(folder: Path) -> list[str]:
    keys = {"L": 24, "steps": 400, "noise": 0.01, "plotgap": 200, "output": "steps.bp"}
    saved = {"checkpoint": True, "checkpoint_freq": 40, "checkpoint_output": "c.bp"}
    (folder / "settings.json").write_text(json.dumps(keys | saved))
    return ["gray-scott", "settings.json"]


def davs(folder: Path) -> list[str]:
    field = dataclasses.replace(PRESETS["charge5"].field, points=400, clusters=8)
    x, truth = generate(field, 1)
    text = outputs.raw(points.Points(x, truth, np.arange(len(x)), np.full(len(x), 5)), 5)
    (folder / "points.txt").write_text(text)
    files = ["--set", 'CheckpointFile="c.bp"', "--set", "CheckpointSteps=20", "--set", 'ClusterFile="result.txt"']
    return ["davs", "--points", "points.txt", *files]


def pwc(folder: Path) -> list[str]:
    d, _ = generators.genes(80, 3, seed=1)
    d.astype(">i2").tofile(folder / "distance.bin")
    files = ["--set", 'CheckpointFile="c.bp"', "--set", "CheckpointSteps=20"]
    return ["pwc", "--set", "NumberDataPoints=80", "--set", "IsBigEndian=true", *files]


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {"heat": heat, "gray-scott": gray_scott, "davs": davs, "pwc": pwc}


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        name, ranks = rng.choice([*PROGRAMS]), rng.randint(2, 3)
        expected, seconds = undisturbed(name)
        with tempfile.TemporaryDirectory() as place:
            folder, kills, earlier = Path(place), 0, in_memory()
            job = Running(words(name, folder, ranks), cwd=folder)
            for _ in range(rng.randint(1, RESTARTS)):
                kills += kill_one(job.process, rng, rng.uniform(0.0, seconds))
            ended = job.end(PATIENCE)
            same = ended.status == 0 and results(folder) == expected
            left = [entry.name for entry in folder.rglob("*") if "unfinished" in entry.name]
            left += [name for name in in_memory() - earlier if name.startswith(f"gondwana-{job.process.pid}-")]
        trials.counts["kills"] += kills
        verdict = ("recovered" if kills else "undisturbed") if same and not left else "wrong"
        if ended.verdict in ("hang", "orphan", "traceback"):
            verdict = ended.verdict
        trials.record(verdict, f"  {name} on {ranks} ranks, {kills} kills, left {left}\n{ended}")
    return trials.counts


def words(name: str, folder: Path, ranks: int, restarts: int = RESTARTS) -> list[str]:
    """The command of a program in a folder."""
    return [*GONDWANA, "run", "-n", str(ranks), "-t", "1", "--restarts", str(restarts), *PROGRAMS[name](folder)]


@functools.cache
def undisturbed(name: str) -> tuple[dict[str, Any], float]:
    """What a run without a kill writes, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as place:
        for _ in range(2):  # the first one compiles
            began = time.monotonic()
            ended = Running(words(name, Path(place), 2, restarts=1) + overwriting(name), cwd=Path(place)).end(PATIENCE)
            assert ended.status == 0, str(ended)
        return results(Path(place)), time.monotonic() - began


def overwriting(name: str) -> list[str]:
    return ["--set", "overwrite=true"] if name in ("heat", "gray-scott") else []


def results(folder: Path) -> dict[str, Any]:
    """What a program has written at the end: all steps of a dataset, or files of clusters."""
    found: dict[str, Any] = {}
    if (folder / "steps.bp").exists():
        with Dataset(folder / "steps.bp") as data:
            for name in data.variables:
                for place, step in enumerate(data.steps):
                    found[f"{name} {step}"] = np.asarray(data.read(name, place)).tobytes()
    for file in sorted(folder.glob("*.txt")):
        found[file.name] = file.read_bytes()
    return found


def kill_one(supervisor: Popen[str], rng: random.Random, delay: float) -> bool:
    """Kill a rank, or now and then the launcher, some time after the ranks have begun; return whether there was one."""
    end = time.monotonic() + PATIENCE
    while not members(supervisor.pid)[0] and supervisor.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(delay)
    ranks, launchers = members(supervisor.pid)
    chosen = launchers if launchers and rng.random() < 0.2 else ranks
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(rng.choice(chosen), signal.SIGKILL)
        return True
    return False


def members(supervisor: int) -> tuple[list[int], list[int]]:
    """The ranks and the launcher of a job."""
    family = [(pid, command_of(pid)) for pid in descendants(supervisor)]
    launchers = [pid for pid, command in family if b"mpirun" in command]
    return [pid for pid, command in family if b"gondwana.cli.rank" in command and pid not in launchers], launchers


def command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def in_memory() -> set[str]:
    """The folders in memory: a killed test may have left one whose number another process has now."""
    return set(os.listdir("/dev/shm"))
