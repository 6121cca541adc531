"""Access regions on one rank: whose operations belong to them, what their end waits for, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import gondwana as gw
from gondwana.futures import Promise
from gondwana.runtime.progress import ProgressError
from gondwana.transfer import completion


def there(elements: int = 8) -> gw.GlobalPtr:
    """Memory to which copies are complete some polls after their call has returned."""
    return gw.Segment(gw.world, 8 * elements, gw.fake_device).pointer(dtype=float)


def test_the_end_waits_for_all_that_is_under_way() -> None:
    pointer = there(200)
    with gw.AccessRegion() as region:
        puts = [gw.put(float(place), pointer + place) for place in range(200)]
    assert all(put.done() for put in puts)
    assert region.future.done()
    assert gw.get(pointer, 200).result().tolist() == list(range(200))
    assert not completion._open


def test_complete_operations_are_not_kept() -> None:
    with gw.AccessRegion(wait=False) as region:
        for _ in range(300):
            gw.put(1.0, gw.Segment(gw.world, 8).pointer(dtype=float))
            gw.put(1.0, there(1)).wait()
        assert len(region._operations) <= completion._FEW


def test_what_an_inner_region_leaves_belongs_to_the_outer_one() -> None:
    pointer = there()
    with gw.AccessRegion():
        with gw.AccessRegion(wait=False) as inner:
            left = gw.put(np.ones(8), pointer)
        assert not inner.future.done()
    assert left.done()
    inner.wait()


def test_an_exception_leaves_the_block_at_once() -> None:
    pointer, region, left = there(), gw.AccessRegion(), []

    def fail() -> None:
        with region:
            left.append(gw.put(np.ones(8), pointer))
            assert not left[0].done()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not completion._open
    assert not region.future.done()
    region.wait()
    assert left[0].done()
    with pytest.raises(RuntimeError, match="second time"):
        region.__enter__()


def test_errors_are_raised_when_all_are_complete() -> None:
    failed: Promise[None] = Promise()
    failed.set_exception(OSError("lost"))
    region = gw.AccessRegion(wait=False)
    with region:
        region._add(failed.future)
        put = gw.put(np.ones(8), there())
    with pytest.raises(OSError, match="lost"):
        region.wait()
    assert put.done()


left_open: list[gw.AccessRegion] = []


def put_in_two_regions(pointer: gw.GlobalPtr) -> None:
    with gw.AccessRegion() as outer:
        left_open.append(outer)
        with gw.AccessRegion() as inner:
            left_open.append(inner)
            gw.put(np.ones(8), pointer)


def test_what_a_callback_cannot_wait_for_is_not_forgotten() -> None:
    pointer = there()
    with pytest.raises(ProgressError):
        gw.rpc(gw.world.rank, put_in_two_regions, pointer).result()
    assert not completion._open
    for region in left_open:
        (put,) = region._operations
        region.wait()
        assert put.done()
        assert not region._operations
    assert gw.get(pointer, 8).result().tolist() == [1.0] * 8


def test_each_task_has_regions_of_its_own() -> None:
    first, second = there(), there()
    ends = []

    def write(pointer: gw.GlobalPtr, name: str) -> None:
        with gw.AccessRegion(wait=False) as region:
            put = gw.put(np.ones(8), pointer)
            gw.yield_task()
            assert region._operations == [put]
        region.wait()
        ends.append(name)

    with gw.AccessRegion(wait=False) as region:
        tasks = [gw.Task(write, pointer, name).schedule() for pointer, name in ((first, "one"), (second, "two"))]
        for task in tasks:
            task.wait()
        assert not region._operations
    assert sorted(ends) == ["one", "two"]
