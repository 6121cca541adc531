"""The engine: chooses the path of a copy by how this rank reaches its two ends, and starts it.

A copy gets from end to end in one step, by loads and stores, through an MPI window, or by a device's driver; or in
pieces through slots of this rank's host memory. Of the pieces several are in flight, each of which is two steps, made
by this rank or by the owner of the other end. At both sides of an MPI window may be device memory, if MPI takes it.

An aid against programs that rely on more than they are promised are copies that start late. With GONDWANA_DEBUG_COPY=N
(N > 0) every copy, put and get is deferred by up to N polls of its rank, in no order that could be relied on; until
then its destination holds garbage if this rank can write there. A program that reads a destination before operation
completion, or changes a source before source completion, then computes something else.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.calls.remote_calls import rpc
from gondwana.errors import UsageError
from gondwana.futures import DONE, Future, Polled, Promise, deferred_by, when_all
from gondwana.inputs import whole_number
from gondwana.memory.cuda_kind import CudaKind, EventFuture
from gondwana.memory.kinds import DeviceKind
from gondwana.sync.signals import Signal, SignalAt
from gondwana.teams import Team
from gondwana.teams.device_memory import DeviceBytes
from gondwana.transfer import completion, paths, signalled, slots
from gondwana.transfer.box import AWAY, DEVICE, EXPOSED, MEMORY, WINDOW, StridedBox
from gondwana.transfer.box_copy import copy_between, merged_axes
from gondwana.transfer.completion import Notify
from gondwana.transfer.devices import cuda_copies
from gondwana.transfer.devices.stream_order import DEFAULT, Order
from gondwana.transfer.host_copies import as_bytes, execute
from gondwana.transfer.paths import AWARE, DELEGATED, DIRECT, DRIVER, IPC, MESSAGE, SIGNALLED, STAGED, Path, state
from gondwana.transfer.runs import is_irregular, parts, table_between
from gondwana.transfer.slots import SLOT, Part, Pool, Steps, pieces, run

SMALL = 8192
"""Bytes that travel inside a remote procedure call rather than beside it."""

DELAY = "GONDWANA_DEBUG_COPY"
_POISON = 0xA5

_most = 0
_delays = random.Random()

_Futures: TypeAlias = tuple[Future[None], Future[None]]
"""Those of operation completion and of source completion."""

_LONG_RUN = 1024
"""Bytes in a run from which it is worth an MPI operation of its own; shorter ones the owner packs."""

_IN_FLIGHT = 4
"""Pieces of one copy that are under way together: while one is read, others are sent and written."""


class Started(NamedTuple):
    """A copy that has started.

    Attributes:
        operation: The future of operation completion.
        source: The future of source completion.
        notifies: Whether it notifies the owner of the target, too; if not, that is left to the caller.
    """

    operation: Future[None]
    source: Future[None]
    notifies: bool = False


_COMPLETE = Started(DONE, DONE)
_BY_WINDOW = (MEMORY, WINDOW), (WINDOW, MEMORY)
_BY_MPI = WINDOW, EXPOSED


def start(source: StridedBox, target: StridedBox, notify: Notify | None = None, order: Order = DEFAULT) -> Started:
    """Start a copy between ends that fit. Local; internal progress; blocks to order a copy that no driver makes.

    Args:
        source: The elements to copy.
        target: The elements to write.
        notify: Signal or call that is to notify the owner of the target afterwards.
        order: Order on the device.

    Raises:
        UsageError: the path that is forced is not possible between these ends.
    """
    if source.nbytes == 0:
        return _COMPLETE
    if is_irregular(source, target):
        return _start_parts(source, target, order)
    if paths.state.plain and order is DEFAULT:  # what is most frequent, without asking for all that is possible
        ways = source.reach, target.reach
        if ways == (MEMORY, MEMORY):
            DIRECT.count(source.nbytes)
            target.store(source.load())
            return _COMPLETE
        if notify is None and ways in _BY_WINDOW and source.contiguous and target.contiguous:
            paths.WINDOW.count(source.nbytes)
            return Started(*hop(source, target))
    path = _choose(source, target, notify)
    path.count(source.nbytes)
    if order is not DEFAULT:
        return _begin_in_order(path, source, target, notify, order)
    if paths.state.plain or not paths.state.delayed:
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
    if paths.state.plain or (forced := paths.state.forced) is None:
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
    if notify is not None and signalled.is_possible(source, target, notify):
        yield SIGNALLED
    ways = source.reach, target.reach
    fits_message = source.memory is not None and target.pointer is not None and source.nbytes <= SMALL
    if fits_message and (ways[1] == AWAY or (ways[1] in _BY_MPI and isinstance(notify, tuple))):
        yield MESSAGE
    if is_hop(source, target):
        yield _hop_path(source, target)
    agent = _agent(source, target)
    if agent is not None and DEVICE not in ways and (AWAY in ways or (EXPOSED in ways and MEMORY not in ways)):
        yield DELEGATED
    yield STAGED
    if agent is not None:
        yield DELEGATED
    if fits_message:
        yield MESSAGE


def _hop_path(source: StridedBox, target: StridedBox) -> Path:
    ways = source.reach, target.reach
    if EXPOSED in ways or (WINDOW in ways and DEVICE in ways):
        return AWARE
    if DEVICE in ways:
        return DRIVER if all(box.is_own for box in (source, target) if box.reach == DEVICE) else IPC
    return paths.WINDOW if WINDOW in ways else DIRECT


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


def is_hop(source: StridedBox, target: StridedBox) -> bool:
    """Return whether this rank can make the copy in one step. Local."""
    ways = source.reach, target.reach
    if AWAY in ways:
        return False
    if not any(way in _BY_MPI for way in ways):
        return DEVICE not in ways or _can_devices(source, target)
    here, there = (target, source) if ways[0] in _BY_MPI else (source, target)
    if here.memory is not None:
        return here.contiguous and (there.contiguous or _in_long_runs(there))
    return _mpi_takes(here) and copy_between(source, target).run >= min(_LONG_RUN, source.nbytes)


def _mpi_takes(box: StridedBox) -> bool:
    """Whether elements that are not in reach lie in memory of this rank's device, and MPI takes that."""
    own = box.reach == DEVICE and box.is_own and state.forced is not STAGED
    return own and box.location.segment.device_bytes is not None


def hop(source: StridedBox, target: StridedBox, order: Order = DEFAULT) -> _Futures:
    """Start a copy for which `is_hop` holds, of one element or more. Local; internal progress.

    Args:
        source: The elements to copy.
        target: The elements to write.
        order: Order on the device that has a part in it.

    Returns:
        The futures of operation completion and of source completion.
    """
    if source.memory is not None and target.memory is not None:
        target.store(source.load())
        return DONE, DONE
    move = _to_window if target.reach in _BY_MPI else _from_window if source.reach in _BY_MPI else None
    if move is not None:
        here = source if move is _to_window else target
        return move(source, target) if here.memory is not None else _behind_kernels(here, partial(move, source, target))
    if isinstance(_device(source if source.memory is None else target), CudaKind):
        return cuda_copies.hop(source, target, order)
    done = _by_driver(source, target)
    return done, done


def _can_devices(source: StridedBox, target: StridedBox) -> bool:
    """Whether the driver of a device makes the copy, of which one or both ends are there."""
    kinds = [_device(box) for box in (source, target) if box.memory is None]
    if any(isinstance(kind, CudaKind) for kind in kinds):
        return all(isinstance(kind, CudaKind) for kind in kinds) and cuda_copies.can(source, target)
    if len(kinds) == 2:
        return kinds[0] == kinds[1]
    return (target if source.memory is None else source).contiguous


def _in_long_runs(box: StridedBox) -> bool:
    item = box.dtype.itemsize
    if box.offsets() is not None:
        return (box.shape[1] * item if box.item_stride == item else item) >= _LONG_RUN
    axes = merged_axes((count, stride, stride) for count, stride in zip(box.shape, box.strides, strict=True))
    length = item * axes.pop()[0] if axes and axes[-1][1] == item else item
    return not axes or length >= _LONG_RUN


def _behind_kernels(here: StridedBox, begin: Callable[[], _Futures]) -> _Futures:
    """Start what MPI does with an end on this rank's device when the kernels that were launched before are through."""
    one = here.location.kind.device
    assert one is not None
    one.after_kernels()
    kernels = EventFuture(one, None)
    if kernels.done() and kernels.exception() is None:
        return begin()
    return _after(kernels, begin)


def _to_window(source: StridedBox, target: StridedBox) -> _Futures:
    pointer, (data, first) = target.location, _for_mpi(source)
    window = pointer.segment.window
    assert window is not None
    for a, b, nbytes in _runs(source, target):
        epoch = window.put(pointer.rank, pointer.offset + b, data[first + a : first + a + nbytes])
    # Runs of an earlier epoch were complete when it was closed.
    if epoch.done:
        return DONE, DONE
    return Polled(lambda: epoch.done, epoch.wait), Polled(lambda: epoch.done, lambda: window.flush_local(pointer.rank))


def _from_window(source: StridedBox, target: StridedBox) -> _Futures:
    pointer, (data, first) = source.location, _for_mpi(target)
    window = pointer.segment.window
    assert window is not None
    runs = _runs(source, target)
    gets = [window.get(pointer.rank, pointer.offset + a, data[first + b : first + b + n]) for a, b, n in runs]

    def finish() -> None:
        for get in gets:
            get.wait()

    done: Future[None] = Polled(lambda: all(get.done for get in gets), finish)
    return done, done


def _for_mpi(box: StridedBox) -> tuple[npt.NDArray[np.uint8] | DeviceBytes, int]:
    """The memory in which an end lies as MPI gets it, and the place of the first element there."""
    if box.memory is not None:
        return as_bytes(box.memory), 0
    found = box.location.segment.device_bytes
    assert found is not None
    return found, box.location.offset


def _runs(source: StridedBox, target: StridedBox) -> Iterator[tuple[int, int, int]]:
    """The bytes from the first element of each end to each run of bytes without gaps, and the bytes of the run."""
    if source.contiguous and target.contiguous:
        yield 0, 0, source.nbytes
    else:
        copy = copy_between(source, target)
        for a, b in copy.starts():
            yield a, b, copy.run


def _by_driver(source: StridedBox, target: StridedBox) -> Future[None]:
    runs = _runs(source, target)
    if source.reach == target.reach:
        kind, first, second = _device(source), source.address, target.address
        parts = [kind.move(first + a, second + b, nbytes) for a, b, nbytes in runs]
    elif target.reach == DEVICE:
        kind, data, second = _device(target), as_bytes(_memory(source)), target.address
        parts = [kind.write(data[a : a + nbytes], second + b) for a, b, nbytes in runs]
    else:
        kind, first, data = _device(source), source.address, as_bytes(_memory(target))
        parts = [kind.read(first + a, data[b : b + nbytes]) for a, b, nbytes in runs]
    return parts[0] if len(parts) == 1 else when_all(*parts).then(lambda _: None)


def _memory(box: StridedBox) -> npt.NDArray[Any]:
    assert box.memory is not None
    return box.memory


def _device(box: StridedBox) -> DeviceKind:
    kind = box.location.kind
    assert isinstance(kind, DeviceKind)
    return kind


def staged(source: StridedBox, target: StridedBox) -> _Futures:
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
    copied = when_all(*workers)

    def end(_: Future[Any]) -> None:
        if (error := copied.exception()) is not None and not read.future.done():
            read.set_exception(error)

    copied.at_once(end)
    return copied.then(lambda _: None), read.future


def serve_piece(source: StridedBox, target: StridedBox) -> Future[None]:
    """Copy one piece on request of the rank in whose slot it starts or ends; the other end is this rank's. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    return run(_through(slots.pools.others, source, target, lambda: None))


def step(source: StridedBox, target: StridedBox) -> Future[None]:
    """Start to copy one piece to or from a slot of this rank, alone or by asking the owner of the other end. Local."""
    if is_hop(source, target):
        return hop(source, target)[0]
    far = source if source.reach in (AWAY, *_BY_MPI) else target
    assert far.owner is not None
    return rpc(far.owner, serve_piece, source, target)


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


def late(target: StridedBox, begin: Callable[[], _Futures]) -> _Futures:
    """Have a copy start later. Local.

    Returns:
        The futures of operation completion and of source completion.
    """
    if target.memory is not None:
        target.store(np.frombuffer(bytes([_POISON]) * target.nbytes, target.dtype).reshape(target.shape))
    return _after(deferred_by(_delays.randint(0, _most), lambda: None), begin)


def _after(before: Future[Any], begin: Callable[[], _Futures]) -> _Futures:
    """Start a copy when a future is ready."""
    reusable: Promise[None] = Promise()

    def steps() -> Steps:
        try:
            yield before
            operation, source = begin()
        except Exception as error:
            reusable.set_exception(error)
            raise
        reusable.set_result(source)
        yield operation

    return run(steps()), reusable.future
