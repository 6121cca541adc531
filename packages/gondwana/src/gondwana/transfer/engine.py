"""The engine: chooses the path of a copy from its two ends, and starts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gondwana.calls.remote_calls import rpc
from gondwana.errors import UsageError
from gondwana.futures import DONE, Future, when_all
from gondwana.sync.signals import Signal, SignalAt
from gondwana.transfer import box as boxes
from gondwana.transfer import completion, debug, paths, signalled
from gondwana.transfer.box import AWAY, DEVICE, StridedBox
from gondwana.transfer.completion import Notify
from gondwana.transfer.copy_table import execute
from gondwana.transfer.devices.stream_order import DEFAULT, Order
from gondwana.transfer.hops import hop, is_hop
from gondwana.transfer.irregular_box import is_irregular, parts, table_between
from gondwana.transfer.paths import DELEGATED, DIRECT, DRIVER, IPC, MESSAGE, SIGNALLED, STAGED, WINDOW, Path
from gondwana.transfer.staged import staged

SMALL = 8192
"""Bytes that travel inside a remote procedure call rather than beside it."""


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
    operation, reusable = debug.late(target, lambda: _begin(path, source, target, notify)[:2])
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
