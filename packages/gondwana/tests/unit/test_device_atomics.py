"""Atomic operations on device memory on one rank: several threads, turns, and devices that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.gpu import atomic_kernels_ptx
from gondwana.gpu.bindings import assemble
from gondwana.sync.atomic_paths import DTYPES, OPERATIONS
from gondwana.sync.atomics import NAMES
from gondwana.testing.gpu import emulated_gpu


def domain_and_word(*ops: str, dtype: str = "i8", count: int = 8) -> tuple[gw.AtomicDomain, gw.GlobalPtr]:
    segment = gw.Segment(gw.world, 8 * count, gw.fake_device)
    return gw.AtomicDomain(dtype, ops, gw.world), segment.pointer(dtype=dtype)


def test_what_is_asked_for_during_a_turn_is_done_after_it() -> None:
    domain, word = domain_and_word("fetch_add", "load")
    futures = [domain.fetch_add(word + step % 2, 1) for step in range(20)]
    assert not any(future.done() for future in futures)
    assert [future.result() for future in futures] == [step // 2 for step in range(20)]
    assert domain.load(word + 1).result() == 10


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
    """Only the words themselves are written."""
    count = 4000
    domain, word = domain_and_word("add", count=count)
    indices = np.array([0, 1, 2, 400, 511, 512, 2000, 3999, 3998, 1])
    domain.batch("add", word, indices, np.arange(10)).wait()
    expected = np.zeros(count, "i8")
    np.add.at(expected, indices, np.arange(10))
    assert (gw.get(word, count).result() == expected).all()


def test_a_segment_lives_until_its_operations_are_done() -> None:
    domain, word = domain_and_word("fetch_add", "load")
    futures = [domain.fetch_add(word, 1) for _ in range(3)]
    del word
    assert [future.result() for future in futures] == [0, 1, 2]


def numbers(dtype: str, count: int) -> np.ndarray:
    """Numbers of any size; the sum of the first ones of two calls is subnormal."""
    rng = np.random.default_rng(count)
    if dtype[0] == "f":
        found = (rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)).astype(dtype)
        found[0] = np.finfo(dtype).tiny * (1.25 if count % 2 else -1.0)
        return found
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_do_what_the_processor_does(dtype: str) -> None:
    names = [name for name in NAMES if dtype[0] != "f" or "bit" not in name]
    words, values = numbers(dtype, 200), numbers(dtype, 201)[:200]
    with emulated_gpu():
        domain = gw.AtomicDomain(dtype, names, gw.world)
        places = [gw.Segment(gw.world, 1600, kind).pointer(dtype=dtype) for kind in (gw.host, gw.cuda(0))]

        def on_both(method: Callable[..., gw.Future[Any]], *arguments: Any, start: int = 0) -> None:
            here, there = (np.asarray(method(place + start, *arguments).result()) for place in places)
            assert here.tobytes() == there.tobytes(), (method, arguments, here, there)

        for name in names:
            for place in places:
                domain.batch("store", place, np.arange(200), words).wait()
            for index, value in enumerate(values[:2].tolist()):
                if name == "compare_exchange":
                    for _ in range(2):
                        on_both(domain.compare_exchange, words[index].item(), value, start=index)
                else:
                    on_both(getattr(domain, name), *([] if name == "load" else [value]), start=index)
            if name != "compare_exchange":
                on_both(partial(batch_of, domain, name), np.arange(198), values[2:], start=2)
            on_both(partial(batch_of, domain, "load"), np.arange(200))


def batch_of(domain: gw.AtomicDomain, name: str, place: gw.GlobalPtr, *arguments: Any) -> gw.Future[Any]:
    return domain.batch(name, place, *arguments)


def test_batches_that_are_larger_than_a_launch_and_words_that_occur_often() -> None:
    with emulated_gpu():
        segment = gw.Segment(gw.world, 80_000, gw.cuda(0))
        domain, word = gw.AtomicDomain("i8", ["fetch_add", "load"], gw.world), segment.pointer(dtype="i8")
        for step in range(3):
            assert domain.fetch_add(word + 9, 1).result() == step
        assert domain.batch("fetch_add", word, np.arange(9000), 1).result().sum() == 3
        assert domain.batch("load", word, [8, 9, 10]).result().tolist() == [1, 4, 1]
        drawn = domain.batch("fetch_add", word + 9000, np.zeros(5000, int), 2).result()
        assert sorted(drawn) == list(range(0, 10_000, 2))


@pytest.mark.parametrize("capability", [(7, 5), (9, 0)])
def test_kernels_are_assembled(capability: tuple[int, int]) -> None:
    for dtype in DTYPES:
        for operation in OPERATIONS:
            if dtype[0] != "f" or "bit" not in operation:
                _, found = assemble(atomic_kernels_ptx.text(operation, dtype), capability)
                assert found[atomic_kernels_ptx.name(operation, dtype)].local == 0


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
