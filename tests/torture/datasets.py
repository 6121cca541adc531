"""Damaged datasets and checkpoints: every command gives an answer, or one line and a status, within a time."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from gondwana.io.adios import BPWriter
from support.damage import damage, same
from support.trials import GONDWANA, Judged, Trials, judge

PATIENCE = 60.0

XARRAY = """
import sys
import xarray
from gondwana.errors import GondwanaError
try:
    with xarray.open_dataset(sys.argv[1], engine="gondwana") as data:
        print({name: float(data[name].isel(time=-1).sum()) for name in data})
except GondwanaError as error:
    print("gondwana: error:", error, file=sys.stderr)
    raise SystemExit(2)
"""

BYTES = """
import random, sys, warnings
from pathlib import Path
import gondwana as gw
from gondwana.errors import GondwanaError
from gondwana.io import checkpoint
from gondwana.io.dataset import Dataset
from support.damage import each_byte
warnings.simplefilter("ignore")
rng, folder = random.Random(sys.argv[1]), Path(sys.argv[2])
there = checkpoint.checkpoints(folder / "ckpt.bp")
right = {}
for path in there:
    with Dataset(path) as data:
        right[int(data.steps[-1])] = {name: data.read(name, 0) for name in "UV"}
file = rng.choice(sorted(there[0].iterdir()))
size = file.stat().st_size
for place in each_byte(file, rng.sample(range(size), min(size, 100)), rng.choice((0x80, 1 << rng.randrange(8)))):
    arrays = {name: gw.zeros(gw.RectDomain((0, 0, 0), (16, 16, 16)), order="F") for name in "UV"}
    try:
        step = checkpoint.load(folder / "ckpt.bp", arrays).step
    except GondwanaError as error:
        assert len(str(error).splitlines()) == 1, (file, place, error)
        continue
    for name, array in arrays.items():
        assert (array.local.restrict(array.owned).numpy().T == right[step][name]).all(), (file, place, step)
"""

SETTINGS = {
    "L": 16, "steps": 40, "plotgap": 10, "noise": 0.1, "output": "gs.bp",
    "checkpoint": True, "checkpoint_freq": 10, "seed_width": 4,
}  # fmt: skip


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pristine").mkdir()
        write_datasets(folder / "pristine")
        sums = run_whole(folder / "whole")
        for rng in trials:
            place = folder / "try"
            chance = rng.random()
            if chance < 0.03:
                verdict, details = try_bytes(rng, folder / "whole", place)
            elif chance < 0.18:
                verdict, details = try_restart(rng, folder / "whole", place, sums)
            else:
                verdict, details = try_dataset(rng, folder / "pristine", place)
            trials.record(verdict, details)
            shutil.rmtree(place)
    return trials.counts


def write_datasets(folder: Path) -> None:
    """Write datasets of every kind: ours and another program's, closed and left open."""
    random_cells = np.random.default_rng(5)
    out = BPWriter(folder / "closed.bp")
    out.attribute("F", 0.04)
    for step in range(1, 5):
        out.begin_step()
        for name in "UV":
            cells = random_cells.random((8, 6, 5))
            out.put(name, cells[:4], (0, 0, 0), cells.shape)
            out.put(name, cells[4:], (4, 0, 0), cells.shape)
        out.put_scalar("step", 10 * step, np.int32)
        out.end_step()
        if step == 3:
            out.flush()
            shutil.copytree(folder / "closed.bp", folder / "open.bp")
    out.close()
    for name in "closed", "open":
        shutil.copytree(folder / f"{name}.bp", folder / f"foreign-{name}.bp")
        (folder / f"foreign-{name}.bp" / "checksums.txt").unlink()


def run_whole(folder: Path) -> dict[str, float]:
    """Run to the end, and return what its result must be after every restart."""
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    done = judge([*GONDWANA, "run", "-n", "1", "gray-scott", "settings.json", "--json", "result.json"], cwd=folder)
    assert done.status == 0, done
    for path in folder.glob("ckpt.*.bp"):  # so that there is something to continue
        if json.loads((folder / "result.json").read_text())["steps"] == int(path.name.split(".")[1]):
            shutil.rmtree(path)
    return sums_of(folder)


def sums_of(folder: Path) -> dict[str, float]:
    result = json.loads((folder / "result.json").read_text())
    return {key: result[key] for key in ("u_sum", "v_sum", "steps")}


def try_dataset(rng: random.Random, pristine: Path, place: Path) -> tuple[str, str]:
    """Damage a dataset, and look at it by one of the commands."""
    source = rng.choice(sorted(pristine.iterdir()))
    target = place / source.name
    place.mkdir()
    shutil.copytree(source, target)
    harms = [damage(rng, target) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    commands: tuple[Callable[[], Judged], ...] = (
        lambda: judge([*GONDWANA, "ls", "-l", "-D", str(target)], timeout=PATIENCE),
        lambda: judge([*GONDWANA, "ls", "--verify", str(target)], timeout=PATIENCE),
        lambda: judge([*GONDWANA, "plot", str(target), "--steps", "all", "--no-montage"], timeout=PATIENCE),
        lambda: judge([sys.executable, "-c", XARRAY, str(target)], timeout=PATIENCE),
    )
    choice = rng.randrange(len(commands))
    done = commands[choice]()
    verdict = done.verdict
    if choice == 1 and verdict == "ran" and not same(source, target):
        verdict = "wrong"
    return verdict, f"{', '.join(harms)} in {source.name}\n{done}"


def try_bytes(rng: random.Random, whole: Path, place: Path) -> tuple[str, str]:
    """Change one byte of the newest checkpoint after the other, and load: what was saved, or the one before."""
    shutil.copytree(whole, place)
    done = judge([sys.executable, "-c", BYTES, str(rng.random()), str(place)], timeout=PATIENCE)
    return "wrong" if done.verdict != "ran" and "AssertionError" in str(done) else done.verdict, str(done)


def try_restart(rng: random.Random, whole: Path, place: Path, sums: dict[str, float]) -> tuple[str, str]:
    """Damage checkpoints or output, and continue the run: to the same end, or not at all."""
    shutil.copytree(whole, place)
    (place / "result.json").unlink()
    datasets = sorted(place.glob("*.bp"))
    targets = [rng.choice(datasets) for _ in range(rng.choice((1, 1, 2)))]
    harms = [f"{damage(rng, target)} in {target.name}" for target in targets]
    options = ["--set", "restart=true", "--json", "result.json"]
    done = judge([*GONDWANA, "run", "-n", "1", "gray-scott", "settings.json", *options], cwd=place, timeout=PATIENCE)
    verdict = done.verdict
    if verdict == "ran":
        verdict = "recovered" if sums_of(place) == sums else "wrong"
    return verdict, f"{', '.join(harms)}\n{done}"
