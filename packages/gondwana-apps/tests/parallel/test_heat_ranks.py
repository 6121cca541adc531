"""The heat application on several ranks: every variant has the temperatures of the oracle, and the same bits."""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana import results
from gondwana.io.dataset import Dataset
from gondwana_apps.heat import fusing
from gondwana_apps.heat.settings import Settings
from gondwana_apps.heat.simulation import Simulation
from gondwana_apps.heat.verify import GOLDEN
from support import heat_oracle, jobs

pytestmark = pytest.mark.parallel

PHYSICS: dict[str, Any] = {"T0": 1.5, "dt": 0.05, "q": 0.7, "sigma": 0.02, "P": 3.0}
VARIANTS = ("one-sided", "two-sided", "copy-notify")
EMULATED = {"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "2"}

on_ranks = pytest.mark.ranks(1, 2, 3, 4, 6, 8, timeout=280)
on_nodes = pytest.mark.ranks(4, ranks_per_node=2, timeout=280)
on_threads = pytest.mark.ranks(2, threads=3, timeout=280, id="threads")
on_gpus = pytest.mark.ranks(3, variables=EMULATED, timeout=280, id="gpus")


def run(world: gw.Team, steps: int, **keys: Any) -> tuple[list[float], Any]:
    """Means of all steps, and the temperatures at the end on all ranks."""
    settings = Settings(N=steps, **keys)
    simulation = Simulation(settings, world)
    first = simulation.advance(2).sums
    others = simulation.advance(steps - 1).sums
    return [*(first / settings.cells), *(others / settings.cells)], simulation.T.to_numpy()


@on_ranks
@on_nodes
@on_threads
def test_all_variants_have_the_temperatures_of_the_oracle_and_the_same_bits(world: gw.Team) -> None:
    """Also with two steps in a sweep; then the power ends inside of a pair of steps."""
    shape = (9, 8, 10)
    expected, field = heat_oracle.run(shape, 20, **PHYSICS)
    box = dict(zip("XYZ", shape, strict=True))
    bits = None
    single, pairs = itertools.product(VARIANTS, (False, True), (1,)), itertools.product(VARIANTS, (False,), (2,))
    for variant, overlap, fused in (*single, *pairs):
        means, found = run(world, 20, variant=variant, overlap=overlap, fuse_steps=fused, **box, **PHYSICS)
        np.testing.assert_allclose(means, expected, rtol=1e-12)
        np.testing.assert_allclose(found, field, rtol=1e-12)
        bits = found if bits is None else bits
        assert np.array_equal(found, bits), (variant, overlap, fused)


@on_ranks
@pytest.mark.parametrize("variant", VARIANTS)
def test_blocks_of_the_original_with_few_reductions(variant: str, world: gw.Team) -> None:
    """Without a sum in each step, only the exchange keeps neighbours from running ahead."""
    expected, field = heat_oracle.run((4, 7, 11), 60)
    keys = {"X": 4, "Y": 7, "Z": 11, "blocks": "ceil", "reduce": "interval", "I": 25, "variant": variant}
    means, found = run(world, 60, **keys)
    wanted = [mean if step % 25 == 0 or step == 60 else np.nan for step, mean in enumerate(expected)]
    np.testing.assert_allclose(means, wanted, rtol=1e-12)
    np.testing.assert_allclose(found, field, rtol=1e-12)


@pytest.mark.ranks(3, timeout=280)
def test_all_ranks_agree_on_the_trial(world: gw.Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rank decides; the others have found something else."""
    monkeypatch.setattr(fusing, "measure", lambda *given: float(given[-1] * (1 if world.rank else -1)))
    monkeypatch.setattr(fusing, "_WORTH", 1)
    assert Simulation(Settings(X=9, Y=8, Z=10, N=100), world).fuse_steps == 2
    assert Simulation(Settings(X=9, Y=8, Z=10, N=100, fuse_steps=1), world).fuse_steps == 1
    assert Simulation(Settings(X=5, Y=1, Z=1, N=100), world).fuse_steps == 1  # a block of one cell


@on_ranks
@pytest.mark.parametrize("variant", VARIANTS)
def test_official_values(variant: str, world: gw.Team) -> None:
    for fused in 1, 2:
        keys = {"variant": variant, "overlap": variant != "two-sided", "fuse_steps": fused}
        means, _ = run(world, 100, X=20, Y=20, Z=20, **keys)
        assert 1e9 * means[-1] == pytest.approx(GOLDEN[20, 100], rel=1e-10)


@on_gpus
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("overlap", [False, True])
def test_the_same_kernel_on_gpus(variant: str, overlap: bool, world: gw.Team) -> None:
    expected, field = heat_oracle.run((6, 5, 4), 6, **PHYSICS)
    keys = {"X": 6, "Y": 5, "Z": 4, "device": "cuda", "variant": variant, "overlap": overlap}
    means, found = run(world, 6, **keys, **PHYSICS)
    np.testing.assert_allclose(means, expected, rtol=1e-12)
    np.testing.assert_allclose(found, field, rtol=1e-12)


def command(folder: Path, *words: str) -> jobs.Outcome:
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", "run", *words], timeout=200, cwd=folder)


BOX = ("-t", "1", "heat", "-X", "9", "-Y", "8", "-Z", "10", "-N", "50", "-I", "20")


def test_output_and_a_restart_on_another_number_of_ranks(tmp_path: Path) -> None:
    files = (
        "--set",
        "output=heat.bp",
        "--set",
        "plotgap=17",
        "--set",
        "checkpoint=true",
        "--set",
        "checkpoint_freq=15",
    )
    pairs = ("--set", "fuse_steps=2", "--set", "write_initial=true")
    outcome = command(tmp_path, "-n", "3", *BOX, *files, *pairs, "--json", "whole.json")
    assert outcome.status == 0, str(outcome)
    data = Dataset(tmp_path / "heat.bp")
    assert data.dims("T") == ("x", "y", "z")
    assert [int(step) for step in data.steps] == [0, 17, 34, 51]
    field = heat_oracle.run((9, 8, 10), 50)[1]
    np.testing.assert_allclose(data.read("T", -1), field, rtol=1e-12)
    assert sorted(path.name for path in tmp_path.glob("ckpt*")) == ["ckpt.00000030.bp", "ckpt.00000045.bp"]
    shutil.rmtree(tmp_path / "ckpt.00000045.bp")
    again = command(
        tmp_path, "-n", "2", *BOX, *files, "--set", "restart=true", "--json", "rest.json", "--record", "r.csv"
    )
    assert again.status == 0, str(again)
    assert "continuing after step 30" in again.stdout
    assert "two steps a sweep" in outcome.stdout
    assert "two steps a sweep" not in again.stdout
    whole, rest = (results.read(tmp_path / name)[0] for name in ("whole.json", "rest.json"))
    assert rest["value"] == pytest.approx(whole["value"], rel=1e-14)
    assert (whole["steps"], rest["steps"]) == (51, 21)
    assert (whole["fuse_steps"], rest["fuse_steps"]) == (2, 1)
    assert [line["step"] for line in rest["lines"]] == [40, 50]
    assert (tmp_path / "r.csv").read_text().splitlines()[1].startswith("30,")
    data = Dataset(tmp_path / "heat.bp")
    assert [int(step) for step in data.steps] == [0, 17, 34, 51]
    np.testing.assert_allclose(data.read("T", -1), field, rtol=1e-12)


def test_a_restart_with_other_settings_and_a_dataset_that_exists(tmp_path: Path) -> None:
    saved = command(tmp_path, "-n", "1", *BOX, "--set", "checkpoint=true", "--set", "checkpoint_freq=15")
    assert saved.status == 0, str(saved)
    other = command(tmp_path, "-n", "1", *BOX, "--set", "restart=true", "-sigma", "0.5")
    assert other.status == 2, str(other)
    assert "sigma" in other.stderr
    (tmp_path / "heat.bp").mkdir()
    (tmp_path / "heat.bp" / "md.idx").write_bytes(b"")
    exists = command(tmp_path, "-n", "1", *BOX, "--set", "output=heat.bp")
    assert exists.status == 2, str(exists)
    assert "output: " in exists.stderr
    assert "set overwrite=true" in exists.stderr
    late = command(tmp_path, "-n", "1", *BOX, "--set", "restart=true", "-N", "20")
    assert late.status == 2
    assert "N: is 20 and the checkpoint ckpt.00000045.bp is from step 45" in late.stderr


def test_a_run_stops_in_good_order(tmp_path: Path) -> None:
    words = ("-N", "100000000", "--set", "stop_after_seconds=1", "--set", "checkpoint=true", "--json", "r.json")
    outcome = command(tmp_path, "-n", "2", *BOX, *words)
    assert outcome.status == 0, str(outcome)
    assert "stopped after" in outcome.stdout
    result = results.read(tmp_path / "r.json")[0]
    assert result["verified"] is None
    assert max(path.name for path in tmp_path.glob("ckpt*")) == f"ckpt.{result['steps']:08}.bp"
