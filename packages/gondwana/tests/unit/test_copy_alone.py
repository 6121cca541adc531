"""Copies on one rank: the fake device's wall, slots, steps, and what is refused."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler import native
from gondwana.errors import UsageError
from gondwana.futures import Future, Promise, ready
from gondwana.testing.fake_device import POISON
from gondwana.transfer import paths
from gondwana.transfer.host_copies import LARGEST, rows
from gondwana.transfer.slots import SLOT, Pool, run


def read(address: int, nbytes: int) -> np.ndarray:
    data = np.empty(nbytes, np.uint8)
    gw.fake_device.read(address, data).wait()
    return data


def test_a_device_is_behind_a_wall() -> None:
    segment = gw.Segment(gw.world, 64, gw.fake_device)
    pointer = segment.pointer(dtype=float)
    assert not pointer.is_local
    with pytest.raises(UsageError, match="shares no memory"):
        pointer.local(1)
    assert segment.base(0) == 0
    # No process can have memory at such an address: it is not canonical.
    assert segment.address >> 47 not in (0, -1, (1 << 17) - 1)


def test_device_copies_take_time_and_happen_late() -> None:
    address = gw.fake_device.allocate(8)
    source = np.full(8, 1, np.uint8)
    written = [gw.fake_device.write(source, address) for _ in range(20)]
    assert not all(future.done() for future in written)
    source[:] = 2  # too early: that is what a device does then
    gw.when_all(*written).wait()
    assert (read(address, 8) == 2).all()
    gw.fake_device.free(address)


def test_device_copies_complete_in_any_order() -> None:
    address, order = gw.fake_device.allocate(8), []
    for number in range(20):
        gw.fake_device.read(address, np.empty(8, np.uint8)).add_done_callback(lambda _, n=number: order.append(n))
    while len(order) < 20:
        gw.progress()
    assert order != sorted(order)
    gw.fake_device.free(address)


def test_freed_device_memory_is_poisoned() -> None:
    address = gw.fake_device.allocate(8)
    assert (read(address, 8) == 0).all()
    late = np.zeros(8, np.uint8)
    reading = gw.fake_device.read(address, late)
    gw.fake_device.free(address)
    reading.wait()
    assert (late == POISON).all()
    with pytest.raises(UsageError, match="not allocated, or freed"):
        gw.fake_device.read(address, late)


@pytest.mark.parametrize("offset", [-1, 1, 1000])
def test_device_addresses_are_checked(offset: int) -> None:
    address = gw.fake_device.allocate(8)
    with pytest.raises(UsageError, match="has no 8 bytes at"):
        gw.fake_device.write(np.zeros(8, np.uint8), address + offset)
    with pytest.raises(UsageError, match="has no 8 bytes at"):
        gw.fake_device.move(address, address + offset, 8)
    gw.fake_device.free(address)


def test_fake_devices_by_number() -> None:
    assert gw.fake_device(0) == gw.fake_device != gw.fake_device(1)
    assert repr(gw.fake_device(2)) == "gw.fake_device(2)"
    assert pickle.loads(pickle.dumps(gw.fake_device(3))) == gw.fake_device(3)
    with pytest.raises(UsageError, match="give 0 or more"):
        gw.fake_device(-1)


def test_between_two_devices_of_one_rank() -> None:
    first, second = (gw.Segment(gw.world, 3 * SLOT, gw.fake_device(i)).pointer() for i in (0, 1))
    data = np.arange(3 * SLOT).astype(np.uint8)
    gw.copy(data, first).wait()
    gw.copy(first, second, 3 * SLOT).wait()
    assert (gw.get(second, 3 * SLOT).result() == data).all()


def test_slots_queue_in_order_and_never_grow() -> None:
    pool = Pool(gw.Segment(gw.world, 2 * SLOT), 0, 2)
    got: list[int] = []
    taken = [pool.take() for _ in range(5)]
    for future in taken:
        future.add_done_callback(lambda done: got.append(done.result().number))
    assert [future.done() for future in taken] == [True, True, False, False, False]
    for index in range(5):
        taken[index].result().release()
        gw.progress()
    assert len(got) == 5
    assert set(got) == {0, 1}


def test_steps_wait_for_futures_and_pass_errors_on() -> None:
    promise: Promise[int] = Promise()
    seen = []

    def steps():
        seen.append((yield ready("at once")))
        try:
            yield promise.future
        except KeyError as error:
            seen.append(str(error))
        yield failed
        seen.append("never")

    failed: Future[None] = Future()
    failed._settle(None, ValueError("last"))
    future = run(steps())
    assert not future.done()
    promise.set_exception(KeyError("there"))
    with pytest.raises(ValueError, match="last"):
        future.result()
    assert seen == ["at once", "'there'"]


def test_scalars_by_kind() -> None:
    segment = gw.Segment(gw.world, 64)
    for dtype, legal, illegal in (
        ("f8", (1, 2.5, True, np.float32(3), np.int8(1)), (1j, "1", None, np.complex64(1))),
        ("u1", (200, True, np.uint8(3)), (2.5, 300, -1, np.int16(1), 1j)),
        ("?", (True, np.True_), (1, 1.0)),
        ("c16", (1, 2.5, 1j), ("x",)),
    ):
        pointer = segment.pointer(dtype=dtype)
        for value in (*legal, *legal):
            gw.put(value, pointer).wait()
            assert gw.get(pointer).result() == value
        for value in (*illegal, *illegal):
            with pytest.raises(UsageError, match="put of"):
                gw.put(value, pointer)


@pytest.mark.parametrize("dtype", ["?", *"bBhHiIlLqQefdgFD", ">i4", "M8[s]"])
def test_single_elements_are_those_of_numpy(dtype: str) -> None:
    pointer = gw.Segment(gw.world, 256).pointer(dtype=dtype)
    array = pointer.local(5)
    array[:] = np.array([1, 0, 3, 100, -1 if dtype in "bhilqefdgFD" else 1]).astype(dtype)
    if dtype in "BHILQ":
        array[4] = np.iinfo(dtype).max
    for _ in range(3):  # the first times by the general path
        for index in range(5):
            got = gw.get(pointer + index).result()
            assert got == array[index].item()
            assert type(got) is type(array[index].item())
        native._WORTH_LOADING = 0  # from now on by machine code, if it has numbers of this dtype
    assert rows.number.__name__ == "number"
    if dtype != "M8[s]":
        for index in range(5):
            gw.put(array[4 - index].item(), pointer + 5 + index)
        assert pointer.local(10)[5:].tolist() == array[::-1].tolist()


def test_pointers_in_use_are_checked_each_time() -> None:
    segment = gw.Segment(gw.world, 64)
    pointer, odd = segment.pointer(dtype="i8"), segment.pointer(dtype="u1") + 3
    odd = odd.cast("i8")
    native._WORTH_LOADING = 0  # machine code from the first call on
    for _ in range(3):
        gw.put(7, pointer + 7)
        gw.put(-9, odd)
        assert (gw.get(pointer + 7).result(), gw.get(odd).result()) == (7, -9)
        for outside in (pointer + 8, pointer - 1, pointer + 2**40, odd + 7, odd - 1):
            for verb in (gw.get, lambda there: gw.put(1, there), lambda there: gw.copy(there, np.zeros(1, int))):
                with pytest.raises(UsageError, match="its part of the segment has 64 bytes"):
                    verb(outside)
    segment.close()
    for verb in (gw.get, lambda there: gw.put(1, there), lambda there: gw.copy(there, np.zeros(1, int))):
        with pytest.raises(UsageError, match="closed"):
            verb(pointer)


def test_a_complete_copy_is_a_future_as_any() -> None:
    transfer = gw.copy(np.arange(8), gw.Segment(gw.world, 64).pointer(dtype=int))
    for future in (transfer, transfer.source, transfer.remote):
        future.wait(0.0)
        assert future.done()
        assert future.result() is None
        assert future.exception() is None
        assert future.then(lambda nothing: (nothing, 1)).result() == (None, 1)


def test_gets_are_counted_and_their_numbers_are_given_back() -> None:
    native._WORTH_LOADING = 0  # machine code from the first call on
    pointer = gw.Segment(gw.world, 64).pointer(dtype="i8")
    gw.put(10**15, pointer)
    gw.get(pointer)
    before = paths.counters()["direct"]
    for _ in range(100):
        assert gw.get(pointer).result() == 10**15
    gw.copy(np.arange(3), pointer)
    gw.copy(pointer, np.zeros(2, np.int64))
    after = paths.counters()["direct"]
    assert (after.operations - before.operations, after.nbytes - before.nbytes) == (102, 100 * 8 + 40)
    tracemalloc.start()
    gw.get(pointer)
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        gw.get(pointer)
    assert tracemalloc.get_traced_memory()[0] - start < 1000 * 16
    tracemalloc.stop()


def outcome(array: np.ndarray, there: gw.GlobalPtr, n: Any, *, back: bool) -> Any:
    """What a copy between an array and a segment leaves, or its error."""
    target = there.segment.view(0)
    target[:] = np.arange(target.size) % 251
    ends = (there, array) if back else (array, there)
    try:
        transfer = gw.copy(*ends, n)
        assert transfer.done()
        assert transfer.result() is None
    except (UsageError, TypeError) as error:
        return type(error), str(error)
    return array.tolist() if back else target.tobytes()


@pytest.mark.parametrize("dtype", ["l", "?", "B", "f", "D", ">i4", "i4,f8"])
@pytest.mark.parametrize("back", [False, True])
def test_rows_by_machine_code_and_by_the_general_path(dtype: str, back: bool) -> None:
    kind = np.dtype(dtype)
    segment = gw.Segment(gw.world, 40 * kind.itemsize)
    native._WORTH_LOADING = 0  # machine code from the first call on
    for _ in range(2):
        gw.copy(np.zeros(1, kind), segment.pointer(dtype=kind))
    assert rows.store.__name__ == "store"  # so that machine code makes the copies that follow
    numbers = np.arange(24) % 2
    cases: list[tuple[Any, int, Any]] = [
        (shape, offset, n)
        for shape in (24, (2, 3, 4), (0, 5), ())
        for offset in (0, 16, 17, -1, 2**61)
        for n in (None, 24, 25, -1, 2**70)
    ][:: 1 if dtype == "l" else 5]

    def arrays(shape: Any) -> list[np.ndarray]:
        plain = np.resize(numbers, shape).astype(kind)
        read_only = plain.copy()
        read_only.flags.writeable = False
        aside = np.empty(plain.nbytes + 1, np.uint8)[1:].view(kind)[: plain.size].reshape(shape)
        aside[...] = plain
        return [plain, plain.copy("F"), np.repeat(plain, 2, -1)[..., ::2] if plain.ndim else plain, read_only, aside]

    for shape, offset, n in cases:
        for array in arrays(shape):
            there = segment.pointer(dtype=kind) + offset
            found = outcome(array, there, n, back=back)
            with paths.force("direct"):
                assert outcome(array, there, n, back=back) == found, (shape, offset, n, array.flags)


def test_rows_of_other_dtypes_and_of_closed_segments() -> None:
    segment = gw.Segment(gw.world, 64)
    seconds = segment.pointer(dtype="M8[s]")
    for _ in range(3):
        gw.copy(np.zeros(2, "M8[s]"), seconds).wait()
    for array in (np.zeros(2, "M8[ms]"), np.zeros(2, "i8"), np.zeros(2, ">M8[s]")):
        with pytest.raises(UsageError, match="make them equal"):
            gw.copy(array, seconds)
    counted = paths.counters()["direct"]
    numbers = segment.pointer(dtype="i8")
    for _ in range(5):
        gw.copy(np.arange(8), numbers).wait()
    assert paths.counters()["direct"] == (counted.operations + 5, counted.nbytes + 5 * 64)
    segment.close()
    for array in (np.zeros(1, int), np.zeros(8, int)):
        for ends in ((array, numbers), (numbers, array)):
            with pytest.raises(UsageError, match="closed"):
                gw.copy(*ends)


def test_a_row_that_is_long() -> None:
    count = LARGEST // 8
    there = gw.Segment(gw.world, 8 * (count + 1)).pointer(dtype="i8")
    for size in (count - 1, count, count + 1):
        for _ in range(2):
            data = np.random.default_rng(size).integers(0, 2**60, size)
            gw.copy(data, there).wait()
            assert (there.local(size) == data).all()
            back = np.zeros_like(data)
            gw.copy(there, back).wait()
            assert (back == data).all()


def test_fortran_order_and_n() -> None:
    there = gw.Segment(gw.world, 96).pointer(dtype=float)
    box = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    gw.copy(box, there).wait()
    assert there.local(12).tolist() == list(range(12))
    back = np.zeros((3, 4), order="F")
    gw.copy(there, back).wait()
    assert (back == box).all()
    few = np.zeros((3, 4))
    gw.copy(there, few, 5).wait()
    assert few.ravel().tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0]
    with pytest.raises(UsageError, match="with gaps"):
        gw.copy(there, back, 5)


def test_overlap_does_not_crash() -> None:
    for kind in (gw.host, gw.fake_device):
        there = gw.Segment(gw.world, 4 * SLOT, kind).pointer()
        gw.copy(there, there + 100, 3 * SLOT).wait()
        gw.copy(there + 100, there, 3 * SLOT).wait()
        square = gw.strided(there, (60, 60), (60, 1))
        gw.copy(square, gw.strided(there, (60, 60), (1, 60))).wait()


@pytest.mark.parametrize(
    ("shape", "strides", "message"),
    [
        ((2, 2), (8,), "one stride for each axis"),
        ((3,), (-8,), "lie in bytes -16 to 8"),
        ((5, 2), (8, 32), "lie in bytes 0 to 72"),
        ((-1,), (8,), "0 or more elements"),
    ],
)
def test_boxes_outside_of_the_segment(shape: tuple[int, ...], strides: tuple[int, ...], message: str) -> None:
    pointer = gw.Segment(gw.world, 64).pointer(dtype=float)
    with pytest.raises(UsageError, match=message):
        gw.strided(pointer, shape, strides)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 8], [0, 1], 1), "9 elements"),
        (([0, -1], [0, 1], 1), "at byte -8"),
        (([0, 1], [0], 1), "2 indices of the source and 1"),
        (([0, 7], [0, 2], 2), "9 elements"),
        (([0.5], [0], 1), "list of integers"),
        (([0], [0], 0), "give 1 or more"),
        (([0], [9], 1), "give an array of one axis, and indices from 0 inside it"),
    ],
)
def test_indices_outside(arguments: tuple, message: str) -> None:
    pointer = gw.Segment(gw.world, 64).pointer(dtype=float)
    starts, into, length = arguments
    with pytest.raises(UsageError, match=message):
        gw.copy_indexed(pointer, starts, np.zeros(9), into, length)


def test_private_boxes_cannot_be_sent() -> None:
    from gondwana.transfer.box import StridedBox

    with pytest.raises(TypeError, match="private memory"):
        pickle.dumps(StridedBox.of(np.zeros(3)))
    box = gw.strided(gw.Segment(gw.world, 64).pointer(dtype="i4"), (2, 3), (4, 12))
    again = pickle.loads(pickle.dumps(box))
    assert (again.pointer, again.shape, again.strides) == (box.pointer, box.shape, box.strides)
