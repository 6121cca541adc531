"""Runs whose disk becomes full: one line says so, and the complete checkpoints and results from before stay."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from support.datasets import make_dataset
from support.trials import GONDWANA, Judged, Trials, judge
from torture import _grayscott as grayscott

SIDE, STEPS = 32, 24
STEP_BYTES = 2 * 8 * SIDE**3


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        size = rng.randrange(STEP_BYTES // 2, 16 * STEP_BYTES)
        with small_disk(size) as (folder, limited):
            ended = rng.choice((simulate, simulate, simulate, plot, benchmark))(rng, folder, limited)
            trials.record(ended.verdict, str(ended))
    return trials.counts


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[tuple[Path, Sequence[str]]]:
    """A folder with so many bytes, and what comes before a command: where no disk can be mounted, a limit of files."""
    with TemporaryDirectory() as root:
        folder = Path(root)
        options = f"size={size // 4096 * 4096}"
        mounted = (
            os.geteuid() == 0
            and not subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", root], capture_output=True, check=False
            ).returncode
        )
        try:
            yield folder, [] if mounted else ["bash", "-c", f'ulimit -f {size // 1024}; exec "$@"', "limited"]
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", root], check=True)


def simulate(rng: random.Random, folder: Path, limited: Sequence[str]) -> Judged:
    """Run with output and checkpoints until the disk is full; then continue elsewhere from what is there."""
    keys = grayscott.settings(SIDE, STEPS, plotgap=rng.choice((1, 3)), checkpoint_keep=rng.choice((1, 2)))
    words = grayscott.words(folder, keys, 1 if limited else rng.choice((1, 2)), "--json", "new.json")
    # Before it starts, a run checks that there is enough; another one takes it then.
    later = threading.Timer(4 * rng.random(), fill, (folder, rng.choice((0, 16 * STEP_BYTES))))
    later.start()
    ended = judge([*limited, *words], cwd=folder)
    later.join()
    kept = grayscott.checkpoints(folder)
    if ended.verdict not in ("ran", "failed", "refused") or not kept:
        return ended
    with TemporaryDirectory() as elsewhere:
        again = keys | {"output": "", "checkpoint": False, "restart": True}
        again["restart_input"] = str(folder / grayscott.CHECKPOINT)
        continued, found = grayscott.result_of(Path(elsewhere), again, 1)
        return ended if found == grayscott.undisturbed(SIDE, STEPS) else replace(continued, verdict="wrong")


def fill(folder: Path, size: int) -> None:
    """Take so many bytes of the disk, or all that are left."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        for _ in range(size // 4096):
            filler.write(b"\0" * 4096)


def plot(rng: random.Random, folder: Path, limited: Sequence[str]) -> Judged:
    """Draw pictures until the disk is full."""
    data = make_dataset(folder / "gs.bp", steps=2)
    fill(folder, rng.randrange(16 * STEP_BYTES))
    return judge([*limited, *GONDWANA, "plot", data.name, "--out", "pictures", "--steps", "all"], cwd=folder)


def benchmark(rng: random.Random, folder: Path, limited: Sequence[str]) -> Judged:
    """Write the files of results where there is no space."""
    fill(folder, 16 * STEP_BYTES)
    name = rng.choice(("npb-cg", "npb-mg"))
    return judge([*limited, *GONDWANA, "run", name, "--class", "S", "--json", "r.json"], cwd=folder)
