"""Small programs with and without races, run one after the other in one job: `test_races.py` says which are which.

Functions named `wrong_...` have a race on two ranks and more, at least one of whose accesses is in the function itself;
`right_...` is the same program put in order. Each works on memory of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import gondwana as gw

world = gw.world
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
root, is_root = 0, world.rank == 0


kept: list[object] = []
"""What a program uses, until all ranks have run it."""


def memory() -> gw.Segment:
    """Return new memory of each rank."""
    segment = gw.Segment(world, 256)
    kept.append(segment)
    return segment


def there(segment: gw.Segment, rank: int = right) -> gw.GlobalPtr:
    """Return where the neighbour's first number is."""
    return segment.pointer(rank, float)


def look(segment: gw.Segment) -> None:
    """Read this rank's first number."""
    gw.get(segment.pointer(dtype=float)).result()


def field(shape: tuple[int, ...] = (12, 12)) -> gw.GlobalArray:
    """Return a new array with ghosts."""
    array = gw.zeros(shape, ghost=1, periodic=True)
    kept.append(array)
    return array


@gw.foreach
def smooth(p, out, a):
    out[p] = a[p + gw.X] + a[p - gw.X] + a[p + gw.Y] + a[p - gw.Y]


@gw.foreach
def advance(p, a):
    a[p] = a[p] + 1.0


@gw.foreach
def shift(p, a):
    a[p] = a[p + gw.X]


@gw.foreach
def scatter(p, a):
    a[p + gw.X] = a[p + gw.X] + 1.0
    a[p] = 1.0


@gw.reduce
def total(p, a):
    return a[p - gw.X] + a[p + gw.X]


# -- puts, gets, copies ----------------------------------------------------------------------------------------------


def wrong_put_not_waited_for():
    m = memory()
    put = gw.put(1.0, there(m))
    world.barrier()
    look(m)
    put.wait()


def right_put_waited_for():
    m = memory()
    gw.put(1.0, there(m)).wait()
    world.barrier()
    look(m)


def wrong_put_of_an_array_without_order():
    m = memory()
    gw.put(np.ones(4), there(m)).wait()
    look(m)


def right_put_of_an_array_with_a_barrier():
    m = memory()
    gw.put(np.ones(4), there(m)).wait()
    world.barrier()
    look(m)


def wrong_two_put_to_one_element():
    m = memory()
    gw.put(float(world.rank), there(m, root)).wait()


def right_two_put_to_two_elements():
    m = memory()
    gw.put(float(world.rank), there(m, root) + world.rank).wait()


def wrong_ranges_that_overlap():
    m = memory()
    gw.put(np.ones(4), there(m, root) + 3 * world.rank).wait()


def right_ranges_side_by_side():
    m = memory()
    gw.put(np.ones(4), there(m, root) + 4 * world.rank).wait()


def wrong_halves_of_a_word():
    m = memory()
    gw.put(np.ones(2, np.float32), m.pointer(root, np.float32) + world.rank).wait()


def right_halves_of_a_word():
    m = memory()
    gw.put(np.ones(1, np.float32), m.pointer(root, np.float32) + world.rank).wait()


def wrong_copy_between_others():
    m = memory()
    gw.put(1.0, m.pointer(dtype=float)).wait()
    gw.copy(there(m, left), there(m, right) + 1, 1).wait()


def right_copy_between_others():
    m = memory()
    gw.put(1.0, m.pointer(dtype=float)).wait()
    world.barrier()
    gw.copy(there(m, left), there(m, right) + 1, 1).wait()


def wrong_strides_that_meet():
    m = memory()
    gw.copy(np.ones(3), gw.strided(there(m, root) + world.rank, (3,), (8,))).wait()


def right_strides_that_interleave():
    m = memory()
    gw.copy(np.ones(3), gw.strided(there(m, root) + world.rank, (3,), (8 * world.size,))).wait()


def wrong_indices_that_meet():
    m = memory()
    gw.copy_indexed(np.ones(2), [0, 1], there(m, root), [world.rank, 7]).wait()


def right_indices_that_differ():
    m = memory()
    gw.copy_indexed(np.ones(2), [0, 1], there(m, root), [world.rank, 7 + world.rank]).wait()


def wrong_region_not_waited_for():
    m = memory()
    with gw.AccessRegion(wait=False) as region:
        gw.put(1.0, there(m))
    world.barrier()
    look(m)
    region.wait()


def right_region_waited_for():
    m = memory()
    with gw.AccessRegion():
        gw.put(1.0, there(m))
    world.barrier()
    look(m)


def wrong_element_of_a_neighbour():
    a = field()
    block = a.block(right)
    block[block.domain.lo] = 1.0
    _ = a.local[a.local.domain.lo]


def right_element_of_a_neighbour():
    a = field()
    block = a.block(right)
    block[block.domain.lo] = 1.0
    world.barrier()
    _ = a.local[a.local.domain.lo]


def wrong_fill_of_a_neighbour():
    a = field()
    a.local.fill(1.0)
    a.block(right).fill(2.0)


def right_fill_of_a_neighbour():
    a = field()
    a.local.fill(1.0)
    world.barrier()
    a.block(right).fill(2.0)


# -- signals ---------------------------------------------------------------------------------------------------------


def wrong_signal_before_the_put_is_done():
    m, s = memory(), gw.Signal(world)
    put = gw.put(1.0, there(m))
    s.add(right)
    put.wait()
    s.wait()
    look(m)


def right_signal_after_the_put_is_done():
    m, s = memory(), gw.Signal(world)
    gw.put(1.0, there(m)).wait()
    s.add(right)
    s.wait()
    look(m)


def wrong_channel_of_the_signal():
    m, s = memory(), gw.Signal(world, channels=2)
    s.add(right, channel=1)
    gw.put(1.0, there(m)).wait()
    s.add(right, channel=0)
    s.wait(channel=1)
    look(m)


def right_channel_of_the_signal():
    m, s = memory(), gw.Signal(world, channels=2)
    s.add(right, channel=1)
    gw.put(1.0, there(m)).wait()
    s.add(right, channel=0)
    s.wait(channel=0)
    look(m)


def wrong_notification_of_another_put():
    m, s = memory(), gw.Signal(world)
    first = gw.put(np.ones(1), there(m) + 1, notify=s)
    second = gw.put(np.ones(1), there(m))
    s.wait()
    look(m)
    first.wait()
    second.wait()


def right_notification_of_the_put():
    m, s = memory(), gw.Signal(world)
    put = gw.put(np.ones(1), there(m), notify=s)
    s.wait()
    look(m)
    put.wait()


def wrong_overwritten_before_it_is_read():
    m, s = memory(), gw.Signal(world)
    for step in range(2):
        gw.put(float(step), there(m)).wait()
        s.add(right)
        s.wait()
        look(m)


def right_overwritten_after_it_is_read():
    m, s, free = memory(), gw.Signal(world), gw.Signal(world)
    free.add(left)
    for step in range(2):
        free.wait()
        gw.put(float(step), there(m)).wait()
        s.add(right)
        s.wait()
        look(m)
        free.add(left)


# -- collectives and messages ----------------------------------------------------------------------------------------


def wrong_barrier_of_another_team():
    m = memory()
    alone = world.split(world.rank)
    gw.put(1.0, there(m)).wait()
    alone.barrier()
    look(m)


def right_barrier_of_the_team():
    m = memory()
    other = world.split(0)
    gw.put(1.0, there(m)).wait()
    other.barrier()
    look(m)


def wrong_bcast_tells_the_root_nothing():
    m = memory()
    if not is_root:
        gw.put(1.0, there(m, root) + world.rank).wait()
    world.bcast(1, root)
    if is_root:
        gw.get(m.pointer(dtype=float), 4).result()


def right_gather_tells_the_root():
    m = memory()
    if not is_root:
        gw.put(1.0, there(m, root) + world.rank).wait()
    world.gather(1, root)
    if is_root:
        gw.get(m.pointer(dtype=float), 4).result()


def wrong_reduce_tells_the_root_only():
    m, found = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m)).wait()
    world.Reduce(np.ones(1), found, root=root)
    if left == root:
        look(m)


def right_allreduce_tells_all():
    m, found = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m)).wait()
    world.Allreduce(np.ones(1), found)
    if left == root:
        look(m)


def wrong_barrier_not_waited_for():
    m = memory()
    gw.put(1.0, there(m)).wait()
    request = world.Ibarrier()
    look(m)
    request.wait()


def right_barrier_waited_for():
    m = memory()
    gw.put(1.0, there(m)).wait()
    world.Ibarrier().wait()
    look(m)


def wrong_message_the_other_way():
    m = memory()
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.recv(1)
    elif world.rank == 1:
        world.send("ready", root)
        look(m)


def right_message_behind_the_put():
    m = memory()
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.send("written", 1)
    elif world.rank == 1:
        world.recv(root)
        look(m)


def wrong_message_not_received_yet():
    m, told = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.Send(np.ones(1), 1)
    elif world.rank == 1:
        request = world.Irecv(told, root, 0)
        look(m)
        request.wait()


def right_message_received():
    m, told = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.Send(np.ones(1), 1)
    elif world.rank == 1:
        world.Irecv(told, root, 0).wait()
        look(m)


def wrong_message_of_anyone_not_received_yet():
    m, told = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.Send(np.ones(1), 1)
    elif world.rank == 1:
        request = world.Irecv(told)
        look(m)
        request.wait()


def right_message_of_anyone():
    m, told = memory(), np.zeros(1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        world.Send(np.ones(1), 1)
    elif world.rank == 1:
        world.Irecv(told).wait()
        look(m)


def wrong_prepared_message_before_the_put():
    m, told = memory(), np.zeros(1)
    if is_root:
        request = world.Send_init(np.ones(1), 1)
        request.start()
        gw.put(1.0, there(m, 1)).wait()
        request.free()
    elif world.rank == 1:
        request = world.Recv_init(told, root)
        request.start()
        request.wait()
        look(m)
        request.free()


def right_prepared_message_behind_the_put():
    m, told = memory(), np.zeros(1)
    if is_root:
        request = world.Send_init(np.ones(1), 1)
        for step in range(2):
            gw.put(1.0, there(m, 1) + step).wait()
            request.start()
            request.wait()
        request.free()
    elif world.rank == 1:
        request = world.Recv_init(told)
        for step in range(2):
            request.start()
            request.wait()
            gw.get(m.pointer(dtype=float) + step).result()
        request.free()


def wrong_exchange_of_messages_too_early():
    m, theirs = memory(), np.zeros(1)
    world.Sendrecv(np.ones(1), right, 0, theirs, left, 0)
    gw.put(1.0, there(m)).wait()
    look(m)


def right_exchange_of_messages():
    m, theirs = memory(), np.zeros(1)
    gw.put(1.0, there(m)).wait()
    world.Sendrecv(np.ones(1), right, 0, theirs, left, 0)
    look(m)


def wrong_exchange_with_anyone_too_early():
    m, theirs = memory(), np.zeros(1)
    world.Sendrecv(np.ones(1), right, 0, theirs)
    gw.put(1.0, there(m)).wait()
    look(m)


def right_exchange_with_anyone():
    m, theirs = memory(), np.zeros(1)
    gw.put(1.0, there(m)).wait()
    world.Sendrecv(np.ones(1), right, 0, theirs)
    look(m)


# -- locks, atomic operations ----------------------------------------------------------------------------------------


def count(m: gw.Segment) -> None:
    """Add one to a number of the root."""
    gw.put(gw.get(there(m, root)).result() + 1, there(m, root)).wait()


def wrong_counter_without_lock():
    m = memory()
    gw.put(gw.get(there(m, root)).result() + 1, there(m, root)).wait()


def right_counter_with_lock():
    m, lock = memory(), gw.Lock(world)
    for _ in range(2):
        with lock:
            count(m)


def wrong_lock():
    m, locks = memory(), [gw.Lock(world) for _ in range(world.size)]
    with locks[world.rank]:
        gw.put(gw.get(there(m, root)).result() + 1, there(m, root)).wait()


def right_lock():
    m, locks = memory(), [gw.Lock(world) for _ in range(world.size)]
    with locks[0]:
        count(m)


def wrong_plain_access_to_an_atomic_word():
    m, words = memory(), gw.AtomicDomain("i8", "add", world)
    if is_root:
        gw.put(7, m.pointer(root, "i8")).wait()
    else:
        words.add(m.pointer(root, "i8"), 1).wait()


def right_atomic_accesses_only():
    m, words = memory(), gw.AtomicDomain("i8", ("add", "store"), world)
    if is_root:
        words.store(m.pointer(root, "i8"), 7).wait()
    else:
        words.add(m.pointer(root, "i8"), 1).wait()


def wrong_flag_not_looked_at():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "load"), world)
    flag = m.pointer(1, "i8") + 4
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        words.store(flag, 1).wait()
    elif world.rank == 1:
        look(m)


def right_flag_looked_at():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "load"), world)
    flag = m.pointer(1, "i8") + 4
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        words.store(flag, 1).wait()
    elif world.rank == 1:
        while not words.load(flag).result():
            gw.progress()
        look(m)


def take_turns(m: gw.Segment, mine: int, words: gw.AtomicDomain) -> gw.GlobalPtr:
    """Wait until a flag of rank 1 has the number of this rank, and return it."""
    flag = m.pointer(1, "i8") + 4
    while words.load(flag).result() != mine:
        gw.progress()
    return flag


def wrong_flag_that_takes_turns():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "load"), world)
    for _ in range(4 if world.rank < 2 else 0):
        flag = take_turns(m, world.rank, words)
        words.store(flag, 1 - world.rank).wait()
        gw.put(1.0, there(m, 1)).wait()


def right_flag_that_takes_turns():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "load"), world)
    for _ in range(4 if world.rank < 2 else 0):
        flag = take_turns(m, world.rank, words)
        gw.put(gw.get(there(m, 1)).result() + 1, there(m, 1)).wait()
        words.store(flag, 1 - world.rank).wait()


def wrong_lock_of_a_word_too_late():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    value = gw.get(there(m, root)).result()
    while words.compare_exchange(m.pointer(root, "i8") + 4, 0, 1).result() != 0:
        gw.progress()
    gw.put(value + 1, there(m, root)).wait()
    words.store(m.pointer(root, "i8") + 4, 0).wait()


def right_lock_of_a_word():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    for _ in range(3):
        while words.compare_exchange(m.pointer(root, "i8") + 4, 0, 1).result() != 0:
            gw.progress()
        count(m)
        words.store(m.pointer(root, "i8") + 4, 0).wait()


# -- calls -----------------------------------------------------------------------------------------------------------


def set_first(here: gw.DistObject[gw.Segment]) -> None:
    """Write this rank's first number for another rank."""
    gw.put(1.0, here.value.pointer(dtype=float)).wait()


def wrong_call_not_waited_for():
    m = memory()
    call = gw.rpc(right, set_first, (here := gw.DistObject(m)))
    gw.get(there(m)).result()
    call.wait()
    world.barrier()
    del here


def right_call_waited_for():
    m = memory()
    here = gw.DistObject(m)
    gw.rpc(right, set_first, here).wait()
    gw.get(there(m)).result()
    world.barrier()
    del here


def wrong_call_without_an_answer():
    m = memory()
    here = gw.DistObject(m)
    gw.rpc_ff(right, set_first, here)
    world.barrier()
    gw.get(m.pointer(dtype=float)).result()
    gw.quiesce(world)
    del here


def right_call_and_quiescence():
    m = memory()
    here = gw.DistObject(m)
    gw.rpc_ff(right, set_first, here)
    gw.quiesce(world)
    look(m)
    world.barrier()
    del here


@gw.jit
def note(source, counts):
    counts[0] += 1


@gw.jit
def answer(source, counts, answering):
    counts[0] += 1
    answering.reply(source)


def await_message(counts: np.ndarray) -> None:
    """Wait until a message has come."""
    while not counts[0]:
        gw.progress()


def wrong_active_message_too_early():
    m, counts = memory(), np.zeros(1, np.int64)
    noting = gw.ActiveMessage(note, context=(counts,))
    if is_root:
        noting.send(1)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        await_message(counts)
        look(m)


def right_active_message():
    m, counts = memory(), np.zeros(1, np.int64)
    noting = gw.ActiveMessage(note, context=(counts,))
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        noting.send(1)
    elif world.rank == 1:
        await_message(counts)
        look(m)


def wrong_answer_of_an_active_message_not_awaited():
    m, counts, answers = memory(), np.zeros(1, np.int64), np.zeros(1, np.int64)
    asking = gw.ActiveMessage(answer, context=(counts, gw.ActiveMessage(note, context=(answers,))))
    if is_root:
        asking.send(1)
        gw.put(1.0, there(m, 1)).wait()
        await_message(answers)
    elif world.rank == 1:
        look(m)
        await_message(counts)


def wrong_item_of_a_channel_too_early():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, home=1)
    if is_root:
        items.put("soon")
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        items.take()
        look(m)


def right_item_of_a_channel():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, home=1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        items.put("now")
    elif world.rank == 1:
        items.take()
        look(m)


def wrong_item_of_a_dtype_too_early():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, dtype="i4", home=1)
    if is_root:
        items.put(7)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        items.take()
        look(m)


def right_item_of_a_dtype():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, dtype="i4", home=1)
    if is_root:
        gw.put(1.0, there(m, 1)).wait()
        items.put(7)
    elif world.rank == 1:
        items.take()
        look(m)


def fill(capacity: int, number: int) -> gw.RemoteChannel[int]:
    """Return a channel of rank 1 into which rank 0 has put items."""
    items: gw.RemoteChannel[int] = gw.RemoteChannel.of_team(world, capacity=capacity, home=1)
    if is_root:
        for item in range(number):
            items.put(item)
    return items


def wrong_room_of_a_channel_too_early():
    m, items = memory(), fill(1, 1)
    if is_root:
        items.put(1)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        items.take()
        look(m)
        items.take()


def right_room_of_a_channel():
    m, items = memory(), fill(2, 2)
    if is_root:
        items.put(2)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        look(m)
        items.take()
        items.take()
        items.take()


def wrong_taken_item_of_a_channel_too_early():
    m, items = memory(), fill(0, 0)
    if is_root:
        items.put(1)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        items.take()
        look(m)


def right_taken_item_of_a_channel():
    m, items = memory(), fill(0, 0)
    if is_root:
        items.put(1)
        gw.put(1.0, there(m, 1)).wait()
    elif world.rank == 1:
        look(m)
        items.take()


# -- kernels, exchanges, plans ---------------------------------------------------------------------------------------


def wrong_ghosts_read_before_the_wait():
    a, out = field(), field()
    ghosts = a.exchange()
    smooth(a.owned, out, a)
    ghosts.wait()


def right_ghosts_read_after_the_wait():
    a, out = field(), field()
    ghosts = a.exchange()
    smooth(a.inner, out, a)
    ghosts.wait()
    smooth(a.rim, out, a)


def wrong_cells_changed_before_the_wait():
    a = field()
    ghosts = a.exchange()
    advance(a.owned, a)
    ghosts.wait()


def right_cells_changed_after_the_wait():
    a = field()
    for _ in range(2):
        a.exchange().wait()
        advance(a.owned, a)


def wrong_array_waited_for():
    a, b, out = field(), field(), field()
    first, second = a.exchange(), b.exchange()
    first.wait()
    smooth(b.owned, out, b)
    second.wait()


def right_array_waited_for():
    a, b, out = field(), field(), field()
    first, second = a.exchange(), b.exchange()
    second.wait()
    smooth(b.owned, out, b)
    first.wait()


def wrong_sum_of_ghosts_before_the_wait():
    a = field()
    ghosts = a.exchange(corners=True)
    total(a.owned, a)
    ghosts.wait()


def right_sum_of_ghosts_after_the_wait():
    a = field()
    a.exchange(corners=True).wait()
    total.all(world, a.owned, a)


def wrong_neighbour_read_without_order():
    a = field()
    advance(a.owned, a)
    block = a.block(right)
    total(block.domain.shrink(1), block)


def right_neighbour_read_behind_a_barrier():
    a = field()
    advance(a.owned, a)
    world.barrier()
    block = a.block(right)
    total(block.domain.shrink(1), block)


def wrong_points_that_meet():
    a = field()
    shift(a.owned, a)


def right_points_apart():
    a = field()
    shift(a.owned.with_stride((2, 1)), a)


def wrong_points_that_write_twice():
    a = field()
    scatter(a.owned, a)


def right_points_that_write_apart():
    a = field()
    scatter(a.owned.with_stride((2, 1)), a)


def wrong_expression_during_an_exchange():
    a = field()
    ghosts = a.exchange()
    a[...] = 2.0 * a
    ghosts.wait()


def right_expression_after_an_exchange():
    a = field()
    a.exchange().wait()
    a[...] = 2.0 * a


def ring(m: gw.Segment) -> gw.Plan:
    """Return the plan that copies the first number to the neighbour's second."""
    return gw.plan([(gw.strided(m.pointer(dtype=float), (1,), (8,)), gw.strided(there(m) + 1, (1,), (8,)))])


def wrong_target_of_a_plan_read_early():
    m = memory()
    plan = ring(m)
    plan.start()
    gw.get(m.pointer(dtype=float) + 1).result()
    plan.wait()


def right_target_of_a_plan_read_after_the_wait():
    m = memory()
    plan = ring(m)
    for _ in range(2):
        plan.start().wait()
        gw.get(m.pointer(dtype=float) + 1).result()


def wrong_source_of_a_plan_changed_early():
    m = memory()
    plan = ring(m)
    plan.start()
    gw.put(1.0, m.pointer(dtype=float)).wait()
    plan.wait()


def right_source_of_a_plan_changed_after_the_wait():
    m = memory()
    plan = ring(m)
    for _ in range(2):
        gw.put(1.0, m.pointer(dtype=float)).wait()
        plan.start().wait()


def wrong_ghosts_changed_during_an_accumulation():
    a = field()
    sums = a.accumulate()
    a.local.fill(1.0)
    sums.wait()


def right_ghosts_changed_after_an_accumulation():
    a = field()
    for _ in range(2):
        a.local.fill(1.0)
        a.accumulate().wait()


# -- compiled code ---------------------------------------------------------------------------------------------------


@gw.jit
def put_and_get(team, target, own, ordered):
    gw.put(1.0, target)
    if ordered:
        gw.barrier(team)
    return gw.get(own)


def wrong_compiled_put_without_a_barrier():
    m = memory()
    put_and_get(world, there(m), m.pointer(dtype=float), False)


def right_compiled_put_with_a_barrier():
    m = memory()
    put_and_get(world, there(m), m.pointer(dtype=float), True)


@gw.jit
def put_and_signal(signal, target, own, to, early):
    if early:
        gw.signal(signal, to)
        gw.put(1.0, target)
    else:
        gw.put(1.0, target, notify=signal)
    gw.wait(signal)
    return gw.get(own)


def wrong_compiled_signal_before_the_put():
    m = memory()
    put_and_signal(gw.Signal(world), there(m), m.pointer(dtype=float), right, True)


def right_compiled_signal_behind_the_put():
    m = memory()
    put_and_signal(gw.Signal(world), there(m), m.pointer(dtype=float), right, False)


@gw.jit
def put_and_tell(team, target, own, is_root, value, to_all):
    if not is_root:
        gw.put(1.0, target)
    if to_all:
        gw.allreduce(team, value)
    else:
        gw.bcast(team, value, 0)
    if is_root:
        gw.get(own)


def wrong_compiled_bcast_tells_the_root_nothing():
    m = memory()
    target = there(m, root) if world.rank == 1 else m.pointer(dtype=float) + 2
    put_and_tell(world, target, m.pointer(dtype=float), is_root, np.zeros(1), False)


def right_compiled_allreduce_tells_all():
    m = memory()
    target = there(m, root) if world.rank == 1 else m.pointer(dtype=float) + 2
    put_and_tell(world, target, m.pointer(dtype=float), is_root, np.zeros(1), True)


@gw.jit
def put_and_send(team, target, own, value, me, early):
    if me == 0:
        if early:
            gw.send(team, value, 1)
        gw.put(1.0, target)
        if not early:
            gw.send(team, value, 1)
    elif me == 1:
        gw.recv(team, value, 0)
        gw.get(own)


def wrong_compiled_message_before_the_put():
    m = memory()
    put_and_send(world, there(m, 1), m.pointer(dtype=float), np.zeros(1), world.rank, True)


def right_compiled_message_behind_the_put():
    m = memory()
    put_and_send(world, there(m, 1), m.pointer(dtype=float), np.zeros(1), world.rank, False)


@gw.jit
def in_turn(words, lock, number, early):
    value = 0.0
    if early:
        value = gw.get(number)
    while words.compare_exchange(lock, 0, 1) != 0:
        gw.progress()
    if not early:
        value = gw.get(number)
    gw.put(value + 1.0, number)
    words.store(lock, 0)


def wrong_compiled_lock_of_a_word_too_late():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    in_turn(words, m.pointer(root, "i8") + 4, there(m, root), True)


def right_compiled_lock_of_a_word():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    for _ in range(3):
        in_turn(words, m.pointer(root, "i8") + 4, there(m, root), False)


@gw.jit
def put_and_count(words, counter, target, own, n, early):
    if early:
        words.add(counter, 1)
    gw.put(1.0, target)
    if not early:
        words.add(counter, 1)
    while words.load(counter) < n:
        gw.progress()
    return gw.get(own)


def wrong_compiled_count_before_the_put():
    m, words = memory(), gw.AtomicDomain("i8", ("add", "load"), world)
    put_and_count(words, m.pointer(root, "i8") + 4, there(m), m.pointer(dtype=float), world.size, True)


def right_compiled_count_behind_the_put():
    m, words = memory(), gw.AtomicDomain("i8", ("add", "load"), world)
    put_and_count(words, m.pointer(root, "i8") + 4, there(m), m.pointer(dtype=float), world.size, False)


@gw.jit
def put_and_pass(items, target, own, me, early):
    if me == 0:
        if early:
            items.put(1.0)
        gw.put(1.0, target)
        if not early:
            items.put(1.0)
    elif me == 1:
        items.take()
        gw.get(own)


def wrong_compiled_item_of_a_channel_too_early():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, dtype=float, home=1)
    put_and_pass(items, there(m, 1), m.pointer(dtype=float), world.rank, True)


def right_compiled_item_of_a_channel():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=4, dtype=float, home=1)
    put_and_pass(items, there(m, 1), m.pointer(dtype=float), world.rank, False)


@gw.jit
def fill_and_put(items, target, own, me, early):
    if me == 0:
        items.put(1.0)
        items.put(2.0)
        gw.put(1.0, target)
    elif me == 1:
        if not early:
            gw.get(own)
        items.take()
        if early:
            gw.get(own)
        items.take()


def wrong_compiled_room_of_a_channel_too_early():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=1, dtype=float, home=1)
    fill_and_put(items, there(m, 1), m.pointer(dtype=float), world.rank, True)


def right_compiled_room_of_a_channel():
    m, items = memory(), gw.RemoteChannel.of_team(world, capacity=1, dtype=float, home=1)
    fill_and_put(items, there(m, 1), m.pointer(dtype=float), world.rank, False)


@gw.jit
def put_and_note(noting, counts, target, own, me, early):
    if me == 0:
        if early:
            noting.send(1)
        gw.put(1.0, target)
        if not early:
            noting.send(1)
    elif me == 1:
        while counts[0] == 0:
            gw.progress()
        gw.get(own)


def wrong_compiled_active_message_too_early():
    m, counts = memory(), np.zeros(1, np.int64)
    noting = gw.ActiveMessage(note, context=(counts,))
    put_and_note(noting, counts, there(m, 1), m.pointer(dtype=float), world.rank, True)


def right_compiled_active_message():
    m, counts = memory(), np.zeros(1, np.int64)
    noting = gw.ActiveMessage(note, context=(counts,))
    put_and_note(noting, counts, there(m, 1), m.pointer(dtype=float), world.rank, False)


@gw.jit
def begin(plan):
    plan.start()


@gw.jit
def run(plan):
    plan.start()
    plan.wait()


def wrong_compiled_start_of_a_plan():
    m = memory()
    plan = ring(m)
    begin(plan)
    gw.get(m.pointer(dtype=float) + 1).result()
    plan.wait()


def right_compiled_round_of_a_plan():
    m = memory()
    plan = ring(m)
    run(plan)
    gw.get(m.pointer(dtype=float) + 1).result()


@gw.jit
def set_all(a, value):
    for i in range(len(a)):
        a[i] = value


@gw.jit
def add_up(a):
    found = 0.0
    for i in range(len(a)):
        found += a[i]
    return found


@gw.foreach
def gather(p, out, a, at):
    out[p] = a[at[p]]


def numbers(m: gw.Segment, rank: int) -> np.ndarray:
    """Return the numbers of a rank."""
    return m.view(rank).view(float)


def wrong_compiled_store_to_a_neighbour():
    m = memory()
    set_all(numbers(m, right), 1.0)
    add_up(numbers(m, world.rank))


def right_compiled_store_to_a_neighbour():
    m = memory()
    set_all(numbers(m, right), 1.0)
    world.barrier()
    add_up(numbers(m, world.rank))


def wrong_compiled_load_before_a_put_has_arrived():
    m = memory()
    gw.put(np.ones(4), there(m)).wait()
    add_up(numbers(m, world.rank))


def right_compiled_load_behind_a_put():
    m = memory()
    gw.put(np.ones(4), there(m)).wait()
    world.barrier()
    add_up(numbers(m, world.rank))


@gw.jit
def slices(a, b, what):
    if what == 0:
        a[2:6] = 1.0
    elif what == 1:
        b[0:4] = a[2:6]
    elif what == 2:
        b[0:4] = 2.0 * a[2:6] + b[4:8]
    elif what == 3:
        a[2:6] += 1.0
    elif what == 4:
        b[0] = np.sum(a[2:6])
    else:
        b[0] = a[2:6].sum()


def put_beyond_the_middle(*, ordered: bool) -> np.ndarray:
    """Put to four numbers of the neighbour from the sixth on; return those of this rank."""
    m = memory()
    gw.put(np.ones(4), there(m) + 5).wait()
    if ordered:
        world.barrier()
    return numbers(m, world.rank)


def wrong_compiled_slice_set():
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 0)


def right_compiled_slice_set():
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 0)


def wrong_compiled_slice_copied():
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 1)


def right_compiled_slice_copied():
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 1)


def wrong_compiled_slice_in_an_expression():
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 2)


def right_compiled_slice_in_an_expression():
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 2)


def wrong_compiled_slice_changed():
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 3)


def right_compiled_slice_changed():
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 3)


def wrong_compiled_slice_summed():
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 4)
    slices(put_beyond_the_middle(ordered=False), np.ones(8), 5)


def right_compiled_slice_summed():
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 4)
    slices(put_beyond_the_middle(ordered=True), np.ones(8), 5)


PAIR = np.dtype([("x", "f8"), ("y", "f8")])


@gw.jit
def fields(a, reads, writes):
    if writes:
        a[0].y = 2.0
        a[1]["y"] = 2.0
    return a[0].x if reads else 0.0


def wrong_compiled_field_read_early():
    m = memory()
    gw.put(1.0, there(m)).wait()
    fields(m.view(world.rank).view(PAIR), True, True)


def right_compiled_field_beside_what_is_put():
    m = memory()
    gw.put(1.0, there(m)).wait()
    fields(m.view(world.rank).view(PAIR), False, True)


def wrong_compiled_field_set_early():
    m = memory()
    gw.put(1.0, there(m) + 3).wait()
    fields(m.view(world.rank).view(PAIR), False, True)


def right_compiled_field_set_behind_a_put():
    m = memory()
    gw.put(np.ones(4), there(m)).wait()
    world.barrier()
    fields(m.view(world.rank).view(PAIR), True, True)


def line(dtype: object = float) -> tuple[gw.GlobalArray, gw.GlobalArray, gw.GlobalArray]:
    """Return an array, one for results, and one with the index of this rank's first ghost."""
    size = 8 * world.size
    a, out, at = gw.zeros(size, dtype=dtype, ghost=1, periodic=True), gw.zeros(size), gw.zeros(size, dtype=int)
    kept.extend((a, out, at))
    at.values[...] = a.owned.lo[0] - 1
    return a, out, at


def wrong_ghost_at_a_computed_point():
    a, out, at = line()
    ghosts = a.exchange()
    gather(a.owned, out, a, at)
    ghosts.wait()


def right_ghost_at_a_computed_point():
    a, out, at = line()
    a.exchange().wait()
    gather(a.owned, out, a, at)


@gw.foreach
def gather_field(p, out, a, at):
    out[p] = a[at[p]].y


def wrong_field_at_a_computed_point():
    a, out, at = line(PAIR)
    ghosts = a.exchange()
    gather_field(a.owned, out, a, at)
    ghosts.wait()


def right_field_at_a_computed_point():
    a, out, at = line(PAIR)
    a.exchange().wait()
    gather_field(a.owned, out, a, at)


# -- threads of a rank ------------------------------------------------------------------------------------------------


@gw.jit
def write_and_read(threads, a, order):
    first, last = threads.share(0, len(a))
    if order == 3:
        threads.barrier()
    for i in range(first, last):
        a[i] = 1.0
    if order == 1:
        threads.barrier()
    elif order == 2:
        threads.max(0.0)
    found = 0.0
    for i in range(len(a)):
        found += a[i]
    return found


def wrong_threads_read_what_others_write():
    gw.parallel(write_and_read, numbers(memory(), world.rank), 0, threads=2)


def right_threads_read_behind_a_barrier():
    gw.parallel(write_and_read, numbers(memory(), world.rank), 1, threads=3)


def wrong_threads_read_a_shared_array_early():
    shared = gw.SharedArray(8 * world.size)
    kept.append(shared)
    gw.parallel(write_and_read, shared.numpy()[shared.mine.start : shared.mine.stop], 0, threads=2)


def wrong_threads_read_behind_an_early_barrier():
    gw.parallel(write_and_read, numbers(memory(), world.rank), 3, threads=3)


def right_threads_read_behind_a_sum():
    mine = numbers(memory(), world.rank)
    gw.parallel(write_and_read, mine, 2, threads=2)
    set_all(mine, 2.0)
    gw.parallel(write_and_read, mine, 2, threads=3)
    add_up(mine)


def wrong_threads_write_while_a_neighbour_reads():
    m = memory()
    gw.parallel(write_and_read, numbers(m, world.rank), 1, threads=2)
    gw.get(there(m) + 31).result()


def right_threads_end_before_a_neighbour_reads():
    m = memory()
    gw.parallel(write_and_read, numbers(m, world.rank), 1, threads=2)
    world.barrier()
    gw.get(there(m) + 31).result()


@gw.jit
def hand_on(threads, a, early):
    if threads.index == 0:
        if early:
            threads.publish(1, 7)
        a[0] = 1.0
        if not early:
            threads.publish(1, 7)
        return 0.0
    threads.wait_for(1, 5)
    return a[0]


def wrong_thread_publishes_too_early():
    gw.parallel(hand_on, numbers(memory(), world.rank), True, threads=2)


def right_thread_publishes_what_it_has_written():
    gw.parallel(hand_on, numbers(memory(), world.rank), False, threads=3)


@gw.jit
def follow(threads, a, b, ahead):
    for step in range(len(b)):
        if threads.index == 0:
            a[step] = 1.0
            threads.publish(0, step + 1)
        else:
            threads.wait_for(0, step + 1)
            b[step] = a[step + ahead]


def wrong_thread_reads_ahead_of_what_is_published():
    mine = numbers(memory(), world.rank)
    gw.parallel(follow, mine[:8], mine[8:15], 1, threads=2)


def right_thread_reads_what_is_published():
    mine = numbers(memory(), world.rank)
    gw.parallel(follow, mine[:8], mine[8:15], 0, threads=2)


@gw.jit
def take_row(threads, a, width):
    row = threads.fetch_add(0, 1)
    for i in range(3 * row, 3 * row + width):
        a[i] = a[i] + 1.0


@gw.jit
def take_rows(threads, a, rows, width):
    while True:
        row = threads.fetch_add(0, 1)
        if row >= rows:
            break
        for i in range(3 * row, 3 * row + width):
            a[i] = a[i] + 1.0


def wrong_rows_of_threads_overlap():
    gw.parallel(take_row, numbers(memory(), world.rank), 4, threads=2, slots=1)


def right_rows_of_threads_apart():
    mine = numbers(memory(), world.rank)
    gw.parallel(take_row, mine, 3, threads=3, slots=1)
    gw.parallel(take_rows, mine, 8, 3, threads=3, slots=1)


@gw.jit
def put_and_signal_by_threads(threads, signal, target, own, to, ordered):
    if threads.index == 1:
        gw.put(1.0, target)
    if ordered:
        threads.barrier()
    if threads.index == 0:
        gw.signal(signal, to)
        gw.wait(signal)
        gw.get(own)


def wrong_thread_signals_for_another():
    m = memory()
    gw.parallel(put_and_signal_by_threads, gw.Signal(world), there(m), m.pointer(dtype=float), right, False, threads=2)


def right_thread_signals_behind_a_barrier():
    m = memory()
    gw.parallel(put_and_signal_by_threads, gw.Signal(world), there(m), m.pointer(dtype=float), right, True, threads=2)


@gw.jit
def in_turn_by_threads(threads, words, lock, number, early):
    for _ in range(3):
        value = 0.0
        if early:
            value = gw.get(number)
        while words.compare_exchange(lock, 0, 1) != 0:
            pass
        if not early:
            value = gw.get(number)
        gw.put(value + 1.0, number)
        words.store(lock, 0)


def wrong_lock_of_threads_too_late():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    gw.parallel(in_turn_by_threads, words, m.pointer(dtype="i8") + 4, m.pointer(dtype=float), True, threads=2)


def right_lock_of_threads():
    m, words = memory(), gw.AtomicDomain("i8", ("store", "compare_exchange"), world)
    gw.parallel(in_turn_by_threads, words, m.pointer(dtype="i8") + 4, m.pointer(dtype=float), False, threads=2)


@gw.foreach
def deal(p, a, at):
    a[at[p]] = 1.0


def dealt(offsets: np.ndarray) -> tuple[gw.GlobalArray, gw.GlobalArray]:
    """Return an array, and one that says to which of its elements on this rank each point writes."""
    size = len(offsets) * world.size
    a, at = gw.zeros(size), gw.zeros(size, dtype=int)
    kept.extend((a, at))
    at.values[...] = a.owned.lo[0] + offsets
    return a, at


def wrong_points_of_threads_meet():
    a, at = dealt(np.arange(8192) % 4096)
    gw.set_threads(2)
    deal(a.owned, a, at)


def right_points_of_threads_apart():
    a, at = dealt(np.arange(8192)[::-1])
    gw.set_threads(2)
    deal(a.owned, a, at)


NEAR = {
    *("wrong_neighbour_read_without_order", "right_neighbour_read_behind_a_barrier"),
    *("wrong_compiled_store_to_a_neighbour", "right_compiled_store_to_a_neighbour"),
    *("wrong_compiled_item_of_a_channel_too_early", "right_compiled_item_of_a_channel"),
    *("wrong_compiled_room_of_a_channel_too_early", "right_compiled_room_of_a_channel"),
}
"""Programs that reach the memory of a neighbour by loads, or its channel in compiled code."""


def programs() -> dict[str, Callable[[], None]]:
    """Return the programs that can run here by name."""
    found = {name: value for name, value in globals().items() if name.startswith(("wrong_", "right_"))}
    return {name: value for name, value in found.items() if name not in NEAR or world.node_count == 1}


if __name__ == "__main__":
    for name, program in programs().items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            program()
            world.barrier()
            kept.clear()
