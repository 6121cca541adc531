"""Remote calls, distributed objects and quiescence, each check by all ranks. Prints one JSON line per check."""

from __future__ import annotations

import asyncio
import functools
import resource
import threading
import time
from collections import Counter

import numpy as np
from checks import raised, raises, run_checks
from odd_errors import DefiantError, FrozenError, OddError, OwnError

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import RemoteError, world

RANKS = range(world.size)
NEXT = (world.rank + 1) % world.size
arrived: list[object] = []


class Explosive:
    """What raises where it is unpickled."""

    def __reduce__(self):
        return throw, (OwnError("as it is loaded"),)


class Shelf:
    """Something whose methods are called remotely."""

    content: list[int] = []  # noqa: RUF012

    @staticmethod
    def put(value: int) -> int:
        Shelf.content.append(value)
        return world.rank

    @classmethod
    def name(cls) -> str:
        return cls.__name__


def where(*args, **kwargs):
    return world.rank, args, kwargs


def fail(text):
    raise ValueError(text)


def throw(error):
    raise error


def throw_new(kind):
    raise kind(7)


def fail_oddly():
    raise OddError("one", "two")


def record(*values):
    arrived.append(values)


def settled():
    """Let the ranks come to rest; return what has arrived here and forget it."""
    gw.quiesce(world)
    found = list(arrived)
    arrived.clear()
    world.barrier()
    return found


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check_results_arguments_and_keywords():
    for rank in RANKS:
        assert gw.rpc(rank, where).result() == (rank, (), {})
        assert gw.rpc(rank, where, 1, "two", three=[3]).result() == (rank, (1, "two"), {"three": [3]})
    futures = [gw.rpc(rank, where, number) for number in range(50) for rank in RANKS]
    expected = [(rank, (number,), {}) for number in range(50) for rank in RANKS]
    assert list(gw.when_all(*futures).result()) == expected


def check_functions_of_all_kinds():
    captured = world.rank + 10
    assert gw.rpc(NEXT, lambda value: (world.rank, value + captured), 5).result() == (NEXT, captured + 5)
    assert gw.rpc(NEXT, functools.partial(divmod, 17), 5).result() == (3, 2)
    assert gw.rpc(NEXT, max, [3, 9, 2]).result() == 9
    assert gw.rpc(NEXT, np.add, 1, 2).result() == 3
    assert gw.rpc(NEXT, "a,b".split, ",").result() == ["a", "b"]
    assert gw.rpc(NEXT, Shelf.put, 7).result() == NEXT
    assert gw.rpc(NEXT, Shelf.name).result() == "Shelf"
    world.barrier()
    assert Shelf.content.pop() == 7

    def local(depth):
        return world.rank if depth == 0 else gw.rpc((world.rank + 1) % world.size, local, depth - 1)

    assert gw.rpc(NEXT, local, 5).result() == (NEXT + 5) % world.size


def check_calls_of_all_forms_mix():
    futures = {}
    for number in range(100):
        for rank in RANKS:
            gw.rpc_ff(rank, record, world.rank, number)
            gw.rpc_ff(rank, record, world.rank, [number])
            futures[rank, number] = gw.rpc(rank, pow, number, 3), gw.rpc(rank, where, number)
    for (rank, number), (cube, place) in futures.items():
        assert cube.result() == number**3
        assert place.result() == (rank, (number,), {})
    found = settled()
    expected = [(rank, form) for rank in RANKS for number in range(100) for form in (number, [number])]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def check_calls_never_run_at_once():
    gw.rpc_ff(world.rank, record, "self")
    assert arrived == []
    future = gw.rpc(world.rank, where)
    assert not future.done()
    assert future.result()[0] == world.rank
    assert settled() == [("self",)]


def check_errors_come_back():
    error = raised(ValueError, gw.rpc(NEXT, fail, "nothing works").result)
    assert str(error) == "nothing works"
    assert f"rank {NEXT}" in error.__notes__[0]
    assert "in fail" in error.__notes__[0]
    odd = raised(RemoteError, gw.rpc(NEXT, fail_oddly).result)
    assert "OddError" in str(odd)
    assert "int()" in raises(TypeError, gw.rpc(NEXT, where, 1).then(lambda _: int([])).result)
    for error in (asyncio.CancelledError("c"), GeneratorExit("g"), OwnError("o")):
        for call in (gw.rpc(NEXT, throw, error), gw.rpc(NEXT, where).then(lambda _, error=error: throw(error))):
            found = call.exception()
            assert type(found) is type(error)
            assert found.args == error.args
    assert str(gw.rpc(NEXT, Explosive).exception()) == "as it is loaded"
    assert str(gw.rpc(NEXT, where, Explosive()).exception()) == "as it is loaded"
    for error in (FrozenError(7), DefiantError("mine")):
        assert type(error).__name__ in str(raised(RemoteError, gw.rpc(NEXT, throw_new, type(error)).result))
    unpicklable = raised(TypeError, gw.rpc(NEXT, threading.Lock).result)
    assert "pickle" in str(unpicklable)
    assert "pickle" in raises(TypeError, gw.rpc, NEXT, where, threading.Lock())
    assert f"0 to {world.size - 1}" in raises(UsageError, gw.rpc, world.size, where)
    assert f"0 to {world.size - 1}" in raises(UsageError, gw.rpc_ff, -1, where)


def check_a_function_that_is_not_everywhere():
    world.barrier()
    if world.rank == 0:
        exec("def only_here():\n    return 1", globals())
        for rank in RANKS[1:]:
            error = raised(UsageError, gw.rpc(rank, globals()["only_here"]).result)
            assert f"rank {rank} has no 'only_here'" in str(error)
        del globals()["only_here"]
    world.barrier()


def check_arrays_travel_whole():
    for shape in [(), (3,), (1000,), (1024,), (5, 999), (300_000,), (2, 3, 70_001)]:
        sent = np.random.default_rng(world.rank).random(shape)
        got = gw.rpc(NEXT, np.multiply, sent, 2.0).result()
        assert np.array_equal(got, 2 * sent), shape
    sent = np.asfortranarray(np.random.default_rng(1).random((300, 500)))
    got = gw.rpc(NEXT, np.transpose, sent).result()
    assert np.array_equal(got, sent.T)
    strided = np.arange(100_000)[::3]
    assert gw.rpc(NEXT, np.sum, strided).result() == strided.sum()
    many = [np.full(9000, i, np.uint8) for i in range(50)]
    assert gw.rpc(NEXT, lambda arrays: [int(a.sum()) for a in arrays], many).result() == [9000 * i for i in range(50)]

    def change(array):
        array += 1
        return array.sum()

    assert gw.rpc(NEXT, change, np.zeros(100_000)).result() == 100_000


def check_arguments_may_change_when_the_call_returns():
    array = np.zeros(200_000)
    for number in range(20):
        array[:] = number
        gw.rpc_ff(NEXT, lambda a: record(float(a.min()), float(a.max())), array)
    array[:] = -1
    assert sorted(settled()) == [(float(n), float(n)) for n in range(20)]


def check_futures_returned_and_chained():
    promise = gw.DistObject(gw.Promise(), world)

    def later(here):
        return here.value.future

    answer = gw.rpc(NEXT, later, promise)
    assert not answer.done()
    world.barrier()
    promise.value.set_result(world.rank * 11)
    assert answer.result() == NEXT * 11
    chained = gw.rpc(NEXT, where).then(lambda found: gw.rpc((found[0] + 1) % world.size, where))
    assert chained.result()[0] == (NEXT + 1) % world.size
    failed = gw.rpc(NEXT, fail, "early").then(lambda _: "never")
    assert raises(ValueError, failed.result) == "early"
    world.barrier()


def check_callbacks_send_but_do_not_wait():
    def relay(hops):
        assert gw.in_callback()
        if hops:
            gw.rpc_ff((world.rank + 1) % world.size, relay, hops - 1)
        else:
            record("end")

    assert not gw.in_callback()
    gw.rpc_ff(NEXT, relay, 3 * world.size)
    assert settled() == [("end",)]

    def wait_here():
        gw.rpc((world.rank + 1) % world.size, where).result()

    error = raised(gw.ProgressError, gw.rpc(NEXT, wait_here).result)
    assert "callback" in str(error)
    assert "return a future" in str(error)
    raises(gw.ProgressError, gw.rpc(NEXT, world.barrier).result)
    gw.quiesce(world)


def check_third_parties():
    third = (world.rank + 2) % world.size

    def ask(rank, value):
        return gw.rpc(rank, where, value)

    assert gw.rpc(NEXT, ask, third, 5).result() == (third, (5,), {})
    assert gw.rpc(NEXT, lambda: ask(world.rank, 1)).result()[0] == NEXT
    world.barrier()


def check_one_way_flood_of_large_calls():
    """Fewer calls than in the test of 10^5, on any number of ranks and between nodes."""
    before = peak()
    count, data = 1000, np.zeros(2**16, np.uint8)
    if world.rank == world.size - 1:
        for number in range(count):
            data[:] = number % 251
            gw.rpc_ff(0, lambda a, n: record(n, bool((a == n % 251).all())), data, number)
    found = settled()
    assert peak() - before < 64e6, peak() - before
    if world.rank == 0:
        assert sorted(found) == [(number, True) for number in range(count)]


def check_flood_of_everybody_to_everybody():
    before = peak()
    sizes = [10, 1000, 5000, 70_000, 300_000]
    total = Counter()
    gw.rpc(NEXT, where).result()
    for number in range(60):
        for rank in RANKS:
            size = sizes[(number + rank) % len(sizes)]
            gw.rpc_ff(rank, lambda text, source: record(source, len(text)), "x" * size, world.rank)
    for source in RANKS:
        for number in range(60):
            total[source, sizes[(number + world.rank) % len(sizes)]] += 1
    assert Counter(settled()) == total
    assert peak() - before < 64e6, peak() - before


def check_flood_of_large_replies():
    before = peak()
    futures = []
    checked = 0
    for number in range(300):
        futures.append(gw.rpc(NEXT, np.full, 50_000, number % 250, np.uint8))
        if len(futures) == 20:
            for future in futures:
                assert future.result()[-1] == checked % 250
                checked += 1
            futures.clear()
    gw.quiesce(world)
    assert peak() - before < 64e6, peak() - before


def check_a_flood_out_of_callbacks_arrives():
    def burst(source):
        for number in range(200):
            gw.rpc_ff(source, record, number, b"x" * 3000)

    gw.rpc_ff(NEXT, burst, world.rank)
    assert sorted(number for number, _ in settled()) == list(range(200))
    gw.discharge()


def check_try_refuses_instead_of_stalling():
    world.barrier()
    world.comm.Barrier()  # MPI's own, which serves nobody: rank 0 has left the one before
    last = world.size - 1
    if world.rank == last:
        sent = 0
        while gw.try_rpc_ff(0, record, "flood", b"x" * 1000):
            sent += 1
        assert gw.try_rpc(0, where, b"x" * 1000) is None
        assert 20 < sent < 20_000
        assert not gw.try_rpc_ff(0, where, np.zeros(1_000_000))
        world.comm.Barrier()
        future = None
        while future is None:
            future = gw.try_rpc(0, where)
            gw.progress()
        assert future.result()[0] == 0
        while not gw.try_rpc_ff(0, record, np.zeros(1_000_000)):  # longer than any ring
            gw.progress()
        gw.discharge()
        found = settled()
        sent += 1
    else:
        world.comm.Barrier()
        found = settled()
    total = world.bcast(sent if world.rank == last else None, last)
    assert len(found) == (total if world.rank == 0 else 0)


def check_unbalanced_tree():
    """A tree search whose branches go to other ranks: only quiescence knows when it is over."""
    visited = gw.DistObject([0], world)

    def visit(here, seed, depth):
        here.value[0] += 1
        for child in children(seed, depth):
            gw.rpc_ff(child % world.size, visit, here, child, depth + 1)

    def children(seed, depth):
        rng = np.random.default_rng(seed)
        return [int(child) for child in rng.integers(0, 2**31, int(rng.integers(0, 4)) if depth < 9 else 0)]

    def count(seed, depth):
        return 1 + sum(count(child, depth + 1) for child in children(seed, depth))

    roots = [100 * world.rank + 7, 100 * world.rank + 8]
    for root in roots:
        gw.rpc_ff(NEXT, visit, visited, root, 0)
    gw.quiesce(world)
    expected = sum(count(root, 0) for root in roots)
    assert world.allreduce(visited.value[0]) == world.allreduce(expected)


def check_quiescence_waits_for_replies_and_what_they_start():
    def slow():
        time.sleep(0.02)

    gw.rpc(NEXT, slow).then(lambda _: gw.rpc_ff(NEXT, record, "after the reply"))
    assert settled() == [("after the reply",)]


def check_dist_objects():
    count = gw.DistObject({"rank": world.rank}, world)
    for rank in RANKS:
        assert count.fetch(rank).result() == {"rank": rank}
    assert gw.rpc(NEXT, lambda here: here.value["rank"], count).result() == NEXT
    assert gw.rpc(NEXT, lambda here: here, count).result() is count
    gw.quiesce(world)


def check_a_call_waits_for_its_object():
    if world.rank == 0:
        early = gw.DistObject("zero", world)
        futures = [gw.rpc(rank, lambda here: here.value, early) for rank in RANKS[1:]]
        time.sleep(0.1)
        fetched = [early.fetch(rank) for rank in RANKS[1:]]
        assert [future.result() for future in futures] == [f"object of {rank}" for rank in RANKS[1:]]
        assert [future.result() for future in fetched] == [f"object of {rank}" for rank in RANKS[1:]]
    else:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            gw.progress()
        early = gw.DistObject(f"object of {world.rank}", world)
    gw.quiesce(world)
    assert early.value


def check_an_object_that_was_let_go():
    gone = gw.DistObject(1, world)
    world.barrier()
    if world.rank == world.size - 1:
        del gone
        world.barrier()
    else:
        world.barrier()
        error = raised(UsageError, gone.fetch(world.size - 1).result)
        assert "has deleted" in str(error)
    gw.quiesce(world)


def check_timeouts_and_late_results():
    held = gw.DistObject(gw.Promise(), world)
    future = gw.rpc(NEXT, lambda here: here.value.future, held)
    began = time.monotonic()
    error = raised(TimeoutError, future.result, timeout=0.05)
    assert "lambda" in str(error)
    assert f"rank {NEXT}" in str(error)
    assert 0.04 < time.monotonic() - began < 5
    world.barrier()
    held.value.set_result("late")
    assert future.result(timeout=10) == "late"
    gw.quiesce(world)


def check_asyncio():
    async def ask():
        found = await asyncio.gather(*[_await(gw.rpc(rank, where, rank)) for rank in RANKS])
        assert [rank for rank, _, _ in found] == list(RANKS)
        return await gw.rpc(NEXT, where)

    async def _await(future):
        return await future

    assert asyncio.run(ask())[0] == NEXT
    world.barrier()


def check_ranks_of_split_teams():
    odd = world.rank % 2
    team = world.split(odd, -world.rank)
    everybody = [rank for rank in reversed(RANKS) if rank % 2 == odd]
    for place, rank in enumerate(everybody):
        assert gw.rpc(place, where, team=team).result()[0] == rank
    mine = gw.DistObject(world.rank, team)
    assert [mine.fetch(place).result() for place in range(team.size)] == everybody
    gw.rpc_ff((team.rank + 1) % team.size, record, world.rank, team=team)
    gw.quiesce(team)
    assert arrived == [(everybody[team.rank - 1],)]
    assert str(team.size - 1) in raises(UsageError, gw.rpc, team.size, where, team=team)
    assert settled()


def check_a_thread_may_make_progress():
    """While the other ranks sleep, their threads serve."""
    finished = gw.DistObject(threading.Event(), world)
    world.barrier()
    with gw.progress_thread():
        if world.rank == 0:
            for rank in RANKS[1:]:
                name, end = "", time.monotonic() + 20
                while name != "gondwana-progress" and time.monotonic() < end:  # at first perhaps still in the barrier
                    name = gw.rpc(rank, lambda: threading.current_thread().name).result()
                assert name == "gondwana-progress"
                gw.rpc(rank, lambda here: here.value.set(), finished).result()
        else:
            assert finished.value.wait(30)
    world.barrier()


def check_floods_by_several_threads():
    def flood(number):
        for index in range(200):
            gw.rpc_ff(NEXT, record, number, index, b"x" * (20 * index))

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        gw.progress()
    found = settled()
    assert Counter((number, index) for number, index, _ in found) == Counter(
        (number, index) for number in range(3) for index in range(200)
    )
    assert all(len(text) == 20 * index for _, index, text in found)


if __name__ == "__main__":
    run_checks(globals())
