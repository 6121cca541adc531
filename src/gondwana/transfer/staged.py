"""Copies in pieces, several in flight, each through a slot of this rank's host memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from gondwana.calls.remote_calls import rpc
from gondwana.futures import Future, Promise, when_all
from gondwana.transfer import staging
from gondwana.transfer.hops import hop, is_hop
from gondwana.transfer.places import AWAY, WINDOW, Place
from gondwana.transfer.staging import SLOT, Pool
from gondwana.transfer.steps import Steps, run

_IN_FLIGHT = 4
"""Pieces of one copy that are under way together: while one is read, others are sent and written."""

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the first element and shape of a piece."""


def staged(source: Place, target: Place) -> tuple[Future[None], Future[None]]:
    """Start a copy through slots of this rank, of one element or more. Local; internal progress.

    Returns:
        The futures of operation completion and of source completion.
    """
    if source.dtype.itemsize > SLOT:
        source, target = source.of_bytes(), target.of_bytes()
    boxes = list(pieces(source.shape, source.dtype.itemsize, SLOT))
    unread = reversed(range(len(boxes)))
    read: Promise[None] = Promise()

    def one_read() -> None:
        if next(unread) == 0:
            read.set_result(None)

    queue = iter(boxes)
    workers = [run(_carry(queue, source, target, one_read)) for _ in range(min(_IN_FLIGHT, len(boxes)))]
    return when_all(*workers).then(lambda _: None), read.future


def serve(source: Place, target: Place) -> Future[None]:
    """Copy one piece on request of the rank in whose slot it starts or ends; the other end is this rank's. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    return run(_through(staging.pools.others, source, target, lambda: None))


def step(source: Place, target: Place) -> Future[None]:
    """Start to copy one piece to or from a slot of this rank, alone or by asking the owner of the other end. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    far = source if source.reach in (AWAY, WINDOW) else target
    assert far.owner is not None
    return rpc(far.owner, serve, source, target)


def pieces(shape: tuple[int, ...], item: int, limit: int) -> Iterator[Box]:
    """Cut a box into boxes of at most `limit` bytes, but one element at least, as many as go with equal indices."""
    if not shape:
        yield (), ()
        return
    axis = len(shape) - 1
    while axis > 0 and math.prod(shape[axis:]) * item <= limit:
        axis -= 1
    inner = shape[axis + 1 :]
    step = max(1, limit // (math.prod(inner) * item))
    for outer in itertools.product(*map(range, shape[:axis])):
        for first in range(0, shape[axis], step):
            count = min(step, shape[axis] - first)
            yield (*outer, first, *(0 for _ in inner)), (*(1 for _ in outer), count, *inner)


def _carry(queue: Iterator[Box], source: Place, target: Place, when_read: Callable[[], None]) -> Steps:
    """Carry pieces until the queue is empty."""
    for starts, shape in queue:
        yield run(_through(staging.pools.own, source.part(starts, shape), target.part(starts, shape), when_read))


def _through(pool: Pool, source: Place, target: Place, when_read: Callable[[], None]) -> Steps:
    """Copy one piece to a slot and from there to its target."""
    slot = yield pool.take()
    try:
        between = slot.place(source.dtype, source.shape)
        yield step(source, between)
        when_read()
        yield step(between, target)
    finally:
        slot.give_back()
