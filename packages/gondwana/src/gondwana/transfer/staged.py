"""Copies in pieces, several in flight, each through a slot of this rank's host memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

from gondwana.calls.remote_calls import rpc
from gondwana.futures import Future, Promise, when_all
from gondwana.runtime import interruptions
from gondwana.transfer import slots
from gondwana.transfer.box import AWAY, WINDOW, StridedBox
from gondwana.transfer.hops import hop, is_hop
from gondwana.transfer.slots import SLOT, Pool

_IN_FLIGHT = 4
"""Pieces of one copy that are under way together: while one is read, others are sent and written."""

Part: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the first element and shape of a piece."""

Steps: TypeAlias = Generator[Future[Any], Any, None]
"""Work that yields the futures that it waits for, and continues inside progress when they are ready."""


def staged(source: StridedBox, target: StridedBox) -> tuple[Future[None], Future[None]]:
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
    workers = [run(_copy_pieces(queue, source, target, one_read)) for _ in range(min(_IN_FLIGHT, len(boxes)))]
    return when_all(*workers).then(lambda _: None), read.future


def serve(source: StridedBox, target: StridedBox) -> Future[None]:
    """Copy one piece on request of the rank in whose slot it starts or ends; the other end is this rank's. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    return run(_through(slots.pools.others, source, target, lambda: None))


def step(source: StridedBox, target: StridedBox) -> Future[None]:
    """Start to copy one piece to or from a slot of this rank, alone or by asking the owner of the other end. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    far = source if source.reach in (AWAY, WINDOW) else target
    assert far.owner is not None
    return rpc(far.owner, serve, source, target)


def pieces(shape: tuple[int, ...], item: int, limit: int) -> Iterator[Part]:
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


def _copy_pieces(queue: Iterator[Part], source: StridedBox, target: StridedBox, when_read: Callable[[], None]) -> Steps:
    """Copy pieces until the queue is empty."""
    for starts, shape in queue:
        yield run(_through(slots.pools.own, source.part(starts, shape), target.part(starts, shape), when_read))


def _through(pool: Pool, source: StridedBox, target: StridedBox, when_read: Callable[[], None]) -> Steps:
    """Copy one piece to a slot and from there to its target."""
    slot = yield pool.take()
    try:
        between = slot.box(source.dtype, source.shape)
        yield step(source, between)
        when_read()
        yield step(between, target)
    finally:
        slot.release()


def run(steps: Steps) -> Future[None]:
    """Start work and return the future of its end. Local; does not wait.

    What is ready at once is not waited for. An error of a future is raised where it was yielded.
    """
    promise: Promise[None] = Promise()

    def resume(done: Future[Any] | None) -> None:
        try:
            while True:
                done = _next_future(steps, done)
                if not done.done():
                    done.add_done_callback(resume)
                    return
        except StopIteration:
            promise.set_result(None)
        except Exception as error:
            interruptions.let_pass(error)
            promise.set_exception(error)

    resume(None)
    return promise.future


def _next_future(steps: Steps, done: Future[Any] | None) -> Future[Any]:
    """Continue with the result of the future, if it is not the start; return the next future."""
    if done is None:
        return next(steps)
    error = done.exception()
    return steps.send(done.result()) if error is None else steps.throw(error)
