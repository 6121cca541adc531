"""Slots: this rank's share of host memory that all ranks of the world reach, through which pieces of copies pass.

And how a copy is cut into pieces, and work that waits for futures goes on when they are ready.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from gondwana.futures import Future, Promise, ready
from gondwana.memory.segment import Segment
from gondwana.runtime import interruptions
from gondwana.teams import Team

if TYPE_CHECKING:
    from gondwana.transfer.box import StridedBox

SLOT = 1 << 18
"""Bytes of a slot: pieces this large hide what a step costs and still fit the cache, from which the next step reads."""

Part: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the first element and shape of a piece."""

Steps: TypeAlias = Generator[Future[Any], Any, None]
"""Work that yields the futures that it waits for, and continues inside progress when they are ready."""

_FOR_OWN = 8
_FOR_OTHERS = 4


class Slot(NamedTuple):
    """One slot: a number of its pool."""

    pool: Pool
    number: int

    def box(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> StridedBox:
        """Return its first elements as an end of a copy. Local."""
        from gondwana.transfer.box import StridedBox  # not to open the pools, as every rank does

        return StridedBox.at(self.pool.segment.pointer(dtype=dtype, offset=self.number * SLOT), shape)

    def release(self) -> None:
        """Release it for the next one. Local."""
        self.pool.release(self.number)


class Pool:
    """Slots that are taken and released. Local.

    Those who find none wait in the order in which they came: there are never more.

    Args:
        segment: Memory of the slots.
        first: Number of the first slot in it.
        count: Number of the slots.
    """

    def __init__(self, segment: Segment, first: int, count: int) -> None:
        self.segment = segment
        self._free = list(range(first, first + count))
        self._waiting: deque[Promise[Slot]] = deque()
        self._lock = threading.Lock()  # a progress thread may continue copies of this one

    def take(self) -> Future[Slot]:
        """Return the future of a slot. Local; does not wait."""
        with self._lock:
            if self._free:
                return ready(Slot(self, self._free.pop()))
            promise: Promise[Slot] = Promise()
            self._waiting.append(promise)
        return promise.future

    def release(self, number: int) -> None:
        """Take a slot back, and give it to the longest wait. Local."""
        with self._lock:
            if not self._waiting:
                self._free.append(number)
                return
            promise = self._waiting.popleft()
        promise.set_result(Slot(self, number))


class _Pools:
    """The two pools of this rank.

    A copy holds a slot of `own` while it waits for others to fill or empty it; they do so with slots of their pools
    `others`, which wait for nobody: hence no circle of ranks that wait for each other's slots.
    """

    own: Pool
    others: Pool


pools = _Pools()


def connect(world: Team) -> None:
    """Make the slots. Collective over the world; the memory is taken when it is first used."""
    segment = Segment(world, (_FOR_OWN + _FOR_OTHERS) * SLOT)
    pools.own = Pool(segment, 0, _FOR_OWN)
    pools.others = Pool(segment, _FOR_OWN, _FOR_OTHERS)


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
