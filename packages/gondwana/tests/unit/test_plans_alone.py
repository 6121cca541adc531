"""Plans on one rank: what compiled code is refused, indexed ends of plain copies, and memory that a plan keeps."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.transfer.box import StridedBox, bounds, contiguous_strides


@gw.jit
def one_round(plan):  # type: ignore[no-untyped-def]
    plan.start()
    plan.wait()


def test_compiled_code_takes_plans_in_host_memory_only() -> None:
    target = np.zeros(3)
    one_round(gw.plan([(np.arange(3.0), target)]))
    assert target.tolist() == [0.0, 1.0, 2.0]
    there = gw.strided(gw.Segment(gw.world, 24, gw.fake_device).pointer(dtype=float), (3,), (8,))
    plan = gw.plan([(target, there)])
    with pytest.raises(UsageError, match="in Python"):
        one_round(plan)
    plan.start().wait()
    assert gw.get(there.location, 3).result().tolist() == target.tolist()


def test_a_plan_keeps_the_memory_of_its_ends() -> None:
    segment = gw.Segment(gw.world, 80)
    copied = np.zeros(10)
    plan = gw.plan([(gw.strided(segment.pointer(dtype=float), (10,), (8,)), copied)])
    segment.typed(0, np.dtype(float))[:] = 3.0
    del segment
    gc.collect()
    plan.start().wait()
    assert (copied == 3.0).all()


def test_a_round_that_was_not_waited_for() -> None:
    plan = gw.plan([(np.zeros(2), np.zeros(2))])
    plan.start()
    with pytest.raises(RuntimeError, match=r"this plan is still under way: call wait\(\) on what start\(\) returned"):
        plan.start()
    plan.wait()
    plan.wait()
    assert plan.test()


def test_indexed_ends_take_rows_of_as_many_elements() -> None:
    pairs = np.zeros((2, 3))
    gw.copy(gw.indexed(np.arange(20.0), [10, 4], 3), pairs).wait()
    assert pairs.tolist() == [[10.0, 11.0, 12.0], [4.0, 5.0, 6.0]]
    scattered = np.zeros(5)
    gw.copy(np.array([1.0, 2.0]), gw.indexed(scattered, [4, 0])).wait()
    assert scattered.tolist() == [2.0, 0.0, 0.0, 0.0, 1.0]
    with pytest.raises(UsageError, match="make them equal"):
        gw.copy(gw.indexed(np.zeros(9), [1, 2]), np.zeros(3))


def test_pieces_of_any_lengths_take_any_end_with_as_many_elements() -> None:
    values, three = gw.indexed(np.arange(9.0), [5, 0, 2], [2, 0, 1]), np.zeros((1, 3))
    gw.copy(values, three).wait()
    assert three.tolist() == [[5.0, 6.0, 2.0]]
    every_other = np.zeros(6)
    gw.copy(values, every_other[::2]).wait()
    assert every_other.tolist() == [5.0, 0.0, 6.0, 0.0, 2.0, 0.0]
    gw.copy(values, gw.indexed(every_other[::-1], [0, 5, 2], 1)).wait()
    assert every_other.tolist() == [6.0, 0.0, 6.0, 2.0, 2.0, 5.0]
    chunks = np.zeros(8)
    gw.copy(gw.indexed(np.arange(4.0), [0, 2], 2), gw.indexed(chunks, [7, 1], [1, 3])).wait()
    assert chunks.tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    gw.copy(values, chunks, 2).wait()  # the first two elements
    assert chunks[:3].tolist() == [5.0, 6.0, 2.0]
    gw.copy(gw.indexed(values.memory, [], []), chunks[:0]).wait()
    before = gw.Segment(gw.world, 32).pointer(dtype=float) + 2
    gw.copy(np.ones(2), gw.indexed(before, [-2, 1], [1, 1])).wait()
    assert (before - 2).local(4).tolist() == [1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("starts", "lengths", "problem"),
    [
        ([0, 1], [1], "2 indices and 1 lengths"),
        ([0], [-1], "give 0 or more"),
        ([7], [2], "indices from 0 inside it"),
        ([-1], [2], "indices from 0 inside it"),
        ([0.5], [1], "list of integers"),
        ([0], [1.5], "lengths of shape"),
        ([0, 4], [1, 2], "make them equal"),
    ],
)
def test_pieces_that_are_refused(starts: list, lengths: list, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        gw.copy(gw.indexed(np.zeros(8), starts, lengths), np.zeros(4))


def test_bounds_and_strides_of_boxes() -> None:
    assert bounds((3, 2), (8, -24), 8) == (-24, 24)
    assert bounds((3, 0), (8, 8), 8) == (0, 0)
    assert contiguous_strides((2, 3, 4), 8) == (96, 32, 8)
    assert contiguous_strides((2, 3, 4), 8, "F") == (8, 16, 48)
    box = StridedBox(None, None, np.dtype(float), (2, 3, 4), (8, 1000, 100))
    assert box.packed_strides == (8, 64, 16)
    again = pickle.loads(pickle.dumps(box))
    assert (again.shape, again.strides) == (box.shape, box.strides)
