"""FFTW's plans against NumPy's transforms, from Python and from compiled code."""

from __future__ import annotations

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.fft import fftw


@gw.jit
def execute(plan, data):
    fftw.execute(plan, data, data)


def random(shape):
    generator = np.random.default_rng(3)
    data = fftw.aligned(shape)
    data[...] = generator.random(shape) + 1j * generator.random(shape)
    return data


@pytest.mark.parametrize("run", [execute, execute.py_func])
@pytest.mark.parametrize("sign", [fftw.FORWARD, fftw.BACKWARD])
def test_transforms_of_columns(run, sign):
    data = random((16, 6))
    before = data.copy()
    plan = fftw.Plan(data[:, :4], data[:, :4], (0,), sign)
    run(plan.address, data)
    transform = np.fft.fft if sign == fftw.FORWARD else lambda a, axis: 16 * np.fft.ifft(a, axis=axis)
    np.testing.assert_allclose(data[:, :4], transform(before[:, :4], axis=0), atol=1e-13)
    np.testing.assert_array_equal(data[:, 4:], before[:, 4:])


def test_transforms_of_rows_of_any_length():
    data = random((5, 21))
    before = data.copy()
    plan = fftw.Plan(data, data, (1,), fftw.FORWARD)
    np.testing.assert_array_equal(data, before)
    execute(plan.address, data)
    np.testing.assert_allclose(data, np.fft.fft(before, axis=1), atol=1e-12)


def test_arrays_that_a_plan_cannot_take():
    plan = fftw.Plan(random((2, 8)), random((2, 8)), (1,), fftw.FORWARD)
    for data in np.zeros(16), random((16, 2))[:, 0]:
        with pytest.raises(TypeError, match=r"is no c16\* without gaps"):
            fftw.execute(plan.address, data, data)
        with pytest.raises(KernelError, match="give a NumPy array of complex128 without gaps"):
            execute(plan.address, data)
    with pytest.raises(TypeError, match="'Plan' object"):
        fftw.execute(plan, data, data)
    with pytest.raises(KernelError, match="compiled code cannot take"):
        execute(plan, random((16,)))


def test_plans_that_cannot_be():
    with pytest.raises(UsageError, match="give positive numbers"):
        fftw.Plan(random((0, 1)), random((0, 1)), (0,), fftw.FORWARD)


def test_aligned_arrays():
    data = fftw.aligned((3, 5))
    assert data.shape == (3, 5)
    assert data.dtype == complex
    assert data.ctypes.data % fftw.ALIGNMENT == 0


def test_without_the_library(monkeypatch):
    assert fftw._find("no-such-library") is None
    monkeypatch.setattr(fftw, "LIBRARY", None)
    with pytest.raises(UsageError, match=r"pip install 'gondwana\[fft\]'"):
        fftw.version()


def test_version():
    assert fftw.version().startswith("fftw-3")
