"""Programs whose result depends on who comes first: `undetermined.py CASE` prints what rank 0 has seen.

Where ranks wait is random, so that the results of several runs differ.
"""

import random
import sys
import time

import numpy as np

import gondwana as gw

ROUNDS = 4
rank, size = gw.world.rank, gw.world.size
seen: list[object] = []


def jitter() -> None:
    """Wait for a random time."""
    time.sleep(random.choice((0.0, 0.0, 1e-4, 1e-3)))


def note(*what: object) -> None:
    """Run on rank 0 by calls: remember what has come."""
    seen.append(what)


def square(number: int) -> int:
    """Run on other ranks by calls, which take a random time."""
    jitter()
    return number * number


def calls() -> None:
    """Calls of several ranks, between steps of the program that are told by entries of its own."""
    if rank == 0:
        for step in range(ROUNDS):
            jitter()
            gw.progress()
            seen.append(step)
            seen.append(gw.rpc(1, square, step).result())
    else:
        for step in range(ROUNDS):
            jitter()
            gw.rpc_ff(0, note, rank, step)
    gw.quiesce()


def record(source: int, order: np.ndarray, values: np.ndarray) -> None:
    """Append the source and the sum of an active message."""
    order[0] += 1
    order[order[0]] = 1000 * source + values.sum()


recording = gw.ActiveMessage(record, context=(order := np.zeros(64, np.int64),), payload="i8")


@gw.jit
def receive(order: np.ndarray, due: int, polls: np.ndarray) -> None:
    """Poll until a number of active messages has come; how often each number was found depends on the times."""
    while order[0] < due:
        gw.progress()
        polls[order[0]] += 1


def messages() -> None:
    """Active messages with a payload, received in compiled code; the number of its polls is part of what is seen."""
    polls = np.zeros(64, np.int64)
    receive(order, 0, polls)  # is compiled now
    gw.world.barrier()
    if rank == 0:
        receive(order, ROUNDS * (size - 1), polls)
        seen.extend((order[1 : 1 + order[0]].tolist(), (polls % 2).tolist()))
    else:
        for step in range(ROUNDS):
            jitter()
            recording.send(0, np.full(3 + step, step))
    gw.world.barrier()


def items() -> None:
    """Items of a channel into which several ranks put, and from which two take; one of them asks, and does not wait."""
    channel = gw.RemoteChannel[tuple[int, int]].of_team(capacity=ROUNDS * size)
    gw.world.barrier()
    if rank != 0:
        for step in range(ROUNDS):
            jitter()
            channel.put((rank, step))
    if rank == 0:
        left = ROUNDS * (size - 2)
        while left:
            seen.append(channel.take_nowait())
            left -= seen[-1] is not None
            jitter()
    elif rank == 1:
        gw.rpc(0, note, *(channel.take() for _ in range(ROUNDS))).wait()
    gw.quiesce()


def anyone() -> None:
    """Messages from any rank with any tag."""
    if rank == 0:
        for _ in range(ROUNDS * (size - 1)):
            jitter()
            found = gw.world.Iprobe()
            seen.append(None if found is None else found.source)
            seen.append(gw.world.recv())
    else:
        for step in range(ROUNDS):
            jitter()
            gw.world.send((rank, step), 0, tag=step)
    gw.world.barrier()


def tasks() -> None:
    """Tasks that sleep, call, and wait with a time limit."""

    def work(number: int) -> None:
        gw.sleep(random.random() / 500)
        seen.append(number)
        seen.append((number, gw.rpc((number + 1) % size, square, number).result()))
        try:
            gw.rpc(size - 1, square, 7).result(timeout=random.choice((1e-4, 10.0)))
            seen.append("in time")
        except TimeoutError:
            seen.append("too late")

    if rank == 0:
        for task in [gw.Task(work, number).schedule() for number in range(4)]:
            task.wait()
    gw.quiesce()


if __name__ == "__main__":
    {"calls": calls, "messages": messages, "items": items, "anyone": anyone, "tasks": tasks}[sys.argv[1]]()
    if rank == 0:
        print(seen)
