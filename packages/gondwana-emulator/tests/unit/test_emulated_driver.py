"""The driver of the emulated GPU: memory, streams, events, graphs, other processes, and its strictness."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gondwana.gpu.interface import CudaError
from gondwana_emulator import driver as emulated
from gondwana_emulator.arena import Arena
from gondwana_emulator.driver import EmulatedDriver
from gondwana_emulator.memory import CAPACITY
from support.emulated import HEAD, Gpu

ADD = f"""{HEAD}
.visible .entry add(.param .u64 data, .param .u64 value)
{{
    .reg .u64 %p, %v; .reg .u32 %t; .reg .u64 %q;
    ld.param.u64 %p, [data]; ld.param.u64 %v, [value]; mov.u32 %t, %tid.x; mul.wide.u32 %q, %t, 8; add.u64 %p, %p, %q;
    ld.global.u64 %q, [%p]; add.u64 %q, %q, %v; st.global.u64 [%p], %q; ret;
}}
"""


class Bench(Gpu):
    """A device with a kernel that adds to eight words."""

    def __init__(self) -> None:
        super().__init__()
        self.add_entry = self.driver.entry(self.load(ADD), "add")
        self.words = self.array(np.zeros(8, np.uint64))
        self.other = self.driver.new_stream()

    def add(self, value: int, stream: int | None = None, address: int | None = None) -> None:
        arguments = np.array([address or self.words, value], np.uint64).tobytes()
        self.driver.launch(self.add_entry, (1, 1, 1), (8, 1, 1), 0, stream or self.stream, arguments)

    def first(self) -> int:
        return int(self.read(self.words, np.zeros(8, np.uint64))[0])


@pytest.fixture
def gpu() -> Bench:
    return Bench()


@pytest.fixture(params=["0", "1", "2", "3"])
def seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """With one of several orders of everything."""
    monkeypatch.setenv(emulated.SEED, request.param)
    return Bench()


def fails(name: str, call: Callable[..., object], *given: object) -> None:
    with pytest.raises(CudaError, match=f"CUDA_ERROR_{name}"):
        call(*given)


# Memory


def test_new_memory_is_rubbish_and_freed_memory_is_none(gpu: Bench) -> None:
    address = gpu.driver.allocate(1000)
    assert address % 256 == 0
    assert (gpu.read(address, np.zeros(1000, np.uint8)) == 0xDB).all()
    gpu.driver.free(address)
    fails("INVALID_VALUE", gpu.driver.copy, address, address, 8, gpu.stream)
    fails("INVALID_VALUE", gpu.driver.free, address)
    fails("INVALID_VALUE", gpu.driver.free, gpu.words + 8)


def test_empty_allocations_have_addresses_of_their_own(gpu: Bench) -> None:
    first, second = gpu.driver.allocate(0), gpu.driver.allocate(0)
    assert first != second
    fails("INVALID_VALUE", gpu.driver.copy, first, second, 1, gpu.stream)
    gpu.driver.copy(first, second, 0, gpu.stream)


def test_memory_that_is_freed_by_the_garbage_collector_leaves_operations_whole(gpu: Bench) -> None:
    """To free memory executes what is on the streams: never in the middle of an operation."""

    class Owner:
        def __init__(self) -> None:
            self.itself = self
            weakref.finalize(self, gpu.driver.free, gpu.driver.allocate(8))

    done = []

    def work() -> None:
        Owner()
        assert len([[number] for number in range(100_000)]) == 100_000  # enough for a collection
        done.append("first")

    gpu.driver._put(gpu.stream, work)
    gpu.driver._put(gpu.stream, lambda: done.append("second"))
    gpu.driver.finish(gpu.stream)
    assert done == ["first", "second"]


def test_memory_is_limited(gpu: Bench) -> None:
    free, total = gpu.driver.memory()
    assert total == CAPACITY == gpu.driver.facts(0).memory
    with pytest.raises(MemoryError):
        gpu.driver.allocate(free + 1)
    address = gpu.driver.allocate(1 << 20)
    assert gpu.driver.memory()[0] == free - (1 << 20)
    gpu.driver.free(address)
    assert gpu.driver.memory()[0] == free


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40_000)), max_size=60))
@settings(max_examples=30, deadline=None)
def test_pieces_of_an_arena_never_overlap(steps: list[tuple[bool, int]]) -> None:
    arena, pieces = Arena(1 << 18), {}
    for take, number in steps:
        if take:
            try:
                pieces[arena.take(number)] = number
            except MemoryError:
                continue
        elif pieces:
            start = sorted(pieces)[number % len(pieces)]
            arena.give(start, pieces.pop(start))
        ends = sorted((start, start + max(size, 1)) for start, size in pieces.items())
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(ends))
    for start, size in pieces.items():
        arena.give(start, size)
    assert arena.take(1 << 18) == 0


def test_fills_and_copies(gpu: Bench) -> None:
    address = gpu.driver.allocate(64)
    gpu.driver.fill(address, 7, 64, gpu.stream)
    gpu.driver.fill(address + 8, 9, 4, gpu.stream)
    gpu.driver.copy(address + 32, address, 32, gpu.stream)
    found = gpu.read(address, np.zeros(64, np.uint8))
    wanted = np.full(32, 7)
    wanted[8:12] = 9
    np.testing.assert_array_equal(found, np.tile(wanted, 2))


@given(
    counts=st.tuples(*[st.integers(1, 5)] * 3),
    gaps=st.tuples(*[st.integers(0, 3)] * 4),
    to_device=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_boxes(counts: tuple[int, int, int], gaps: tuple[int, int, int, int], to_device: bool) -> None:
    gpu = Gpu()
    width, rows, planes = counts
    shapes = [(planes, rows + more_rows, width + more) for more, more_rows in (gaps[:2], gaps[2:])]
    strides = [(shape[2], shape[1] * shape[2]) for shape in shapes]
    source = np.random.default_rng(0).integers(0, 255, shapes[1]).astype(np.uint8)
    target = np.full(shapes[0], 99, np.uint8)
    wanted = target.copy()
    wanted[:planes, :rows, :width] = source[:planes, :rows, :width]
    address = gpu.array(source if to_device is False else target)
    if to_device:
        gpu.driver.copy_box(address, source.ctypes.data, counts, strides[0], strides[1], gpu.stream)
        gpu.read(address, target)
    else:
        gpu.driver.copy_box(target.ctypes.data, address, counts, strides[0], strides[1], gpu.stream)
        gpu.driver.finish(gpu.stream)
    np.testing.assert_array_equal(target, wanted)


def test_boxes_that_a_driver_cannot_describe(gpu: Bench) -> None:
    box = gpu.driver.copy_box
    fails("INVALID_VALUE", box, gpu.words, gpu.words, (8, 2, 1), (4, 0), (8, 0), gpu.stream)
    fails("INVALID_VALUE", box, gpu.words, gpu.words, (8, 2, 2), (8, 20), (8, 16), gpu.stream)
    fails("INVALID_VALUE", box, gpu.words, gpu.words, (8, 2, 2), (16, 48), (8, 16), gpu.stream)
    box(gpu.words, gpu.words, (0, 2, 2), (0, 0), (0, 0), gpu.stream)


def test_registered_memory(gpu: Bench) -> None:
    data = np.zeros(16, np.uint64)
    start = data.ctypes.data
    gpu.driver.register(start, 64)
    fails("HOST_MEMORY_ALREADY_REGISTERED", gpu.driver.register, start + 32, 64)
    gpu.add(5, address=start)
    gpu.driver.unregister(start)  # waits
    np.testing.assert_array_equal(data, [5] * 8 + [0] * 8)
    fails("HOST_MEMORY_NOT_REGISTERED", gpu.driver.unregister, start)
    fails("INVALID_VALUE", gpu.driver.register, start, 0)


# Streams and events


def test_nothing_happens_before_somebody_looks(gpu: Bench) -> None:
    result, source = np.zeros(8, np.uint64), np.arange(8, dtype=np.uint64)
    gpu.driver.copy(gpu.words, source.ctypes.data, 64, gpu.stream)
    gpu.add(10)
    gpu.driver.copy(result.ctypes.data, gpu.words, 64, gpu.stream)
    assert not result.any()
    source[:] = 100  # read when the copy happens
    gpu.driver.finish(gpu.stream)
    np.testing.assert_array_equal(result, [110] * 8)


def test_looking_at_an_event_lets_things_happen(seeded: Bench) -> None:
    event = seeded.driver.new_event()
    assert seeded.driver.reached(event), "nothing is awaited before the first record"
    for _ in range(20):
        seeded.add(1)
    seeded.driver.record(event, seeded.stream)
    looks = 0
    while not seeded.driver.reached(event):
        looks += 1
    assert looks > 3
    assert seeded.first() == 20


def test_streams_without_order_are_interleaved() -> None:
    """Over a few seeds, two streams come out in both orders."""
    winners = set()
    for seed in range(10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(emulated.SEED, str(seed))
            gpu = Bench()
        gpu.driver.fill(gpu.words, 1, 64, gpu.stream)
        gpu.driver.fill(gpu.words, 2, 64, gpu.other)
        gpu.driver.finish(gpu.other)
        winners.add(gpu.first() & 255)
    assert winners == {1, 2}


def test_an_event_orders_streams(seeded: Bench) -> None:
    event = seeded.driver.new_event()
    for value in range(1, 6):
        seeded.driver.fill(seeded.words, value, 64, seeded.stream)
    seeded.driver.record(event, seeded.stream)
    seeded.driver.order(seeded.other, event)
    seeded.driver.record(event, seeded.other)  # the earlier record still counts for who waits for it
    seeded.driver.free_event(event)
    seeded.add(1, seeded.other)
    seeded.driver.finish(seeded.other)
    assert seeded.first() == 0x0505_0505_0505_0506


def test_waiting_for_an_event_waits_for_no_more(gpu: Bench) -> None:
    event = gpu.driver.new_event(timing=True)
    gpu.add(1)
    gpu.driver.record(event, gpu.stream)
    gpu.driver.await_event(event)
    late = gpu.driver.new_event(timing=True)
    gpu.driver.record(late, gpu.stream)
    fails("NOT_READY", gpu.driver.seconds, event, late)
    gpu.driver.await_event(late)
    assert gpu.driver.seconds(event, late) > 0
    untimed = gpu.driver.new_event()
    gpu.driver.record(untimed, gpu.stream)
    fails("INVALID_HANDLE", gpu.driver.seconds, event, untimed)


def test_freeing_waits(gpu: Bench) -> None:
    result = np.zeros(8, np.uint64)
    gpu.add(3)
    gpu.driver.copy(result.ctypes.data, gpu.words, 64, gpu.stream)
    gpu.driver.free_stream(gpu.stream)
    fails("INVALID_HANDLE", gpu.driver.finish, gpu.stream)
    gpu.driver.free(gpu.words)
    np.testing.assert_array_equal(result, [3] * 8)


def test_an_error_stays_with_the_device(gpu: Bench) -> None:
    event = gpu.driver.new_event()
    gpu.add(1, address=gpu.words + 8)
    gpu.driver.record(event, gpu.stream)
    fails("ILLEGAL_ADDRESS", gpu.driver.await_event, event)
    fails("ILLEGAL_ADDRESS", gpu.driver.reached, event)
    fails("ILLEGAL_ADDRESS", gpu.driver.finish, gpu.other)
    fails("ILLEGAL_ADDRESS", gpu.add, 1)
    fails("ILLEGAL_ADDRESS", gpu.driver.new_stream)


# Kernels


def test_launches_are_checked(gpu: Bench) -> None:
    launch, words = gpu.driver.launch, np.array([gpu.words, 1], np.uint64).tobytes()
    one = (1, 1, 1)
    for grid, block in ((one, (1025, 1, 1)), (one, (1, 1, 65)), ((1, 65536, 1), one), ((0, 1, 1), one)):
        fails("INVALID_VALUE", launch, gpu.add_entry, grid, block, 0, gpu.stream, words)
    fails("INVALID_VALUE", launch, gpu.add_entry, one, one, 0, gpu.stream, words[:8])
    fails("INVALID_VALUE", launch, gpu.add_entry, one, one, 50_000, gpu.stream, words)
    gpu.driver.allow_shared(gpu.add_entry, 60_000)
    launch(gpu.add_entry, one, one, 50_000, gpu.stream, words)
    fails("INVALID_VALUE", gpu.driver.allow_shared, gpu.add_entry, 228 << 10)
    fails("INVALID_HANDLE", launch, gpu.stream, one, one, 0, gpu.stream, words)


def test_what_a_multiprocessor_holds(gpu: Bench) -> None:
    assert gpu.driver.resident(gpu.add_entry, 1024, 0) == 2
    assert gpu.driver.resident(gpu.add_entry, 32, 0) == 32
    assert gpu.driver.resident(gpu.add_entry, 256, 100 << 10) == 2
    facts = gpu.driver.entry_facts(gpu.add_entry)
    assert (facts.local, facts.shared, facts.threads) == (0, 0, 1024)


def test_bounds_of_launches_are_known(gpu: Bench) -> None:
    module = gpu.load(ADD.replace("value)", "value) .maxntid 16, 16, 1 .minnctapersm 2"))
    assert gpu.driver.entry_facts(gpu.driver.entry(module, "add")).threads == 256


def test_modules(gpu: Bench) -> None:
    module = gpu.load(ADD)
    fails("NOT_FOUND", gpu.driver.entry, module, "subtract")
    entry = gpu.driver.entry(module, "add")
    gpu.driver.unload(module)
    fails("INVALID_HANDLE", gpu.driver.entry, module, "add")
    fails("INVALID_HANDLE", gpu.driver.entry_facts, entry)
    fails("INVALID_IMAGE", gpu.driver.load, b"\x7fELF\xff\xfe")
    fails("INVALID_PTX", gpu.driver.load, b"not assembly")


# Graphs


def test_a_graph_is_noted_and_replayed(gpu: Bench) -> None:
    gpu.driver.begin_capture(gpu.stream)
    gpu.add(1)
    gpu.add(10)
    graph = gpu.driver.end_capture(gpu.stream)
    assert gpu.first() == 0
    for _ in range(3):
        gpu.driver.replay(graph, gpu.stream)
    assert gpu.first() == 33
    gpu.driver.free_graph(graph)
    fails("INVALID_HANDLE", gpu.driver.replay, graph, gpu.stream)


def test_a_graph_of_two_streams(seeded: Bench) -> None:
    gpu, driver = seeded, seeded.driver
    fork, join = driver.new_event(), driver.new_event()
    result = np.zeros(8, np.uint64)
    driver.register(result.ctypes.data, result.nbytes)
    driver.begin_capture(gpu.stream)
    gpu.driver.fill(gpu.words, 0, 64, gpu.stream)
    gpu.add(1)
    driver.record(fork, gpu.stream)
    driver.order(gpu.other, fork)
    driver.copy(result.ctypes.data, gpu.words, 64, gpu.other)
    driver.record(join, gpu.other)
    driver.order(gpu.stream, join)
    gpu.add(1)
    graph = driver.end_capture(gpu.stream)
    driver.finish(gpu.other)
    assert not result.any()
    for _ in range(5):
        result[:] = 0
        driver.replay(graph, gpu.other)
        driver.finish(gpu.other)
        np.testing.assert_array_equal(result, [1] * 8)
        assert gpu.first() == 2
    fails("CAPTURED_EVENT", driver.order, gpu.other, fork)
    driver.unregister(result.ctypes.data)


def test_what_a_capture_forbids(gpu: Bench) -> None:
    driver = gpu.driver
    before, event = driver.new_event(), driver.new_event()
    gpu.add(1)
    driver.record(before, gpu.stream)
    fails("STREAM_CAPTURE_UNMATCHED", driver.end_capture, gpu.stream)

    driver.begin_capture(gpu.stream)
    host = np.zeros(8, np.uint8)
    fails("STREAM_CAPTURE_UNSUPPORTED", driver.copy, gpu.words, host.ctypes.data, 8, gpu.stream)
    fails("STREAM_CAPTURE_INVALIDATED", driver.end_capture, gpu.stream)
    driver.register(host.ctypes.data, 8)
    driver.begin_capture(gpu.stream)
    driver.copy(gpu.words, host.ctypes.data, 8, gpu.stream)
    driver.free_graph(driver.end_capture(gpu.stream))
    driver.unregister(host.ctypes.data)

    driver.begin_capture(gpu.stream)
    fails("ILLEGAL_STATE", driver.begin_capture, gpu.stream)
    fails("STREAM_CAPTURE_UNSUPPORTED", driver.finish, gpu.stream)
    fails("STREAM_CAPTURE_INVALIDATED", driver.end_capture, gpu.stream)

    driver.begin_capture(gpu.stream)
    driver.record(event, gpu.stream)
    fails("CAPTURED_EVENT", driver.reached, event)
    fails("CAPTURED_EVENT", driver.await_event, event)
    fails("STREAM_CAPTURE_INVALIDATED", driver.end_capture, gpu.stream)

    driver.begin_capture(gpu.stream)
    fails("STREAM_CAPTURE_ISOLATION", driver.order, gpu.stream, before)
    fails("STREAM_CAPTURE_INVALIDATED", driver.end_capture, gpu.stream)

    driver.begin_capture(gpu.stream)
    driver.record(event, gpu.stream)
    driver.order(gpu.other, event)
    gpu.add(1, gpu.other)
    fails("STREAM_CAPTURE_UNMATCHED", driver.end_capture, gpu.other)
    fails("STREAM_CAPTURE_UNJOINED", driver.end_capture, gpu.stream)
    assert gpu.first() == 1


# Devices


def test_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(emulated.DEVICES, "2")
    gpu, driver = Bench(), EmulatedDriver()
    assert driver.count() == 2
    facts = [driver.facts(device) for device in range(2)]
    assert facts[0].uuid != facts[1].uuid
    assert facts[0] == EmulatedDriver().facts(0)
    assert (facts[0].name, facts[0].capability) == ("emulated GPU", (9, 0))
    fails("INVALID_DEVICE", driver.open, 2)
    first = gpu.driver.open(0)
    gpu.driver.open(1)
    stream, there = gpu.driver.new_stream(), gpu.driver.allocate(64)
    fails("INVALID_HANDLE", gpu.add, 1, stream)
    gpu.driver.copy(there, gpu.words, 64, stream)
    gpu.driver.finish(stream)
    gpu.driver.activate(first)
    fails("INVALID_HANDLE", gpu.driver.record, gpu.driver.new_event(), stream)
    gpu.add(1, address=there)
    fails("ILLEGAL_ADDRESS", gpu.driver.finish, gpu.stream)
    gpu.driver.finish(stream)  # the other device is well
    fails("INVALID_CONTEXT", gpu.driver.activate, first + 2)


def test_a_context_is_needed() -> None:
    fails("INVALID_CONTEXT", EmulatedDriver().allocate, 8)


# Other processes


def work_elsewhere(pipe: Connection) -> None:
    """Add to what another process exported, and tell what was seen."""
    gpu, handle = Bench(), pipe.recv_bytes()
    try:
        address = gpu.driver.attach(handle)
        assert gpu.driver.attach(handle) == address
        gpu.add(5, address=address)
        pipe.send(int(gpu.read(address, np.zeros(8, np.uint64))[0]))
        pipe.recv()
        gpu.driver.detach(address)
        pipe.send(int(gpu.read(address, np.zeros(8, np.uint64))[0]))
        gpu.driver.detach(address)
        fails("INVALID_VALUE", gpu.driver.copy, address, address, 8, gpu.stream)
        fails("INVALID_VALUE", gpu.driver.detach, address)
        fails("INVALID_VALUE", gpu.driver.export, address)
    except BaseException as error:
        pipe.send(repr(error))
    pipe.send("done")


@pytest.fixture
def other_process() -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work_elsewhere, args=(there,))
    process.start()
    yield here
    process.join(30)
    assert process.exitcode == 0


def test_memory_of_another_process(gpu: Bench, other_process: Connection) -> None:
    gpu.driver.allocate(5000)
    gpu.add(7)
    gpu.driver.finish(gpu.stream)
    handle = gpu.driver.export(gpu.words)
    assert len(handle) == 64
    other_process.send_bytes(handle)
    assert other_process.recv() == 12
    gpu.add(100)
    assert gpu.first() == 112
    other_process.send("go on")
    assert other_process.recv() == 112
    assert other_process.recv() == "done"


def test_handles_that_lead_nowhere(gpu: Bench) -> None:
    fails("INVALID_CONTEXT", gpu.driver.attach, gpu.driver.export(gpu.words))
    fails("INVALID_CONTEXT", gpu.driver.attach, bytes(64))
    fails("INVALID_VALUE", gpu.driver.export, gpu.words + 8)
    source = (
        "from support.emulated import Gpu; import numpy as np, sys; gpu = Gpu();"
        "sys.stdout.buffer.write(gpu.driver.export(gpu.array(np.zeros(8))))"
    )
    gone = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, cwd="tests").stdout
    fails("MAP_FAILED", gpu.driver.attach, gone)


def test_the_driver_is_chosen_by_the_environment() -> None:
    source = "from gondwana.gpu.device import device; print(device(0), device(0).driver.name)"
    command = [sys.executable, "-c", source]
    environment = {"GONDWANA_CUDA": "emulated", **os.environ}
    found = subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout
    assert found == "<Device 0: emulated GPU> emulated\n"


def test_mpi_gets_real_addresses_and_what_crosses_to_the_host_is_counted(gpu: Bench) -> None:
    one, before = gpu.driver, gpu.driver.crossings
    address = one.allocate(100)
    real = one.address_for_mpi(address + 20, 80)
    assert real == one.address_for_mpi(address, 100) + 20
    assert one.holds(real, 80)
    assert not one.holds(real, 81)
    with pytest.raises(CudaError, match="outside of all memory"):
        one.address_for_mpi(address + 20, 81)
    host = np.full(100, 7, np.uint8)
    one.copy(address, host.ctypes.data, 100, gpu.stream)
    one.copy(address + 50, address, 50, gpu.stream)
    one.copy_box(host.ctypes.data, address, (2, 3, 1), (10, 30), (10, 30), gpu.stream)
    assert one.crossings == before + 2
    one.finish(gpu.stream)
    assert (np.ctypeslib.as_array((ctypes.c_uint8 * 80).from_address(real)) == 7).all()
    one.free(address)
    assert not one.holds(real, 80)
