"""The engine: chooses the path of a copy from its two ends, and starts it.

An aid against programs that rely on more than they are promised are copies that start late. With GONDWANA_DEBUG_COPY=N
(N > 0) every copy, put and get is deferred by up to N polls of its rank, in no order that could be relied on; until
then its destination holds garbage if this rank can write there. A program that reads a destination before operation
completion, or changes a source before source completion, then computes something else.

Compiled code reaches memory without asking anybody. With `GONDWANA_CHECK=1`, a launch whose accesses are known is
compared with what copies of this rank still read and write.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.calls.remote_calls import rpc
from gondwana.errors import UsageError
from gondwana.futures import DONE, Future, Promise, deferred_by, when_all
from gondwana.inputs import whole_number
from gondwana.sync.signals import Signal, SignalAt
from gondwana.teams import Team
from gondwana.transfer import box as boxes, completion, paths, signalled
from gondwana.transfer.box import AWAY, DEVICE, StridedBox
from gondwana.transfer.completion import Notify
from gondwana.transfer.devices.stream_order import DEFAULT, Order
from gondwana.transfer.hops import Steps, hop, is_hop, run, staged
from gondwana.transfer.host_copies import execute
from gondwana.transfer.paths import DELEGATED, DIRECT, DRIVER, IPC, MESSAGE, SIGNALLED, STAGED, WINDOW, Path, state
from gondwana.transfer.plans.plan import under_way
from gondwana.transfer.runs import is_irregular, parts, table_between

SMALL = 8192
"""Bytes that travel inside a remote procedure call rather than beside it."""

DELAY = "GONDWANA_DEBUG_COPY"
_POISON = 0xA5

_most = 0
_delays = random.Random()

_WORK = 100_000
"""Steps after which NumPy gives up finding out whether two strided boxes share memory."""

_Memory = npt.NDArray[Any]


class Started(NamedTuple):
    """A copy that has started.

    Attributes:
        operation: the future of operation completion.
        source: the future of source completion.
        notifies: whether it notifies the owner of the target, too; if not, that is left to the caller.
    """

    operation: Future[None]
    source: Future[None]
    notifies: bool = False


def start(source: StridedBox, target: StridedBox, notify: Notify | None = None, order: Order = DEFAULT) -> Started:
    """Start a copy between ends that fit. Local; internal progress; blocks to order a copy that no driver makes.

    Args:
        source: what to copy.
        target: where to.
        notify: what the owner of the target is to be notified by afterwards.
        order: on the device.

    Raises:
        UsageError: the path that is forced is not possible between these ends.
    """
    if source.size == 0:
        return Started(DONE, DONE)
    if is_irregular(source, target):
        return _start_parts(source, target, order)
    path = _choose(source, target, notify)
    path.count(source.nbytes)
    if order is not DEFAULT:
        return _begin_in_order(path, source, target, notify, order)
    if not paths.state.delayed:
        return _begin(path, source, target, notify)
    operation, reusable = late(target, lambda: _begin(path, source, target, notify)[:2])
    return Started(operation, reusable, path is SIGNALLED or (path is MESSAGE and isinstance(notify, tuple)))


def _start_parts(source: StridedBox, target: StridedBox, order: Order) -> Started:
    """Start a copy with an irregular end."""
    table = table_between(source, target) if paths.state.plain else None
    if table is not None:
        DIRECT.count(source.nbytes)
        execute(table)
        return Started(DONE, DONE)
    started = [start(*ends, None, order) for ends in parts(source, target)]
    return Started(_all(part.operation for part in started), _all(part.source for part in started))


def _all(futures: Iterable[Future[None]]) -> Future[None]:
    """The future of the completion of all."""
    left = [future for future in futures if future is not DONE]
    return when_all(*left).then(lambda _: None) if left else DONE


def _choose(source: StridedBox, target: StridedBox, notify: Notify | None) -> Path:
    possible = _possible(source, target, notify)
    forced = paths.state.forced
    if forced is None:
        return next(possible)
    legal = dict.fromkeys(possible)
    if forced not in legal:
        raise UsageError(
            f"the path {forced} is forced (by paths.force or {paths.VARIABLE}), but not possible from {source!r} to "
            f"{target!r}: possible are {', '.join(map(str, legal))}"
        )
    return forced


def _possible(source: StridedBox, target: StridedBox, notify: Notify | None) -> Iterator[Path]:
    """The paths between two ends, the best first; some come twice."""
    if signalled.is_possible(source, target, notify):
        yield SIGNALLED
    ways = source.reach, target.reach
    fits_message = source.memory is not None and target.pointer is not None and source.nbytes <= SMALL
    if fits_message and (ways[1] == AWAY or (ways[1] == boxes.WINDOW and isinstance(notify, tuple))):
        yield MESSAGE
    if is_hop(source, target):
        yield _hop_path(source, target)
    agent = _agent(source, target)
    if agent is not None and AWAY in ways and DEVICE not in ways:
        yield DELEGATED
    yield STAGED
    if agent is not None:
        yield DELEGATED
    if fits_message:
        yield MESSAGE


def _hop_path(source: StridedBox, target: StridedBox) -> Path:
    ends = (source, target)
    if any(box.reach == DEVICE for box in ends):
        return DRIVER if all(box.is_own for box in ends if box.reach == DEVICE) else IPC
    return WINDOW if any(box.reach == boxes.WINDOW for box in ends) else DIRECT


def _begin_in_order(path: Path, source: StridedBox, target: StridedBox, notify: Notify | None, order: Order) -> Started:
    """Start a copy at once, so that what the caller puts on the stream next comes behind it."""
    if path in (DRIVER, IPC):
        return Started(*hop(source, target, order))
    order.wait()
    started = _begin(path, source, target, notify)
    if order.stream is not None:
        started.operation.wait()
    return started


def _begin(path: Path, source: StridedBox, target: StridedBox, notify: Notify | None) -> Started:
    call = notify if isinstance(notify, tuple) else None
    if path is SIGNALLED and isinstance(notify, Signal | SignalAt):
        return _begin_signalled(source, target, notify)
    if path is STAGED:
        return Started(*staged(source, target))
    if path is MESSAGE:
        return Started(
            rpc(completion.owner(target), land, source.load().tobytes(), target, call), DONE, call is not None
        )
    if path is DELEGATED:
        agent = _agent(source, target)
        assert agent is not None
        done: Future[None] = rpc(agent, serve, source, target)
        return Started(done, done)
    return Started(*hop(source, target))


def _begin_signalled(source: StridedBox, target: StridedBox, notify: Signal | SignalAt) -> Started:
    sent = signalled.send(source, target, notify)
    if sent is not None:
        return Started(sent, DONE, True)
    operation, reusable = (hop if is_hop(source, target) else staged)(source, target)
    return Started(completion.notify_after(operation, notify, target), reusable, True)


def serve(source: StridedBox, target: StridedBox) -> Future[None]:
    """Make a copy on request of another rank; one end is this rank's. Local."""
    return (hop if is_hop(source, target) else staged)(source, target)[0]


def land(data: bytes, target: StridedBox, call: tuple[Any, ...] | None) -> Future[None]:
    """Store what has come in a message, then run the function that came with it. Local."""
    source = StridedBox.of(np.frombuffer(data, target.dtype).reshape(target.shape))
    done = hop(source, target)[0]
    return done if call is None else done.then(lambda _: completion.run(*call))


def _agent(source: StridedBox, target: StridedBox) -> int | None:
    """The rank of the world to ask for a whole copy: one that owns an end and knows the segment of the other."""
    if source.pointer is None or target.pointer is None:
        return None
    nobody_away = AWAY not in (source.reach, target.reach)
    for one, other in ((target, source.pointer), (source, target.pointer)):
        rank = one.owner
        if (nobody_away or one.reach == AWAY) and rank is not None and other.team.rank_of_world(rank) is not None:
            return rank
    return None


def delay_from_environment(team: Team) -> None:
    """Delay copies if GONDWANA_DEBUG_COPY says so."""
    global _most
    given = os.environ.get(DELAY, "0")
    most = whole_number(given)
    if most is None or most < 0:
        raise UsageError(f"{DELAY}={given!r}: give the most polls that a copy may be deferred by, 0 for none")
    _most = most
    state.delayed = _most > 0
    _delays.seed(team.rank)


def late(
    target: StridedBox, begin: Callable[[], tuple[Future[None], Future[None]]]
) -> tuple[Future[None], Future[None]]:
    """Have a copy start later. Local.

    Returns:
        The futures of operation completion and of source completion.
    """
    if target.memory is not None:
        target.store(np.frombuffer(bytes([_POISON]) * target.nbytes, target.dtype).reshape(target.shape))
    reusable: Promise[None] = Promise()

    def steps() -> Steps:
        yield deferred_by(_delays.randint(0, _most), lambda: None)
        operation, source = begin()
        reusable.set_result(source)
        yield operation

    return run(steps()), reusable.future


@dataclass(frozen=True)
class Use:
    """Memory of this rank that a copy under way uses.

    Attributes:
        memory: its elements.
        written: whether the copy writes them; else it reads them.
        what: which copy, and what completes it.
    """

    memory: _Memory
    written: bool
    what: str

    def excludes(self, memory: _Memory, *, written: bool) -> bool:
        """Return whether memory must not be read, or written, until the copy is complete. Local."""
        if not (self.written or written):
            return False
        try:
            return bool(np.shares_memory(self.memory, memory, max_work=_WORK))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return False


_noted: list[tuple[Future[None], Use]] = []
"""What copies use, with the futures of its end."""


def note_under_way(source: StridedBox, target: StridedBox, started: Started) -> None:
    """Keep the ends of a copy that is not complete. Local."""
    for box, done, written in ((source, started.source, False), (target, started.operation, True)):
        if box.memory is not None and not done.done():
            _noted.append((done, Use(box.memory, written, "a copy that has not been waited for")))


def uses() -> Iterator[Use]:
    """Return what copies of this rank use at this moment. Local; no progress."""
    _noted[:] = [(done, use) for done, use in _noted if not done.done()]
    for _, use in _noted:
        yield use
    for copies in under_way():
        what = f"the {copies.what} that has not been waited for"
        # What a rank copies to itself is there when a round has started: `GlobalArray.inner` counts on it.
        sources = [pair.source.memory for rank in copies.receivers for pair in copies.outgoing[rank]]
        targets = [pair.target.memory for pairs in copies.incoming.values() for pair in pairs]
        yield from (Use(memory, False, what) for memory in sources if memory is not None)
        yield from (Use(memory, True, what) for memory in targets if memory is not None)
