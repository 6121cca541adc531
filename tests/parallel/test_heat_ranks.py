"""The heat application on several ranks: every variant has the temperatures of the oracle, and the same bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.apps.heat.settings import Settings
from gondwana.apps.heat.simulation import Simulation
from gondwana.apps.heat.verify import GOLDEN
from support import heat_oracle

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
    shape = (9, 8, 10)
    expected, field = heat_oracle.run(shape, 20, **PHYSICS)
    box = dict(zip("XYZ", shape, strict=True))
    bits = None
    for variant, overlap in itertools.product(VARIANTS, (False, True)):
        means, found = run(world, 20, variant=variant, overlap=overlap, **box, **PHYSICS)
        np.testing.assert_allclose(means, expected, rtol=1e-12)
        np.testing.assert_allclose(found, field, rtol=1e-12)
        bits = found if bits is None else bits
        assert np.array_equal(found, bits), (variant, overlap)


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


@on_ranks
@pytest.mark.parametrize("variant", VARIANTS)
def test_official_values(variant: str, world: gw.Team) -> None:
    means, _ = run(world, 100, X=20, Y=20, Z=20, variant=variant, overlap=variant != "two-sided")
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
