"""The compiled loops of `gondwana bench rma`: each performs an operation a number of times."""

from __future__ import annotations

from typing import Any

import gondwana as gw


@gw.jit
def put_word(value: int, target: Any, mask: int, calls: int) -> None:
    """Put `value`. `mask` is 0, which the compiler does not know: it cannot leave out all puts but the last."""
    for i in range(calls):
        gw.put(value, target + (i & mask))


@gw.jit
def get_word(source: Any, mask: int, calls: int) -> int:
    """Get a word and return it. Each address depends on the previous get, so that none is omitted or overlaps."""
    value: Any = 0  # in Python a future, here the word
    for _ in range(calls):
        value = gw.get(source + (value & mask))
    return value  # type: ignore[no-any-return]


@gw.jit
def put(source: Any, target: Any, calls: int) -> None:
    """Put an array."""
    for _ in range(calls):
        gw.put(source, target)


@gw.jit
def get(source: Any, target: Any, calls: int) -> None:
    """Get an array."""
    for _ in range(calls):
        gw.get(source, out=target)


@gw.jit
def put_flood(source: Any, target: Any, window: int, places: int, calls: int) -> None:
    """Put windows of equal parts of an array to as many places, cyclically."""
    size = source.size // places
    for _ in range(calls):
        at = 0
        for _ in range(window):
            gw.put(source[at : at + size], target + at)
            at += size
            if at == source.size:
                at = 0


@gw.jit
def signal(arrivals: Any, peer: int, first: bool, calls: int) -> None:
    """Raise a signal there and back."""
    for _ in range(calls):
        if not first:
            gw.wait(arrivals)
        gw.signal(arrivals, peer)
        if first:
            gw.wait(arrivals)


@gw.jit
def put_signal(source: Any, target: Any, arrivals: Any, first: bool, calls: int) -> None:
    """Put an array and raise a signal there and back."""
    for _ in range(calls):
        if not first:
            gw.wait(arrivals)
        gw.put(source, target, notify=arrivals)
        if first:
            gw.wait(arrivals)


@gw.jit
def fetch_add(domain: Any, target: Any, calls: int) -> int:
    """Add 1 and return the old value of the last addition."""
    value = 0
    for _ in range(calls):
        value = domain.fetch_add(target, 1)
    return value


@gw.jit
def send_recv(team: Any, here: Any, back: Any, peer: int, first: bool, calls: int) -> None:
    """Send an array there and back."""
    for _ in range(calls):
        if first:
            gw.send(team, here, peer)
            gw.recv(team, back, peer)
        else:
            gw.recv(team, here, peer)
            gw.send(team, here, peer)


@gw.jit
def ask(question: Any, answers: Any, peer: int, calls: int) -> None:
    """Send an active message and wait until its reply is counted."""
    for _ in range(calls):
        due = answers[0] + 1
        question.send(peer)
        while answers[0] < due:
            gw.progress()


@gw.jit
def send_messages(message: Any, peer: int, calls: int) -> None:
    """Send active messages without replies."""
    for _ in range(calls):
        message.send(peer)


@gw.jit
def serve(count: Any, due: int) -> None:
    """Run the handlers of arriving messages until a number is counted."""
    while count[0] < due:
        gw.progress()


@gw.jit
def send_payload(message: Any, counts: Any, data: Any, peer: int, first: bool, calls: int) -> None:
    """Send active messages with a payload there and back; `counts`: how many have come, and are due."""
    for _ in range(calls):
        counts[1] += 1
        if first:
            message.send(peer, data)
        while counts[0] < counts[1]:
            gw.progress()
        if not first:
            message.send(peer, data)


def on_payload(source: int, counts: Any, there: Any, data: Any) -> None:
    """Count, and keep the data."""
    there[: len(data)] = data
    counts[0] += 1


def on_message(source: int, count: Any) -> None:
    """Count."""
    count[0] += 1


def on_question(source: int, count: Any, answer: Any) -> None:
    """Count and reply."""
    count[0] += 1
    answer.reply(source)
