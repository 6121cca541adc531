"""The examples of Fourier transforms beside one transform of the whole."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
import spectral_diffusion
import spectral_poisson

on_ranks = pytest.mark.ranks(1, 2, 3, 4, 6)
on_nodes = pytest.mark.ranks(4, ranks_per_node=2)


def k2_of(n: int, axes: int) -> np.ndarray:
    """Squares of the wave numbers of a unit cube."""
    k = 2 * np.pi * np.fft.fftfreq(n, 1 / n)
    return sum(one**2 for one in np.meshgrid(*[k] * axes, indexing="ij"))


@on_ranks
@on_nodes
@pytest.mark.parametrize("size", [7, 32])
def test_the_field_is_that_of_one_transform(monkeypatch, size):
    monkeypatch.setattr(spectral_diffusion, "N", size)
    whole = np.random.default_rng(1).random((size, size))
    found = spectral_diffusion.diffuse(gw.from_numpy(whole), 1e-3).to_numpy()
    expected = np.fft.ifft2(np.exp(-1e-3 * k2_of(size, 2)) * np.fft.fft2(whole))
    np.testing.assert_allclose(found, expected.real, atol=1e-14)


@on_ranks
@on_nodes
def test_the_potential_is_that_of_one_transform_and_has_the_charges(monkeypatch):
    size = 12
    monkeypatch.setattr(spectral_poisson, "N", size)
    rho = gw.from_function(spectral_poisson.charges, (size,) * 3)
    phi = gw.zeros_like(rho)
    spectral_poisson.solve(rho, phi)
    whole, k2 = rho.to_numpy(), k2_of(size, 3)
    found = phi.to_numpy()
    waves = np.divide(np.fft.fftn(whole), k2, out=np.zeros(whole.shape, complex), where=k2 > 0)
    np.testing.assert_allclose(found, np.fft.ifftn(waves).real, atol=1e-12)
    np.testing.assert_allclose(np.fft.ifftn(k2 * np.fft.fftn(found)).real, whole - whole.mean(), atol=1e-10)
