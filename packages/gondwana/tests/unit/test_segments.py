"""Segments and global pointers on one rank: arithmetic, bounds, pickling, errors."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.memory import segment
from gondwana.runtime.placement import control_groups

SEGMENT = gw.Segment(gw.world, 1000)


@given(st.integers(0, 50), st.integers(0, 50), st.sampled_from(["u1", "i4", "f8", "c16"]))
def test_pointer_arithmetic_is_that_of_elements(i: int, j: int, dtype: str) -> None:
    p = SEGMENT.pointer(dtype=dtype)
    assert (p + i) + j == p + (i + j)
    assert (p + i) - (p + j) == i - j
    assert ((p + i) < (p + j)) == (i < j)
    assert (p + i - i) == p
    assert (p + i).offset == i * np.dtype(dtype).itemsize
    assert (p + i).room == (1000 - (p + i).offset) // np.dtype(dtype).itemsize
    assert len({p + i, p + j}) == (1 if i == j else 2)


def test_memory_of_the_program_is_opened_as_it_is() -> None:
    table = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    opened = gw.Segment(gw.world, memory=table)
    assert (opened.nbytes, opened.kind, opened.address) == (48, gw.host, table.ctypes.data)
    assert opened.pointer(dtype=float).local(6).tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    gw.put(-1.0, opened.pointer(dtype=float) + 1).wait()
    assert table[1, 0] == -1.0
    text = bytearray(b"12345678")
    gw.put(np.uint8(ord("x")), gw.Segment(gw.world, memory=text).pointer() + 7).wait()
    assert text == b"1234567x"
    assert gw.Segment(gw.world, memory=np.zeros(0)).nbytes == 0


def test_a_segment_keeps_the_memory_that_was_given_until_it_is_closed() -> None:
    table = np.zeros(4)
    alive, opened = weakref.ref(table), gw.Segment(gw.world, memory=table)
    pointer = opened.pointer(dtype=float)
    del table
    gw.put(2.0, pointer).wait()
    assert alive() is not None
    opened.close()
    gc.collect()
    assert alive() is None
    with pytest.raises(gw.errors.UsageError, match="was closed"):
        gw.put(2.0, pointer)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"memory": np.zeros(8)[::2]}, "not contiguous"),
        ({"memory": b"12345678"}, "read-only"),
        ({"memory": np.zeros(17, np.uint8)[1:]}, "multiple of 8 bytes"),
        ({"memory": np.array([object()])}, "Python objects"),
        ({"memory": 3}, "is a int: give an ndarray, or"),
        ({"memory": [1.0, 2.0]}, "is a list: give an ndarray, or another object with the buffer protocol: contiguous"),
        ({"nbytes": -1}, "of -1 bytes: give 0 or more"),
        ({"nbytes": 8.5}, "of 8.5 bytes: give an integer, 0 or more"),
        ({"nbytes": "8"}, "of '8' bytes: give an integer"),
        ({"nbytes": 8, "kind": "host"}, "of kind 'host': legal are gw.host"),
        ({"memory": np.zeros(2), "nbytes": 16}, "and not both"),
        ({}, "give the bytes of this rank's part, or memory="),
        ({"memory": np.zeros(2), "kind": gw.fake_device}, "only host memory"),
    ],
)
def test_memory_that_cannot_be_opened(options: dict, problem: str) -> None:
    with pytest.raises(gw.errors.UsageError, match=problem):
        gw.Segment(gw.world, **options)


def test_local_memory_is_the_segment() -> None:
    p = SEGMENT.pointer(dtype="i4") + 3
    p.local(2)[:] = [5, 6]
    assert SEGMENT.view(0)[12:20].view("i4").tolist() == [5, 6]
    assert p.cast("u1").local(1)[0] == 5
    assert p.is_local
    assert p.kind == gw.host
    p.local(2)[:] = 0


@pytest.mark.parametrize("count", [-1, 126])
def test_elements_outside_are_refused(count: int) -> None:
    with pytest.raises(gw.errors.UsageError, match="1000 bytes"):
        SEGMENT.pointer(dtype=float).local(count)


def test_illegal_places_are_refused() -> None:
    for place in ({"rank": 0.0}, {"offset": 8.0}):
        with pytest.raises(TypeError, match="integer"):
            SEGMENT.pointer(**place)
    with pytest.raises(gw.errors.UsageError, match="ranks of world are 0 to 0"):
        SEGMENT.pointer(1)
    with pytest.raises(gw.errors.UsageError, match="offset 1001"):
        SEGMENT.pointer(offset=1001)
    with pytest.raises(gw.errors.UsageError, match="give 0 or more"):
        gw.Segment(gw.world, -1)
    with pytest.raises(gw.errors.UsageError, match="shares no memory"):
        SEGMENT.view(3)


@pytest.mark.parametrize("nbytes", [2**45, 2**70])
def test_more_than_the_memory_of_the_host_is_refused(nbytes: int) -> None:
    with pytest.raises(gw.errors.LaunchError, match=rf"segment of {nbytes / 2**30:,.1f} GiB for one rank of .*, which"):
        gw.Segment(gw.world, nbytes)


def test_the_parts_of_a_host_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "memory", lambda: 3 * 2**30)
    assert segment._too_large([2**30, 0, 2**31]) is None
    error = segment._too_large([2**30, 1, 2**31])
    assert "a segment of 3.0 GiB for the 3 ranks of " in str(error)
    assert "which has 3.0 GiB of memory for this job" in str(error)


@gw.jit
def offset_on(ptr, rank):
    moved = ptr.on(rank)
    return moved.rank, moved.offset, ptr.on(0) - moved


@gw.jit
def on_nothing(ptr):
    return ptr.on(0.5).rank


def test_the_same_place_of_a_rank() -> None:
    p = SEGMENT.pointer(dtype="i4") + 3
    assert p.on(0) == p
    assert offset_on(p, 0) == (0, 12, 0)
    assert offset_on(p, np.uint8(0)) == (0, 12, 0)
    for rank in 1, -1:
        with pytest.raises(gw.errors.UsageError, match="ranks of world are 0 to 0"):
            p.on(rank)
        with pytest.raises(IndexError, match=r"ptr\.on: there is no such rank"):
            offset_on(p, rank)
    with pytest.raises(gw.errors.UsageError, match="offset 1004: rank 0 has 1000 bytes"):
        (p + 248).on(0)
    with pytest.raises(gw.errors.KernelError, match="give an integer, a rank"):
        on_nothing(p)


def test_pointers_of_different_places_have_no_order() -> None:
    other = gw.Segment(gw.world, 8)
    with pytest.raises(gw.errors.UsageError, match="have an order"):
        _ = other.pointer() < SEGMENT.pointer()
    with pytest.raises(gw.errors.UsageError, match="whole number"):
        _ = SEGMENT.pointer(offset=3, dtype="i4") - SEGMENT.pointer(dtype="i4")
    assert other.pointer() != SEGMENT.pointer()


def test_a_pointer_survives_pickling_and_its_segment_does_not() -> None:
    p = SEGMENT.pointer(dtype=">f4", offset=8)
    assert pickle.loads(pickle.dumps(p)) == p
    with pytest.raises(TypeError, match="send pointers"):
        pickle.dumps(SEGMENT)


def test_a_pointer_to_a_segment_that_is_gone_is_refused() -> None:
    data = pickle.dumps(gw.Segment(gw.world, 8).pointer())
    gc.collect()
    with pytest.raises(gw.errors.UsageError, match="not open on this rank"):
        pickle.loads(data)


def test_keys_differ() -> None:
    assert gw.Segment(gw.world, 0).key != gw.Segment(gw.world, 0).key


def test_a_pointer_is_an_argument_of_compiled_code() -> None:
    @gw.jit
    def nothing(p):  # type: ignore[no-untyped-def]
        return 1

    assert nothing(SEGMENT.pointer(dtype=float)) == 1
