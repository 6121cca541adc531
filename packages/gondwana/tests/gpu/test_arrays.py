"""Arrays on a real device: all that holds on the emulated one, and arrays of CuPy, PyTorch and Numba without a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.gpu.driver import driver
from support import jobs

CHECKS = Path(__file__).parents[1] / "parallel" / "programs" / "device_array_checks.py"
JOBS = {"1rank": (1, 0), "2ranks": (2, 0), "2ranks-1pernode": (2, 1), "3ranks": (3, 0)}
"""Ranks, and how many of them take each other to be on one node (0: all)."""

STEPS = 20


@pytest.mark.parametrize("name", jobs.check_names(CHECKS))
@pytest.mark.parametrize("job", JOBS)
def test_device_arrays(job: str, name: str, mpi4py_there: None) -> None:
    ranks, per_node = JOBS[job]
    problems = jobs.reports(ranks, CHECKS, per_node=per_node, timeout=250)[name]
    assert not problems, "\n".join(problems)


@gw.foreach
def double(p, a):
    a[p] = 2 * a[p]


def library(name: str) -> Any:
    """Another library for GPUs; without it, or without a real GPU, the test is skipped."""
    if driver().name == "emulated":
        pytest.skip("other libraries do not know the emulated GPU")
    return pytest.importorskip(name)


def test_cupy_both_ways() -> None:
    cupy = library("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        data = cupy.ones((1000, 1000))
        for _ in range(STEPS):  # the device is still at it when we take the array
            data *= 2.0
        ours = gw.on_device(data, gw.RectDomain((-1, -1), (999, 999)))
        assert ours.address == data.data.ptr
        for _ in range(STEPS):
            double(ours.domain, ours)
        for take in (cupy.asarray, cupy.from_dlpack):
            back = take(ours.permute((1, 0)))
            assert back.data.ptr == data.data.ptr
            assert bool((back == 2.0 ** (2 * STEPS)).all())
    assert (ours.copy().numpy() == 2.0 ** (2 * STEPS)).all()
    strided = gw.on_device(data[::2, 1::3])
    strided.fill(3.0)
    gw.synchronize()
    assert float(data.sum()) == 3.0 * strided.size + 2.0 ** (2 * STEPS) * (data.size - strided.size)
    with pytest.raises(UsageError, match="on_device"):
        gw.Array(data)


def test_pytorch_both_ways() -> None:
    torch = library("torch")
    data = torch.ones((1000, 1000), dtype=torch.float64, device="cuda")
    for _ in range(STEPS):
        data *= 2.0
    ours = gw.from_dlpack(data)
    assert isinstance(ours, gw.DeviceArray)
    for _ in range(STEPS):
        double(ours.domain, ours)
    back = torch.from_dlpack(ours)
    assert back.data_ptr() == data.data_ptr()
    assert bool((back == 2.0 ** (2 * STEPS)).all())


def test_numba_both_ways() -> None:
    cuda = library("numba.cuda")
    data = cuda.to_device(np.arange(24.0).reshape(4, 6))
    ours = gw.on_device(data)
    double(ours.domain, ours)
    assert np.array_equal(cuda.as_cuda_array(ours).copy_to_host(), 2 * np.arange(24.0).reshape(4, 6))


def test_ghosts_of_a_large_block() -> None:
    large = 300 if driver().name != "emulated" else 20
    T = gw.zeros((large, large, large), ghost=1, periodic=True, kind=gw.cuda(0))  # noqa: N806
    whole = np.random.default_rng(1).random(T.domain.shape)
    T.local.restrict(T.owned).copy_from(gw.Array(whole, T.owned))
    T.exchange(corners=True).wait()
    assert np.array_equal(T.local.copy().numpy(), np.pad(whole, 1, mode="wrap"))
