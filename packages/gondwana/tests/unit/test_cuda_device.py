"""Devices: what they ask of the driver, from any thread; events and their handles."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.gpu import device as devices
from gondwana.gpu.device import Device, device
from gondwana.gpu.interface import CudaError
from gondwana.testing.gpu import emulated_gpu
from support.recording_driver import RecordingDriver


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    one = RecordingDriver()
    monkeypatch.setattr(devices, "driver", lambda: one)
    monkeypatch.setattr(devices, "_devices", {})
    return one


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_a_device_is_opened_once(recorder: RecordingDriver) -> None:
    first = device(0)
    assert [call[0] for call in recorder.take()] == ["open", "new_stream", "new_stream", "new_event"]
    assert device(0) is first
    assert devices.opened() == (first,)
    assert recorder.take() == []
    assert first.compute != first.transfers
    assert first.facts.name == "GPU 0"


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (1, -1), (4, 4)])
def test_other_numbers_are_refused(recorder: RecordingDriver, count: int, wanted: int) -> None:
    recorder.devices = count
    legal = "only device 0" if count == 1 else "devices 0 to 3"
    with pytest.raises(UsageError, match=f"no CUDA device {wanted}: this process sees {legal}"):
        device(wanted)
    assert devices.opened() == ()


def test_handles_of_events_are_used_again(recorder: RecordingDriver) -> None:
    one = device(0)
    recorder.take()
    first = one.record(one.compute)
    (_,), (_, event, stream) = recorder.take()
    assert stream == one.compute
    assert not first.reached()
    first.block(one.transfers)
    assert recorder.take() == [("reached", event), ("order", one.transfers, event)]
    second = one.record(one.compute)  # while the first lives it has an event of its own
    assert [call[0] for call in recorder.take()] == ["new_event", "record"]
    recorder.passed.add(event)
    assert first.reached()
    recorder.take()
    first.wait()
    first.block(one.transfers)
    assert first.reached()
    assert recorder.take() == []  # what is reached stays so
    del first
    third = one.record(one.transfers)
    assert recorder.take() == [("record", event, one.transfers)]
    third.wait()
    assert recorder.take() == [("await_event", event)]
    assert third.reached()
    del second


def test_copies_follow_kernels_and_users_streams(recorder: RecordingDriver) -> None:
    one = device(0)
    recorder.take()
    assert one.after_kernels() == one.transfers
    (_, kernels, recorded), (_, ordered, awaited) = recorder.take()
    assert (recorded, ordered, awaited) == (one.compute, one.transfers, kernels)
    one.after(77)
    (_,), (_, event, recorded), (_, ordered, awaited) = recorder.take()
    assert (recorded, ordered, awaited) == (77, one.transfers, event)
    one.before(77)
    assert recorder.take() == [("record", event, one.transfers), ("order", 77, event)]
    one.synchronize()
    assert recorder.take() == [("finish", one.compute), ("finish", one.transfers)]


def test_threads_get_the_context_once(recorder: RecordingDriver) -> None:
    one = device(0)
    recorder.take()
    in_thread(lambda: (device(0), one.synchronize(), one.after_kernels()))
    assert [call[0] for call in recorder.take()] == ["activate", "finish", "finish", "record", "order"]
    one.synchronize()
    assert [call[0] for call in recorder.take()] == ["finish", "finish"]
    first = one.record(one.compute)
    recorder.take()
    in_thread(first.wait)
    assert [call[0] for call in recorder.take()] == ["activate", "await_event"]


def test_of_several_devices_the_right_one_is_current(recorder: RecordingDriver) -> None:
    recorder.devices = 2
    first, second = device(0), device(1)
    recorder.take()
    for one in (first, second, first):
        one.synchronize()
    activated = [call[1] for call in recorder.take() if call[0] == "activate"]
    assert activated == [first._context, second._context, first._context]


def test_two_threads_open_one_device(recorder: RecordingDriver) -> None:
    found: list[Device] = []
    threads = [threading.Thread(target=lambda: found.append(device(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 1
    assert sum(call[0] == "open" for call in recorder.calls) == 1


def test_devices_are_counted_without_opening_one(recorder: RecordingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder.devices = 3
    assert gw.device_count() == 3
    assert devices.opened() == ()

    def fail() -> int:
        raise CudaError("CUDA_ERROR_UNKNOWN: cuInit")

    monkeypatch.setattr(recorder, "count", fail)
    with pytest.raises(UsageError, match="CUDA_ERROR_UNKNOWN: cuInit"):
        gw.device_count()


def test_memory_kinds_know_their_device() -> None:
    assert gw.host.device is None
    assert gw.fake_device.device is None
    with emulated_gpu():
        one = gw.cuda(0).device
        assert one is device(0)
        assert (one.number, one.name, one.emulated) == (0, "emulated GPU", True)
        assert one.uuid
        before = one.free_memory()
        block = gw.Segment(gw.world, 1 << 20, gw.cuda(0))
        # Something small that earlier tests have left may be given back meanwhile.
        assert one.free_memory() <= before - (1 << 20) + (1 << 16)
        event = one.record()
        event.wait()
        assert event.reached()
        block.close()
