"""Communicates in all ways, and prints how long it took and who sent how much to whom. Arguments: what to do."""

import time

FIRST = time.monotonic_ns()

import atexit  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402

import gondwana as gw  # noqa: E402

LATE = 0.6
ROUNDS = 5

world = gw.world
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size


@atexit.register
def _report() -> None:
    print(json.dumps({"rank": world.rank, "first": FIRST, "last": time.monotonic_ns(), "sent": SENT}), flush=True)


SENT = [[0, 0] for _ in range(world.size)]
"""Bytes and messages from this rank to each other one."""


def count(rank: int, nbytes: int) -> None:
    if rank != world.rank:
        SENT[rank][0] += nbytes
        SENT[rank][1] += 1


def exchange() -> None:
    """Fill ghosts: one layer of a row of blocks, so that each neighbour gets a line in each direction."""
    a = gw.zeros(gw.RectDomain((0, 0), (4 * world.size, 6)), ghost=1, grid=(world.size, 1), periodic=True)
    for _ in range(ROUNDS):
        plan = gw.exchange(a)
        plan.wait()
    for rank in {left, right} - {world.rank}:
        lines = 2 if left == right else 1
        for _ in range(ROUNDS):
            count(rank, 8 * 6 * lines)


def copies() -> None:
    segment = gw.Segment(world, 4096)
    pointer = segment.pointer(right, float)
    with gw.span("copies"):
        gw.put(1.5, pointer).wait()
        gw.put(np.ones(10), pointer).wait()
        gw.copy(np.ones(7), pointer, 7).wait()
        count(right, 8)
        count(right, 80)
        count(right, 56)
        gw.get(segment.pointer(left, float), 3).result()
        SENT[right][0] += 24 * (right != world.rank)  # the right one fetches them from here
        SENT[right][1] += right != world.rank
    world.barrier()


def messages() -> None:
    received = np.empty(20)
    request = world.Irecv(received, left, 3)
    world.Send(np.ones(20), right, 3)
    request.wait()
    count(right, 160)
    signal = gw.Signal(world)
    signal.add(right)
    signal.wait()
    count(right, 0)


def late() -> None:
    """All but rank 0 wait for it."""
    world.barrier()
    if world.rank == 0:
        with gw.span("late"):
            time.sleep(LATE)
    world.barrier()


def compiled() -> None:
    segment, signal = gw.Segment(world, 4096), gw.Signal(world)
    mine = np.zeros(4)
    ring = gw.plan([(mine, gw.strided(segment.pointer(right, float), (4,), (8,)))])

    @gw.jit
    def turns(team, signal, pointer, plan, right, values, rounds):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(rounds):
            gw.put(values, pointer)
            gw.signal(signal, right)
            gw.wait(signal)
            total += gw.allreduce(team, 1.0)
            plan.start()
            plan.wait()
            gw.barrier(team)
        return total

    assert turns(world, signal, segment.pointer(right, float) + 8, ring, right, np.ones(3), ROUNDS) == (
        ROUNDS * world.size
    )
    for _ in range(ROUNDS):
        count(right, 24)
        count(right, 0)
        count(right, 32)


def tasks() -> None:
    def pause(name: str) -> None:
        with gw.span(name):
            gw.sleep(2.0)

    found = [gw.Task(pause, f"in task {n}").schedule() for n in range(3)]
    for task in found:
        task.result()


for what in sys.argv[1:]:
    globals()[what]()
