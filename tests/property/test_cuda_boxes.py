"""Boxes of device copies: orders to copy engines, pieces and kernels cover each byte once, at the right places."""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gondwana.gpu.pack_ptx import AXES
from gondwana.transfer import pack
from gondwana.transfer.boxes import SOURCE, TARGET, Box, box_of, cut, is_dense, planes, runs
from gondwana.transfer.pack import BoxKernels
from support.recording_driver import RecordingDriver

Bytes = Counter[tuple[int, int]]


class OneDevice:
    """What the kernels need of a device."""

    def __init__(self) -> None:
        self.driver = RecordingDriver()
        self.facts = self.driver.facts(0)


@st.composite
def strides_of(draw: st.DrawFn, shape: tuple[int, ...], item: int, scale: int = 1) -> tuple[int, ...]:
    """Strides of a box without overlaps: axes in any order, gaps, any signs."""
    strides, extent = [0] * len(shape), item
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = extent * draw(st.sampled_from([1, 1, 1, 2, 3])) * draw(st.sampled_from([1, 1, -1]))
        extent = abs(strides[axis]) * shape[axis] * scale
    return tuple(strides)


@st.composite
def copies(draw: st.DrawFn, most_axes: int = 4, items: Any = (1, 2, 3, 8, 12, 16)) -> tuple[Any, ...]:
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=most_axes)))
    item = draw(st.sampled_from(items))
    return shape, item, draw(strides_of(shape, item)), draw(strides_of(shape, item))


def wanted(shape: tuple[int, ...], item: int, source: tuple[int, ...], target: tuple[int, ...]) -> Bytes:
    """All bytes that a copy moves, as offsets in the source and in the target."""
    pairs: Bytes = Counter()
    for index in itertools.product(*map(range, shape)):
        a, b = (sum(i * stride for i, stride in zip(index, strides, strict=True)) for strides in (source, target))
        pairs.update((a + byte, b + byte) for byte in range(item))
    return pairs


def of_box(box: Box, source: int = 0, target: int = 0) -> Bytes:
    return Counter((source + a + i, target + b + i) for a, b in runs(box) for i in range(box.run))


@given(copies(), st.booleans())
def test_a_box_has_all_bytes(copy: tuple[Any, ...], by_target: bool) -> None:
    box = box_of(*copy, by_target=by_target)
    assert of_box(box) == wanted(*copy)
    assert box.nbytes == math.prod(copy[0]) * copy[1]
    end = TARGET if by_target else SOURCE
    slowness = [abs(axis[end]) for axis in box.axes]
    assert slowness == sorted(slowness, reverse=True)


@given(copies(), st.integers(1, 300), st.booleans())
def test_pieces_have_all_bytes(copy: tuple[Any, ...], limit: int, by_target: bool) -> None:
    box = box_of(*copy, by_target=by_target)
    pieces = list(cut(box, limit))
    assert sum((of_box(piece, a, b) for a, b, piece in pieces), Counter()) == wanted(*copy)
    assert all(piece.nbytes <= max(limit, box.run) for _, _, piece in pieces)
    for end in (SOURCE, TARGET):
        if is_dense(box, end):
            assert all(is_dense(piece, end) for _, _, piece in pieces)


@given(st.data())
def test_orders_to_copy_engines_have_all_bytes_and_legal_pitches(data: st.DataObject) -> None:
    shape, item, source, target = data.draw(copies(most_axes=5, items=(512, 640)))
    box = box_of(shape, item, source, target)
    orders = planes(box)
    if orders is None:
        return
    starts: Counter[tuple[int, int]] = Counter()
    for order in orders:
        width, rows, many = order.counts
        assert width == box.run
        if rows * many > 1:
            for row, plane in (order.source_strides, order.target_strides):
                assert row >= width
                assert plane % row == 0
                assert plane >= rows * row or many == 1
        for y, z in itertools.product(range(rows), range(many)):
            a, b = (y * row + z * plane for row, plane in (order.source_strides, order.target_strides))
            starts[order.source + a, order.target + b] += 1
    assert starts == Counter(runs(box))


def test_faces_of_a_cube_go_the_way_they_should() -> None:
    n, item = 128, 8
    fortran = (item, n * item, n * n * item)
    for axis, engine in ((0, False), (1, True), (2, True)):
        shape = tuple(1 if i == axis else n for i in range(3))
        box = box_of(shape, item, fortran, fortran)
        assert (planes(box) is not None) == engine


@given(copies(most_axes=6), st.sampled_from([1, 2, 4, 8, 16, 256]), st.sampled_from([1, 2, 8, 64]))
def test_launches_have_all_bytes(copy: tuple[Any, ...], source: int, target: int) -> None:
    one = OneDevice()
    kernels = BoxKernels(one)  # type: ignore[arg-type]
    sizes = {entry: unit for unit, entry in kernels._entries.items()}
    one.driver.take()
    kernels.copy(target, source, box_of(*copy), 0)
    found: Bytes = Counter()
    for _, entry, (blocks, _, _), (threads, _, _), _, _, arguments in one.driver.take():
        unit, words = sizes[entry], struct.unpack("14q", arguments)
        to, from_, units, counts = words[0], words[1], words[2], words[3 : 2 + AXES]
        targets, sources = words[2 + AXES : 2 + 2 * AXES], words[2 + 2 * AXES :]
        assert all(word % unit == 0 for word in (to, from_, *targets, *sources))
        assert 0 < blocks * threads < units + threads
        first, rest = divmod(units, math.prod(counts))
        assert rest == 0
        found += Counter(
            {
                (a + from_ - source, b + to - target): n
                for (a, b), n in wanted((first, *counts), unit, sources, targets).items()
            }
        )
    assert found == wanted(*copy)


def test_launches_stay_below_what_32_bits_count(monkeypatch: Any) -> None:
    monkeypatch.setattr(pack, "MOST_UNITS", 100)
    one = OneDevice()
    kernels = BoxKernels(one)  # type: ignore[arg-type]
    one.driver.take()
    kernels.copy(0, 0, box_of((1000,), 8, (16,), (8,)), 0)
    units = [struct.unpack("14q", call[-1])[2] for call in one.driver.take()]
    assert sum(units) == 1000
    assert max(units) < 100
