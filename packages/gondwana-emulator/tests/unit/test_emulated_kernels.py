"""Kernels written with numba-cuda, executed on the emulated GPU."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from numba import cuda, types

from support.emulated import Gpu, compile_ptx, no_gpu

F64, F32, I64 = types.CPointer(types.float64), types.CPointer(types.float32), types.int64


def test_a_stencil() -> None:
    """Seven points on a box, with halves of an index and an early return."""

    def step(new: Any, old: Any, n: Any) -> None:
        x, y, z = cuda.grid(3)
        if x < 1 or y < 1 or z < 1 or x >= n - 1 or y >= n - 1 or z >= n - 1:
            return
        at = (z * n + y) * n + x
        around = old[at - 1] + old[at + 1] + old[at - n] + old[at + n] + old[at - n * n] + old[at + n * n]
        new[at] = old[at] + 0.1 * (around - 6.0 * old[at])

    n = 12
    old = np.random.default_rng(0).random((n, n, n))
    new = np.zeros_like(old)
    Gpu().run(compile_ptx(step, F64, F64, I64), "", (2, 4, 6), (8, 4, 2), new, old, n)
    around = sum(np.roll(old, shift, axis) for axis in range(3) for shift in (-1, 1))
    inner = (slice(1, -1),) * 3
    np.testing.assert_allclose(new[inner], (old + 0.1 * (around - 6 * old))[inner], rtol=1e-14)
    new[inner] = 0
    assert not new.any()


FUNCTIONS = {
    "sin": (np.sin, -1e6, 1e6), "cos": (np.cos, -10, 10), "tan": (np.tan, -1.5, 1.5), "exp": (np.exp, -700, 700),
    "log": (np.log, 1e-300, 1e300), "sqrt": (np.sqrt, 0, 1e10), "atan": (np.arctan, -10, 10), "erf": (None, -3, 3),
    "tanh": (np.tanh, -3, 3), "log1p": (np.log1p, -0.9, 10), "expm1": (np.expm1, -1, 1), "floor": (np.floor, -9, 9),
    "asin": (np.arcsin, -1, 1), "sinh": (np.sinh, -5, 5), "gamma": (None, 0.1, 20),
}  # fmt: skip


@pytest.mark.parametrize("real", ["f8", "f4"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_libdevice(name: str, real: str) -> None:
    function, low, high = FUNCTIONS[name]
    of_python = getattr(math, name)

    def kernel(data: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            data[at] = of_python(data[at])

    if real == "f4":
        low, high = max(low, -80), min(high, 80)
    values = np.linspace(max(low, 1e-3) if name == "log" else low, high, 500).astype(real)
    exact = values.astype(np.float64)
    wanted = function(exact) if function else np.array([of_python(value) for value in exact])
    Gpu().run(compile_ptx(kernel, F64 if real == "f8" else F32, I64), "", 4, 128, values, 500)
    tolerance = 1e-14 if real == "f8" else 2e-6
    np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("real", ["f8", "f4"])
def test_powers(real: str) -> None:
    def kernel(data: Any, power: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            data[at] = data[at] ** power[at]

    base = np.linspace(0.01, 50, 300).astype(real)
    power = np.linspace(-4, 4, 300).astype(real)
    wanted = base.astype(np.float64) ** power.astype(np.float64)
    pointer = F64 if real == "f8" else F32
    Gpu().run(compile_ptx(kernel, pointer, pointer, I64), "", 3, 128, base, power, 300)
    np.testing.assert_allclose(base, wanted, rtol=1e-13 if real == "f8" else 5e-6)


def test_integers() -> None:
    def kernel(data: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            value = data[at]
            data[at] = (value * 7 // 3) % 1000 + (value >> 3) ^ (value & 255) - abs(value - 50) + min(value, 17)

    data = np.arange(-500, 500)
    wanted = [(v * 7 // 3) % 1000 + (v >> 3) ^ (v & 255) - abs(v - 50) + min(v, 17) for v in data.tolist()]
    Gpu().run(compile_ptx(kernel, types.CPointer(types.int64), I64), "", 8, 128, data, data.size)
    np.testing.assert_array_equal(data, wanted)


def test_philox() -> None:
    """Random numbers by counter: products of 32 bits and their high halves."""

    def kernel(out: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            a, b, c, d = numba.uint64(at), numba.uint64(1), numba.uint64(2), numba.uint64(3)
            low, k, m = numba.uint64(0xFFFFFFFF), numba.uint64(17), numba.uint64(23)
            for _ in range(10):
                first, second = numba.uint64(0xD2511F53) * a, numba.uint64(0xCD9E8D57) * c
                a, b = (second >> numba.uint64(32)) ^ b ^ k, second & low
                c, d = (first >> numba.uint64(32)) ^ d ^ m, first & low
                k, m = (k + numba.uint64(0x9E3779B9)) & low, (m + numba.uint64(0xBB67AE85)) & low
            out[at] = (a << numba.uint64(32)) | b

    def reference(at: int) -> int:
        a, b, c, d, k, m = at, 1, 2, 3, 17, 23
        for _ in range(10):
            first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
            a, b, c, d = (second >> 32) ^ b ^ k, second & 0xFFFFFFFF, (first >> 32) ^ d ^ m, first & 0xFFFFFFFF
            k, m = (k + 0x9E3779B9) & 0xFFFFFFFF, (m + 0xBB67AE85) & 0xFFFFFFFF
        return a << 32 | b

    out = np.zeros(100, np.uint64)
    Gpu().run(compile_ptx(kernel, types.CPointer(types.uint64), I64), "", 1, 128, out, 100)
    np.testing.assert_array_equal(out, np.array([reference(at) for at in range(100)], np.uint64))


def test_shared_memory_and_barriers() -> None:
    """A tile turned, and a block summed; with static and dynamic shared memory."""

    def kernel(data: Any, total: Any) -> None:
        tile = cuda.shared.array((16, 17), types.float64)
        sums = cuda.shared.array(0, types.float64)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        at = y * 16 + x
        tile[y, x] = data[at]
        sums[at] = data[at]
        cuda.syncthreads()
        data[at] = tile[x, y]
        width = 128
        while width:
            if at < width:
                sums[at] += sums[at + width]
            cuda.syncthreads()
            width //= 2
        if at == 0:
            total[0] = sums[0]

    data, total = np.random.default_rng(0).random((16, 16)), np.zeros(1)
    wanted = data.T.copy()
    Gpu().run(compile_ptx(kernel, F64, F64), "", 1, (16, 16), data, total, shared=256 * 8)
    np.testing.assert_array_equal(data, wanted)
    np.testing.assert_allclose(total[0], wanted.sum(), rtol=1e-14)


def test_warps_and_atomics() -> None:
    def kernel(data: Any, total: Any, count: Any) -> None:
        at = cuda.grid(1)
        value = data[at] if at < count else 0.0
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        if cuda.laneid == 0:
            cuda.atomic.add(total, 0, value)
        cuda.atomic.max(total, 1, data[at] if at < count else 0.0)
        if cuda.syncthreads_count(numba.int32(at < count)) == 64 and cuda.threadIdx.x == 0:
            cuda.atomic.add(total, 2, 1.0)

    data, total = np.random.default_rng(0).random(1000), np.zeros(3)
    array = types.Array(types.float64, 1, "C")
    ptx = compile_ptx(kernel, array, array, I64)
    gpu = Gpu()
    source, sums = gpu.array(data), gpu.array(total)
    gpu.run(ptx, "", 16, 64, 0, 0, 1000, 8, source, 1000, 8, 0, 0, 3, 8, sums, 3, 8, 1000)
    gpu.read(sums, total)
    np.testing.assert_allclose(total[0], data.sum(), rtol=1e-12)
    np.testing.assert_array_equal(total[1:], [data.max(), 15])


def test_device_functions() -> None:
    """Called, not inlined; and memory of a thread itself."""
    with no_gpu():

        @cuda.jit("float64(float64, int64)", device=True, inline=False)
        def power(value: float, count: int) -> float:
            steps = cuda.local.array(4, types.float64)
            for place in range(4):
                steps[place] = value + place
            result = 1.0
            for turn in range(count):
                result *= steps[(turn * 3 + count) % 4]
            return result

        def kernel(data: Any, count: Any) -> None:
            at = cuda.grid(1)
            if at < count:
                data[at] = power(data[at], at % 7)

        ptx = compile_ptx(kernel, F64, I64)

    def reference(value: float, count: int) -> float:
        return math.prod(value + (turn * 3 + count) % 4 for turn in range(count))

    data = np.linspace(0.5, 2, 60)
    wanted = [reference(value, at % 7) for at, value in enumerate(data)]
    Gpu().run(ptx, "", 1, 64, data, 60)
    np.testing.assert_allclose(data, wanted, rtol=1e-13)


def test_float_kernels_are_rounded_to_float() -> None:
    def kernel(data: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            data[at] = data[at] / types.float32(3.0) + types.float32(0.1)

    data = np.linspace(0, 9, 64, dtype=np.float32)
    wanted = data / np.float32(3) + np.float32(0.1)
    Gpu().run(compile_ptx(kernel, F32, I64), "", 1, 64, data, 64)
    np.testing.assert_array_equal(data, wanted)


def test_a_wrong_index_is_found() -> None:
    def kernel(data: Any) -> None:
        data[cuda.grid(1) + 1] = 1.0

    with pytest.raises(Exception, match=r"thread \(31, 0, 0\), block \(0, 0, 0\): 8-byte store .* is outside"):
        Gpu().run(compile_ptx(kernel, F64), "", 1, 32, np.zeros(32))
