"""Collectives of few bytes, in Python and in compiled code, against what each rank computes for itself."""

from __future__ import annotations

import functools
import operator
import pickle
from unittest import mock

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.compiler import native
from gondwana.errors import UsageError
from gondwana.teams import object_collectives
from gondwana.teams.blocking import LARGEST_FOLDED, MOST_FOLDED, ROOM, SHORT
from gondwana.transfer.collectives.on_node import LIMIT, share

world = gw.world
ON_NODE = world.on_node is not None
BARRIER, BCAST, SUM, MAX = range(4)


@gw.jit
def compiled(team, what, array, root):
    if what == BARRIER:
        gw.barrier(team)
    elif what == BCAST:
        gw.bcast(team, array, root)
    elif what == SUM:
        gw.allreduce(team, array)
    else:
        gw.allreduce(team, array, "max")


@gw.jit
def add_many(team, value, times):
    total = 0.0
    for number in range(times):
        total += gw.allreduce(team, value + number)
    return total


@gw.jit
def largest(team, value):
    return gw.allreduce(team, value, "max"), gw.allreduce(team, value, "min")


@gw.jit
def broadcast(team, array, root):
    gw.bcast(team, array, root)


@gw.jit
def combine(team, array):
    gw.allreduce(team, array, "prod")


def by_methods(team, what, array, root):
    """The same as `compiled`, by the methods of the team."""
    if what == BARRIER:
        team.barrier()
    elif what == BCAST:
        team.Bcast(array, root)
    else:
        team.Allreduce(gw.IN_PLACE, array, "sum" if what == SUM else gw.MAX)


def by_functions(team, what, array, root):
    """The same by the functions that compiled code has, too."""
    if what == BARRIER:
        gw.barrier(team)
    elif what == BCAST:
        gw.bcast(team, array, root)
    else:
        gw.allreduce(team, array, "sum" if what == SUM else "max")


def contributions(generator, size):
    """What each rank contributes: numbers whose sum depends on the order of the additions."""
    return generator.standard_normal((world.size, size)) * 10.0 ** generator.integers(-8, 8, (world.size, 1))


def expected(what, rows, root):
    if what == BARRIER:
        return rows[world.rank]
    if what == BCAST:
        return rows[root]
    return functools.reduce(np.add if what == SUM else np.maximum, rows)


def check_shared_memory_is_where_it_can_be():
    assert (world.size > 1 and world.node_count == 1) == ON_NODE
    team = world.split(world.node_index)
    assert (team.on_node is not None) == (team.size > 1)
    team.free()
    assert team.on_node is None
    assert gw.Team.from_comm(world.comm).on_node is None


def check_random_sequences():
    """Each rank calls each collective from Python or from compiled code, as its own dice fall: they meet."""
    alike, own = np.random.default_rng(7), np.random.default_rng(100 + world.rank)
    sizes = (0, 1, 7, 8, 300, LIMIT // 8, LIMIT // 8 + 1, SHORT // 8 + 1)
    for _ in range(400):
        what, root = int(alike.integers(4)), int(alike.integers(world.size))
        rows = contributions(alike, sizes[alike.integers(len(sizes))])
        array = rows[world.rank].copy()
        (compiled, by_functions, by_methods)[own.integers(3)](world, what, array, root)
        assert array.tobytes() == expected(what, rows, root).tobytes(), (what, root)


def check_sums_without_asking_the_arrays():
    """Machine code looks at the arrays itself, and leaves what it cannot add to the other ways."""
    native._WORTH_LOADING = 0  # machine code from the first call on
    n = world.size
    for _ in range(3):
        world.Allreduce(np.ones(1), np.ones(1))
        world.Bcast(np.ones(1))
    if ON_NODE:
        assert world.on_node._is_quick
    of = [(rank + 1) * np.arange(24).reshape(2, 3, 4) % 11 for rank in range(n)]
    for dtype in ("f4", "f8", "i8", "q", "i4", "u8", "c16", ">f8", "b"):
        for shape in ((0,), (24,), (2, 3, 4), (4, 6)):
            for order in ("CC", "FF", "FC", "CF"):
                given, total = (np.zeros(shape, dtype, letter) for letter in order)
                given[...] = np.resize(of[world.rank], shape)
                oracle = sum(np.resize(rows.astype(dtype), shape) for rows in of).astype(dtype)
                if dtype != ">f8":
                    world.Allreduce(given, total)
                    assert np.array_equal(total, oracle), (dtype, shape, order)
                    world.Allreduce(gw.IN_PLACE, given)
                    assert np.array_equal(given, oracle), (dtype, shape, order)
    numbers = np.random.default_rng(5).random((n, 2048), np.float32)
    total = np.zeros(2048, np.float32)
    world.Allreduce(numbers[world.rank].copy(), total)  # the largest one that shared memory takes in one piece
    assert total.tobytes() == functools.reduce(np.add, numbers).tobytes()
    constant = np.zeros(3)
    constant.flags.writeable = False
    if world.size > 1:
        gives = world.rank == world.size - 1
        world.Bcast(constant if gives else np.zeros(3), world.size - 1)
        assert "read-only" in raises(ValueError, world.Bcast, constant, (world.rank + 1) % world.size)
    assert "read-only" in raises(ValueError, world.Allreduce, np.zeros(3), constant)
    assert "contiguous" in raises(ValueError, world.Allreduce, np.zeros(6)[::2], np.zeros(3))
    raises((TypeError, ValueError), world.Allreduce, np.zeros(3), np.zeros(4))
    raises((TypeError, ValueError), world.Allreduce, np.zeros(3), np.zeros(3, np.float32))
    world.barrier()


def check_python_meets_machine_code():
    """Ranks take part from Python until it pays to load machine code, which each decides for itself."""
    if not ON_NODE:
        return
    team, alike = world.split(0), np.random.default_rng(8)
    worth = mock.patch.object(native, "_WORTH_LOADING", 0 if world.rank % 2 == 0 else 10**9)
    with worth, mock.patch.object(native, "has_machine_code", return_value=False):
        for _ in range(100):
            what, root = int(alike.integers(4)), int(alike.integers(world.size))
            rows = contributions(alike, int(alike.integers(9)))
            array = rows[world.rank].copy()
            by_methods(team, what, array, root)
            assert array.tobytes() == expected(what, rows, root).tobytes(), (what, root)
    team.free()


def check_sizes():
    """One element less and more than what goes through shared memory, in a piece and in all, and far more."""
    most = min(LARGEST_FOLDED, MOST_FOLDED // world.size // 8 * 8)
    for nbytes in (LIMIT - 8, LIMIT, LIMIT + 8, SHORT, SHORT + 8, most, most + 8, 100 * LIMIT):
        rows = np.arange(world.size)[:, None] + np.arange(nbytes // 8)
        for form in (compiled, by_functions, by_methods):
            for what in (BCAST, SUM, MAX):
                array = rows[world.rank].copy()
                form(world, what, array, world.size - 1)
                assert (array == expected(what, rows, world.size - 1)).all(), (nbytes, what)


def check_dtypes():
    products("bQd")


def products(codes):
    """Compare products and minima of some types with NumPy's."""
    for code in codes:
        rows = (np.arange(world.size * 5).reshape(world.size, 5) % 3 + 1).astype(code)
        for run in (combine, lambda team, array: team.Allreduce(gw.IN_PLACE, array, gw.PROD)):
            mine = rows[world.rank].copy()
            run(world, mine)
            assert (mine == rows.prod(axis=0, dtype=code)).all(), code
        send, recv = rows[world.rank].copy(), np.zeros(5, code)
        world.Allreduce(send, recv, "min")
        assert (recv == rows.min(axis=0)).all()
        assert (send == rows[world.rank]).all()


def check_arrays_that_mpi_combines():
    for code in ("b", "Q", "f", "d", "F"):
        rows = (np.arange(world.size * 9000).reshape(world.size, 9000) % 5).astype(code)
        send, recv = rows[world.rank].copy(), np.zeros(9000, code)
        for op, oracle in ((gw.SUM, rows.sum), ("sum", rows.sum), *(() if code == "F" else ((gw.MIN, rows.min),))):
            world.Allreduce(send, recv, op)
            in_place = send.copy()
            world.Allreduce(gw.IN_PLACE, in_place, op)
            assert (recv == oracle(axis=0)).all(), (code, op)
            assert (in_place == recv).all()
            assert (send == rows[world.rank]).all()
    for op in (gw.BAND, gw.MAXLOC):
        assert "legal are" in raises(UsageError, world.Allreduce, np.zeros(9000), np.zeros(9000), op)


def check_shapes():
    table = np.asfortranarray(np.arange(6.0).reshape(2, 3) + world.rank)
    total = np.zeros((2, 3), order="F")
    world.Allreduce(table, total)
    assert (total == sum(np.arange(6.0).reshape(2, 3) + rank for rank in range(world.size))).all()
    box = gw.Array.zeros(gw.RectDomain((-1, 2), (1, 4)), dtype="i4")
    box.numpy()[:] = world.rank + 1
    broadcast(world, box, world.size - 1)
    gw.bcast(world, box, 0)
    assert (box.numpy() == world.size).all()
    assert "contiguous" in raises(ValueError, gw.bcast, world, np.zeros(8)[::2])


def check_many_in_a_row():
    times = 300
    assert add_many(world, float(world.rank), times) == sum(
        sum(rank + number for rank in range(world.size)) for number in range(times)
    )


def check_a_nan_wins_everywhere():
    """In every maximum and minimum, whichever rank has it and whatever way it takes, as in NumPy."""
    n, r = world.size, world.rank
    forms = gw.allreduce, in_place, started
    for who in {0, n // 2, n - 1}:
        for code in "dfg":
            for count in (1, 9, LIMIT // 8 + 1, 5 * LIMIT):
                rows = (np.arange(n * count).reshape(n, count) * 7 % 1013).astype(code)
                rows[who, count // 2] = rows[(who + 1) % n, 0] = np.nan
                if code != "g":
                    extremes(world, high := rows[r].copy(), low := rows[r].copy())
                    assert np.array_equal(high, np.maximum.reduce(rows), equal_nan=True), (code, count, who)
                    assert np.array_equal(low, np.minimum.reduce(rows), equal_nan=True), (code, count, who)
                for op, oracle in (("max", np.maximum), ("min", np.minimum)):
                    expected = oracle.reduce(rows)
                    for form in forms:
                        found = rows[r].copy()
                        form(world, found, op)
                        assert np.array_equal(found, expected, equal_nan=True), (form, code, count, op, who)
                    at_root = np.zeros(count, code) if r == who else None
                    world.Reduce(rows[r], at_root, op, who)
                    assert r != who or np.array_equal(at_root, expected, equal_nan=True), (code, count, op)
                    part = np.zeros(count, code)
                    world.Reduce_scatter_block(np.tile(rows[r], n), part, op)
                    assert np.array_equal(part, expected, equal_nan=True), (code, count, op)
        values = [np.nan if rank == who else float(rank) for rank in range(n)]
        assert np.isnan(largest(world, values[r])).all()
        for op, oracle in ((gw.MAX, np.maximum), ("min", np.minimum)):
            for kind in (float, np.float32):
                mine = kind(values[r])
                assert np.isnan(world.allreduce(mine, op))
                at_root = world.reduce(mine, op)
                assert r != 0 or np.isnan(at_root)
                assert np.array_equal(world.scan(mine, op), oracle.reduce(values[: r + 1]), equal_nan=True)
                before = world.exscan(mine, op)
                assert r == 0 or np.array_equal(before, oracle.reduce(values[:r]), equal_nan=True)
            assert np.isnan(gw.allreduce(world, values[r], op))
        for op in (gw.MAXLOC, gw.MINLOC):
            value, place = world.allreduce((values[r], r), op)
            assert np.isnan(value)
            assert place == who
    assert world.allreduce((np.nan, r + 5), "maxloc")[1] == 5
    assert world.allreduce(f"rank {r}", "max") == f"rank {n - 1}"


@gw.jit
def extremes(team, high, low):
    gw.allreduce(team, high, "max")
    gw.allreduce(team, low, "min")


def in_place(team, array, op):
    team.Allreduce(gw.IN_PLACE, array, op)


def started(team, array, op):
    given = array.copy()
    assert team.Iallreduce(given, array, op).result() is array


def check_memory_orders_that_differ():
    """Elements belong together by their indices, whatever the memory order is on each rank."""
    n, r = world.size, world.rank
    for shape in ((2, 3), (60, 100)):
        table = np.arange(float(np.prod(shape))).reshape(shape)
        stack = np.stack([table + rank for rank in range(n)])
        counts = [table.size] * n
        for first, others in ("CF", "FC", "FF"):
            mine, other = (first, others) if r == 0 else (others, first)

            def given(values, mine=mine):
                return np.array(values, order=mine)

            def room(other=other, shape=shape):
                return np.zeros(shape, order=other)

            boxed = gw.Array.zeros(gw.RectDomain((0, 0), shape), order=mine)
            sums = [given(table) for _ in range(3)]
            world.Allreduce(sums[0], total := room())
            in_place(world, sums[1], "sum")
            gw.allreduce(world, sums[2])
            boxed.numpy()[...] = table
            gw.allreduce(world, boxed)
            assert (sums[0] == table).all()
            assert all((found == n * table).all() for found in (total, *sums[1:], boxed.numpy()))
            world.Iallreduce(given(table), total := room()).wait()
            assert (total == n * table).all()
            world.Reduce(given(table), total := room(), root=n - 1)
            assert (total == n * table * (r == n - 1)).all()
            world.Reduce_scatter_block(stack, total := room())
            assert (total == n * stack[r]).all()
            sent = [given(table * (r == n - 1)) for _ in range(3)]
            world.Bcast(sent[0], n - 1)
            gw.bcast(world, sent[1], n - 1)
            world.Ibcast(sent[2], n - 1).wait()
            assert all((found == table).all() for found in sent)
            for name in ("Gather", "Allgather", "Gatherv", "Allgatherv", "Igather", "Iallgather"):
                whole = np.zeros((n, *shape))
                request = getattr(world, name)(given(stack[r]), (whole, counts) if name.endswith("v") else whole)
                if request is not None:
                    request.wait()
                assert (whole == stack).all() or (r != 0 and "ll" not in name), name
            world.Scatter(stack, part := room())
            world.Scatterv((stack, counts), parts := room())
            assert (part == stack[r]).all()
            assert (parts == stack[r]).all()
    world.barrier()


def check_memory_orders_that_are_refused():
    """Of a buffer of parts nobody knows along which axis they are parts; compiled code copies nothing."""
    n = world.size
    columns, rows = np.zeros((2 * n, 3), order="F"), np.zeros((2, 3))
    for call, *arguments in (
        (world.Allgather, rows, columns),
        (world.Iallgather, rows, columns),
        (world.Allgatherv, rows, (columns, [6] * n)),
        (world.Alltoall, columns, columns.copy()),
        (world.Alltoall, columns.copy("C"), columns),
        (world.Alltoallv, (columns, [6] * n), (columns, [6] * n)),
        (world.Reduce_scatter_block, columns, rows),
        (world.Send_init, columns, 0),
        (world.Recv_init, columns, 0),
    ):
        assert "give its transpose" in raises(ValueError, call, *arguments), call.__name__
    if world.rank == 0:
        assert "give its transpose" in raises(ValueError, world.Gather, rows, columns)
        assert "give its transpose" in raises(ValueError, world.Scatter, columns, rows)
    for array in (np.zeros(8)[::2], np.zeros(4, ">f8")):
        raises((ValueError, TypeError), gw.allreduce, world, array)
    for array in (np.zeros((2, 3), order="F"), gw.Array.zeros(gw.RectDomain((0, 0), (2, 3)), order="F")):
        for what in (SUM, BCAST):
            assert "give its transpose" in raises(ValueError, compiled, world, what, array, 0)
    for shape in ((0, 3), (3, 1), (1, 3)):
        compiled(world, SUM, np.zeros(shape, order="F"), 0)
    world.barrier()


def check_every_array_can_be_broadcast():
    """Machine code looks at the array itself, and leaves what it does not know."""
    native._WORTH_LOADING = 0  # machine code from the first call on
    records = np.dtype([("a", "i4"), ("b", "f8")])
    for number, dtype in enumerate(("?", *"bhilqBHILQfdgFDG", ">f8", "S3", "datetime64[D]", records)):
        root = number % world.size
        for shape in ((), (0,), (5,), (2, 3), (3000,)):
            for order in "CF":
                sent = np.resize(np.arange(7), shape).astype("i8").astype(dtype, order=order)
                array = sent.copy(order) if world.rank == root else np.zeros(shape, dtype, order)
                world.Bcast(array, root)
                assert (array == sent).all(), (dtype, shape, order)
    if ON_NODE:
        unaligned = np.zeros(17, np.uint8)[1:].view(float)
        unaligned[:] = world.rank
        world.Bcast(unaligned, world.size - 1)
        assert (unaligned == world.size - 1).all()
    for root in (-1, world.size):
        assert "the ranks" in raises(ValueError, world.Bcast, np.zeros(2), root)


def check_few_elements_are_combined_in_the_order_of_the_ranks():
    """So all ranks get the same bits, in every run: through memory, and through MPI in teams of few ranks."""
    generator = np.random.default_rng(11)
    through_mpi = gw.Team.from_comm(world.comm)
    for code in "dflq":
        for op, function in ((gw.SUM, np.add), (gw.PROD, np.multiply), (gw.MAX, np.maximum), (gw.MIN, np.minimum)):
            for size in (1, 9, 250):
                rows = (contributions(generator, size) * 1e3).astype(code)
                oracle = functools.reduce(function, rows)
                for team in (world, through_mpi):
                    total, in_place = np.zeros(size, code), rows[world.rank].copy()
                    team.Allreduce(rows[world.rank].copy(), total, op)
                    team.Allreduce(gw.IN_PLACE, in_place, op)
                    assert total.tobytes() == in_place.tobytes() == oracle.tobytes(), (code, op)


def of_length(rank, length):
    """An object whose pickle has about so many bytes, below 10 KiB exactly, and another one on each rank."""
    return bytes([65 + rank]) * (length - len(pickle.dumps(b"", 5)) - (3 if length > 275 else 0))


def check_buffers_that_overlap():
    """What is received is that of buffers which share no memory, at every size and in every place."""
    n, r = world.size, world.rank
    through_mpi, every = gw.Team.from_comm(world.comm), range(n)
    for count in (1, 3, LIMIT // 8, LIMIT // 4, MOST_FOLDED // 8):
        rows = np.stack([np.arange(count) % 1013.0 + 7 * rank for rank in every])
        total, wide = rows.sum(axis=0), np.repeat(rows[:, None], n, axis=1)

        def shifted(values):
            """Two overlapping arrays of one length, the first with these values."""
            memory = np.empty(values.size + 1)
            first, second = memory[:-1], memory[1:]
            first[:] = values.ravel()
            return first, second

        for team in (world, through_mpi):
            for op in ("sum", "max"):
                oracle = total if op == "sum" else rows.max(axis=0)
                same = rows[r].copy()
                team.Allreduce(same, same, op)
                team.Allreduce(*(pair := shifted(rows[r])), op)
                started = rows[r].copy()
                team.Iallreduce(started, started, op).wait()
                at_root = rows[r].copy()
                team.Reduce(at_root, at_root if r == n - 1 else None, op, n - 1)
                assert all((found == oracle).all() for found in (same, pair[1], started)), (count, op)
                assert (at_root == (oracle if r == n - 1 else rows[r])).all(), (count, op)
            whole = rows.copy()
            team.Allgather(whole[r], whole)
            whole[0 if r else n - 1] = -1.0
            whole[r] = rows[r]
            team.Allgatherv(whole[r], (whole, [count] * n))
            assert (whole == rows).all()
            first, second = shifted(np.concatenate([rows[r]] * n))
            team.Alltoall(first, second)
            assert (second == rows.ravel()).all()
            first, second = shifted(wide[r])
            team.Alltoallv((first, [count] * n), (second, [count] * n))
            assert (second == rows.ravel()).all()
            whole = rows.copy()
            team.Gather(whole[r], whole if r == 0 else None)
            team.Scatter(whole if r == 0 else None, whole[n - 1])
            assert (whole[n - 1] == rows[r]).all()
            parts = rows.copy()
            team.Reduce_scatter_block(parts, parts[n // 2])
            assert (parts[n // 2] == n * rows[r]).all()


def check_objects_of_any_length():
    n, r = world.size, world.rank
    through_mpi = gw.Team.from_comm(world.comm)
    with mock.patch.object(object_collectives, "MOST_FOLDING", 0):
        as_if_large = gw.Team.from_comm(world.comm)
        assert as_if_large.allreduce(1) == n
    for length in (30, ROOM, ROOM + 1, 3 * LIMIT, 10 * SHORT):
        everything = [of_length(rank, length) for rank in range(n)]
        mixed = [everything[r] if i == 1 else i for i in range(n)]  # of rank r
        long_of_one = [everything[i] if i == n - 1 else i for i in range(n)]
        for team in (world, through_mpi, as_if_large):
            for root in {0, n - 1}:
                assert team.bcast(everything[r], root) == everything[root]
                assert team.gather(long_of_one[r], root) == (long_of_one if r == root else None)
                assert team.scatter(everything if r == root else None, root) == everything[r]
                joined = team.reduce(everything[r], operator.add, root)
                assert joined == (b"".join(everything) if r == root else None)
            assert team.allgather(everything[r]) == everything
            assert team.allgather(long_of_one[r]) == long_of_one
            assert team.alltoall(mixed) == ([everything[i] for i in range(n)] if r == 1 else [r] * n)
            assert team.allreduce(everything[r], operator.add) == b"".join(everything)
            assert team.scan(everything[r], operator.add) == b"".join(everything[: r + 1])
            assert team.exscan(everything[r], operator.add) == (b"".join(everything[:r]) if r else None)


def collectives_with_a_late_rank(team, late, size):
    """Collectives in which the others wait for one rank, and then say whether the result is right."""
    n, r, root = team.size, team.rank, (late + 1) % team.size
    mine, total, part = np.full(size, r + 1.0), np.zeros(size), np.zeros(size)
    whole, pieces = np.zeros((n, size)), np.repeat(np.arange(n) + 10.0 * r, size).reshape(n, size)
    rows, counts = np.repeat(np.arange(n) + 1.0, size).reshape(n, size), [size] * n
    at_root, of_late = (whole if r == root else None), (rows.copy() if r == late else None)
    all_of = n * (n + 1) / 2.0
    yield lambda: team.barrier() or True
    yield lambda: (team.Bcast(mine, late), (mine == late + 1).all())[1]
    mine = np.full(size, r + 1.0)
    yield lambda: (team.Allreduce(mine, total), (total == all_of).all())[1]
    yield lambda: (team.Allreduce(mine, total, "min"), (total == 1).all())[1]
    yield lambda: (team.Reduce(mine, total if r == root else None, gw.SUM, root), r != root or total[0] == all_of)[1]
    yield lambda: (team.Reduce_scatter_block(rows, part), (part == n * (r + 1.0)).all())[1]
    yield lambda: (team.Gather(mine, at_root, root), r != root or (whole == rows).all())[1]
    yield lambda: (team.Allgather(mine, whole), (whole == rows).all())[1]
    yield lambda: (team.Scatter(of_late, part, late), (part == r + 1).all())[1]
    yield lambda: (team.Alltoall(pieces, whole), (whole == (10.0 * np.arange(n) + r)[:, None]).all())[1]
    from_each = None if at_root is None else (whole, counts)
    yield lambda: (team.Gatherv(mine, from_each, root), r != root or (whole == rows).all())[1]
    yield lambda: (team.Allgatherv(mine, (whole, counts)), (whole == rows).all())[1]
    yield lambda: (team.Scatterv(None if of_late is None else (rows, counts), part, late), (part == r + 1).all())[1]
    yield lambda: (team.Alltoallv((pieces, counts), (whole, counts)), (whole[:, 0] == 10.0 * np.arange(n) + r).all())[1]
    yield lambda: team.bcast(b"x" * size if r == late else None, late) == b"x" * size
    yield lambda: team.gather(b"x" * size, root) == ([b"x" * size] * n if r == root else None)
    yield lambda: team.allgather((r, b"x" * size)) == [(i, b"x" * size) for i in range(n)]
    yield lambda: team.scatter([(i, b"x" * size) for i in range(n)] if r == late else None, late)[0] == r
    yield lambda: team.alltoall([(r, i, b"x" * size) for i in range(n)])[late][:2] == (late, r)
    yield lambda: team.reduce(r, gw.MAX, root) == (n - 1 if r == root else None)
    yield lambda: team.allreduce(r) == n * (n - 1) // 2


def check_a_late_rank_is_served():
    """A rank that comes late may call those that wait: in every collective, whoever serves it."""
    if world.size == 1:
        return
    for team in (world, gw.Team.from_comm(world.comm)):
        for size in (1, 5000):
            late = (size + team.size - 2) % team.size
            for collective in collectives_with_a_late_rank(team, late, size):
                if world.rank == late:
                    # They are served from inside of this collective: after it the others wait for nothing but the next.
                    for other in range(world.size):
                        assert gw.rpc(other, abs, -3 - other).result() == 3 + other
                assert collective()
    world.barrier()


def refusals():
    """What collectives say in a callback."""
    calls = (world.barrier, lambda: world.Bcast(np.zeros(1)), lambda: world.Allreduce(np.zeros(1), np.zeros(1)))
    calls += (lambda: world.bcast(1), lambda: world.allgather(1), lambda: world.alltoall([1] * world.size))
    calls += (lambda: world.scatter([1] * world.size, world.rank), lambda: world.Gather(np.zeros(1), None, 0))
    return [raises(gw.ProgressError, call) for call in calls[: 7 + (world.rank > 0)]]


def check_callbacks_are_refused_before_anything_is_sent():
    for message in gw.rpc(world.rank, refusals).result():
        assert "inside a callback" in message
    assert world.allreduce(1) == world.size


def check_ranks_may_connect_at_different_calls():
    """The first use of a team makes its memory, whatever that use is on each rank."""
    team = gw.Team(world.comm.Dup if world.size > 1 else lambda: world.comm, "lazy", share)
    if world.rank == 0:
        assert team.rank == 0
    team.barrier()
    other = gw.Team(world.comm.Dup if world.size > 1 else lambda: world.comm, "lazy", share)
    if world.rank == 0:
        assert other.rank == 0
    array = np.array([world.rank + 3])
    other.Bcast(array)
    assert array[0] == 3
    if world.size > 1:
        team.comm.Free()
        other.comm.Free()


def check_roots():
    array = np.zeros(2)
    for root in (-1, world.size):
        assert "the ranks" in raises(UsageError, gw.bcast, world, array, root)
        assert "root" in raises(ValueError, broadcast, world, array, root)
        if ON_NODE:
            assert "root" in raises(ValueError, world.Bcast, array, root)


def check_different_collectives_are_refused():
    if not ON_NODE:
        return
    team = world.split(0)
    if world.rank == 0:
        message = raises(UsageError, team.barrier)
        assert "rank 0 a barrier, rank 1 an allreduce by 'sum' of 16 bytes of float64" in message, message
    else:
        message = raises(UsageError, team.Allreduce, np.zeros(2), np.zeros(2))
        assert "an allreduce by 'sum' of 16 bytes of float64, rank 0 a barrier" in message, message
    team.barrier()
    array = np.zeros(1 + world.rank)
    assert "different" in raises(RuntimeError, compiled, team, SUM, array, 0)
    for mine, other in ((float, "i8"), ("i4", "f4"), ("u8", "i8")):  # elements of one size, which would be mixed
        array = np.zeros(2, mine if world.rank == 0 else other)
        for _ in range(2):
            message = raises(UsageError, team.Allreduce, gw.IN_PLACE, array)
            assert f"by 'sum' of {array.nbytes} bytes of {array.dtype}" in message, message
            assert f"bytes of {np.dtype(other if world.rank == 0 else mine)}" in message, message
    team.free()


if __name__ == "__main__":
    run_checks(globals())
