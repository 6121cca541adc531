"""Active messages from Python and from compiled code, each check by all ranks. Prints one JSON line per check."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from checks import raised, raises, run_checks

import gondwana as gw
from gondwana.errors import GondwanaError, KernelError, UsageError
from gondwana.teams import world

RANKS = range(world.size)
NEXT = (world.rank + 1) % world.size
LAST = (world.rank - 1) % world.size
NEAR = world.node.size == world.size

numbers = np.zeros(8, np.int64)
floats = np.zeros(4)
answers = np.zeros(3, np.int64)


def on_answer(source, answers, value):
    answers[0] += 1
    answers[1] += value
    answers[2] = source


def on_question(source, answer, value):
    answer.reply(source, 2 * value + 1)


def on_add(source, numbers, index, value):
    numbers[index] += value
    numbers[7] += source


def on_mixture(source, floats, flag, small, wide, single, pair):
    floats[0] += small + wide
    floats[1] += single
    floats[2] += pair.imag
    if flag:
        floats[3] += 1


def on_nothing(source, numbers):
    numbers[0] += 1


@gw.jit
def on_many(source, numbers, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q):
    numbers[1] += a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h
    numbers[2] += 9 * i + 10 * j + 11 * k + 12 * m + 13 * n + 14 * o + 15 * p + 16 * q
    numbers[3] += 1


def on_bad(source, numbers, value):
    if value > 3:
        raise ValueError("more than three")
    numbers[0] += value


def on_two_answers(source, answer, value):
    answer.reply(source, value)
    answer.reply(source, value)


adding = gw.ActiveMessage(on_add, ("i8", "i8"), (numbers,))
answer = gw.ActiveMessage(on_answer, ("i8",), (answers,))
question = gw.ActiveMessage(on_question, ("i8",), (answer,))
nothing = gw.ActiveMessage(on_nothing, (), (numbers,))
many = gw.ActiveMessage(on_many, ("i8",) * 16, (numbers,))
mixture = gw.ActiveMessage(on_mixture, ("?", "i2", "u8", "f4", "c16"), (floats,))


@gw.jit
def add_many(adding, rank, n):
    for value in range(n):
        adding.send(rank, value % 3, value)


@gw.jit
def ask(question, answers, rank, n):
    for value in range(n):
        wanted = answers[0] + 1
        question.send(rank, value)
        while answers[0] < wanted:
            gw.progress()


@gw.jit
def serve_until(numbers, index, n):
    while numbers[index] < n:
        gw.progress()


@gw.jit
def inject(threads, adding, slots, counter, adders, arrived, peer, n):
    """Put, add, signal and send from every thread of a rank."""
    first = threads.index * n
    for step in range(n):
        gw.put(1 + first + step, slots.on(peer) + first + step)
        adders.fetch_add(counter.on(peer), 1)
        gw.signal(arrived, peer)
        adding.send(peer, threads.index % 3, step)


def clear():
    gw.quiesce(world)
    world.barrier()
    numbers[:] = floats[:] = answers[:] = 0
    world.barrier()


def check_sending_from_python():
    clear()
    for value in range(300):
        for rank in RANKS:
            adding.send(rank, value % 3, value)
    gw.quiesce(world)
    expected = [world.size * sum(range(first, 300, 3)) for first in range(3)]
    assert numbers[:3].tolist() == expected
    assert numbers[7] == 300 * sum(RANKS)


def check_all_sorts_of_numbers():
    clear()
    mixture.send(NEXT, True, -3, 2**40, 0.5, 1 + 2.5j)
    mixture.send(NEXT, False, 4, 1, 0.25, 1j)
    nothing.send(NEXT)
    many.send(NEXT, *range(16))
    gw.quiesce(world)
    assert floats.tolist() == [2**40 + 2, 0.75, 3.5, 1.0]
    assert numbers[0] == 1
    assert numbers[1] + numbers[2] == sum((place + 1) * place for place in range(16))


def check_replies():
    clear()
    for value in range(100):
        question.send(NEXT, value)
    gw.quiesce(world)
    assert answers.tolist() == [100, sum(2 * value + 1 for value in range(100)), NEXT]


def check_checksums_at_depth():
    """Many messages of the greatest length in flight, in both directions."""
    clear()
    rng = np.random.default_rng(world.rank)
    sent = rng.integers(-(2**40), 2**40, (2000, 16))
    for row in sent.tolist():
        many.send(NEXT, *row)
    gw.quiesce(world)
    received = np.random.default_rng(LAST).integers(-(2**40), 2**40, (2000, 16))
    weights = np.arange(1, 17)
    assert numbers[1] == (received * weights)[:, :8].sum()
    assert numbers[2] == (received * weights)[:, 8:].sum()
    assert numbers[3] == 2000


def check_flood_from_compiled_code():
    clear()
    add_many(adding, NEXT, 50_000)  # all at once, in a circle: each serves while there is no room
    gw.quiesce(world)
    assert numbers[:3].tolist() == [sum(range(first, 50_000, 3)) for first in range(3)]
    assert numbers[7] == 50_000 * LAST


def injected(threads, n):
    """Where threads of the rank before put numbers, count, and signal."""
    segment = gw.Segment(world, 8 * (threads * n + 1))
    held, slots = segment.view(world.rank).view("i8"), segment.pointer(dtype="i8")
    return held, slots, slots + threads * n, gw.AtomicDomain("i8", ["fetch_add"], world), gw.Signal(world)


def check_threads_of_compiled_code_that_put_add_signal_and_send():
    for threads in (2, 4):
        n = 1000 // threads
        held, slots, counter, adders, arrived = injected(threads, n)
        clear()
        gw.parallel(inject, adding, slots, counter, adders, arrived, NEXT, n, threads=threads)
        arrived.wait(threads * n)
        gw.quiesce(world)
        world.barrier()
        assert held.tolist() == [*range(1, threads * n + 1), threads * n]
        assert not arrived.ready()
        assert numbers[:3].sum() == threads * sum(range(n))
        assert numbers[7] == threads * n * LAST


def check_threads_of_python_that_put_add_signal_send_and_call():
    size, n = 3, 30 if NEAR else 3
    held, slots, counter, adders, arrived = injected(size, n)
    called = gw.DistObject([], world)
    clear()

    def run(index):
        first = index * n
        for step in range(n):
            gw.put(1 + first + step, slots.on(NEXT) + first + step).wait()
            adders.fetch_add(counter.on(NEXT), 1).result()
            arrived.add(NEXT)
            adding.send(NEXT, index, step)
            gw.rpc_ff(NEXT, lambda here, value: here.value.append(value), called, first + step)

    with ThreadPoolExecutor(size) as pool:
        for future in [pool.submit(run, index) for index in range(size)]:
            future.result()
    arrived.wait(size * n)
    gw.quiesce(world)
    world.barrier()
    assert held.tolist() == [*range(1, size * n + 1), size * n]
    assert not arrived.ready()
    assert numbers[:3].tolist() == size * [sum(range(n))]
    assert sorted(called.value) == list(range(size * n))


def check_round_trips_in_compiled_code():
    clear()
    for rank in RANKS:
        if world.rank == rank:
            ask(question, answers, (rank + 1) % world.size, 40)
            assert answers.tolist() == [40, 40 * 40, NEXT]
            for other in RANKS:
                nothing.send(other)
        serve_until(numbers, 0, rank + 1)
    clear()


def check_a_compiled_spin_loses_no_calls():
    clear()
    arrived = gw.DistObject([], world)
    gw.rpc_ff(NEXT, lambda here, rank: here.value.append(rank), arrived, world.rank)
    nothing.send(NEXT)
    serve_until(numbers, 0, 1)
    assert arrived.value == []
    gw.quiesce(world)
    assert arrived.value == [LAST]


def check_sending_in_a_callback():
    clear()

    def burst(target):
        for value in range(3000):
            adding.send(target, 0, value)

    gw.rpc(NEXT, burst, world.rank).result()
    gw.quiesce(world)
    assert numbers[0] == sum(range(3000))


def check_handlers_that_fail():
    bad = gw.ActiveMessage(on_bad, ("i8",), (numbers,))
    twice = gw.ActiveMessage(on_two_answers, ("i8",), (answer,))
    clear()
    bad.send(world.rank, 2)
    gw.quiesce(world)
    assert numbers[0] == 2
    bad.send(world.rank, 5)
    assert "more than three" in raises(ValueError, gw.quiesce, world)
    gw.quiesce(world)
    twice.send(world.rank, 1)
    assert "once" in raises(RuntimeError, gw.quiesce, world)
    gw.quiesce(world)
    assert answers[0] == 1
    bad.send(world.rank, 6)
    assert "gw.progress() in Python" in raises(RuntimeError, serve_until, numbers, 1, 1)
    assert "more than three" in raises(ValueError, gw.quiesce, world)
    gw.quiesce(world)


def progress_for_ever():
    while True:
        gw.progress()


def check_a_handler_that_fails_for_another_rank():
    bad = gw.ActiveMessage(on_bad, ("i8",), (numbers,))
    clear()
    if world.size > 1:
        world.comm.Barrier()  # MPI's own: nobody runs handlers in it, which would fail there
    bad.send(NEXT, 1)
    bad.send(NEXT, 9)
    bad.send(NEXT, 3)
    assert "more than three" in raises(ValueError, progress_for_ever)
    gw.quiesce(world)  # those behind it are handled
    assert numbers[0] == 4
    bad.send(world.rank, 6)
    assert "gw.progress() in Python" in raises(RuntimeError, add_many, adding, world.rank, 50_000)
    assert "more than three" in raises(ValueError, gw.quiesce, world)
    gw.quiesce(world)


def in_a_copy(check):
    """Run a check in a copy of this rank and return the exit status of the copy."""
    child = os.fork()
    if child == 0:
        try:
            check()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sending_is_refused():
    assert "copy of a rank" in raises(GondwanaError, adding.send, NEXT, 0, 1)
    assert "MPI failed" in raises(RuntimeError, add_many, adding, NEXT, 1)


def check_a_copy_of_a_rank_sends_nothing_to_other_nodes():
    clear()
    if world.node_of(NEXT) != world.node_of(world.rank):
        assert in_a_copy(sending_is_refused) == 0
    adding.send(NEXT, 0, 5)
    gw.quiesce(world)
    assert numbers[0] == 5


def check_what_is_refused():
    assert "2 numbers, not 1" in raises(UsageError, adding.send, 0, 1)
    assert "int64" in raises(UsageError, adding.send, 0, 1, 0.5)
    assert f"0 to {world.size - 1}" in raises(UsageError, adding.send, world.size, 1, 1)
    assert "compiled handler" in raises(UsageError, answer.reply, 0, 1)
    assert "at most 128" in raises(UsageError, gw.ActiveMessage, on_nothing, ("c16",) * 9)
    assert "3 parameters" in raises(UsageError, gw.ActiveMessage, on_question, ("i8",))
    assert "inside a tuple" in raises(UsageError, gw.ActiveMessage, on_question, ("i8",), ((answer,),))

    def sends(source, message, value):
        message.send(source, value)

    assert "send" in raises(KernelError, gw.ActiveMessage, sends, ("i8",), (answer,))


def check_teams():
    odd = world.rank % 2
    team = world.split(odd, -world.rank)
    seen = np.zeros(1, np.int64)

    def on_mark(source, seen, value):
        seen[0] += 100 * source + value

    mark = gw.ActiveMessage(on_mark, ("i8",), (seen,), team)
    mark.send((team.rank + 1) % team.size, team.rank)
    gw.quiesce(team)
    expected = (team.rank - 1) % team.size
    assert seen[0] == 101 * expected
    world.barrier()


# -- payloads ----------------------------------------------------------------------------------------------------


def on_samples(source, digests, counts, number, samples):
    """Fold the number and the samples into one digest for each source, which depends on the order of all of them."""
    digest = np.int64(number)
    for place in range(len(samples)):
        digest += (place + 1) * samples[place]
    digests[source] = 31 * digests[source] + digest
    counts[0] += 1


def on_echo(source, digests, counts, back, number, samples):
    digest = np.int64(number)
    for place in range(len(samples)):
        digest += (place + 1) * samples[place]
        samples[place] = -samples[place]
    digests[source] = 31 * digests[source] + digest
    counts[0] += 1
    back.reply(source, number + 1, samples)


digests, echoes = np.zeros(world.size, np.int64), np.zeros(world.size, np.int64)
arrived, returned = np.zeros(1, np.int64), np.zeros(1, np.int64)
sampling = gw.ActiveMessage(on_samples, ("i8",), (digests, arrived), payload="i8")
echo_back = gw.ActiveMessage(on_samples, ("i8",), (echoes, returned), payload="i8")
echoing = gw.ActiveMessage(on_echo, ("i8",), (digests, arrived, echo_back), payload="i8")
MOST = sampling.max_payload


@gw.jit
def send_samples(message, targets, numbers, lengths, data, buffer):
    """Send consecutive parts of the data, all from one buffer."""
    first = 0
    for step in range(len(targets)):
        length = lengths[step]
        for place in range(length):
            buffer[place] = data[first + place]
        message.send(targets[step], numbers[step], buffer[:length])
        buffer[:length] = -1  # it may change now
        first += length


def plan(rank, size, messages):
    """What a rank sends, always the same: targets, numbers, lengths, data."""
    rng = np.random.default_rng([7, rank, messages])
    kinds = rng.integers(0, 4, messages)
    lengths = np.where(kinds == 0, 0, np.where(kinds == 3, MOST, rng.integers(0, 40, messages)))
    data = rng.integers(-(2**60), 2**60, lengths.sum())
    return rng.integers(0, size, messages), rng.integers(-(2**60), 2**60, messages), lengths, data


def parts(rank, messages):
    targets, numbers, lengths, data = plan(rank, world.size, messages)
    return zip(targets.tolist(), numbers.tolist(), np.split(data, np.cumsum(lengths)[:-1]), strict=True)


def digest_of(messages):
    """The digest of (number, samples), in order; 64-bit integers that wrap, as in the handler."""
    digest = np.int64(0)
    with np.errstate(over="ignore"):
        for number, samples in messages:
            one = np.int64(number) + (np.arange(1, len(samples) + 1) * samples).sum()
            digest = np.int64(31) * digest + one
    return int(digest)


def expected_digests(messages):
    return [
        digest_of([(number, part) for target, number, part in parts(source, messages) if target == world.rank])
        for source in RANKS
    ]


def expected_echoes(messages):
    """Of what comes back, from each rank."""
    mine = list(parts(world.rank, messages))
    return [digest_of([(number + 1, -part) for target, number, part in mine if target == rank]) for rank in RANKS]


def forget():
    gw.quiesce(world)
    world.barrier()
    digests[:] = echoes[:] = arrived[:] = returned[:] = 0
    world.barrier()


def sent_to_here(messages):
    return sum(target == world.rank for source in RANKS for target, _, _ in parts(source, messages))


def check_payloads_from_python():
    forget()
    n, buffer = 150, np.zeros(MOST, np.int64)
    for target, number, part in parts(world.rank, n):
        buffer[: len(part)] = part
        sampling.send(target, number, buffer[: len(part)])
        buffer[:] = -1
    gw.quiesce(world)
    assert digests.tolist() == expected_digests(n)
    assert arrived[0] == sent_to_here(n)


def check_payloads_from_compiled_code():
    forget()
    n = 400
    send_samples(sampling, *plan(world.rank, world.size, n), np.zeros(MOST, np.int64))
    gw.quiesce(world)
    assert digests.tolist() == expected_digests(n)
    assert arrived[0] == sent_to_here(n)


def check_replies_with_payloads():
    for n, compiled in ((60, False), (300, True)):
        forget()
        if compiled:
            send_samples(echoing, *plan(world.rank, world.size, n), np.zeros(MOST, np.int64))
        else:
            for target, number, part in parts(world.rank, n):
                echoing.send(target, number, part)
        gw.quiesce(world)
        assert digests.tolist() == expected_digests(n)
        assert echoes.tolist() == expected_echoes(n)
        assert returned[0] == n


def check_the_longest_payloads_in_a_circle():
    """Each rank sends more than all rings hold, and gets as much back, before anybody waits."""
    forget()
    n, data = 100, np.arange(MOST)
    for number in range(n):
        echoing.send(NEXT, number, data)
    gw.quiesce(world)
    assert digests[LAST] == digest_of([(number, data) for number in range(n)])
    assert echoes[NEXT] == digest_of([(number + 1, -data) for number in range(n)])


@gw.jit
def send_then_wait(message, rank, data, n, signal, arrived):
    """Leave messages on the way, wait for something else, and run the handlers last."""
    for number in range(n):
        message.send(rank, number, data)
    gw.signal(signal, rank)
    gw.wait(signal)
    while arrived[0] < n:
        gw.progress()


def check_what_could_not_leave_at_once_leaves_during_a_wait():
    forget()
    signal, data = gw.Signal(world), np.arange(MOST // 4)
    n = 1 if NEAR else 6  # not more than what fits a ring: nobody runs handlers before the signal is there
    send_then_wait(sampling, NEXT, data, n, signal, arrived)
    assert digests[LAST] == digest_of([(number, data) for number in range(n)])
    gw.quiesce(world)


def check_payloads_of_all_sorts():
    forget()
    pair = np.dtype([("x", "f4"), ("n", "i8")], align=True)
    found, halves = np.zeros(4), np.zeros(2, bool)
    order = np.zeros(6)

    def on_pairs(source, found, pairs):
        for place in range(len(pairs)):
            found[0] += pairs[place].x * pairs[place].n

    def on_complex(source, found, order, flag, z, values):
        if flag:
            for value in values:
                found[1] += (z * value).imag
        else:
            order[:] = values.real

    def on_flags(source, found, halves, flags):
        found[2] += len(flags)
        halves[:] = flags[:2]

    of_pairs = gw.ActiveMessage(on_pairs, context=(found,), payload=pair)
    of_complex = gw.ActiveMessage(on_complex, ("?", "c16"), (found, order), payload="c8")
    of_flags = gw.ActiveMessage(on_flags, context=(found, halves), payload=bool)
    assert of_pairs.max_payload == (sampling.max_payload * 8 + 8) // 16
    assert of_flags.max_payload == sampling.max_payload * 8 + 8
    of_pairs.send(NEXT, np.array([(0.5, 6), (2.0, 3)], pair))
    of_complex.send(NEXT, True, 2j, np.array([1, 2, 3 + 1j], np.complex64))
    of_complex.send(NEXT, False, 1j, np.array(np.arange(6).reshape(2, 3), np.complex64, order="F"))
    of_flags.send(NEXT, np.arange(of_flags.max_payload) % 3 == 1)
    gw.quiesce(world)
    assert found.tolist() == [9.0, 12.0, of_flags.max_payload, 0.0]
    assert halves.tolist() == [False, True]
    assert order.tolist() == [0, 1, 2, 3, 4, 5]


@gw.jit
def send_one(message, rank, number, data):
    message.send(rank, number, data)


@gw.jit
def longest(message):
    return message.max_payload


def check_payloads_that_are_refused():
    forget()
    team = world.split(world.rank)
    alone = gw.ActiveMessage(on_samples, ("i8",), (digests, arrived), team, payload="i8")
    bytes_of_all = (MOST + 1) * 8  # with the number
    assert bytes_of_all // 1024 == 31
    assert (alone.max_payload + 1) * 8 // 1024 == 31  # whatever the other teams are
    assert (longest(sampling), longest(alone), adding.max_payload) == (MOST, alone.max_payload, 0)
    long, line = np.zeros(MOST + 1, np.int64), np.zeros(4, np.int64)
    assert f"at most {MOST} fit" in raises(UsageError, sampling.send, NEXT, 1, long)
    assert "1 number and an array of int64, not 1 arguments" in raises(UsageError, sampling.send, NEXT, 1)
    assert "not contiguous" in raises(UsageError, sampling.send, NEXT, 1, line[::2])
    assert "elements of float64: give int64" in raises(UsageError, sampling.send, NEXT, 1, np.zeros(2))
    assert "is a list" in raises(UsageError, sampling.send, NEXT, 1, [1, 2])
    assert "2 numbers, not 3" in raises(UsageError, adding.send, NEXT, 1, 2, line)
    assert "longer than its max_payload" in raises(ValueError, send_one, sampling, NEXT, 1, long)
    assert "elements of float64: give int64" in raises(KernelError, send_one, sampling, NEXT, 1, np.zeros(2))
    assert "is int64" in raises(KernelError, send_one, sampling, NEXT, 1, 2)
    assert "not contiguous" in raises(KernelError, send_one, sampling, NEXT, 1, line[::2])
    with_array = raised(UsageError, gw.ActiveMessage, on_add, ("i8", "i8"), (numbers,), payload="i8")
    assert "2 arguments and an array of int64" in str(with_array)
    gw.quiesce(world)
    assert arrived[0] == 0
    send_one(sampling, world.rank, 5, line[:0])
    sampling.send(world.rank, 5, line)
    gw.quiesce(world)
    assert (arrived[0], digests[world.rank]) == (2, 31 * 5 + 5)
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
