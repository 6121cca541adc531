"""Fourier transforms on one rank: what is refused, threads, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.fft import fftw, lines, transforms


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.fft.fftn(np.ones(3)), "ndarray: give a global array"),
        (lambda: gw.fft.fftn(gw.zeros(3, int)), "int64 elements: give float32"),
        (lambda: gw.fft.fftn(gw.zeros(3, kind=gw.fake_device)), r"copy the elements to an array there, H = gw.empty"),
        (lambda: gw.fft.rfftn(gw.zeros(3, complex)), "give a real array, or call gw.fft.fftn"),
        (lambda: gw.fft.fftn(gw.zeros(3), axes=(1,)), r"axes=\(1,\) of 1 axes: give a list of numbers from -1 to 0"),
        (lambda: gw.fft.fftn(gw.zeros((3, 3)), axes=(0, -2)), "each once"),
        (lambda: gw.fft.plan(gw.zeros(3), ()), r"axes=\(\)"),
        (lambda: gw.fft.plan(gw.zeros(3), 0), "axes=0"),  # type: ignore[arg-type]
        (lambda: gw.fft.fftn(gw.zeros(3), norm="both"), 'the norms are "backward"'),  # type: ignore[arg-type]
        (lambda: gw.fft.irfftn(gw.zeros((3, 3), complex), s=(3, 6)), r"give \[3, 4\] or \[3, 5\]"),
        (lambda: gw.fft.plan(gw.zeros(4)).forward(gw.zeros(5)), "this plan takes float64 on"),
        (lambda: gw.fft.plan(gw.zeros(4)).forward(gw.zeros(4), gw.zeros(4, complex)), r"out, the spectrum, is"),
        (lambda: gw.fft.plan(gw.zeros(4)).inverse(gw.zeros(4, complex)), "a spectrum is"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_views_and_expressions():
    array = gw.from_function(lambda x, y: x * x + y, (6, 8))
    spectrum = gw.fft.fftn(2.0 * array[1:5, ::2])
    np.testing.assert_allclose(spectrum.to_numpy(), np.fft.fftn(2 * array.to_numpy()[1:5, ::2]), atol=1e-12)


def test_threads_share_the_lines(monkeypatch):
    monkeypatch.setattr(lines, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(lines, "threads", lambda: 3)
    elements = np.random.default_rng(5).random((7, 11, 10))
    array = gw.from_numpy(elements)
    np.testing.assert_allclose(gw.fft.rfftn(array).to_numpy(), np.fft.rfftn(elements), atol=1e-12)
    np.testing.assert_allclose(gw.fft.fftn(array, (1,)).to_numpy(), np.fft.fft(elements, axis=1), atol=1e-12)


@pytest.mark.parametrize("scipy", [True, False])
def test_without_fftw(monkeypatch, scipy):
    monkeypatch.setattr(fftw, "LIBRARY", None)
    monkeypatch.setattr(fftw, "SINGLE", None)
    if not scipy:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for elements in (np.random.default_rng(5).random((4, 3, 5)), np.random.default_rng(5).random((4, 3, 5)) * 1j):
        plan = gw.fft.plan(array := gw.from_numpy(elements), norm="ortho")
        spectrum = plan.forward(array)
        wanted = (np.fft.rfftn if elements.dtype == float else np.fft.fftn)(elements, norm="ortho")
        np.testing.assert_allclose(spectrum.to_numpy(), wanted, atol=1e-13)
        np.testing.assert_allclose(plan.inverse(spectrum).to_numpy(), elements, atol=1e-13)


def test_functions_keep_few_plans():
    array = gw.ones((3, 4))
    for norm in ("backward", "ortho", "forward"):
        for axes in ((0,), (1,)):
            gw.fft.fftn(array, axes, norm)
    assert len(transforms._kept) == transforms._KEPT
    last = list(transforms._kept.values())
    gw.fft.fftn(array, (1,), "forward")
    assert list(transforms._kept.values()) == last


def test_buffers_are_made_anew_after_close():
    array = gw.from_function(lambda x, y: x - y, (4, 6))
    plan = gw.fft.plan(array)
    spectrum = plan.forward(array)
    plan.inverse(spectrum)
    plan.close()
    assert abs(plan.inverse(spectrum) - array).max() < 1e-14
