"""Atomic operations on device memory, each check by all ranks. Prints one JSON line per check.

On CUDA devices, real or emulated, with GONDWANA_CUDA=emulated or the argument "cuda"; else on the fake device.
"""

from __future__ import annotations

import itertools
import os
import sys
from unittest import mock

import numpy as np
from checks import raises, run_checks
from synchronisation_checks import OPS, initial, values

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.memory import ipc
from gondwana.sync.atomic_paths import DTYPES

world = gw.world
ME, RANKS = world.rank, world.size
RIGHT = (ME + 1) % RANKS
CUDA = "cuda" in sys.argv or os.environ.get("GONDWANA_CUDA") == "emulated"
KIND = gw.cuda(0) if CUDA else gw.fake_device
SOME = 10


def check_every_operation_on_device_words():
    """All ranks at once, on words of one of them and of every rank by turns."""
    for owner, dtype in zip(itertools.cycle(range(RANKS)), DTYPES, strict=False):
        names = [name for name in OPS if dtype[0] != "f" or "bit" not in name]
        names += [f"fetch_{name}" for name in names]
        domain = gw.AtomicDomain(dtype, [*names, "store", "load"], world)
        segment = gw.Segment(world, 256, KIND)
        words = {name: segment.pointer(owner, dtype, 8 * place) for place, name in enumerate(names)}
        if ME == 0:
            gw.when_all(*[domain.store(pointer, initial(name)) for name, pointer in words.items()]).wait()
        world.barrier()
        done = [(name, getattr(domain, name)(words[name], value)) for name in names for value in values(name, ME)]
        for name, future in done:
            assert (future.result() is None) == (not name.startswith("fetch_"))
        world.barrier()
        for name, pointer in words.items():
            expected = np.array([initial(name)], dtype)
            for value in [value for rank in range(RANKS) for value in values(name, rank)]:
                signed = -value if "sub" in name else value
                expected = OPS[name.removeprefix("fetch_")](expected, np.array([signed]).astype(dtype))
            assert domain.load(pointer).result() == expected[0], (dtype, name)
        world.barrier()


def check_device_tickets_are_a_permutation():
    """Drawn one by one, many at once and in batches, from counters on every rank."""
    domain = gw.AtomicDomain("i8", ["fetch_add", "load"], world)
    segment = gw.Segment(world, 64, KIND)
    for owner in range(RANKS):
        counter = segment.pointer(owner, "i8") + 3
        tickets = [domain.fetch_add(counter, 1).result() for _ in range(2)]
        assert tickets[0] < tickets[1]
        tickets += [future.result() for future in [domain.fetch_add(counter, 1) for _ in range(SOME)]]
        tickets += domain.batch("fetch_add", counter, [0] * SOME, 1).result().tolist()
        everybody = [ticket for part in world.allgather(tickets) for ticket in part]
        assert sorted(everybody) == list(range((2 + 2 * SOME) * RANKS))
        assert domain.load(counter).result() == (2 + 2 * SOME) * RANKS
    world.barrier()


def check_loops_of_compare_and_swap_on_device_words():
    for dtype, owner in (("u4", 0), ("f8", RANKS - 1), ("i8", 0)):
        domain = gw.AtomicDomain(dtype, ["load", "compare_exchange", "fetch_add", "add", "exchange"], world)
        counter = gw.Segment(world, 64, KIND).pointer(owner, dtype) + 1
        for _ in range(3):
            domain.add(counter, 1).wait()
            domain.fetch_add(counter, 1).wait()
            old = domain.load(counter).result()
            while (seen := domain.compare_exchange(counter, old, old + 1).result()) != old:
                old = seen
        world.barrier()
        assert domain.load(counter).result() == 9 * RANKS, dtype
        world.barrier()
        limits = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
        if owner == ME:  # values that only fit if their bits are passed on
            for value in (limits.max.item() if dtype[0] == "f" else limits.max, limits.min, 0):
                domain.exchange(counter, value).wait()
                assert domain.compare_exchange(counter, value, 5).result() == value
                assert domain.exchange(counter, 5).result() == 5
            if dtype[0] == "f":
                domain.exchange(counter, -0.0).wait()
                assert domain.compare_exchange(counter, 0.0, 1.0).result() == 0.0
                assert np.signbit(domain.load(counter).result())
        world.barrier()


def check_batches_on_device_words():
    """Words near each other and far apart; what lies between them is put by its owner at the same time."""
    places = 3000
    segment = gw.Segment(world, 8 * places, KIND)
    domain = gw.AtomicDomain("i8", ["add", "fetch_max", "load", "store"], world)
    expected = np.zeros((RANKS, places), "i8")
    turns = [(source, target) for source in range(RANKS) for target in range(RANKS)]
    under_way = []
    for source, target in turns:
        rng = np.random.default_rng([source, target])
        spread = np.concatenate([rng.integers(0, 40, 30), rng.integers(0, places // 2, 10)]) * 2  # even ones
        amounts = rng.integers(1, 1000, spread.size)
        np.add.at(expected[target], spread, amounts)
        if source == ME:
            under_way.append(
                domain.batch("add", segment.pointer(target, "i8"), spread.reshape(4, 10), amounts.reshape(4, 10))
            )
            assert domain.batch("load", segment.pointer(target, "i8"), []).result().shape == (0,)
    expected[:, 1:101:2] = np.arange(RANKS)[:, None] + np.arange(50)
    odd = gw.strided(segment.pointer(dtype="i8") + 1, (50,), (16,))
    gw.copy(ME + np.arange(50), odd).wait()
    gw.when_all(*under_way).wait()
    world.barrier()
    assert (gw.get(segment.pointer(dtype="i8"), places).result() == expected[ME]).all()
    found = domain.batch("load", segment.pointer(RIGHT, "i8") + 100, np.arange(50)).result()
    assert found.dtype == np.int64
    assert (found == expected[RIGHT, 100:150]).all()
    world.barrier()
    peaks = domain.batch("fetch_max", segment.pointer(RIGHT, "i8"), [[2, 2], [3, 2]], [[10**6, 5], [7, 10**7]]).result()
    one, two = expected[RIGHT, 2:4].tolist()
    possible = {tuple(np.maximum.accumulate([one, *order])[:3]) for order in itertools.permutations([10**6, 5, 10**7])}
    assert tuple(sorted(peaks.ravel()[[0, 1, 3]].tolist())) in {tuple(sorted(order)) for order in possible}
    assert peaks[1, 0] == two
    assert domain.batch("load", segment.pointer(RIGHT, "i8"), [2, 3]).result().tolist() == [10**7, max(two, 7)]
    world.barrier()


def check_batches_of_every_type():
    for dtype in DTYPES:
        domain = gw.AtomicDomain(dtype, ["fetch_add", "load", "store"], world)
        words = gw.Segment(world, 8 * 20, KIND).pointer(RIGHT, dtype)
        start = np.arange(20, dtype=dtype) if dtype[0] == "u" else np.arange(20, dtype=dtype) - 10
        domain.batch("store", words, np.arange(20), start).wait()
        olds = domain.batch("fetch_add", words, np.arange(20), 1).result()
        assert olds.dtype == np.dtype(dtype)
        assert (olds == start).all()
        assert (domain.batch("load", words, np.arange(20)).result() == start + np.ones((), dtype)).all()
        world.barrier()


def check_one_domain_on_host_and_device_words():
    """A rank may have host memory where others have a device's."""
    segment = gw.Segment(world, 16, gw.host if ME % 2 else KIND)
    domain = gw.AtomicDomain("i8", ["fetch_add", "load"], world)
    futures = [domain.fetch_add(segment.pointer(rank, "i8") + 1, 1) for rank in range(RANKS) for _ in range(SOME)]
    gw.when_all(*futures).wait()
    world.barrier()
    assert [domain.load(segment.pointer(rank, "i8") + 1).result() for rank in range(RANKS)] == [SOME * RANKS] * RANKS
    world.barrier()


def check_owners_perform_what_is_not_atomic_between_devices():
    """As the kernels of the owners do, some words of a rank are reached by itself only."""
    segment = gw.Segment(world, 64, KIND)
    domain = gw.AtomicDomain("u4", ["fetch_add", "load", "compare_exchange"], world)
    world.barrier()
    with mock.patch.object(ipc, "_atomic", return_value=False):
        found = [segment.on_device(rank) for rank in range(RANKS)]
    assert sum(one is not None and one.atomic for one in found) == int(CUDA)
    words = [segment.pointer(rank, "u4") + 3 for rank in range(RANKS)]
    drawn = [domain.fetch_add(word, 2).result() for word in words for _ in range(SOME)]
    drawn += domain.batch("fetch_add", words[0], [0] * SOME, 2).result().tolist()
    everybody = world.allgather(drawn)
    for rank in range(RANKS):
        last = len(drawn) if rank == 0 else 0
        tickets = [t for part in everybody for t in part[rank * SOME : (rank + 1) * SOME] + part[RANKS * SOME : last]]
        assert sorted(tickets) == list(range(0, 2 * len(tickets), 2))
    assert domain.load(words[RIGHT]).result() == 2 * SOME * RANKS * (2 if RIGHT == 0 else 1)
    assert domain.compare_exchange(words[ME], 1, 7).result() != 1
    world.barrier()


def check_atomic_operations_of_a_smaller_team():
    """Ranks of a team that was split ask ranks by their place in the world."""
    team = world.split(ME % 2, -ME)
    domain = gw.AtomicDomain("u8", ["fetch_add", "load"], team)
    word = gw.Segment(team, 8, KIND).pointer(0, "u8")
    largest = 2**64 - 1
    old = domain.fetch_add(word, largest).result()
    team.barrier()
    assert old in [(-count) % 2**64 for count in range(team.size)]
    assert domain.load(word).result() == (-team.size) % 2**64
    team.barrier()
    team.free()


def check_atomic_operations_in_callbacks():
    """They may start there, and continue; waiting for what the owner does is an error."""
    domain = gw.AtomicDomain("i8", ["fetch_add", "load"], world)
    word = gw.Segment(world, 8, KIND).pointer(RIGHT, "i8")

    near = word.segment.on_device(RIGHT)
    alone = near is not None and near.atomic

    def wait_here(_):
        future = domain.fetch_add(word, 1)
        return str(future.result()) if alone else raises(gw.ProgressError, future.wait)

    said = domain.fetch_add(word, 1).then(wait_here).result()
    assert said == "1" if alone else "inside a callback" in said
    chained = domain.load(word).then(lambda _: domain.fetch_add(word, 1)).then(lambda _: domain.load(word)).result()
    assert chained == 3
    world.barrier()


def check_atomic_operations_that_are_not_possible():
    domain = gw.AtomicDomain("i8", ["fetch_add"], world)
    segment = gw.Segment(world, 64, KIND)
    word = segment.pointer(RIGHT, "i8")
    assert "no aligned word" in raises(UsageError, domain.fetch_add, gw.array_at(word, (8,)).pointer + 8, 1)
    assert "no aligned word" in raises(UsageError, domain.fetch_add, (word.cast("u1") + 4).cast("i8"), 1)
    assert "leaves" in raises(UsageError, domain.batch, "fetch_add", word, [0, 8]) or RANKS
    assert "cast it" in raises(UsageError, domain.fetch_add, word.cast("f8"), 1)
    assert "does not fit" in raises(UsageError, domain.fetch_add, word, 2**63)
    assert "host memory only" in raises(KernelError, draw, domain, word)
    world.barrier()
    segment.close()
    world.barrier()
    assert "was closed" in raises(UsageError, domain.fetch_add, word, 1)


@gw.jit
def draw(domain, counter):
    return domain.fetch_add(counter, 1)


def check_an_owner_that_has_closed_the_segment_is_said():
    if RANKS == 1:
        return
    domain = gw.AtomicDomain("i8", ["fetch_add"], world)
    segment = gw.Segment(world, 64, KIND)
    word = segment.pointer(0, "i8")
    world.barrier()
    if ME == 0:
        segment.close()
    world.barrier()
    if ME:
        assert "closed" in raises(UsageError, domain.fetch_add(word, 1).result)
    world.barrier()


def check_atomic_operations_come_after_kernels_of_the_owner():
    if not CUDA:
        return
    domain = gw.AtomicDomain("f8", ["fetch_add", "load"], world)
    block = gw.array_at(gw.Segment(world, 2_400_000, KIND).pointer(dtype=float), (300_000,))
    for step in range(3):
        block.fill(float(step))  # does not wait
        assert domain.fetch_add(block.pointer, 0.5).result() == step
        assert block[:3].copy().numpy().tolist() == [step + 0.5, step, step]
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
