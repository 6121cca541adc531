"""Every method of the driver on a real device."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import multiprocessing
import os
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gondwana.gpu.device import Device, device
from gondwana.gpu.interface import CudaError, Driver
from support import ptx_kernels

Array = npt.NDArray[Any]


@pytest.fixture
def driver(gpu: Device) -> Driver:
    gpu.activate()
    return gpu.driver


@pytest.fixture
def real(driver: Driver) -> bool:
    """Whether time passes as on a GPU: the emulated one does everything at once, and slowly."""
    return driver.name != "emulated"


@pytest.fixture
def long_chain(real: bool) -> int:
    """Steps of `chain` that take a GPU a tenth of a second or so."""
    return 10_000_000 if real else 100


@pytest.fixture(scope="module")
def module(gpu: Device) -> Iterator[int]:
    found = gpu.driver.load(gpu.driver.link(ptx_kernels.MODULE, gpu.facts.capability))
    yield found
    gpu.driver.unload(found)


@contextlib.contextmanager
def memory(driver: Driver, nbytes: int) -> Iterator[int]:
    address = driver.allocate(nbytes)
    try:
        yield address
    finally:
        driver.free(address)


def to_device(driver: Driver, address: int, data: Array, stream: int) -> None:
    driver.copy(address, data.ctypes.data, data.nbytes, stream)
    driver.finish(stream)


def from_device(driver: Driver, address: int, like: Array, stream: int) -> Array:
    found = np.empty_like(like)
    driver.copy(found.ctypes.data, address, found.nbytes, stream)
    driver.finish(stream)
    return found


def numbers(count: int) -> Array:
    return np.arange(1, count + 1, dtype=np.float64)


# -- devices and memory -----------------------------------------------------------------------------------------------


def test_facts_are_plausible(gpu: Device, driver: Driver, real: bool) -> None:
    facts = gpu.facts
    assert driver.count() >= 1
    assert facts.name
    assert facts.uuid
    assert facts.bus
    assert facts.capability >= (7, 5)
    assert facts.processors >= 1
    assert facts.l2 > 0
    assert facts.shared_limit >= 48 * 1024
    free, total = driver.memory()
    assert 0 < free <= total
    if real:
        assert len(facts.uuid) == len("GPU-00000000-0000-0000-0000-000000000000")
        assert facts.uuid != "GPU-00000000-0000-0000-0000-000000000000"
        assert facts.bus.count(":") == 2
        assert abs(total - facts.memory) < 0.05 * facts.memory


def test_allocations_are_aligned_and_counted(driver: Driver) -> None:
    before = driver.memory()[0]
    sizes = (1, 1000, 2**21 + 1, 2**28)
    addresses = [driver.allocate(size) for size in sizes]
    assert all(address % 256 == 0 for address in addresses)
    assert driver.memory()[0] <= before - 2**28
    for address in addresses:
        driver.free(address)
    with memory(driver, 0) as first, memory(driver, 0) as second:
        assert first != second


@pytest.mark.refusal
def test_too_much_memory_is_an_error_that_passes(driver: Driver) -> None:
    total = driver.memory()[1]
    with pytest.raises(MemoryError, match="memory"):
        driver.allocate(2 * total)
    with memory(driver, 2**20):
        pass


def test_fill(gpu: Device, driver: Driver) -> None:
    with memory(driver, 1000) as address:
        driver.fill(address, 1, 1000, gpu.transfers)
        driver.fill(address + 3, 0xEE, 5, gpu.transfers)
        driver.fill(address, 7, 0, gpu.transfers)
        found = from_device(driver, address, np.empty(1000, np.uint8), gpu.transfers)
    wanted = np.ones(1000, np.uint8)
    wanted[3:8] = 0xEE
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("nbytes", [1, 7, 4096, 2**20 + 3, 2**26])
def test_copies_between_all_places(gpu: Device, driver: Driver, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    with memory(driver, nbytes) as first, memory(driver, nbytes) as second:
        stream = gpu.transfers
        driver.copy(first, data.ctypes.data, nbytes, stream)  # host to device
        driver.copy(second, first, nbytes, stream)  # device to device
        np.testing.assert_array_equal(from_device(driver, second, data, stream), data)
        host = np.zeros_like(data)
        driver.copy(host.ctypes.data, data.ctypes.data, nbytes, stream)  # host to host
        driver.copy(host.ctypes.data, data.ctypes.data, 0, stream)
        driver.finish(stream)
        np.testing.assert_array_equal(host, data)


SHAPE = (6, 7, 40)  # planes, rows, bytes of a row


@pytest.mark.parametrize("place", ["device to device", "host to device", "device to host"])
@pytest.mark.parametrize(
    ("corner", "counts"),
    [
        ((1, 2, 8), (16, 3, 4)),
        ((0, 0, 0), (40, 7, 6)),
        ((2, 1, 3), (1, 5, 3)),
        ((1, 0, 0), (40, 7, 1)),
        ((1, 3, 5), (9, 1, 5)),
        ((5, 6, 39), (1, 1, 1)),
        ((0, 0, 0), (0, 3, 3)),
        ((0, 0, 0), (3, 0, 3)),
    ],
)
def test_boxes(
    gpu: Device, driver: Driver, place: str, corner: tuple[int, int, int], counts: tuple[int, int, int]
) -> None:
    source = np.random.default_rng(1).integers(0, 255, SHAPE, np.uint8)
    target = np.full((8, 9, 50), 255, np.uint8)
    wanted = target.copy()
    width, rows, planes = counts
    into = tuple(slice(1, 1 + count) for count in (planes, rows, width))
    out = tuple(slice(start, start + count) for start, count in zip(corner, (planes, rows, width), strict=True))
    wanted[into] = source[out]
    with contextlib.ExitStack() as stack:
        from_address, to_address = source.ctypes.data, target.ctypes.data
        if place.startswith("device"):
            from_address = stack.enter_context(memory(driver, source.nbytes))
            to_device(driver, from_address, source, gpu.transfers)
        if place.endswith("device"):
            to_address = stack.enter_context(memory(driver, target.nbytes))
            to_device(driver, to_address, target, gpu.transfers)
        driver.copy_box(
            to_address + sum(target.strides),
            from_address + sum(index * stride for index, stride in zip(corner, source.strides, strict=True)),
            counts,
            (target.strides[1], target.strides[0]),
            (source.strides[1], source.strides[0]),
            gpu.transfers,
        )
        driver.finish(gpu.transfers)
        found = from_device(driver, to_address, target, gpu.transfers) if place.endswith("device") else target
    np.testing.assert_array_equal(found, wanted)


def test_registered_memory(gpu: Device, driver: Driver) -> None:
    nbytes = 2**22
    descriptor = os.memfd_create("gondwana-test")
    os.ftruncate(descriptor, nbytes)
    # As segments have it: a file without a name that other processes map, too.
    with mmap.mmap(descriptor, nbytes) as mapping, memory(driver, nbytes) as address:
        os.close(descriptor)
        pinned = np.frombuffer(mapping, np.uint8)
        driver.register(pinned.ctypes.data, nbytes)
        try:
            pinned[:] = np.arange(nbytes) % 251
            driver.copy(address, pinned.ctypes.data, nbytes, gpu.transfers)
            driver.finish(gpu.transfers)
            wanted = pinned.copy()
            pinned[:] = 0
            driver.copy(pinned.ctypes.data, address, nbytes, gpu.transfers)
            driver.finish(gpu.transfers)
            np.testing.assert_array_equal(pinned, wanted)
        finally:
            driver.unregister(pinned.ctypes.data)
            del pinned


@pytest.mark.refusal
def test_what_cannot_be_registered_is_an_error(driver: Driver) -> None:
    with pytest.raises(CudaError):
        driver.register(2**20, 4096)  # nothing is mapped there
    with pytest.raises(CudaError):
        driver.unregister(2**20)


# -- streams and events -----------------------------------------------------------------------------------------------


def start_chain(gpu: Device, module: int, address: int, steps: int, stream: int) -> None:
    entry = gpu.driver.entry(module, "chain")
    gpu.driver.launch(entry, (1, 1, 1), (1, 1, 1), 0, stream, struct.pack("<QQ", address, steps))


def test_launches_return_before_they_are_done(
    gpu: Device, driver: Driver, module: int, long_chain: int, real: bool
) -> None:
    driver.entry_facts(driver.entry(module, "chain"))  # has the driver load it before time counts
    with memory(driver, 8) as address:
        driver.fill(address, 0, 8, gpu.compute)
        driver.finish(gpu.compute)
        start = time.perf_counter()
        start_chain(gpu, module, address, long_chain, gpu.compute)
        recorded = gpu.record(gpu.compute)
        launched = time.perf_counter() - start
        early = recorded.reached()
        recorded.wait()
        waited = time.perf_counter() - start
        assert recorded.reached()
        if real:
            assert not early
            assert launched < 0.5 * waited
        found = from_device(driver, address, np.zeros(1, np.int64), gpu.transfers)
    assert found[0] == ptx_kernels.chain(0, long_chain)


def test_streams_wait_for_events(gpu: Device, driver: Driver, module: int, long_chain: int) -> None:
    first, second = driver.new_stream(), driver.new_stream(urgent=True)
    event = driver.new_event()
    host = np.zeros(1, np.int64)
    with memory(driver, 8) as address:
        driver.fill(address, 0, 8, first)
        start_chain(gpu, module, address, long_chain, first)
        driver.record(event, first)
        driver.order(second, event)
        driver.copy(host.ctypes.data, address, 8, second)
        driver.finish(second)
        assert driver.reached(event)
    assert host[0] == ptx_kernels.chain(0, long_chain)
    driver.free_event(event)
    driver.free_stream(first)
    driver.free_stream(second)


def test_copies_follow_kernels_and_kernels_follow_copies(
    gpu: Device, driver: Driver, module: int, long_chain: int
) -> None:
    host = np.zeros(1, np.int64)
    with memory(driver, 8) as address:
        driver.fill(address, 0, 8, gpu.compute)
        start_chain(gpu, module, address, long_chain, gpu.compute)
        driver.copy(host.ctypes.data, address, 8, gpu.after_kernels())
        gpu.before(gpu.compute)
        driver.fill(address, 0, 8, gpu.compute)  # a kernel that comes too early would be seen
        gpu.synchronize()
    assert host[0] == ptx_kernels.chain(0, long_chain)


def test_events_measure_time(gpu: Device, driver: Driver, module: int, long_chain: int, real: bool) -> None:
    first, last = driver.new_event(timing=True), driver.new_event(timing=True)
    with memory(driver, 8) as address:
        start = time.perf_counter()
        driver.record(first, gpu.compute)
        start_chain(gpu, module, address, long_chain, gpu.compute)
        driver.record(last, gpu.compute)
        driver.await_event(last)
        elapsed = time.perf_counter() - start
    measured = driver.seconds(first, last)
    assert 0 <= measured <= 1.05 * elapsed + 1e-3
    if real:
        assert measured > 1e-3
    driver.free_event(first)
    driver.free_event(last)


@pytest.mark.refusal
def test_events_without_timing_tell_no_time(gpu: Device, driver: Driver, real: bool) -> None:
    if not real:
        pytest.skip("the emulated GPU times every event")
    event = driver.new_event()
    driver.record(event, gpu.compute)
    driver.await_event(event)
    with pytest.raises(CudaError, match="INVALID_HANDLE"):
        driver.seconds(event, event)
    driver.free_event(event)


def test_handles_of_events_are_used_again(gpu: Device) -> None:
    for _ in range(5000):
        gpu.record(gpu.compute)
    gpu.synchronize()
    assert len(gpu._free_events) < 100


def test_other_threads_use_the_device(gpu: Device) -> None:
    data = numbers(1000)
    found: list[Array] = []

    def work() -> None:
        one = device(gpu.number)
        with memory(one.driver, data.nbytes) as address:
            one.driver.copy(address, data.ctypes.data, data.nbytes, one.transfers)
            recorded = one.record(one.transfers)
            recorded.wait()
            found.append(from_device(one.driver, address, data, one.transfers))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        np.testing.assert_array_equal(each, data)


# -- kernels and graphs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("translated", [True, False])
def test_kernels_from_machine_code_and_from_ptx(gpu: Device, driver: Driver, translated: bool) -> None:
    data = numbers(1000)
    image = driver.link(ptx_kernels.MODULE, gpu.facts.capability) if translated else ptx_kernels.MODULE
    loaded = driver.load(image)
    entry = driver.entry(loaded, "scale")
    with memory(driver, data.nbytes) as address:
        to_device(driver, address, data, gpu.compute)
        driver.launch(entry, (4, 1, 1), (256, 1, 1), 0, gpu.compute, struct.pack("<Qdq", address, -0.25, 999))
        found = from_device(driver, address, data, gpu.compute)
    np.testing.assert_array_equal(found[:999], data[:999] * -0.25)
    assert found[999] == data[999]
    driver.unload(loaded)


def test_shared_memory_of_a_launch(gpu: Device, driver: Driver, module: int) -> None:
    entry = driver.entry(module, "reverse")
    data = np.arange(256)
    largest = gpu.facts.shared_limit
    driver.allow_shared(entry, largest)
    with memory(driver, data.nbytes) as address:
        for shared in (data.nbytes, largest):
            to_device(driver, address, data, gpu.compute)
            driver.launch(entry, (1, 1, 1), (256, 1, 1), shared, gpu.compute, struct.pack("<Q", address))
            np.testing.assert_array_equal(from_device(driver, address, data, gpu.compute), data[::-1])


def test_what_a_kernel_takes(gpu: Device, driver: Driver, module: int) -> None:
    entry = driver.entry(module, "scale")
    facts = driver.entry_facts(entry)
    assert 1 <= facts.registers <= 255
    assert facts.local == facts.shared == 0
    assert facts.threads == 1024
    few, many = driver.resident(entry, 1024, 0), driver.resident(entry, 128, 0)
    assert 1 <= few < many
    assert driver.resident(entry, 128, 40_000) < many


@pytest.mark.refusal
def test_what_cannot_run_is_refused(gpu: Device, driver: Driver, module: int) -> None:
    entry = driver.entry(module, "scale")
    with memory(driver, 8) as address:
        arguments = struct.pack("<Qdq", address, 1.0, 0)
        with pytest.raises(CudaError):
            driver.launch(entry, (1, 1, 1), (2048, 1, 1), 0, gpu.compute, arguments)
        with pytest.raises(CudaError):
            driver.launch(entry, (1, 1, 1), (1, 1, 1), 2**30, gpu.compute, arguments)
        driver.launch(entry, (1, 1, 1), (1, 1, 1), 0, gpu.compute, arguments)  # the device is still well
        gpu.synchronize()
    with pytest.raises(CudaError, match="absent"):
        driver.entry(module, "absent")
    with pytest.raises(CudaError):
        driver.load(b"no code of any kind, " * 10)


def test_graphs_replay_kernels_and_copies(gpu: Device, driver: Driver, module: int) -> None:
    entry = driver.entry(module, "scale")
    driver.entry_facts(entry)
    data, seen = numbers(64), np.zeros(64)
    with memory(driver, data.nbytes) as address, memory(driver, data.nbytes) as copy:
        to_device(driver, address, data, gpu.compute)
        driver.begin_capture(gpu.compute)
        driver.launch(entry, (1, 1, 1), (64, 1, 1), 0, gpu.compute, struct.pack("<Qdq", address, 2.0, 64))
        driver.copy(copy, address, data.nbytes, gpu.compute)
        driver.launch(entry, (1, 1, 1), (64, 1, 1), 0, gpu.compute, struct.pack("<Qdq", copy, 3.0, 64))
        graph = driver.end_capture(gpu.compute)
        np.testing.assert_array_equal(from_device(driver, address, data, gpu.compute), data)  # nothing ran yet
        for _ in range(3):
            driver.replay(graph, gpu.compute)
        seen = from_device(driver, copy, data, gpu.compute)
        np.testing.assert_array_equal(from_device(driver, address, data, gpu.compute), 8 * data)
        driver.free_graph(graph)
    np.testing.assert_array_equal(seen, 24 * data)


def test_a_launch_costs_microseconds(gpu: Device, driver: Driver, module: int, real: bool) -> None:
    if not real:
        pytest.skip("a launch on the emulated GPU is the kernel itself")
    entry = driver.entry(module, "scale")
    costs = []
    with memory(driver, 8) as address:
        arguments = struct.pack("<Qdq", address, 1.0, 0)
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(100):
                driver.launch(entry, (1, 1, 1), (32, 1, 1), 0, gpu.compute, arguments)
            costs.append((time.perf_counter() - start) / 100)
            gpu.synchronize()
    print(f"a launch takes {statistics.median(costs) * 1e6:.2f} us")
    assert statistics.median(costs) < 30e-6


# -- several processes ------------------------------------------------------------------------------------------------

SIZES = (8, 1000, 2**20, 2**24)
"""Small ones share a page of the device; each must be found by its own handle all the same."""


@contextlib.contextmanager
def child(target: Any, *arguments: Any) -> Iterator[Connection]:
    """A process of its own, started afresh: a driver does not survive a fork."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there, *arguments))
    process.start()
    there.close()
    try:
        yield here
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def receive(connection: Connection) -> Any:
    assert connection.poll(120), "the other process says nothing"
    found = connection.recv()
    if isinstance(found, BaseException):
        raise found
    return found


def double_what_others_have(connection: Connection) -> None:
    """Attach memory of another process, double its bytes on this process's own stream, and let go."""
    try:
        gpu = device(0)
        driver = gpu.driver
        addresses = []
        for handle, size in receive(connection):
            address = driver.attach(handle)
            addresses.append(address)
            data = from_device(driver, address, np.empty(size, np.uint8), gpu.transfers)
            to_device(driver, address, data * np.uint8(2), gpu.transfers)
        for address in addresses:
            driver.detach(address)
        connection.send("done")
        receive(connection)
    except BaseException as error:
        connection.send(error)


def test_memory_of_another_process(gpu: Device, driver: Driver) -> None:
    addresses = [driver.allocate(size) for size in SIZES]
    contents = [np.random.default_rng(size).integers(0, 128, size, np.uint8) for size in SIZES]
    for address, data in zip(addresses, contents, strict=True):
        to_device(driver, address, data, gpu.transfers)
    with child(double_what_others_have) as connection:
        handles = [driver.export(address) for address in addresses]
        assert [len(handle) for handle in handles] == [64] * len(SIZES)
        assert len(set(handles)) == len(SIZES)
        assert driver.export(addresses[0]) == handles[0]
        connection.send(list(zip(handles, SIZES, strict=True)))
        assert receive(connection) == "done"
        for address, data in zip(addresses, contents, strict=True):
            np.testing.assert_array_equal(from_device(driver, address, data, gpu.transfers), 2 * data)
        connection.send("goodbye")
    for address in addresses:
        driver.free(address)


@pytest.mark.refusal
def test_what_cannot_be_exported_or_attached_is_an_error(driver: Driver) -> None:
    host = ctypes.create_string_buffer(4096)
    with pytest.raises(CudaError):
        driver.export(ctypes.addressof(host))
    with pytest.raises(CudaError):
        driver.attach(bytes(64))


def touch_nothing(connection: Connection) -> None:
    """Run a kernel that writes where there is no memory, and see that the driver says so, again and again."""
    try:
        gpu = device(0)
        driver = gpu.driver
        loaded = driver.load(driver.link(ptx_kernels.MODULE, gpu.facts.capability))
        arguments = struct.pack("<Qdq", 8, 2.0, 1)
        driver.launch(driver.entry(loaded, "scale"), (1, 1, 1), (1, 1, 1), 0, gpu.compute, arguments)
        said = []
        for _ in range(2):
            try:
                driver.finish(gpu.compute)
            except CudaError as error:
                said.append(str(error))
        connection.send(said)
    except BaseException as error:
        connection.send(error)


def test_an_illegal_access_is_reported_and_stays_in_its_process(gpu: Device, real: bool) -> None:
    if not real:
        pytest.skip("the emulated GPU does not lose its context")
    with child(touch_nothing) as connection:
        said = receive(connection)
    assert len(said) == 2
    for text in said:
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text
        assert text.endswith("this process cannot use the device any more")
    gpu.synchronize()
