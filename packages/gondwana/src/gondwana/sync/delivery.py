"""The wire between nodes: signalled puts, active messages, remote calls and their replies in messages of one kind.

Messages have a communicator of their own, so none of the program can match one. Whatever waits or makes progress at
the target receives and applies them, in Python and in compiled code (`delivery_native`). Each message says how many
puts of the other direction its sender has applied, and those of rings how far it has read: the credit of the other.

A *signalled put* is data, where they go and the signal in one message. A put through a window and then a signal take a
flush between them, and both need MPI at the target: several round trips. The target stores the data, then raises the
signal. Larger puts are several messages, which the target applies in their order; the last one raises the signal. A
sender has credit for `WINDOW` puts to each rank that it does not know to be applied. Without credit, or room for one
more message under way, nothing is sent: the caller then puts through the window and signals. So a put never waits for a
target that computes, or waits in MPI. Whether it has been applied is known at the sender when it has asked, and the
target has answered.

*Rings* between nodes carry all else: each is in the memory of its writer and, once more, in that of its reader. The
writer writes records into its copy as into a ring of the node (see `rings`); what is new there travels to the same
place in the reader's copy. So order, room for replies and what quiescence counts are as on a node, and the same code
writes and reads. At most `OWN_SLOTS` such messages to a rank are with MPI at a time, with what is new in one of the
queues each, the queues in turn. What is written meanwhile waits in the writer's copy and then goes together. So a rank
that does not receive holds up nothing that goes to others.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from gondwana.compiler.mpi import table
from gondwana.compiler.native import Native
from gondwana.errors import GondwanaError
from gondwana.futures import Future
from gondwana.runtime import cores, exits, progress
from gondwana.runtime.watching import waits
from gondwana.sync.rings import FAR_RING, HEADER, LINE, LONGEST_MESSAGE, QUEUES, WORD
from gondwana.teams import Team, addresses, mpi, windows

MOST = 8192
"""Bytes of data that one message of a put takes."""
AXES = 4
"""Axes along which the runs of a put can repeat."""
LARGEST = 8 * MOST
"""Bytes that one put takes, in several messages: more go through the window, as fast and without a copy."""
LARGEST_COMPILED = 2 * MOST
"""The same in compiled code, which may wait for MPI at the target and so is faster with its own put and flush."""
WINDOW = 32
"""Messages of puts to one rank that may be under way or not known to be applied."""
MOST_SIGNALS = 4096
"""The same if one more has no data: a signal alone follows a large put in the order of the others."""
RECEIVES = 4
"""Receives that are posted at a time."""
SLOTS = 64
"""Messages of puts that MPI may be sending, to all ranks."""
OWN_SLOTS = 2
"""Other messages that MPI may be sending to one rank."""
PUT = QUEUES
"""What a message of a put has in place of a queue."""


class Message(NamedTuple):
    """The words of a message before its data, or before the axes of a put: count and stride in bytes of each.

    A message of a put and a message of a ring use the words behind `nbytes` for different things.

    Attributes:
        source: rank of the sender times KINDS, plus the queue of the ring or PUT, plus ASKS if it wants an answer.
        applied: puts of the receiver that the sender has applied.
        nbytes: bytes of data.
        target: address of the first element of a put.
        line: address of the counter of its signal.
        arrivals: number that is added to the counter.
        axes: number of its axes.
        run: bytes that lie in a row, where there are axes.
        offset: place of the data in their ring.
        following: place of the next header in the ring.
        read: first of as many words as queues: what the sender has read of each ring of the other direction.
    """

    source: int
    applied: int
    nbytes: int
    target: int
    line: int
    arrivals: int
    axes: int
    run: int
    offset: int
    following: int
    read: int


class State(NamedTuple):
    """The words of this rank's end of the wire.

    Attributes:
        receiving: lock of the threads that receive.
        sending: lock of the threads that send.
        started: whether receives are posted.
        quiet: whether nothing is asked, answered or sent from rings any more.
        postponed: whether something waits for a slot.
        failed: error of MPI, 0 without one.
        next: slot of puts at which to look first.
        first: receive that completes next.
        communicator: MPI's handle of the communicator.
        rank: this rank.
        ranks: number of ranks.
        peers: address of a `Peer` for each rank.
        slots: address of a `Slot` for each receive, then for puts, then two for each rank.
        rings: address of the memory of the rings.
        inbox: address of the state of the inbox.
        bell: address of the word that says that something has arrived.
        poll: address of the machine code of `poll`, as of those that follow.
        send: address of `send`.
        complete: address of `complete`.
        forward: address of `forward`.
        patience: polls of `complete` before it yields the processor.
    """

    receiving: int
    sending: int
    started: int
    quiet: int
    postponed: int
    failed: int
    next: int
    first: int
    communicator: int
    rank: int
    ranks: int
    peers: int
    slots: int
    rings: int
    inbox: int
    bell: int
    poll: int
    send: int
    complete: int
    forward: int
    patience: int


class Peer(NamedTuple):
    """The words of another rank.

    Attributes:
        sent: number of messages to it.
        received: number of messages from it.
        puts: number of messages to it that are puts.
        acknowledged: number of these that it has applied, as far as this rank knows.
        applied: number of its puts that have been applied here.
        told: number of these that it knows of.
        asked: value of `puts` when it was asked last.
        asking: whether the next message asks it.
        due: whether it has asked, and has no answer yet.
        owing: whether something waits for a slot.
        place: place in the inbox.
        turn: queue whose turn it is.
    """

    sent: int
    received: int
    puts: int
    acknowledged: int
    applied: int
    told: int
    asked: int
    asking: int
    due: int
    owing: int
    place: int
    turn: int


class Slot(NamedTuple):
    """The words of a message that arrives or departs.

    Attributes:
        request: MPI's handle of the request.
        busy: whether it is under way.
        buffer: address of the message.
    """

    request: int
    busy: int
    buffer: int


MESSAGE, STATE, PEER, SLOT = Message(*range(8), *range(3, 6)), State(*range(21)), Peer(*range(12)), Slot(*range(3))
"""Places of the words, for machine code."""

ASKS = 8
KINDS = 2 * ASKS
"""What `source` of a message is made of."""
HEAD = WORD * (MESSAGE.run + 1)
"""Bytes of a put before its data or axes: one line of the cache."""
RANGE_HEAD = -(-WORD * (MESSAGE.read + QUEUES) // HEADER) * HEADER
"""Bytes of a message of a ring before its data."""
AXIS = 2 * WORD
"""Bytes of an axis."""
LONGEST_RANGE = LONGEST_MESSAGE + 2 * HEADER
"""Bytes of a ring that one message takes: the longest record and a header that says what is skipped."""
BUFFER = -(-(RANGE_HEAD + LONGEST_RANGE) // LINE) * LINE
"""Bytes of memory for a message."""
RING = LINE + FAR_RING
"""Bytes of memory for a ring; there are two for each queue and rank, one in each direction."""

_PATIENCE = 1000
"""Polls before a rank that waits yields the processor, unless ranks outnumber the cores: about a millisecond."""
_MOST_AT_ONCE = 64
"""Messages that are applied before a waiting call checks its condition."""

_MODULE = "gondwana.sync.delivery_native"
_poll = Native(_MODULE, "poll", 1, brief=True)
_take_soon = Native(_MODULE, "take_soon", 4, brief=True)
_send = Native(_MODULE, "send", 8, brief=True)
_ask = Native(_MODULE, "ask", 3, brief=True)
_connect = Native(_MODULE, "connect", 2, brief=True)
_end = Native(_MODULE, "end", 1)
_ENTRIES = {
    STATE.poll: Native(_MODULE, "poll", 1),
    STATE.send: Native(_MODULE, "send", 8),
    STATE.complete: Native(_MODULE, "complete", 2),
    STATE.forward: Native(_MODULE, "forward", 2),
}


class Delivery:
    """This rank's end of the wire. Collective over the world to create; everything else is local.

    Args:
        world: the team of all ranks, on several nodes.
    """

    def __init__(self, world: Team) -> None:
        self._comm = world.comm.Dup()
        self._any_source = mpi.any_source(self._comm, None)
        slots = RECEIVES + SLOTS + OWN_SLOTS * world.size
        self._peers = np.zeros((world.size, len(PEER)), np.int64)
        self._slots = np.zeros((slots, len(SLOT)), np.int64)
        self._bytes = np.empty((slots, BUFFER), np.uint8)
        self._slots[:, SLOT.buffer] = self._bytes.ctypes.data + BUFFER * np.arange(slots)
        # Address space, which becomes memory where it is used.
        self._rings = mmap.mmap(-1, world.size * 2 * QUEUES * RING, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._rings.madvise(mmap.MADV_NOHUGEPAGE)  # or the first byte of a ring would take 2 MiB
        self._words = np.zeros(len(STATE), np.int64)
        self._started = self._words.data[STATE.started : STATE.started + 1]
        self.state: int = self._words.ctypes.data
        self._words[STATE.communicator : STATE.inbox] = (
            addresses.handle(self._comm),
            world.rank,
            world.size,
            self._peers.ctypes.data,
            self._slots.ctypes.data,
            np.frombuffer(self._rings, np.uint8).ctypes.data,
        )
        self._watched: deque[Applied] = deque()
        self._linked = False

    def join(self, inbox: int, places: dict[int, int], bell: int) -> None:
        """Store what arrives for rings where an inbox has them. Local; before any can come.

        Args:
            inbox: address of the state of the inbox.
            places: place in the inbox of each rank of the world.
            bell: address of the word that says that something has arrived.
        """
        self._peers[list(places), PEER.place] = list(places.values())
        self._words[[STATE.inbox, STATE.bell]] = inbox, bell

    def link(self) -> None:
        """Load the machine code that is called by address. Local; cheap if that was done before."""
        if not self._linked:
            self._words[STATE.patience] = 0 if cores.crowded() else _PATIENCE
            for word, entry in _ENTRIES.items():
                self._words[word] = entry.address
            self._linked = True

    def connect(self, rank: int) -> None:
        """Lay out the rings to and from a rank of another node. Local."""
        self.link()
        _connect.call(self.state, rank)

    def poll(self) -> bool:
        """Apply what has arrived; return whether there was anything. Local; internal progress.

        Machine code is loaded when the first message arrives.
        """
        done = bool(self._started[0] or self._comm.Iprobe(self._any_source)) and self.apply()
        for future in progress.taken(self._watched) if self._watched else ():
            if not future.done():
                self._watched.append(future)
        return done

    def apply(self) -> bool:
        """Apply what has arrived, by machine code; return whether there was anything. Local."""
        self.link()
        found = served = 0
        while served < _MOST_AT_ONCE and (found := _poll.call(self.state)) > 0:
            served += 1
        if found < 0:
            self._fail()
        return served > 0

    def take_soon(self, line: int, count: int, polls: int) -> bool:
        """Consume arrivals of a signal if there are as many, applying what comes meanwhile; return whether. Local."""
        self.link()
        found = _take_soon.call(self.state, line, count, polls)
        if found < 0:
            self._fail()
        return bool(found)

    def send(
        self, rank: int, data: int, nbytes: int, target: int, line: int, arrivals: int, axes: int = 0
    ) -> Applied | None:
        """Send a put with its signal, unless there is no room; return the future of both. Local; does not wait.

        Args:
            rank: in the world, of another node.
            data: address of the bytes, which may change when this returns.
            nbytes: at most `LARGEST`, with `axes` at most `MOST`.
            target: address of the first element, in that rank's process.
            line: address of the counter of the signal there.
            arrivals: what is added to it.
            axes: address of a table of how runs are repeated: their number, bytes of a run, count and stride in bytes
                of each from the slowest on; 0 if the bytes lie in a row.
        """
        self.link()
        number = _send.call(self.state, rank, data, nbytes, target, line, arrivals, axes)
        if number < 0:
            self._fail()
        return Applied(self, rank, number) if number else None

    def applied(self, rank: int, number: int) -> bool:
        """Return whether it is known that a put has been applied. Local; no progress."""
        return bool(self._peers[rank, PEER.acknowledged] >= number)

    def ask(self, rank: int, number: int) -> None:
        """Ask a rank how many puts it has applied, unless it has been asked after this one. Local."""
        if _ask.call(self.state, rank, number) < 0:
            self._fail()

    def watch(self, future: Applied) -> None:
        """Have progress complete a future. Local."""
        self._watched.append(future)

    @property
    def watched(self) -> int:
        """The number of futures that progress has to complete."""
        return len(self._watched)

    def finish(self, team: Team) -> None:
        """Apply all that the ranks of a team have sent each other before this. Collective over team; blocking."""
        self._receive_all(team.comm, team.world_ranks)

    def end(self) -> None:
        """Apply all that is under way and give MPI's resources back. Collective over the world; blocking."""
        self.close()
        self._receive_all(self._comm, range(self._comm.size))
        if self._started[0]:
            while (left := _end.call(self.state)) > 0:
                os.sched_yield()
            if left < 0:
                self._fail()
        self._comm.Free()

    def close(self) -> None:
        """Ask, answer and send from rings nothing any more. Local."""
        self._words[STATE.quiet] = 1

    def _receive_all(self, comm: Any, ranks: Sequence[int]) -> None:
        peers = self._peers[list(ranks)]
        sent, coming = np.ascontiguousarray(peers[:, PEER.sent]), np.empty(len(ranks), np.int64)
        comm.Alltoall(sent, coming)
        while (self._peers[list(ranks), PEER.received] < coming).any():
            self.apply()
            os.sched_yield()

    def _fail(self) -> NoReturn:
        failed, reason = int(self._words[STATE.failed]), "this process is a copy of a rank, made by os.fork"
        if failed:
            reason = mpi.module().Get_error_string(failed)
        raise GondwanaError(
            f"MPI failed to send or to receive a signalled put, an active message or a remote call: {reason}"
        )


class Applied(Future[None]):
    """The future of a signalled put having been applied by its target, on another node. Local.

    When it is done, the data are there, and the signal has been raised.
    """

    __slots__ = ("_delivery", "_number", "_rank")

    def __init__(self, delivery: Delivery, rank: int, number: int) -> None:
        super().__init__()
        self._delivery, self._rank, self._number = delivery, rank, number

    def done(self) -> bool:
        """Return whether the target has reported it; if not, have it asked, once. Local; no progress."""
        if not self._done:
            if self._delivery.applied(self._rank, self._number):
                self._settle(None, None)
            else:
                self._delivery.ask(self._rank, self._number)
        return self._done

    def _block(self, timeout: float | None) -> None:
        """Return when the target has applied it; in a callback, make internal progress only."""
        if self.done():
            return
        if progress.in_callback():
            while not self.done():
                self._delivery.apply()
                os.sched_yield()
        else:
            progress.wait_until(self.done, self._what(), timeout, why=self._why)

    def add_done_callback(self, call: Callable[[Future[None]], None]) -> None:
        """Register `call(future)` to run on completion: immediately if complete, else inside progress. Local."""
        super().add_done_callback(call)
        self._let_progress_complete()

    def at_once(self, call: Callable[[Future[None]], None]) -> None:
        """Register the library's own `call(future)` to run on completion, in internal progress too. Local."""
        super().at_once(call)
        self._let_progress_complete()

    def _let_progress_complete(self) -> None:
        if not self._done:
            self._delivery.watch(self)

    def _what(self) -> str:
        return f"rank {self._rank} to apply a signalled put"

    def _why(self) -> waits.Wait:
        return waits.Wait(f"for {self._what()}", waits.FUTURE, (self._rank,))


_own: Delivery | None = None


def opened() -> Delivery | None:
    """Return what this rank knows of signalled puts, None where there is one node. Local."""
    return _own


def connect(world: Team) -> None:
    """Prepare signalled puts if there are several nodes. Collective over the world."""
    global _own
    if world.node_count == 1:
        return
    _own = Delivery(world)
    table.set_delivery(_own.state, _own.link)
    windows.before_freeing(_own.finish)
    exits.when_all_leave(_close)
    progress.register(_poll_own, under_way=lambda: _own is not None)
    progress.account_for(_unfinished)
    os.register_at_fork(after_in_child=_forget)


def _poll_own() -> bool:
    return _own is not None and _own.poll()


def _unfinished() -> str | None:
    return f"{_own.watched} signalled puts under way" if _own is not None and _own.watched else None


def _close() -> None:
    """Apply what is under way, at exit. Collective over all ranks."""
    if _own is not None:
        _own.end()
        _forget()


def _forget() -> None:
    """Neither send nor receive any more, as in a copy of this rank."""
    global _own
    if _own is not None:
        _own.close()
    _own = None
    table.set_delivery(0)
