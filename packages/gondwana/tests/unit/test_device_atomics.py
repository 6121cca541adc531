"""Atomic operations on device memory on one rank: several threads, turns, and devices that fail."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.memory import pinned
from gondwana.sync import device_atomics
from gondwana.testing.gpu import emulated_gpu


def domain_and_word(*ops: str, dtype: str = "i8", count: int = 8) -> tuple[gw.AtomicDomain, gw.GlobalPtr]:
    segment = gw.Segment(gw.world, 8 * count, gw.fake_device)
    return gw.AtomicDomain(dtype, ops, gw.world), segment.pointer(dtype=dtype)


def test_what_is_asked_for_during_a_turn_is_done_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    turn = device_atomics._Turns._turn

    def counted(self: Any, segment: Any, operations: list[Any]) -> Any:
        sizes.append(len(operations))
        return turn(self, segment, operations)

    monkeypatch.setattr(device_atomics._Turns, "_turn", counted)
    domain, word = domain_and_word("fetch_add", "load")
    futures = [domain.fetch_add(word + step % 2, 1) for step in range(20)]
    assert [future.result() for future in futures] == [step // 2 for step in range(20)]
    assert sizes == [1, 19]
    assert domain.load(word + 1).result() == 10
    assert sizes == [1, 19, 1]


def test_loads_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, word = domain_and_word("load", "store")
    domain.store(word, 3).wait()

    def refuse(*_: Any) -> None:
        raise AssertionError("a load writes")

    monkeypatch.setattr(type(gw.fake_device), "write", refuse)
    assert domain.load(word).result() == 3
    assert domain.batch("load", word, [0, 1, 0]).result().tolist() == [3, 0, 3]


@pytest.mark.parametrize("function", ["read", "write"])
def test_a_device_that_fails_is_said_to_all_who_asked(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, word = domain_and_word("fetch_add", "load")
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> None:
            raise RuntimeError("CUDA_ERROR_ECC_UNCORRECTABLE")

        patch.setattr(type(gw.fake_device), function, fail)
        futures = [domain.fetch_add(word, 1), domain.batch("fetch_add", word, [1, 2], 1), domain.fetch_add(word, 1)]
        for future in futures:
            with pytest.raises(RuntimeError, match="ECC"):
                future.result()
    assert domain.fetch_add(word, 1).result() == 0  # the next turn is not affected
    assert domain.load(word).result() == 1


def test_words_of_a_batch_near_and_far() -> None:
    """One copy reads words that are near each other; only the words themselves are written."""
    count = 4000
    domain, word = domain_and_word("add", count=count)
    indices = np.array([0, 1, 2, 400, 511, 512, 2000, 3999, 3998, 1])
    rows = device_atomics._rows(np.unique(indices), 512)
    assert [row.tolist() for row in rows] == [[0, 2000, 3998], [512, 2000, 3999]]
    domain.batch("add", word, indices, np.arange(10)).wait()
    expected = np.zeros(count, "i8")
    np.add.at(expected, indices, np.arange(10))
    assert (gw.get(word, count).result() == expected).all()


def test_a_segment_lives_until_its_operations_are_done() -> None:
    domain, word = domain_and_word("fetch_add", "load")
    futures = [domain.fetch_add(word, 1) for _ in range(3)]
    del word
    assert [future.result() for future in futures] == [0, 1, 2]


def test_few_words_of_a_gpu_pass_through_pinned_memory() -> None:
    """Copies from and to it do not keep this rank; the memory is the same in all turns."""
    with emulated_gpu():
        segment = gw.Segment(gw.world, 80_000, gw.cuda(0))
        domain, word = gw.AtomicDomain("i8", ["fetch_add", "load"], gw.world), segment.pointer(dtype="i8")
        for step in range(3):
            assert domain.fetch_add(word + 9, 1).result() == step
        mapping = device_atomics._of_segments[segment]["int64"]._pinned
        assert mapping is not None
        assert pinned.is_pinned(mapping)
        assert mapping.view("i8")[0] == 3
        assert domain.batch("fetch_add", word, np.arange(9000), 1).result().sum() == 3  # more than it has room for
        assert domain.batch("load", word, [8, 9, 10]).result().tolist() == [1, 4, 1]


def test_several_threads() -> None:
    domain, word = domain_and_word("fetch_add", "load")
    found: list[int] = []

    def draw() -> None:
        found.extend(future.result() for future in [domain.fetch_add(word, 1) for _ in range(25)])

    with gw.progress_thread():
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == list(range(100))
    assert domain.load(word).result() == 100
