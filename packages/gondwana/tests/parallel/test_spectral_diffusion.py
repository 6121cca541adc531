"""The example of copies between two divisions beside one transform of the whole."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
import spectral_diffusion as example


@pytest.mark.ranks(1, 2, 3, 4, 6)
@pytest.mark.ranks(4, ranks_per_node=2)
@pytest.mark.parametrize("size", [7, 32])
def test_the_field_is_that_of_one_transform(monkeypatch, size):
    monkeypatch.setattr(example, "N", size)
    rows, columns = (gw.zeros((size, size), complex, grid=grid) for grid in ((gw.world.size, 1), (1, gw.world.size)))
    whole = np.random.default_rng(1).random((size, size)).astype(complex)
    rows.local.numpy()[...] = whole[rows.owned.axes[0].start : rows.owned.axes[0].stop]
    example.diffuse(rows, columns, 1e-3)
    k = 2 * np.pi * np.fft.fftfreq(size, 1 / size)
    expected = np.fft.ifft2(np.exp(-1e-3 * (k[:, None] ** 2 + k**2)) * np.fft.fft2(whole))
    np.testing.assert_allclose(rows.to_numpy(), expected, atol=1e-14)
