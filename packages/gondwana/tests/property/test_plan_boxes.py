"""Plans of random strided and indexed pairs, in all kinds of memory of one rank, against NumPy's assignments."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import gondwana as gw

ROOM = 1 << 11
PAIRS = 4
DTYPES = ("u1", "i2", "f4", "f8", "c16", "S3")
KINDS = (gw.host, gw.fake_device)


@functools.cache
def segment(kind: gw.MemoryKind, role: int) -> gw.Segment:
    return gw.Segment(gw.world, PAIRS * ROOM, kind)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...], item: int) -> tuple[int, tuple[int, ...]]:
    """Offset of the first element and strides of a box without overlaps: axes in any order, gaps, any signs."""
    offset, extent, strides = 0, item, [0] * len(shape)
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = extent * draw(st.integers(1, 2))
        extent += strides[axis] * (shape[axis] - 1)
        if draw(st.booleans()):
            offset += strides[axis] * (shape[axis] - 1)
            strides[axis] = -strides[axis]
    return offset, tuple(strides)


@settings(deadline=None)
@given(st.data())
def test_strided_pairs(data: st.DataObject) -> None:
    kinds = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
    hidden = data.draw(st.booleans())
    private = np.zeros(PAIRS * ROOM, np.uint8)
    pairs: list[Any] = []
    views: list[Any] = []
    for place in range(data.draw(st.integers(0, PAIRS))):
        dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
        shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=6).filter(lambda axes: math.prod(axes) <= 20)))
        ends = [data.draw(boxes(shape, dtype.itemsize)) for _ in kinds]
        found = [
            gw.strided(segment(kind, role).pointer(0, dtype, place * ROOM + offset), shape, strides)
            for role, (kind, (offset, strides)) in enumerate(zip(kinds, ends, strict=True))
        ]
        offset, strides = ends[0]
        pairs.append(
            (np.ndarray(shape, dtype, private, place * ROOM + offset, strides) if hidden else found[0], found[1])
        )
        views.append([(shape, dtype, place * ROOM + start, steps) for start, steps in ends])
    check(pairs, views, kinds, private)


@settings(deadline=None)
@given(st.data())
def test_gathered_and_scattered_pairs(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    length = data.draw(st.integers(1, 3))
    count = data.draw(st.integers(1, 20))
    starts = np.array(data.draw(st.lists(st.integers(0, 60), min_size=count, max_size=count)))
    into = np.array(data.draw(st.permutations(range(20)))[:count]) * length
    kinds = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
    source, target = (segment(kind, role) for role, kind in enumerate(kinds))
    given_bytes, before = (np.random.default_rng(role).integers(0, 100, PAIRS * ROOM, np.uint8) for role in range(2))
    gw.put(given_bytes, source.pointer()).wait()
    gw.put(before, target.pointer()).wait()
    row = gw.strided(target.pointer(0, dtype, ROOM), (count * length,), (dtype.itemsize,))
    plan = gw.plan(
        [
            (gw.indexed(source.pointer(0, dtype), starts, length), gw.indexed(target.pointer(0, dtype), into, length)),
            (gw.indexed(source.pointer(0, dtype), starts, length), row),
        ]
    )
    plan.start().wait()
    elements = given_bytes[: ROOM // dtype.itemsize * dtype.itemsize].view(dtype)
    chunks = elements[starts[:, None] + np.arange(length)]
    expected = before.copy()
    scattered = expected[: ROOM // dtype.itemsize * dtype.itemsize].view(dtype)
    scattered[into[:, None] + np.arange(length)] = chunks
    expected[ROOM : ROOM + chunks.nbytes] = np.frombuffer(chunks.tobytes(), np.uint8)
    assert (gw.get(target.pointer(), PAIRS * ROOM).result() == expected).all()


def check(pairs: list[Any], views: list[Any], kinds: Any, private: np.ndarray[Any, Any]) -> None:
    source, target = (segment(kind, role) for role, kind in enumerate(kinds))
    expected = np.random.default_rng(2).integers(0, 100, PAIRS * ROOM, np.uint8)
    gw.put(expected, target.pointer()).wait()
    plan = gw.plan(pairs)
    for key in range(2):
        private[:] = np.random.default_rng(key).integers(0, 100, PAIRS * ROOM, np.uint8)
        gw.put(private, source.pointer()).wait()
        plan.start().wait()
        for ends in views:
            one, other = (
                np.ndarray(*end[:2], memory, *end[2:]) for end, memory in zip(ends, (private, expected), strict=True)
            )
            other[...] = one
        assert (gw.get(target.pointer(), PAIRS * ROOM).result() == expected).all()
