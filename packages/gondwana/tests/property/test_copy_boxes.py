"""Strided and indexed copies between all kinds of memory against NumPy's assignments."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.transfer import paths
from gondwana.transfer.host_copies import LOOPS, copy_of_memory, copy_table, execute
from gondwana.transfer.slots import pieces

ROOM = 1 << 18
"""More bytes than any box has: 400 elements of 16 bytes, of which gaps make less than 14,000."""
DTYPES = ("u1", "i2", "f4", "f8", "c16", "S3")
KINDS = (None, gw.host, gw.fake_device)


@functools.cache
def segment(kind: gw.MemoryKind, role: int) -> gw.Segment:
    return gw.Segment(gw.world, ROOM, kind)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...], item: int) -> tuple[int, tuple[int, ...]]:
    """Offset of the first element and strides of a box without overlaps: axes in any order, gaps, any signs."""
    offset, extent = 0, item
    strides = [0] * len(shape)
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = extent * draw(st.integers(1, 2))
        extent += strides[axis] * (shape[axis] - 1) if shape[axis] else 0
        if draw(st.booleans()) and shape[axis]:
            offset += strides[axis] * (shape[axis] - 1)
            strides[axis] = -strides[axis]
    return offset, tuple(strides)


def elements(memory: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: Any, offset: int, strides: Any) -> Any:
    return np.ndarray(shape, dtype, memory, offset, strides)


def set_bytes(kind: gw.MemoryKind | None, role: int, data: np.ndarray[Any, Any]) -> None:
    if kind is gw.host:
        segment(kind, role).view(0)[:] = data
    elif kind is not None:
        gw.fake_device.write(data, segment(kind, role).address).wait()


def get_bytes(kind: gw.MemoryKind, role: int) -> np.ndarray[Any, Any]:
    if kind is gw.host:
        return segment(kind, role).view(0).copy()
    data = np.empty(ROOM, np.uint8)
    gw.fake_device.read(segment(kind, role).address, data).wait()
    return data


@given(st.data())
def test_strided(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=6).filter(lambda axes: math.prod(axes) <= 200)))
    kinds = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
    places = [data.draw(boxes(shape, dtype.itemsize)) for _ in kinds]
    memories = [np.random.default_rng(role).integers(0, 100, ROOM, np.uint8) for role in range(2)]
    ends = []
    for role, (kind, (offset, strides)) in enumerate(zip(kinds, places, strict=True)):
        set_bytes(kind, role, memories[role])
        if kind is None:
            ends.append(elements(memories[role].copy(), dtype, shape, offset, strides))
        else:
            ends.append(gw.strided(segment(kind, role).pointer(0, dtype, offset), shape, strides))
    staged = data.draw(st.booleans())
    if staged and math.prod(shape):
        with paths.force("staged"):
            gw.copy(*ends).wait()
    else:
        gw.copy(*ends).wait()
    views = [elements(m, dtype, shape, *place) for m, place in zip(memories, places, strict=True)]
    views[1][...] = views[0]
    if kinds[1] is None:
        assert ends[1].tobytes() == views[1].tobytes()
    else:
        assert (get_bytes(kinds[1], 1) == memories[1]).all()


@given(st.data())
def test_indexed(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    length = data.draw(st.integers(1, 5))
    starts = data.draw(st.lists(st.integers(0, 95), max_size=20))
    into = np.array(data.draw(st.permutations(range(20)))[: len(starts)], int) * 5
    kinds = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
    memories = [np.random.default_rng(role).integers(0, 100, ROOM, np.uint8) for role in range(2)]
    rows = [memory[: 100 * dtype.itemsize].view(dtype) for memory in memories]
    ends = []
    for role, kind in enumerate(kinds):
        set_bytes(kind, role, memories[role])
        ends.append(rows[role].copy() if kind is None else segment(kind, role).pointer(0, dtype))
    back = data.draw(st.integers(0, 9))  # pointers count indices from where they point to, backwards too
    if kinds[0] is not None:
        ends[0] += back
    gw.copy_indexed(
        ends[0], np.array(starts, int) - (back if kinds[0] is not None else 0), ends[1], into, length
    ).wait()
    for first, place in zip(starts, into, strict=True):
        rows[1][place : place + length] = rows[0][first : first + length]
    if kinds[1] is None:
        assert ends[1].tobytes() == rows[1].tobytes()
    else:
        assert (get_bytes(kinds[1], 1) == memories[1]).all()


@given(st.data())
def test_compiled_tables(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = tuple(
        data.draw(st.lists(st.integers(1, 5), max_size=LOOPS + 2).filter(lambda axes: math.prod(axes) <= 400))
    )
    memories = [np.random.default_rng(role).integers(0, 100, ROOM, np.uint8) for role in range(2)]
    source, target = (elements(memory, dtype, shape, *data.draw(boxes(shape, dtype.itemsize))) for memory in memories)
    execute(copy_table([copy_of_memory(source, target)]))
    assert target.tobytes() == source.tobytes()
    expected = np.random.default_rng(1).integers(0, 100, ROOM, np.uint8)
    elements(expected, dtype, shape, target.ctypes.data - memories[1].ctypes.data, target.strides)[...] = source
    assert (memories[1] == expected).all()


@given(
    st.lists(st.integers(1, 9), max_size=4).map(tuple),
    st.integers(1, 40),
    st.integers(1, 900),
)
def test_pieces_cover_a_box_once(shape: tuple[int, ...], item: int, limit: int) -> None:
    count = np.zeros(shape, int)
    for starts, part in pieces(shape, item, limit):
        assert math.prod(part) * item <= max(limit, item)
        count[tuple(slice(first, first + n) for first, n in zip(starts, part, strict=True))] += 1
    assert (count == 1).all()
