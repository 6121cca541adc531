"""Gray-Scott on a real GPU: the reference table, the bits of one rank on two, and the bits of the host."""

from __future__ import annotations

import csv
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.gpu.driver import driver
from gondwana_apps.grayscott.settings import resolve
from gondwana_apps.grayscott.simulation import Simulation
from gondwana_apps.grayscott.verify import verify
from support import jobs

PROGRAM = Path(__file__).parents[1] / "parallel" / "programs" / "grayscott_bits.py"
SIDE = 64
COMMON = {"F": 0.02, "k": 0.048, "dt": 1.0, "Du": 0.2, "Dv": 0.1, "seed": 42, "output": None, "device": "cuda"}


def cases() -> dict[str, tuple[dict[str, Any], list[int]]]:
    """The runs of the reference table on a cube of `SIDE`, and the steps that are known of each."""
    found: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for table in ("reference.csv", "reference_noisy.csv"):
        text = resources.files("gondwana_apps.grayscott").joinpath(table).read_text()
        for row in csv.DictReader(text.splitlines()):
            if int(row["L"]) != SIDE:
                continue
            keys = {key: float(row[key]) for key in ("F", "k", "dt")} | {"noise": float(row.get("noise", 0))}
            keys |= {"preset": row["preset"], "precision": row["precision"], "L": SIDE}
            found.setdefault(" ".join(map(str, keys.values())), (keys, []))[1].append(int(row["steps"]))
    return found


CASES = cases()


@pytest.fixture(autouse=True)
def _fast_enough() -> None:
    if driver().name == "emulated":
        pytest.skip("a cube of 64 takes the emulated GPU too long: its parallel tests have smaller ones")


@pytest.mark.parametrize("fuse_steps", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_the_reference_table_is_reproduced(case: str, fuse_steps: int) -> None:
    keys, steps = CASES[case]
    if fuse_steps == 2 and keys["preset"] != "adios2":
        pytest.skip("two steps in a sweep need a periodic boundary")
    settings = resolve({**COMMON, **keys, "fuse_steps": fuse_steps})
    run = Simulation(settings, gw.world)
    for step in sorted(steps):
        run.advance(step - run.steps)
        verdict = verify(settings, run.steps, run.summary())
        assert verdict.verified, (case, step, verdict.reason)


@pytest.mark.parametrize("precision", ["Float64", "Float32"])
def test_the_host_has_the_same_bits(precision: str) -> None:
    keys = {**COMMON, "L": 48, "noise": 0.1, "precision": precision}
    found = []
    for place in ({"device": "host"}, {"fuse_steps": 1}, {"fuse_steps": 2}):
        run = Simulation(resolve({**keys, **place}), gw.world)
        run.advance(7)
        fields = [field.to_numpy() for field in (run.u, run.v)]
        found.append((*map(digest, fields), run.summary()))
    assert found[0] == found[1] == found[2]


def digest(field: np.ndarray[Any, Any] | None) -> str:
    assert field is not None
    return hashlib.sha256(field.tobytes()).hexdigest()


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_share_a_gpu_have_the_bits_of_one(ranks: int, tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(json.dumps(COMMON))
    runs = {
        f"{precision}-{fuse}-{noise}": f"L={SIDE};precision={precision};fuse_steps={fuse};noise={noise}:50+51"
        for precision in ("Float64", "Float32")
        for fuse in (1, 2)
        for noise in (0, 0.1)
    }
    arguments = [str(tmp_path / "base.json"), *(f"{name}:{run}" for name, run in runs.items())]

    def lines(number: int) -> list[str]:
        outcome = jobs.run_ranks(number, PROGRAM, *arguments, timeout=280)
        assert outcome.status == 0, str(outcome)
        return [line for line in outcome.stdout.splitlines() if line.startswith("case ")]

    alone = lines(1)
    assert len(alone) == len(runs)
    assert lines(ranks) == alone
