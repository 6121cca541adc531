"""Memory of devices on a driver that only notes what is asked of it: order, futures, pinning, giving back."""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import LaunchError, UsageError
from gondwana.gpu import device as devices
from gondwana.gpu.device import Device, device
from gondwana.gpu.interface import CudaError
from gondwana.memory import cuda_kind, fallbacks, ipc, pinned, reclaim
from gondwana.memory.cuda_kind import CudaKind, EventFuture
from gondwana.memory.ipc import Offer
from gondwana.memory.pinned import SMALL, Ring, is_pinned, pin, pin_if_worth
from gondwana.runtime.shared_file import ForeignFileError
from gondwana.transfer.devices import cuda_copies
from gondwana.transfer.devices.stream_order import DEFAULT, Order, order_of
from support.recording_driver import Call, RecordingDriver


class ObedientDriver(RecordingDriver):
    """It refuses what is named in `refused`, and has so much memory."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.room = 1 << 20

    def answer(self, name: str, args: Call) -> Any:
        if name in self.refused:
            raise CudaError(f"CUDA_ERROR_UNKNOWN: {name}")
        if name == "memory":
            return self.room, 1 << 20
        if name == "allocate" and args[0] > self.room:
            raise MemoryError
        if name == "await_event":
            self.passed.add(args[0])
        return super().answer(name, args)

    def names(self) -> list[str]:
        return [call[0] for call in self.take()]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> ObedientDriver:
    one = ObedientDriver()
    monkeypatch.setattr(devices, "driver", lambda: one)
    monkeypatch.setattr(cuda_kind, "driver", lambda: one)
    monkeypatch.setattr(devices, "_devices", {})
    monkeypatch.setattr(cuda_kind, "_under_way", {})
    monkeypatch.setattr(cuda_copies, "_streams", {})
    monkeypatch.setattr(reclaim, "_waiting", [])
    monkeypatch.setattr(fallbacks, "_counts", dict.fromkeys(fallbacks.counters(), 0))
    monkeypatch.setattr(fallbacks, "_reported", set())
    return one


@pytest.fixture
def one(recorder: ObedientDriver) -> Device:
    opened = device(0)
    recorder.take()
    return opened


def reach_all(recorder: ObedientDriver) -> None:
    """The device comes to the end of everything."""
    recorder.passed.update(range(10_000))


def test_kinds_by_number(recorder: ObedientDriver) -> None:
    assert repr(gw.cuda(0)) == "gw.cuda(0)"
    assert gw.cuda(0) == CudaKind(0) != CudaKind(1)
    with pytest.raises(UsageError, match=r"gw.cuda\(3\): this rank sees 1 CUDA device"):
        gw.cuda(3)
    assert devices.opened() == ()


def test_memory_is_zeroed_before_anybody_sees_it(recorder: ObedientDriver, one: Device) -> None:
    CudaKind(0).allocate(100)
    (_, nbytes), (_, _, byte, filled, stream), _, (_, event, on), (_, awaited) = recorder.take()
    assert (nbytes, byte, filled, stream, on) == (100, 0, 100, one.transfers, one.transfers)
    assert awaited == event


def test_a_copy_waits_for_kernels_and_its_future_for_the_copy(recorder: ObedientDriver, one: Device) -> None:
    source = np.ones(8, np.uint8)
    future = CudaKind(0).write(source, 4096)
    (_, kernels, compute), (_, transfers, after), (_, *copied), _, (_, event, on) = recorder.take()
    assert (compute, transfers, after) == (one.compute, one.transfers, kernels)
    assert copied == [4096, source.ctypes.data, 8, one.transfers]
    assert on == one.transfers
    assert not future.done()
    gw.progress()
    assert not future.done()
    recorder.passed.add(event)
    called = []
    future.add_done_callback(called.append)
    gw.progress()
    assert called == [future]


def test_futures_of_one_device_end_in_order(recorder: ObedientDriver, one: Device) -> None:
    futures = [EventFuture(one, None) for _ in range(3)]
    handles = [call[1] for call in recorder.take() if call[0] == "record"]
    recorder.passed.update(handles[:2])
    gw.progress()
    assert [future.done() for future in futures] == [True, True, False]
    assert cuda_kind._unfinished() == "1 copies of devices under way"
    futures[2].end()
    assert futures[2].done()
    assert cuda_kind._unfinished() is None


def test_an_error_of_the_device_is_that_of_the_future(recorder: ObedientDriver, one: Device) -> None:
    finished = []
    future = EventFuture(one, None, lambda: finished.append(1))
    recorder.refused.add("reached")
    with pytest.raises(CudaError, match="reached"):
        future.result()
    assert not finished


def test_a_future_keeps_what_the_device_works_on(recorder: ObedientDriver, one: Device) -> None:
    source = np.ones(8)
    alive = [True]
    weakref.finalize(source, alive.clear)
    future = EventFuture(one, source)
    del source
    gc.collect()
    assert alive
    reach_all(recorder)
    assert future.done()
    assert not alive


def test_memory_is_freed_when_the_device_is_through(recorder: ObedientDriver, one: Device) -> None:
    kind = CudaKind(0)
    address = kind.allocate(64)
    recorder.take()
    recorder.busy = True
    kind.free(address)
    assert recorder.take() == []  # garbage may be collected in the midst of anything
    assert not reclaim.reclaim()
    assert recorder.take() == []  # the driver would wait for what runs
    recorder.busy = False
    assert reclaim.reclaim()
    assert recorder.take() == [("free", address)]
    assert reclaim.waiting() == 0


def test_much_memory_does_not_wait_until_the_device_is_idle(recorder: ObedientDriver, one: Device) -> None:
    kind = CudaKind(0)
    recorder.room = one.facts.memory
    large, small = kind.allocate(one.facts.memory // 64), kind.allocate(64)
    recorder.take()
    recorder.busy = True
    kind.free(large)
    assert not reclaim.reclaim()
    kind.free(small)
    assert reclaim.reclaim()
    assert recorder.take() == [("finish", one.compute), ("finish", one.transfers), ("free", small)]
    assert not reclaim.reclaim()
    recorder.busy = False
    assert reclaim.reclaim()


def test_nothing_is_freed_while_launches_are_captured(recorder: ObedientDriver, one: Device) -> None:
    """An event that is recorded on a capturing stream is part of the graph, and never reached."""
    kind = CudaKind(0)
    address = kind.allocate(64)
    reach_all(recorder)
    recorder.take()
    one.capturing = True
    kind.free(address)
    assert not reclaim.reclaim()
    assert recorder.take() == []
    one.capturing = False
    assert reclaim.reclaim()
    assert ("free", address) in recorder.take()


def test_what_could_not_be_freed_is_kept(recorder: ObedientDriver, one: Device) -> None:
    kind = CudaKind(0)
    for address in [kind.allocate(64) for _ in range(3)]:
        kind.free(address)
    reach_all(recorder)
    recorder.refused.add("free")
    with pytest.raises(CudaError, match="free"):
        reclaim.reclaim()
    assert reclaim.waiting() == 3
    recorder.refused.clear()
    assert reclaim.reclaim()
    assert reclaim.waiting() == 0


def test_memory_that_other_ranks_attach_has_blocks_of_its_own(
    recorder: ObedientDriver, one: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_kind, "world", SimpleNamespace(node=SimpleNamespace(size=2)))
    recorder.room = 4 << 20
    CudaKind(0).allocate(100)
    asked, filled, *_ = recorder.take()
    assert asked == ("allocate", 2 << 20)
    assert filled[3] == 100


def test_short_memory_waits_for_what_is_given_back(recorder: ObedientDriver, one: Device) -> None:
    kind = CudaKind(0)
    address = kind.allocate(64)
    kind.free(address)
    recorder.room, recorder.busy = 0, True

    def finish() -> None:
        recorder.busy = False
        recorder.room = 1 << 20

    one.synchronize = finish  # type: ignore[method-assign]
    kind.allocate(128)
    names = recorder.names()
    assert names.index("free") < len(names) - 1 - names[::-1].index("allocate")


def test_no_memory_says_how_much_there_is(recorder: ObedientDriver, one: Device) -> None:
    recorder.room = 1000
    text = r"no memory of 5000 bytes of kind cuda\(0\): 5000 bytes asked of GPU 0, of whose 1048576 bytes 1000 are free"
    with pytest.raises(LaunchError, match=text):
        gw.Segment(gw.world, 5000, gw.cuda(0))


def test_segments_on_devices_that_are_not_there_are_refused(recorder: ObedientDriver) -> None:
    with pytest.raises(UsageError, match="no CUDA device 7"):
        gw.Segment(gw.world, 10, CudaKind(7))


def test_attached_memory_is_not_freed(recorder: ObedientDriver, one: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = Offer(one, 4096)
    assert offer.shared is not None
    first, second = offer.shared._locked(), offer.shared._locked()
    assert not offer.withdraw()
    for lock in (first, second):
        assert not offer.withdraw()
        os.close(lock)
    assert offer.withdraw()
    assert offer.withdraw()
    with pytest.raises((OSError, ForeignFileError)):
        offer.shared._locked()


def test_operations_are_atomic_where_the_memory_is_or_over_some_links(
    recorder: ObedientDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipc, "driver", lambda: recorder)
    recorder.devices, near = 2, device(0)
    recorder.take()
    assert [bool(ipc._atomic(near, f"GPU-{other}")) for other in (0, 1, 7)] == [True, True, False]
    assert recorder.take() == [("atomics_between", 0, 1)]
    monkeypatch.setattr(recorder, "atomics_between", lambda *_: False)
    assert not ipc._atomic(near, "GPU-1")


def test_a_refused_offer_is_counted_and_said_once(
    recorder: ObedientDriver, one: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.refused.add("export")
    assert Offer(one, 4096).shared is None
    assert Offer(one, 8192).withdraw()
    assert fallbacks.counters()["export"] == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "gondwana: rank 0: device memory cannot be offered to the other ranks of the node "
        "(CUDA_ERROR_UNKNOWN: export); copies are staged"
    ]


def mapping(nbytes: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(mmap.mmap(-1, nbytes + 100), np.uint8, nbytes, 100)


def test_a_mapping_is_pinned_once_and_as_long_as_it_lives(recorder: ObedientDriver, one: Device) -> None:
    memory = mapping(10_000)
    first = memory.ctypes.data
    assert not is_pinned(memory)
    assert pin(memory, one)
    assert pin(memory, one)
    assert recorder.take() == [("register", first - 100, 10_100)]
    assert is_pinned(memory)
    view = memory[5:50]
    del memory
    assert recorder.take() == []
    del view
    assert recorder.take() == [("unregister", first - 100)]


def test_a_mapping_is_pinned_once_as_much_was_copied_as_it_has(recorder: ObedientDriver, one: Device) -> None:
    memory = mapping(1_000_000)
    for step in range(10):
        pin_if_worth(memory, one, 120_000)
        assert is_pinned(memory) == (step >= 8)
    whole = mapping(1_000_000)
    pin_if_worth(whole, one, 1_000_000)
    assert is_pinned(whole)
    first = memory.ctypes.data
    del memory
    assert first not in pinned._copied


def test_refused_pinning_is_counted_and_said_once(
    recorder: ObedientDriver, one: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.refused.add("register")
    several = [mapping(5000) for _ in range(2)]
    for memory in several:
        assert not pin(memory, one)
        assert not pin(memory, one)
        assert not is_pinned(memory)
    assert fallbacks.counters()["pin"] == 2
    assert capsys.readouterr().err.count("cannot be pinned (CUDA_ERROR_UNKNOWN: register)") == 1
    del several, memory
    assert "unregister" not in recorder.names()


def test_the_ring_waits_for_the_oldest_only_when_it_is_full(recorder: ObedientDriver, one: Device) -> None:
    ring = Ring(one)
    recorder.take()
    held = []
    for _ in range(16):
        _, room = ring.take(SMALL)
        room[:] = len(held)
        held.append((room, EventFuture(one, None)))
        ring.hold(held[-1][1])
    assert "await_event" not in recorder.names()
    assert all((room == index).all() for index, (room, _) in enumerate(held))
    ring.take(300)
    assert recorder.names().count("await_event") == 1
    assert [copy.done() for _, copy in held] == [True] + 15 * [False]


def test_room_in_the_ring_never_overlaps(recorder: ObedientDriver, one: Device) -> None:
    ring, random = Ring(one), np.random.default_rng(3)
    live: list[tuple[int, int, EventFuture]] = []
    for size in random.integers(1, SMALL + 1, 400).tolist():
        _, room = ring.take(size)
        assert room.size == size
        start = room.ctypes.data
        live = [entry for entry in live if not entry[2].done()]
        assert all(start + size <= a or b <= start for a, b, _ in live)
        copy = EventFuture(one, None)
        ring.hold(copy)
        live.append((start, start + size, copy))
        if random.random() < 0.3:
            live[int(random.integers(len(live)))][2].end()


class Theirs:
    """A stream of another library."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 77


@pytest.mark.parametrize(("given", "stream"), [(5, 5), (np.int64(6), 6), (Theirs(), 77), (Order(8), 8), (0, 0)])
def test_streams_of_several_makes(given: Any, stream: int) -> None:
    assert order_of(given).stream == stream


def test_what_is_no_stream_is_refused() -> None:
    assert order_of(None) is DEFAULT
    with pytest.raises(UsageError, match="stream='fast'"):
        order_of("fast")  # type: ignore[arg-type]


def test_a_copy_goes_between_what_a_stream_holds_and_what_comes_later(recorder: ObedientDriver, one: Device) -> None:
    segment = gw.Segment(gw.world, 1 << 10, gw.cuda(0))
    recorder.take()
    gw.copy(np.ones(4), segment.pointer(dtype=float), stream=1234)
    calls = [call for call in recorder.take() if call[0] in ("record", "order", "copy")]
    kinds = [call[0] for call in calls]
    # Behind the kernels, behind the stream; the copy; the event of its future; the stream behind it.
    assert kinds == ["record", "order", "record", "order", "copy", "record", "record", "order"]
    assert calls[2][2] == 1234
    assert calls[-1][1] == 1234
    reach_all(recorder)


def test_a_copy_need_not_wait_for_the_latest_kernels(recorder: ObedientDriver, one: Device) -> None:
    segment = gw.Segment(gw.world, 1 << 10, gw.cuda(0))
    before = one.record(one.compute)
    recorder.take()
    gw.copy(np.ones(4), segment.pointer(dtype=float), stream=Order(after=before))
    first = next(call for call in recorder.take() if call[0] in ("record", "order"))
    assert first == ("order", one.transfers, before._event)
    reach_all(recorder)


def test_synchronize_waits_for_kernels(recorder: ObedientDriver, one: Device) -> None:
    reach_all(recorder)
    gw.synchronize()
    names = [call for call in recorder.take() if call[0] == "record"]
    assert [call[2] for call in names] == [one.compute]


def test_closed_segments_are_refused(recorder: ObedientDriver, one: Device) -> None:
    segment = gw.Segment(gw.world, 1 << 10, gw.cuda(0))
    pointer = segment.pointer(dtype=float)
    reach_all(recorder)
    gw.put(1.0, pointer).wait()
    segment.close()
    for copy in (lambda: gw.put(1.0, pointer), lambda: gw.get(pointer, 3), lambda: gw.copy(pointer, pointer + 4, 2)):
        with pytest.raises(UsageError, match="was closed"):
            copy()
