"""Collectives with buffers on devices on one rank: the host memory in their place, and requests that deliver."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.arrays import device_buffers
from gondwana.memory import pinned
from gondwana.teams import buffers
from gondwana.testing.gpu import emulated_gpu


def on_device(data: np.ndarray, kind: gw.MemoryKind = gw.fake_device, order: Any = "C") -> Any:
    segment = gw.Segment(gw.world, max(data.nbytes, 1), kind)
    array = gw.array_at(segment.pointer(dtype=data.dtype), data.shape, order=order)
    array.copy_from(gw.Array(data))
    return array


def held(array: Any) -> np.ndarray:
    found: np.ndarray = array.copy().numpy()
    return found


def test_objects_on_the_host_pass_unchanged() -> None:
    for buffer in (np.zeros(3), bytearray(3), None, gw.IN_PLACE, 3, gw.Array(np.zeros(3)), [1], "text"):
        assert buffers.staged(buffer) is buffer
    pointer = gw.Segment(gw.world, 8).pointer()
    assert buffers.staged(pointer) is pointer
    inner = gw.strided(pointer, (2, 2), (4, 1))
    assert buffers.staged(inner) is inner


@pytest.mark.parametrize("order", ["C", "F"])
def test_host_memory_is_in_order_or_refused(order: Any) -> None:
    data = np.arange(24.0).reshape(2, 3, 4)
    buffer = on_device(data, order=order)
    whole = buffers.staged(buffer)
    assert (whole == data).all()
    assert whole.flags.c_contiguous
    whole[...] *= 2
    buffers.deliver(whole)
    assert (buffer.copy().numpy() == 2 * data).all()
    host = buffers.staged(
        buffer, whole=False
    )  # of parts: has the order of the device, and is refused if that is not C's
    assert (host == 2 * data).all()
    assert host.flags.c_contiguous == (order == "C")
    assert host.flags.f_contiguous == (order == "F")
    assert host.reshape(-1, order="A").view(np.uint8).staging is host.staging


def test_what_is_not_needed_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = device_buffers.DeviceBuffer.load
    monkeypatch.setattr(device_buffers.DeviceBuffer, "load", lambda self: (loads.append(self), load(self)))
    team, send, recv = gw.world, on_device(np.ones(5)), on_device(np.zeros(5))
    for call, count in (
        (lambda: team.Allreduce(send, recv), 1),
        (lambda: team.Allreduce(gw.IN_PLACE, recv), 1),
        (lambda: team.Gather(send, recv), 1),
        (lambda: team.Scatter(send, recv), 1),
        (lambda: team.Alltoall(send, recv), 1),
        (lambda: team.Bcast(send), 1),
        (lambda: team.Allgatherv(send, (recv, [5])), 2),  # what lies behind the parts stays
        (lambda: team.Allreduce(np.ones(5), recv), 0),
    ):
        loads.clear()
        call()
        assert len(loads) == count
    assert (held(recv) == 1).all()


def test_a_request_is_complete_when_the_device_has_the_data() -> None:
    recv = on_device(np.zeros(5))
    request = gw.world.Iallreduce(np.arange(5.0), recv)
    request.wait()
    assert request.test()
    assert request.result() is recv
    assert (held(recv) == np.arange(5)).all()


def test_an_error_of_the_copy_to_the_device_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    recv = on_device(np.zeros(5))

    def fail(*_: Any) -> None:
        raise RuntimeError("CUDA_ERROR_ECC_UNCORRECTABLE")

    monkeypatch.setattr(type(gw.fake_device), "write", fail)
    with pytest.raises(RuntimeError, match="ECC"):
        gw.world.Allreduce(np.ones(5), recv)
    request = gw.world.Iallreduce(np.ones(5), recv)
    with pytest.raises(RuntimeError, match="ECC"):
        request.wait()


def test_large_buffers_are_pinned_once_and_not_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_buffers, "_MOST_PINNED", 1 << 18)
    monkeypatch.setattr(device_buffers, "_pinned", device_buffers._Pinned())
    with emulated_gpu():
        small, large = (on_device(np.arange(float(n)), gw.cuda(0)) for n in (1000, 10_000))
        assert buffers.staged(small).base.nbytes == 8000
        first, second, third = (buffers.staged(large) for _ in range(3))
        address = first.ctypes.data
        assert len({array.ctypes.data for array in (first, second, third)}) == 3
        assert pinned.is_pinned(first.staging.memory.base)
        assert pinned.is_pinned(second.staging.memory.base)
        assert third.staging.memory.base.nbytes == 80_000  # there is no room for another one: pageable
        del first
        gc.collect()
        for _ in range(5):
            total = np.zeros(10_000)
            gw.world.Allreduce(large, total)
            assert (total == np.arange(10_000)).all()
        assert buffers.staged(large).ctypes.data == address
