"""What a team must do, each check by all ranks against values computed serially. Prints one JSON line per check."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import time

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import (
    BAND,
    BOR,
    IN_PLACE,
    LAND,
    LOR,
    MAX,
    MAXLOC,
    MIN,
    MINLOC,
    PROD,
    SUM,
    RemoteError,
    Team,
    mpi,
    start_all,
    wait_all,
    world,
)


def row(rank, size=5, dtype=float):
    """The data of one rank, known to all."""
    return np.random.default_rng(rank).integers(1, 4, size).astype(dtype)


def rows(size=5, dtype=float):
    return np.array([row(rank, size, dtype) for rank in range(world.size)])


def check_object_collectives():
    r, n = world.rank, world.size
    everything = [{"rank": i, "text": "x" * i} for i in range(n)]
    for root in range(n):
        assert world.bcast(everything[r], root) == everything[root]
        assert world.gather(everything[r], root) == (everything if r == root else None)
        assert world.scatter(everything if r == root else None, root) == everything[r]
        assert world.reduce(r + 1, SUM, root) == (sum(range(1, n + 1)) if r == root else None)
    assert world.allgather(everything[r]) == everything
    assert world.alltoall([(r, i) for i in range(n)]) == [(i, r) for i in range(n)]


def check_object_reductions():
    r, n = world.rank, world.size
    values = [3 * i % 7 + 1 for i in range(n)]
    for op, function in ((SUM, operator.add), (PROD, operator.mul), (MAX, max), (MIN, min), (BAND, operator.and_)):
        assert world.allreduce(values[r], op) == functools.reduce(function, values)
        assert world.scan(values[r], op) == functools.reduce(function, values[: r + 1])
        before = functools.reduce(function, values[:r]) if r else None
        assert world.exscan(values[r], op) == before
    assert world.allreduce({r}, BOR) == set(range(n))
    assert world.allreduce(r > 0, LAND) is False
    assert world.allreduce(r == 0, LOR) is True
    assert world.allreduce((values[r], r), MAXLOC) == (max(values), values.index(max(values)))
    assert world.allreduce((values[r], r), MINLOC) == (min(values), values.index(min(values)))
    assert world.allreduce([r], lambda left, right: left + right) == list(range(n))


def check_received_objects_are_copies():
    mine = [world.rank]
    assert world.allgather(mine)[world.rank] is not mine
    assert world.allreduce(mine) is not mine
    assert world.bcast(mine) is not mine


def check_buffer_reductions():
    for dtype in ("f4", "f8", "i4", "i8", "u2", "c16"):
        oracle = rows(dtype=dtype)
        mine = oracle[world.rank].copy()
        for op, function in ((SUM, np.sum), (PROD, np.prod)) + (((MAX, np.max), (MIN, np.min)) * (dtype != "c16")):
            out = np.zeros_like(mine)
            world.Allreduce(mine, out, op)
            np.testing.assert_allclose(out, function(oracle, axis=0), rtol=1e-6)
            for root in range(world.size):
                out = np.zeros_like(mine)
                world.Reduce(mine, out if world.rank == root else None, op, root)
                if world.rank == root:
                    np.testing.assert_allclose(out, function(oracle, axis=0), rtol=1e-6)
            out = mine.copy()
            world.Allreduce(IN_PLACE, out, op)
            np.testing.assert_allclose(out, function(oracle, axis=0), rtol=1e-6)


def check_buffer_movement():
    r, n = world.rank, world.size
    oracle = rows()
    for root in range(n):
        buffer = oracle[r].copy()
        world.Bcast(buffer, root)
        assert (buffer == oracle[root]).all()
        gathered = np.zeros_like(oracle)
        world.Gather(oracle[r].copy(), gathered if r == root else None, root)
        assert r != root or (gathered == oracle).all()
        part = np.zeros(5)
        world.Scatter(oracle.copy() if r == root else None, part, root)
        assert (part == oracle[r]).all()
    gathered = np.zeros_like(oracle)
    world.Allgather(oracle[r].copy(), gathered)
    assert (gathered == oracle).all()
    gathered = np.zeros_like(oracle)
    gathered[r] = oracle[r]
    world.Allgather(IN_PLACE, gathered)
    assert (gathered == oracle).all()
    table = 100 * r + np.arange(3 * n)
    received = np.zeros_like(table)
    world.Alltoall(table, received)
    assert (received.reshape(n, 3) == [[100 * i + 3 * r + k for k in range(3)] for i in range(n)]).all()


def check_buffers_of_any_length():
    r, n = world.rank, world.size
    counts = [i % 3 for i in range(n)]
    oracle = np.concatenate([np.full(counts[i], 10.0 * i) for i in range(n)])
    mine = np.full(counts[r], 10.0 * r)
    out = np.zeros_like(oracle)
    world.Allgatherv(mine, (out, counts))
    assert (out == oracle).all()
    for root in range(n):
        out = np.zeros_like(oracle)
        world.Gatherv(mine, (out, counts) if r == root else None, root)
        assert r != root or (out == oracle).all()
        back = np.zeros(counts[r])
        world.Scatterv((oracle, counts) if r == root else None, back, root)
        assert (back == mine).all()
    send_counts = [(r + i) % 3 for i in range(n)]
    send = np.concatenate([np.full(send_counts[i], 10 * r + i) for i in range(n)])
    receive = np.zeros(sum(send_counts), dtype=send.dtype)
    world.Alltoallv((send, send_counts), (receive, send_counts))
    assert (receive == np.concatenate([np.full(send_counts[i], 10 * i + r) for i in range(n)])).all()
    raises(ValueError, world.Allgatherv, mine, (np.zeros(0), [1] * n))
    raises(ValueError, world.Allgatherv, mine, (out, [0] * (n + 1)))
    raises(TypeError, world.Allgatherv, mine, out)
    raises(TypeError, world.Allgatherv, mine, (out, None))


def check_records_and_texts_of_any_length():
    """What MPI has no type for moves as bytes, and is cut between elements."""
    r, n = world.rank, world.size
    for dtype in (
        np.dtype([("a", "i1"), ("b", "f8")]),
        np.dtype("S3"),
        np.dtype("U2"),
        np.dtype("M8[s]"),
        np.dtype(">f8"),
    ):
        # Element k of rank i for rank j.
        known = np.frombuffer(np.random.default_rng(1).bytes(dtype.itemsize * n * n * 3 * 16), dtype)
        if dtype.kind == "U":
            known = np.array(["ab", "c", "é"] * (n * n * 16), dtype)
        known = known[: n * n * 3].reshape(n, n, 3)
        counts = [[(i + 2 * j) % 3 for j in range(n)] for i in range(n)]
        sent, received = counts[r], [counts[i][r] for i in range(n)]
        send = np.concatenate([known[r, j, : sent[j]] for j in range(n)], dtype=dtype)
        oracle = np.concatenate([known[i, r, : received[i]] for i in range(n)], dtype=dtype)
        found = np.zeros_like(oracle)
        world.Alltoallv((send, sent), (found, received))
        assert found.tobytes() == oracle.tobytes(), dtype
        column = np.concatenate([known[i, 0, : counts[i][0]] for i in range(n)], dtype=dtype)
        sizes = [counts[i][0] for i in range(n)]
        mine = known[r, 0, : counts[r][0]].copy()
        for root in range(n):
            whole, back = np.zeros_like(column), np.zeros_like(mine)
            world.Gatherv(mine, (whole, sizes) if r == root else None, root)
            assert r != root or whole.tobytes() == column.tobytes(), dtype
            world.Scatterv((column, sizes) if r == root else None, back, root)
            assert back.tobytes() == mine.tobytes(), dtype
        whole = np.zeros_like(column)
        world.Allgatherv(mine, (whole, sizes))
        assert whole.tobytes() == column.tobytes(), dtype


def check_non_blocking():
    r, n = world.rank, world.size
    oracle = rows()
    total, gathered, buffer = np.zeros(5), np.zeros_like(oracle), oracle[r].copy()
    exchanged, root_sum, part = np.zeros(n), np.zeros(5), np.zeros(5)
    at_root = np.zeros_like(oracle)
    requests = [
        world.Ibarrier(),
        world.Iallreduce(oracle[r].copy(), total),
        world.Iallgather(oracle[r].copy(), gathered),
        world.Ibcast(buffer, n - 1),
        world.Ialltoall(np.full(n, float(r)), exchanged),
        world.Ireduce(oracle[r].copy(), root_sum if r == 0 else None),
        world.Igather(oracle[r].copy(), at_root if r == 0 else None),
        world.Iscatter(oracle if r == 0 else None, part),
    ]
    while not all(request.test() for request in requests):
        time.sleep(0.001)
    wait_all(requests)
    assert requests[0].result() is None
    assert requests[1].result() is total
    np.testing.assert_allclose(total, oracle.sum(axis=0))
    assert (gathered == oracle).all()
    assert (buffer == oracle[n - 1]).all()
    assert (exchanged == np.arange(n)).all()
    assert (part == oracle[r]).all()
    if r == 0:
        np.testing.assert_allclose(root_sum, oracle.sum(axis=0))
        assert (at_root == oracle).all()


def check_barrier_is_not_complete_early():
    if world.size == 1:
        return
    last = world.rank == world.size - 1
    if last:
        world.recv(0, tag=3)
    request = world.Ibarrier()
    if world.rank == 0:
        assert not request.test()
        world.send("go", world.size - 1, tag=3)
    request.wait()


def check_messages_around_a_ring():
    r, n = world.rank, world.size
    right, left = (r + 1) % n, (r - 1) % n
    received, big = np.zeros(4), np.zeros(200_000)
    requests = [world.Irecv(received, left, 1), world.Irecv(big, left, 2)]
    requests += [world.Isend(np.full(200_000, float(r)), right, 2), world.Isend(np.full(4, float(r)), right, 1)]
    wait_all(requests)
    assert requests[0].result() is received
    assert (received == left).all()
    assert (big == left).all()
    # A blocking send to oneself may wait for ever, as in MPI.
    for giver in range(n if n > 1 else 0):
        if r == giver:
            world.send({"from": r}, right, tag=9)
        elif left == giver:
            assert world.recv(giver, 9) == {"from": giver}


def check_sending_while_receiving():
    r, n = world.rank, world.size
    right, left = (r + 1) % n, (r - 1) % n
    for size in (0, 4, 200_000):
        received = np.full(size, -1.0)
        world.Sendrecv(np.full(size, float(r)), right, 5, received, left, 5)
        assert (received == left).all()
    received = bytearray(4)
    world.Sendrecv(bytes([r] * 4), dest=left, recvbuf=received)
    assert received == bytes([right] * 4)
    assert "recvbuf" in raises(TypeError, world.Sendrecv, np.zeros(2), right)
    assert f"dest={n}" in raises(ValueError, world.Sendrecv, np.zeros(2), n, 0, np.zeros(2))
    assert "source=-1" in raises(ValueError, world.Sendrecv, np.zeros(2), right, 0, np.zeros(2), -1)
    world.barrier()
    assert world.Iprobe() is None  # what was refused has sent nothing


def check_probing():
    r, n = world.rank, world.size
    right, left = (r + 1) % n, (r - 1) % n
    assert world.Iprobe(left, 21) is None
    world.barrier()
    requests = [world.Isend(np.arange(r + 1), right, 21), world.Isend(np.zeros(5, "i2"), right, 22)]
    for source, tag in ((left, 21), (None, 22), (left, None)):
        envelope = world.Probe(source, tag)
        expected = {21: (left, 21, 8 * (left + 1)), 22: (left, 22, 10)}
        assert envelope == expected[tag or 21]  # messages of one rank are found in the order of their sending
    assert world.Iprobe(left, 23) is None
    room = np.empty(world.Probe(tag=21).nbytes // 8, int)
    world.Recv(room, left, 21)
    assert (room == np.arange(left + 1)).all()
    assert world.Iprobe(tag=22) == (left, 22, 10)
    world.Recv(np.zeros(5, "i2"), tag=22)
    wait_all(requests)
    world.barrier()
    assert world.Iprobe() is None
    assert f"source={n}" in raises(ValueError, world.Probe, n)


def check_reduced_parts():
    r, n = world.rank, world.size
    for dtype, op, function in (("f8", SUM, np.sum), ("i4", MAX, np.max), ("f4", MIN, np.min), ("c16", PROD, np.prod)):
        oracle = rows(3 * n, dtype)
        expected = function(oracle, axis=0)[3 * r : 3 * r + 3]
        part = np.zeros(3, dtype)
        world.Reduce_scatter_block(oracle[r].copy(), part, op)
        np.testing.assert_allclose(part, expected, rtol=1e-6)
        in_place = oracle[r].copy()
        world.Reduce_scatter_block(IN_PLACE, in_place, op)
        np.testing.assert_allclose(in_place[:3], expected, rtol=1e-6)
    assert "agree" in raises(ValueError, world.Reduce_scatter_block, np.zeros(n), np.zeros(2))
    assert "float32" in raises(TypeError, world.Reduce_scatter_block, np.zeros(n), np.zeros(1, "f4"))
    if n > 1:
        assert "equal parts" in raises(ValueError, world.Reduce_scatter_block, IN_PLACE, np.zeros(n + 1))


def check_reduced_parts_of_more_than_one_operation_takes():
    largest, block = mpi.largest_count, mpi.LARGE_BLOCK
    oracle = rows(4 * world.size)
    expected = oracle.sum(axis=0)[4 * world.rank : 4 * world.rank + 4]
    mpi.largest_count, mpi.LARGE_BLOCK = lambda comm: 3, 2
    try:
        part, in_place = np.zeros(4), oracle[world.rank].copy()
        world.Reduce_scatter_block(oracle[world.rank].copy(), part)
        world.Reduce_scatter_block(IN_PLACE, in_place)
    finally:
        mpi.largest_count, mpi.LARGE_BLOCK = largest, block
    np.testing.assert_allclose(part, expected)
    np.testing.assert_allclose(in_place[:4], expected)


def check_messages_to_itself_match_by_tag():
    mine = Team.from_comm(world.split(world.rank).comm)
    first, second, early = np.zeros(2), np.zeros(2), np.zeros(2)
    early_request = mine.Irecv(early, 0, 7)
    sends = [mine.Isend(np.full(2, 1.0), 0, 1), mine.Isend(np.full(2, 2.0), 0, 2), mine.Isend(np.full(2, 7.0), 0, 7)]
    mine.Recv(second, 0, 2)
    mine.Recv(first)
    wait_all([*sends, early_request])
    assert (first[0], second[0], early[0]) == (1.0, 2.0, 7.0)
    request = mine.Irecv(first, 0, 11)
    assert not request.test()
    mine.Isend(np.full(2, 4.0), 0, 11).wait()
    assert request.result()[0] == 4.0
    too_long = mine.Isend(np.zeros(9), 0, 5)
    raises(Exception, mine.Recv, np.zeros(2), 0, 5)
    too_long.wait()


def check_persistent_requests():
    r, n = world.rank, world.size
    out, into = np.zeros(6), np.zeros(6)
    requests = [world.Recv_init(into, (r - 1) % n, 4), world.Send_init(out, (r + 1) % n, 4)]
    wait_all(requests)
    for step in range(5):
        out[:] = 10 * r + step
        start_all(requests)
        raises(RuntimeError, requests[0].start)
        wait_all(requests)
        assert (into == 10 * ((r - 1) % n) + step).all()
    assert requests[0].result() is into
    for request in requests:
        request.free()


def check_split():
    r, n = world.rank, world.size
    half = world.split(r % 2, key=-r)
    members = [i for i in range(n) if i % 2 == r % 2][::-1]
    assert half.size == len(members)
    assert half.allgather(r) == members
    assert half.rank == members.index(r)
    shared = world.split(str(r % 2), shared=True)
    assert world.split(str(r % 2), shared=True) is shared
    shared.free()
    again = world.split(str(r % 2), shared=True)
    assert again is not shared
    assert again.allreduce(1) == len(members)
    few = world.split("few" if r < 2 else None)
    assert (few is None) == (r >= 2)
    if few is not None:
        assert few.allgather(r) == list(range(min(2, n)))
    nested = half.split(0 if half.rank == 0 else None)
    assert (nested is None) == (half.rank > 0)
    half.free()
    assert "freed" in repr(half)
    for use in (half.barrier, lambda: half.allreduce(1), lambda: half.split(0), lambda: half.send(1, 0)):
        assert "was freed" in raises(UsageError, use)
    again = world.split(r % 2, key=-r)
    assert again.allgather(r) == members


def check_teams_of_the_same_ranks_are_apart():
    one, two = world.split(0), world.split(0)
    assert one is not two
    assert one.key != two.key
    after, before = (world.rank + 1) % world.size, world.rank - 1
    sent = [team.Isend(np.array([number]), after) for team, number in ((two, 2.0), (one, 1.0))]
    for team, number in ((one, 1.0), (two, 2.0)):
        received = np.zeros(1)
        team.Recv(received, before % world.size)
        assert received[0] == number
    for request in sent:
        request.wait()
    for request in [team.Ibarrier() for team in ((one, two) if world.rank % 2 else (two, one))]:
        request.wait()
    one.free()
    assert two.allreduce(1) == world.size
    two.free()


def check_ranks_that_disagree_on_sharing_are_told():
    if world.size > 1:
        assert "some ranks gave shared=True" in raises(UsageError, lambda: world.split(0, shared=world.rank == 0))
    assert world.split(0, shared=True) is world.split(0, shared=True)


def check_freeing_a_team_leaves_the_node():
    node = world.node
    with world.split(0) as everybody:
        assert everybody.size == world.size
    assert world.node is node
    assert node.allreduce(1) == node.size


def check_many_teams():
    for step in range(300):
        assert world.split(0, shared=True).size == world.size
        with world.split((step, world.rank % 2), key=-world.rank) as team:
            team.barrier()


def check_node():
    import os

    r, given = world.rank, os.environ.get("GONDWANA_RANKS_PER_NODE")
    per_node = int(given or world.size)
    assert world.node is world.node
    assert world.node.size == per_node
    assert world.node_count == world.size // per_node
    assert world.node_index == r // per_node
    assert (world.leaders is None) == (r % per_node > 0)
    for k in (1, 2, 4):
        os.environ["GONDWANA_RANKS_PER_NODE"] = str(k)
        team = Team.from_comm(world.comm)
        assert team.node.allgather(r) == [i for i in range(world.size) if i // k == r // k]
        assert team.node_count == -(-world.size // k)
        assert team.node_index == r // k
        assert [team.node_of(i) for i in range(world.size)] == [i // k for i in range(world.size)]
        if team.leaders is not None:
            assert team.leaders.allgather(r) == list(range(0, world.size, k))
        team.free()
    os.environ["GONDWANA_RANKS_PER_NODE"] = "0"
    raises(UsageError, lambda: Team.from_comm(world.comm).node)
    if given is None:
        del os.environ["GONDWANA_RANKS_PER_NODE"]
    else:
        os.environ["GONDWANA_RANKS_PER_NODE"] = given


def check_agree():
    world.agree(None)
    guilty = world.size - 1
    mine = KeyError("my own") if world.rank == guilty else None
    message = raises(KeyError if mine else RemoteError, world.agree, mine)
    assert mine or f"rank {guilty} of world failed: KeyError: 'my own'" in message
    assert raises(UsageError, world.agree, UsageError("give a number") if world.rank == guilty else None)
    if world.size > 2:
        message = raises(Exception, world.agree, ValueError("v") if world.rank in (1, 2) else None)
        assert message == "v" if world.rank in (1, 2) else "rank 1" in message


def check_refusals_before_communication():
    array = np.zeros(4)
    for function in (world.allgather, world.gather, world.allreduce, world.reduce, world.scan, world.exscan):
        assert function.__name__ in raises(TypeError, function, array)
    assert "Send" in raises(TypeError, world.send, array, 0)
    assert "every rank" in raises(ValueError, world.alltoall, [0] * (world.size + 1))
    assert "contiguous" in raises(ValueError, world.Allreduce, np.zeros(8)[::2], array)
    assert "contiguous" in raises(ValueError, world.Bcast, np.zeros((4, 4))[:, :2])
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    assert "read-only" in raises(ValueError, world.Allreduce, array, frozen)
    assert "float32" in raises(TypeError, world.Allreduce, array, np.zeros(4, "f4"))
    assert "4" in raises(ValueError, world.Allreduce, array, np.zeros(5))
    assert "agree" in raises(ValueError, world.Allgather, array, np.zeros(4 * world.size + 1))
    assert "lower-case" in raises(TypeError, world.Bcast, {"a": 1})
    assert "Python objects" in raises(TypeError, world.Bcast, np.array([None]))
    assert "float16" in raises(TypeError, world.Allreduce, np.zeros(2, "f2"), np.zeros(2, "f2"))
    assert "ranks of this team" in raises(ValueError, world.Send, array, world.size)
    assert "ranks of this team" in raises(ValueError, world.recv, -7)
    assert "pickled" in raises(TypeError, pickle.dumps, world)
    assert "pickled" in raises(TypeError, copy.deepcopy, world)


def check_operations_under_all_their_names():
    r, n = world.rank, world.size
    under = [MAX, "max"]
    if not mpi.is_serial(world.comm):
        under.append(mpi.module().MAX)
    for op in under:
        assert world.allreduce(r, op) == n - 1
        assert world.reduce(r, op) == (None if r else n - 1)
        assert world.scan(-r, op) == 0
        assert world.exscan(r, op) == (r - 1 if r else None)
        mine, out = np.array([r, -r]), np.zeros(2, int)
        for call in (world.Allreduce, lambda *given: world.Iallreduce(*given).wait()):
            out[:] = -1
            call(mine, out, op)
            assert out.tolist() == [n - 1, 0]
        for call in (world.Reduce, lambda *given: world.Ireduce(*given).wait()):
            out[:] = -1
            call(mine, out, op)
            assert out.tolist() == ([-1, -1] if r else [n - 1, 0])
        part = np.zeros(1, int)
        world.Reduce_scatter_block(np.arange(n) + r, part, op)
        assert part[0] == r + n - 1
        assert gw.allreduce(world, r, op) == n - 1
        assert gw.AtomicDomain("i8", [op], world).ops == {"max"}
        assert gw.reduce(op=op)(lambda p: p[0]).all(world, gw.RectDomain(r, r + 1)) == n - 1
    world.Allreduce(IN_PLACE, flags := np.array([r == 0, r < n]), "lor")
    assert flags.all()


def add_floats(given, combined, kind):
    np.frombuffer(combined)[:] += np.frombuffer(given)


def check_what_is_no_operation():
    mine, out = np.ones(world.size), np.zeros(world.size)
    for op in ("maximum", 3, None):
        for call in (world.allreduce, world.reduce, world.scan, world.exscan):
            assert "has no operation" in raises(UsageError, call, 1, op)
    for op in ("maximum", MAXLOC, max):
        for call in (world.Allreduce, world.Reduce, world.Iallreduce, world.Ireduce, world.Reduce_scatter_block):
            received = out[:1] if "scatter" in call.__name__ else out
            assert "has no operation" in raises(UsageError, call, mine, received, op)
    assert "legal are sum" in raises(UsageError, world.Allreduce, mine, out, BAND)
    assert world.allreduce(1) == world.size  # nothing was sent before
    if not mpi.is_serial(world.comm):
        own = mpi.module().Op.Create(add_floats)
        world.Allreduce(mine, out, own)
        assert (out == world.size).all()
        own.Free()
        assert "has no operation" in raises(UsageError, world.Allreduce, mine, out, mpi.module().REPLACE)


def check_any_buffer():
    for make in (
        bytearray,
        lambda text: np.frombuffer(bytearray(text), "S3"),
        lambda text: memoryview(bytearray(text)),
    ):
        buffer = make(b"abcdef" if world.rank == 0 else b"000000")
        world.Bcast(buffer)
        assert bytes(buffer) == b"abcdef"
    records = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
    if world.rank == 0:
        records["a"], records["b"] = 3, 0.5
    world.Bcast(records)
    assert (records["a"] == 3).all()
    assert (records["b"] == 0.5).all()
    times = np.array(["2020-01-01" if world.rank == 0 else "1990-01-01"], "datetime64[D]")
    world.Bcast(times)
    assert times[0] == np.datetime64("2020-01-01")
    column_major = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    total = np.asfortranarray(np.zeros((2, 3)))
    world.Allreduce(column_major, total)
    assert (total == world.size * column_major).all()
    empty = np.zeros(0)
    world.Allreduce(empty, np.zeros(0))
    world.Bcast(empty)


def check_identity():
    same = Team.from_comm(world.comm)
    assert same == world
    assert hash(same) == hash(world)
    assert world.split(0) != world
    assert world != "world"
    assert f"rank {world.rank} of {world.size}" in repr(world)
    assert "not connected" in repr(Team(lambda: None, "lazy"))


if __name__ == "__main__":
    run_checks(globals())
