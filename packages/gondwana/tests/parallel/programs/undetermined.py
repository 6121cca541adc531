"""A program whose results depend on who comes first: `undetermined.py [CASE ...]` prints what rank 0 has seen.

Ranks wait for random times. Each case has several rounds, so that one run sees several outcomes. With the case `fails`
it ends by an error in the round in which rank 2 comes first.
"""

import json
import random
import sys
import time

import numpy as np

import gondwana as gw

ROUNDS, EACH = 12, 3
rank, size = gw.world.rank, gw.world.size
seen: list[object] = []


def jitter() -> None:
    """Wait for a random time."""
    time.sleep(random.choice((0.0, 0.0, 1e-4, 1e-3)))


def note(*what: object) -> None:
    """Remember what has come; run by calls."""
    seen.append(what)


def square(number: int) -> int:
    """Return a result after a random time; run by calls."""
    jitter()
    return number * number


def calls() -> None:
    """See calls of several ranks, between steps of the program that are told by entries of its own."""
    if rank == 0:
        for step in range(EACH):
            jitter()
            gw.progress()
            seen.append(step)
            gw.rpc(1, square, step).then(seen.append)
            seen.append(gw.rpc(2, square, step).result())
    else:
        for step in range(EACH):
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
    """Poll until a number of active messages has come, and count for how many polls each number was there."""
    while order[0] < due:
        gw.progress()
        polls[order[0]] += 1


polls = np.zeros(64, np.int64)
receive(order, 0, polls)  # is compiled now, not in the first round


def messages() -> None:
    """See active messages with a payload that compiled code receives, and the number of its polls."""
    polls[:] = order[:] = 0
    gw.world.barrier()
    if rank == 0:
        receive(order, EACH * (size - 1), polls)
        seen.append((order.tolist(), polls.tolist()))
    else:
        for step in range(EACH):
            jitter()
            recording.send(0, np.full(3 + step, step))
    gw.world.barrier()


def items() -> None:
    """See items of a channel into which several ranks put, and from which two take; rank 0 does not wait."""
    channel = gw.RemoteChannel[tuple[int, int]].of_team(capacity=EACH * size)
    for step in range(EACH if rank else 0):
        jitter()
        channel.put((rank, step))
    left = 0 if rank else EACH * (size - 2)
    while left:
        seen.append(channel.take_nowait())
        left -= seen[-1] is not None
        jitter()
    if rank == 1:
        gw.rpc(0, note, *(channel.take() for _ in range(EACH))).wait()
    gw.quiesce()


def anyone() -> None:
    """See messages from any rank with any tag, and what probes find."""
    for step in range(EACH):
        jitter()
        if rank:
            gw.world.send((rank, step), 0, tag=step)
            continue
        for _ in range(size - 1):
            seen.append(gw.world.Iprobe())
            seen.append(gw.world.recv())
    gw.world.barrier()


def tasks() -> None:
    """See tasks that sleep, call, and wait with a time limit."""

    def work(number: int) -> None:
        gw.sleep(random.random() / 500)
        seen.append(number)
        seen.append((number, gw.rpc(1 + number % 2, square, number).result()))
        try:
            gw.rpc(1, square, 7).wait(timeout=random.choice((1e-4, 10.0)))
            seen.append("in time")
        except TimeoutError:
            seen.append("too late")

    for task in [gw.Task(work, number).schedule() for number in range(0 if rank else 4)]:
        task.wait()
    gw.quiesce()


def fails() -> None:
    """Fail where rank 2 comes first."""
    calls()
    first = next((found for found in seen if isinstance(found, tuple)), None)
    if first is not None and first[0] == 2:
        raise RuntimeError(f"rank 2 came first: {seen}")


CASES = {case.__name__: case for case in (calls, messages, items, anyone, tasks, fails)}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        outcomes = []
        for _ in range(ROUNDS):
            seen.clear()
            CASES[name]()
            outcomes.append(list(seen))
        if rank == 0:
            print(json.dumps({"case": name, "outcomes": outcomes}))
