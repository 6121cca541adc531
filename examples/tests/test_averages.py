"""Tests of a parallel program: `pytest examples/tests` runs each of them on one, two and three ranks."""

import averages
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gondwana as gw
from gondwana.testing import strategies as gs

pytestmark = pytest.mark.ranks(1, 2, 3)


def means(whole):
    return (np.roll(whole, 1, 0) + whole + np.roll(whole, -1, 0)) / 3.0


@pytest.mark.parametrize("shape", [(7,), (5, 4), (2, 3, 4)])
def test_the_mean_is_that_of_numpy(shape):
    whole = np.random.default_rng(1).random(shape)
    T = gw.from_numpy(whole, gw.RectDomain((0,) * len(shape), shape), ghost=1, periodic=True)
    assert np.allclose(averages.running_mean(T).to_numpy(), means(whole), rtol=1e-15)


@settings(max_examples=10, deadline=None, derandomize=True, database=None)  # the same examples on all ranks
@given(box=gs.boxes(2), ghost=st.integers(1, 2))
def test_any_box_will_do(box, ghost):
    T = gw.full(box, 3.0, ghost=ghost, periodic=True)
    assert (averages.running_mean(T).to_numpy() == 3.0).all()


def test_ranks_write_into_one_folder(world, tmp_path):
    (tmp_path / f"{world.rank}.txt").write_text("done")
    world.barrier()
    assert len(list(tmp_path.iterdir())) == world.size
