"""Messages and collectives of compiled code, each check by all ranks against values computed serially."""

from __future__ import annotations

import weakref

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.compiler import native
from gondwana.errors import UsageError

world = gw.world
RIGHT, LEFT = (world.rank + 1) % world.size, (world.rank - 1) % world.size
DTYPES = ("i1", "u4", "f8", "c8")
"""Some of all: see `sum_type_checks`."""


@gw.jit
def rotate(team, mine, other, right, left, steps):
    """What a ring leaves after some steps, and how often it was rank 0's turn."""
    seen = 0
    for _ in range(steps):
        gw.sendrecv(team, mine, right, other, left, 7)
        for i in range(mine.size):
            mine[i] = other[i]
        seen += mine[0] == 0.0
        gw.barrier(team)
    return gw.allreduce(team, seen)


@gw.jit
def relay(team, token):
    """A token goes once around: each rank adds its number."""
    if team.rank > 0:
        gw.recv(team, token, team.rank - 1)
    token[0] += team.rank
    if team.rank < team.size - 1:
        gw.send(team, token, team.rank + 1)


@gw.jit
def ping_pong(team, ball, times):
    for _ in range(times):
        if team.rank == 0:
            gw.send(team, ball, 1)
            gw.recv(team, ball, 1)
        elif team.rank == 1:
            gw.recv(team, ball, 0)
            ball[0] += 1
            gw.send(team, ball, 0)


@gw.jit
def combine_integers(team, value, array):
    gw.allreduce(team, array, "band")
    return (
        gw.allreduce(team, value),
        gw.allreduce(team, value, "prod"),
        gw.allreduce(team, value, op="max"),
        gw.allreduce(team, value, "min"),
        gw.allreduce(team, value, "bor"),
        gw.allreduce(team, value, "bxor"),
    )


@gw.jit
def combine_bools(team, value):
    return gw.allreduce(team, value, "land"), gw.allreduce(team, value, "lor"), gw.allreduce(team, value, "lxor")


@gw.jit
def total(team, array):
    gw.allreduce(team, array)
    return gw.allreduce(team, array[0])


@gw.jit
def where(team):
    return team.rank, team.size, gw.allreduce(team, team.rank)


@gw.jit
def send(team, array, dest, tag):
    gw.send(team, array, dest, tag)


@gw.jit
def recv(team, array, source, tag):
    gw.recv(team, array, source, tag)


@gw.jit
def largest(team, value):
    gw.barrier(team)
    return gw.allreduce(team, value, "max")


@gw.jit
def all_to_all(team, mine, theirs, requests, rounds):
    for number in range(rounds):
        mine[0] = 1000 * team.rank + number
        for rank in range(team.size):
            requests[rank] = gw.irecv(team, theirs[rank], rank, number)
        for rank in range(team.size):
            requests[team.size + rank] = gw.isend(team, mine, rank, number)
        gw.wait_all(requests)


@gw.jit
def swap_with(team, mine, theirs, other):
    gw.wait_all((gw.irecv(team, theirs, other, 5), gw.isend(team, mine, other, 5)))


@gw.jit
def spoil(n):
    """Take memory that is free, such as that of an array which is not kept, and leave other numbers in it."""
    return np.full(n, -1.0).sum()


@gw.jit
def pass_unnamed(team, n, right, left, found):
    """Send and receive in memory that no variable refers to when it is used; return whether other memory is intact."""
    value, taken = 100.0 * team.rank, 0.0
    requests = [gw.irecv(team, np.empty(n), left, 0)]
    beside = np.full(n, -2.0)  # not where the message arrives that nobody reads
    padded = np.full(n + 2, value + 2)
    table = np.full((3, n), value + 3)
    requests.append(gw.isend(team, np.full(n, value), right, 0))
    taken += spoil(n)
    requests.append(gw.isend(team, beside * 0.0 + value + 1, right, 1))
    taken += spoil(n)
    requests.append(gw.isend(team, padded[1 : n + 1], right, 2))
    taken += spoil(n + 2)
    requests.append(gw.isend(team, table[1], right, 3))
    taken += spoil(3 * n)
    for number in range(4, 7):
        numbers = np.full(n, value + number)
        request = gw.isend(team, numbers, right, number)
        requests.append(request)
    taken += spoil(n)
    for number in range(1, 7):
        gw.recv(team, found[number], left, number)
    gw.wait_all(requests)
    return (beside == -2.0).all() and taken == -1.0 * (7 * n + 2)


@gw.jit
def start_unnamed(team, n, value, right):
    return gw.isend(team, np.full(n, value), right, 8), gw.isend(team, np.full(n, value + 1) * 1.0, right, 9)


@gw.jit
def start_given(team, array, right):
    return gw.isend(team, array, right, 10)


@gw.jit
def finish(requests):
    gw.wait_all(requests)


def check_requests_keep_what_compiled_code_has_made():
    for n in (600, 20_000):  # sent at once, and when the receiver has come
        found = np.zeros((7, n))
        for _ in range(3):
            assert pass_unnamed(world, n, RIGHT, LEFT, found)
            assert np.array_equal(found[1:].T - np.arange(1, 7), np.full((n, 6), 100.0 * LEFT))
            first, second = start_unnamed(world, n, 7.0 + world.rank, RIGHT)
            spoil(n)
            for number in range(2):
                gw.recv(world, found[number], LEFT, 8 + number)
            finish((0, second))
            gw.wait_all(np.array([first, 0]))
            assert (found[:2].T == [7.0 + LEFT, 8.0 + LEFT]).all()
        gw.barrier(world)


def check_requests_keep_arguments():
    for n in (600, 20_000):
        found = np.zeros(n)
        for wait in (finish, gw.wait_all):
            given, box = np.full(2 * n, 3.0 + world.rank), gw.Array.zeros(gw.RectDomain((5,), (5 + n,)))
            box.numpy()[:] = 4.0 + world.rank
            kept = weakref.ref(given)
            requests = [start_given(world, given[:n], RIGHT), start_given(world, box, RIGHT)]
            del given, box
            others = [np.full(size, -1.0) for size in (n, n, 2 * n)]
            for value in (3.0, 4.0):
                gw.recv(world, found, LEFT, 10)
                assert (found == value + LEFT).all()
            assert kept() is not None
            wait(tuple(requests))
            assert kept() is None
            assert all((other == -1.0).all() for other in others)
        gw.barrier(world)


def check_requests_free_what_they_have_kept():
    from numba.core.runtime import _nrt_python, rtsys

    found = np.zeros((7, 50))
    _nrt_python.memsys_enable_stats()

    def held():
        stats = rtsys.get_allocation_stats()
        return stats.mi_alloc - stats.mi_free

    before = held()
    for _ in range(20):
        assert pass_unnamed(world, 50, RIGHT, LEFT, found)
        requests = start_unnamed(world, 50, 1.0, RIGHT)
        assert held() == before + 2
        for number in (8, 9):
            gw.recv(world, found[0], LEFT, number)
        finish(requests)
        assert held() == before
    gw.barrier(world)


def check_messages_by_machine_code():
    """Python's blocking messages are machine code's once it is loaded; what that leaves to mpi4py arrives as well."""
    native._WORTH_LOADING = 0  # machine code from the first call on
    first = np.zeros(1)
    world.Sendrecv(first, world.rank, 0, first.copy(), world.rank, 0)
    world.Sendrecv(first, world.rank, 0, first.copy(), world.rank, 0)
    assert type(world.direct.sendrecv) is type(len)  # a built-in function
    r, n, right, left = world.rank, world.size, RIGHT, LEFT

    def pass_on(sent, received, source=left, tag=8):
        if r % 2:
            world.Recv(received, source, tag)
            world.Send(sent, right, 8)
        else:
            arrival = world.Irecv(received, source, tag)
            world.Send(sent, right, 8)
            arrival.wait()

    for dtype in ("?", "b", "H", "i4", "u8", "q", "f4", "f8", "c8", "c16", ">i4", "m8[s]", [("a", "i4"), ("b", "f8")]):
        for shape in ((), (0,), (3,), (2, 3), (2, 3, 4)):
            for order, other in ("CC", "FF", "CF", "FC"):
                of = [np.resize(np.arange(1, 9) + rank, shape).astype(np.int8).astype(dtype) for rank in range(n)]
                received, again = np.zeros(shape, dtype, other), np.zeros(shape, dtype, other)
                sent = of[r].copy(order)
                pass_on(sent, received)
                arrival, departure = world.Irecv(again, left, 9), world.Isend(sent, right, 9)
                assert arrival.result() is again
                departure.wait()
                world.Sendrecv(sent, right, 9, between := np.zeros(shape, dtype, other), left, 9)
                for found in (received, again, between):
                    assert found.tobytes() == of[left].tobytes(), (dtype, shape, order)
    assert type(world.direct.send) is type(len)
    for size in (1, 600, 5000, 300_000):  # eager, in pieces, after a handshake
        received = np.full(size, -1)
        pass_on(np.arange(size) + r, received)
        assert (received == np.arange(size) + left).all()
        received = np.full(size, -1)
        world.Sendrecv(np.arange(size) + r, right, 9, received, left, 9)
        assert (received == np.arange(size) + left).all()
    if n == 2 or right == r:
        received = np.zeros(2)
        pass_on(np.full(2, r + 1.0), received, None, None)
        assert (received == left + 1).all()
    gw.barrier(world)


def check_what_machine_code_leaves_to_mpi():
    """Errors are those of the way through mpi4py, and nothing is sent before one."""
    n, right, left = world.size, RIGHT, LEFT
    data, strided, constant = np.zeros(4), np.zeros(8)[::2], np.zeros(4)
    constant.flags.writeable = False
    assert f"dest={n}" in raises(ValueError, world.Send, data, n)
    assert "dest=-1" in raises(ValueError, world.Send, data, -1)
    assert f"source={n}" in raises(ValueError, world.Recv, data, n)
    assert "source=-1" in raises(ValueError, world.Recv, data, -1)
    assert "not contiguous" in raises(ValueError, world.Send, strided, right)
    assert "not contiguous" in raises(ValueError, world.Recv, strided, left)
    assert "read-only" in raises(ValueError, world.Recv, constant, left)
    assert "read-only" in raises(ValueError, world.Sendrecv, data, right, 0, constant, left)
    assert "Python objects" in raises(TypeError, world.Send, np.array([None]), right)
    raises(TypeError, world.Send, data, right, 1.5)
    raises(TypeError, world.Send, data, 0.5)
    gw.barrier(world)
    found = world.Iprobe()
    gw.barrier(world)
    assert found is None
    raises(Exception, world.Send, data, right, -5)
    too_long = world.Isend(np.zeros(9), right, 5)
    raises(RuntimeError, world.Recv, np.zeros(2), left, 5)
    too_long.wait()
    gw.barrier(world)


def check_a_waiting_receive_serves_calls():
    if world.size == 1:
        return
    received = np.zeros(1)
    if world.rank == 0:
        for rank in range(1, world.size):
            assert gw.rpc(rank, int, "7").result() == 7  # the rank is in Recv until the message below
            world.Send(np.ones(1), rank, 3)
    else:
        world.Recv(received, 0, 3)
        assert received[0] == 1
    gw.barrier(world)


def check_messages_that_do_not_block():
    if world.size == 1:
        return
    for count in (1, 20_000):  # 20,000 doubles are more than a message that is sent before anybody asks
        mine, theirs = np.zeros(count), np.zeros((world.size, count))
        requests = np.zeros(2 * world.size, np.int64)
        all_to_all(world, mine, theirs, requests, 20)
        assert theirs[:, 0].tolist() == [1000 * rank + 19 for rank in range(world.size)]
    other = world.rank ^ 1
    if other < world.size:
        mine, theirs = np.full(3, world.rank), np.zeros(3, np.int64)
        if world.rank < other:
            swap_with(world, mine, theirs, other)
        else:
            gw.wait_all([gw.irecv(world, theirs, other, 5), gw.isend(world, mine, other, 5)])
        assert (theirs == other).all()
    assert "not in the team" in raises(ValueError, swap_with, world, mine, np.zeros(3, np.int64), world.size)


def check_ring():
    for size in (1, 1000):
        mine, other = np.full(size, float(world.rank)), np.empty(size)
        steps = 3
        assert rotate(world, mine, other, RIGHT, LEFT, steps) == steps
        assert (mine == (world.rank - steps) % world.size).all()


def check_relay():
    token = np.zeros(1, np.int64)
    relay(world, token)
    assert token[0] == sum(range(world.rank + 1))


def check_ping_pong():
    ball = np.zeros(3, np.int32)
    ping_pong(world, ball, 500 if world.size > 1 else 0)
    assert ball[0] == (500 if world.rank < 2 <= world.size else 0)


def check_operations():
    values = [[5, 3, 7, 6, 12, 9][rank] for rank in range(world.size)]
    array = np.array([values[world.rank], 0xFF >> world.rank])
    found = combine_integers(world, values[world.rank], array)
    functions = (np.add, np.multiply, np.maximum, np.minimum, np.bitwise_or, np.bitwise_xor)
    assert found == tuple(int(function.reduce(values)) for function in functions), found
    assert array.tolist() == [int(np.bitwise_and.reduce(values)), 0xFF >> (world.size - 1)]
    bools = [rank == 1 for rank in range(world.size)]
    assert combine_bools(world, bools[world.rank]) == (all(bools), any(bools), sum(bools) % 2 == 1)


def check_dtypes():
    sums(DTYPES)


def sums(dtypes):
    """Compare sums of elements and of arrays of some types with NumPy's."""
    for dtype in dtypes:
        rows = (np.arange(world.size * 5) % 3).reshape(world.size, 5).astype(dtype)
        if rows.dtype.kind == "c":
            rows *= 1 + 2j
        mine = rows[world.rank].copy()
        grand = total(world, mine)
        assert (mine == rows.sum(axis=0, dtype=dtype)).all(), dtype
        assert grand == mine[0].item() * world.size, dtype


def check_teams():
    team = world.split(world.rank % 2)
    members = list(range(world.rank % 2, world.size, 2))
    assert where(team) == (members.index(world.rank), len(members), sum(range(len(members))))
    other = gw.Team.from_comm(world.comm)
    assert where(other) == (world.rank, world.size, sum(range(world.size)))
    team.free()
    assert "freed" in raises(UsageError, where, team)


def check_python_and_compiled_code_talk():
    array = np.arange(4.0) + world.rank
    expected = np.arange(4.0) + LEFT
    if world.rank == 0:
        if world.size > 1:
            gw.send(world, array, RIGHT, 3)
            gw.recv(world, array, LEFT, 3)
        gw.barrier(world)
        found = gw.allreduce(world, world.rank, "max")
    else:
        received = np.empty(4)
        recv(world, received, LEFT, 3)
        send(world, array, RIGHT, 3)
        array = received
        found = largest(world, world.rank)
    assert found == world.size - 1
    assert world.size == 1 or (array == expected).all()


def check_gondwana_arrays():
    box = gw.RectDomain((-2, 3), (2, 8))
    other = world.rank ^ 1
    if other < world.size:
        mine, found = gw.Array.zeros(box, dtype="i4"), gw.Array.zeros(box, dtype="i4")
        mine.numpy()[:] = np.arange(20).reshape(4, 5) + 100 * world.rank
        parts = (
            lambda a: a,
            lambda a: a.restrict(gw.RectDomain((0, 3), (2, 8))),
            lambda a: a.restrict(gw.RectDomain((1, 4), (2, 6))),
        )
        turned = found.permute((1, 0))  # compiled code does not put elements in order, Python does
        for move in (send, recv):
            assert "give its transpose" in raises(ValueError, move, world, turned, other, 1)
        sent = gw.isend(world, mine.permute((1, 0)), other, 2)
        gw.recv(world, turned, other, 2)
        sent.wait()
        assert (found.numpy() == mine.numpy() + 100 * (other - world.rank)).all()
        for part in parts:
            found.numpy()[:] = 0
            first, second = (send, recv) if world.rank < other else (recv, send)
            for move in (first, second):
                move(world, part(mine if move is send else found), other, 1)
            shift = 100 * (other - world.rank)
            assert (part(found).numpy() == part(mine).numpy() + shift).all()
            assert np.count_nonzero(found.numpy()) <= part(mine).numpy().size
    column = gw.Array.zeros(box).restrict(gw.RectDomain((-2, 3), (2, 4)))
    assert "contiguous" in raises(ValueError, send, world, column, 0, 1)
    assert "contiguous" in raises(ValueError, gw.send, world, column, 0, 1)


def check_errors():
    array = np.zeros(4)
    assert "not in the team" in raises(ValueError, send, world, array, world.size, 0)
    assert "not in the team" in raises(ValueError, recv, world, array, -1, 0)
    if world.rank == 0 and world.size > 1:
        send(world, array, 1, 9)
    elif world.rank == 1:
        assert "MPI_Recv failed" in raises(RuntimeError, recv, world, np.zeros(1), 0, 9)
    assert where(world)[1] == world.size  # the communicator still works


if __name__ == "__main__":
    run_checks(globals())
