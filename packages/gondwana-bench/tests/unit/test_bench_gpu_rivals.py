"""The CUDA C beside our kernels computes the Gray-Scott step, with noise and without: tried on the emulated GPU."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pytest

from gondwana.errors import UsageError
from gondwana.gpu.device import Device
from gondwana.kernels import random
from gondwana_bench.gpu import nvrtc
from gondwana_bench.native import cuda_sweeps
from gondwana_bench.native.cuda_sweeps import CudaSweeps, Field, Shape
from gondwana_emulator.driver import EmulatedDriver

CELLS = (10, 6, 7)
RATES = (0.2, 0.1, 0.02, 0.048, 1.0)
NOISE = (0.1, 2**40 + 42, 3)
SHAPES = {"naive": (Shape((32, 2, 1)),), "march": (Shape((32, 2, 1), 3), Shape((32, 8, 1), 16))}
SHAPES["pairs"] = SHAPES["march"]


@functools.cache
def gpu() -> Device:
    return Device(0, EmulatedDriver())


def oracle(u: npt.NDArray[np.floating], v: npt.NDArray[np.floating], noise: bool) -> list[npt.NDArray[np.floating]]:
    """One step of arrays with a layer around them, indexed (z, y, x), in double precision."""
    u, v = u.astype(float), v.astype(float)
    inner = (slice(1, -1),) * 3

    def laplacian(a: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        return sum(np.roll(a, shift, axis)[inner] for axis in range(3) for shift in (1, -1)) / 6 - a[inner]

    du, dv, feed, kill, dt = RATES
    reaction = u[inner] * v[inner] ** 2
    change_u = du * laplacian(u) - reaction + feed * (1 - u[inner])
    change_v = dv * laplacian(v) + reaction - (feed + kill) * v[inner]
    if noise:
        amplitude, seed, step = NOISE
        shape = change_u.shape
        drawn = [random.py_func(seed, (x, y, z), step) for z, y, x in np.ndindex(shape)]
        change_u += amplitude * np.reshape(drawn, shape)
    return [u[inner] + dt * change_u, v[inner] + dt * change_v]


@pytest.mark.parametrize(("noise", "variables"), [(False, 2), (True, 2), (False, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_kernels_do_the_step(dtype: str, noise: bool, variables: int) -> None:
    here = gpu()
    sweeps = CudaSweeps(here, dtype, noise, variables)
    shape = tuple(n + 2 for n in reversed(CELLS))
    values = np.random.default_rng(1).random((2, *shape)).astype(dtype)
    expected, atol = oracle(*values, noise), 1e-15 if dtype == "float64" else 5e-7
    if variables == 1:  # V is neither read nor written
        expected = [oracle(values[0], 0 * values[1], noise)[0], 0 * expected[1]]
    item, row, plane = values.itemsize, shape[2], shape[1] * shape[2]
    inner = (slice(1, -1),) * 3
    memory = [here.driver.allocate(values[0].nbytes + item) for _ in range(4)]
    places = [start + item for start in memory]  # so that cells of an even number begin at multiples of two
    fields = [Field(place + (plane + row + 1) * item, CELLS, row, plane) for place in places]
    for name, shapes in SHAPES.items():
        for launch in shapes:
            for place, array in zip(places, (0 * values[0], 0 * values[0], *values), strict=True):
                here.driver.copy(place, np.ascontiguousarray(array).ctypes.data, array.nbytes, here.compute)
                here.driver.finish(here.compute)
            sweeps.step(name, launch, fields, RATES, NOISE if noise else ())
            for place, right in zip(places, expected, strict=False):
                found = np.empty_like(values[0])
                here.driver.copy(found.ctypes.data, place, found.nbytes, here.compute)
                here.driver.finish(here.compute)
                np.testing.assert_allclose(found[inner], right, rtol=0, atol=atol)
                found[inner] = 0
                assert not found.any()
    assert here.driver.entry_facts(sweeps._entries["march"]).threads >= 512
    for start in memory:
        here.driver.free(start)


@pytest.mark.parametrize("noise", [0, 1])
def test_single_precision_computes_in_single_precision(noise: int) -> None:
    text = nvrtc.ptx("gray_scott.cu", (9, 0), ["-DREAL=float", "-DPAIR=float2", f"-DNOISE={noise}"]).decode()
    assert "mul.f32" in text
    assert ".f64" not in text


def test_what_does_not_compile_is_said() -> None:
    with pytest.raises(UsageError, match=r"NVRTC could not compile gray_scott\.cu: .*tripel"):
        nvrtc.ptx("gray_scott.cu", (9, 0), ["-DREAL=tripel", "-DPAIR=double2", "-DNOISE=0"])


def test_grids_that_cannot_be_launched_are_told() -> None:
    assert cuda_sweeps.possible(Shape((32, 8, 1), 16), (1024, 1024, 1024))
    assert not cuda_sweeps.possible(Shape((32, 1, 1), 16), (32, 65536, 16))
