"""Copies of boxes on devices: copy-engine commands, pieces and kernels cover each byte once, at the right places."""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from typing import Any

from hypothesis import given, strategies as st

from gondwana.gpu.box_kernels_ptx import AXES, UNITS, copy_name
from gondwana.transfer.box_copy import SOURCE, TARGET, BoxCopy
from gondwana.transfer.devices import device_boxes
from support.recording_driver import RecordingDriver

Bytes = Counter[tuple[int, int]]


class OneDevice:
    """What the kernels need of a device."""

    def __init__(self) -> None:
        self.driver = RecordingDriver()
        self.facts = self.driver.facts(0)

    def activate(self) -> None:
        """Nothing to do."""


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


def of_box(box: BoxCopy) -> Bytes:
    return Counter((a + i, b + i) for a, b in box.starts() for i in range(box.run))


@given(copies(), st.booleans())
def test_a_box_has_all_bytes(copy: tuple[Any, ...], by_target: bool) -> None:
    box = BoxCopy.of(*copy, by_target=by_target)
    assert of_box(box) == wanted(*copy)
    assert box.nbytes == math.prod(copy[0]) * copy[1]
    end = TARGET if by_target else SOURCE
    slowness = [abs(axis[end]) for axis in box.axes]
    assert slowness == sorted(slowness, reverse=True)


@given(copies(), st.integers(1, 300), st.booleans())
def test_pieces_have_all_bytes(copy: tuple[Any, ...], limit: int, by_target: bool) -> None:
    box = BoxCopy.of(*copy, by_target=by_target)
    pieces = list(box.pieces(limit))
    assert sum(map(of_box, pieces), Counter()) == wanted(*copy)
    assert all(piece.nbytes <= max(limit, box.run) for piece in pieces)
    for end in (SOURCE, TARGET):
        if box.is_dense(end):
            assert all(piece.is_dense(end) for piece in pieces)


@given(st.data())
def test_copy_engine_commands_have_all_bytes_and_legal_pitches(data: st.DataObject) -> None:
    shape, item, source, target = data.draw(copies(most_axes=5, items=(512, 640)))
    box = BoxCopy.of(shape, item, source, target)
    commands = box.pitched()
    if commands is None:
        return
    starts: Counter[tuple[int, int]] = Counter()
    for command in commands:
        assert command.run == box.run
        assert len(command.axes) in (0, 2)
        if command.runs > 1:
            (many, *planes), (rows, *pitches) = command.axes
            for row, plane in zip(pitches, planes, strict=True):
                assert row >= box.run
                assert plane % row == 0
                assert plane >= rows * row or many == 1
        starts.update(command.starts())
    assert starts == Counter(box.starts())


def test_faces_of_a_cube_go_the_way_they_should() -> None:
    n, item = 128, 8
    fortran = (item, n * item, n * n * item)
    for axis, engine in ((0, False), (1, True), (2, True)):
        shape = tuple(1 if i == axis else n for i in range(3))
        box = BoxCopy.of(shape, item, fortran, fortran)
        assert (box.pitched() is not None) == engine


def test_many_short_rows_within_a_device_are_for_threads() -> None:
    """Over a link to the host a copy engine keeps up with them."""
    for rows, run, threads in ((400, 512, False), (4000, 512, True), (4000, 4096, True), (4000, 16384, False)):
        box = BoxCopy.of((rows, run), 1, (2 * run, 1), (3 * run, 1))
        assert box.pitched() is not None
        assert box.suits_threads == threads, (rows, run)


@given(copies(most_axes=6), st.sampled_from([1, 2, 4, 8, 16, 256]), st.sampled_from([1, 2, 8, 64]))
def test_launches_have_all_bytes(copy: tuple[Any, ...], source: int, target: int) -> None:
    one = OneDevice()
    entries = device_boxes._entries(one)  # type: ignore[arg-type]
    sizes = {entries[copy_name(unit)]: unit for unit in UNITS}
    one.driver.take()
    device_boxes.copy_box(one, BoxCopy.of(*copy, source=source, target=target), 0)  # type: ignore[arg-type]
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
    monkeypatch.setattr(device_boxes, "MOST_UNITS", 100)
    one = OneDevice()
    device_boxes._entries(one)  # type: ignore[arg-type]
    one.driver.take()
    device_boxes.copy_box(one, BoxCopy.of((1000,), 8, (16,), (8,)), 0)  # type: ignore[arg-type]
    units = [struct.unpack("14q", call[-1])[2] for call in one.driver.take()]
    assert sum(units) == 1000
    assert max(units) < 100
