"""Signalled puts between nodes: data, where they go and the signal in one message, which the target applies.

A put through a window and then a signal take a flush between them, and both need MPI at the target: several round
trips. Here one message takes all. It has a communicator of its own, so no message of the program can match one.
Whatever waits or makes progress at the target receives messages and applies them, in Python and in compiled code
(`delivery_native`): it stores the data, then raises the signal. Larger puts are several messages, which the target
applies in their order; the last one raises the signal.

A sender has credit for `WINDOW` messages to each rank, and gets it back with the count of those applied, which every
message in the other direction carries. Without credit, or room for one more message under way, nothing is sent: the
caller then puts through the window and signals. So a put never waits for a target that computes, or waits in MPI.

Whether a message has been applied is known at the sender when it has asked, and the target has answered.

A room above may send messages of its own the same way, with slots of its own (see `Delivery.carry`): they arrive where
signalled puts do, in the order of the others.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from gondwana.compiler.mpi import table
from gondwana.compiler.native import Native
from gondwana.errors import GondwanaError
from gondwana.futures import Future
from gondwana.runtime import cores, exits, progress
from gondwana.teams import Team, addresses, mpi, windows

MOST = 8192
"""Bytes of data that one message takes."""
AXES = 4
"""Axes along which the runs of a message can repeat."""
LARGEST = 8 * MOST
"""Bytes that one put takes, in several messages: more go through the window, as fast and without a copy."""
LARGEST_COMPILED = 2 * MOST
"""The same in compiled code, which may wait for MPI at the target and so is faster with its own put and flush."""
WINDOW = 32
"""Messages to one rank that may be under way or not known to be applied."""
MOST_SIGNALS = 4096
"""The same if one more has no data: a signal alone follows a large put in the order of the others."""
SLOTS = 64
"""Messages of this rank that MPI may be sending."""
RECEIVES = 4
"""Receives that are posted at a time."""

WORD = 8
HEAD = 8 * WORD
"""Bytes of a message before its axes. Its words: sender and kind, applied, signal, arrivals, target, bytes of data,
axes, bytes of a run."""
AXIS = 2 * WORD
"""Bytes of an axis: count, stride in bytes."""
ROOM = 2**15 + 128
"""Bytes of the longest message, which is one of the room above."""

PUT, ASK, REPORT, CARGO = range(4)
"""Kinds of messages: a put; a question how many have been applied; an answer, or credit that is given back; a message
of the room above."""
CARGO_BEGIN = 2 * WORD
"""Where the words of the room above begin in its messages."""

(
    RECEIVING,
    SENDING,
    STARTED,
    QUIET,
    POSTPONED,
    FAILED,
    NEXT,
    FIRST,
    COMMUNICATOR,
    RANK,
    RANKS,
    PEERS,
    ARRIVALS,
    DEPARTURES,
    POLL_AT,
    SEND_AT,
    CARRIER,
    ACCEPT_AT,
    RESUME_AT,
    COMPLETE_AT,
    PATIENCE,
) = range(0, 21 * WORD, WORD)
"""Words of the state, as offsets in bytes. Locks of those who receive and who send; whether receives are posted;
whether no question is answered any more; whether an answer had no room; MPI's error; the places to look at next, for
sending and for receiving; the communicator, this rank, the number of ranks; addresses of three tables: peers, what
arrives, what departs; and of the machine code of `poll` and `send`, which compiled code calls; what the room above has
given to `carry`; the address of the machine code of `complete`, which compiled code calls, and how often it polls
before it yields the processor."""

SENT, RECEIVED, PUTS, APPLIED, ACKNOWLEDGED, REPORTED, ASKED, DUE = range(0, 8 * WORD, WORD)
PEER = 8 * WORD
"""Words of a peer: messages to it and from it; puts to it, puts of it that were applied here, puts to it that it has
reported; what this rank has reported last; the number of puts to it when it was asked last; whether it waits for an
answer that had no room."""

REQUEST, BUSY, BUFFER = range(0, 3 * WORD, WORD)
SLOT = 3 * WORD
"""Words of a message that arrives or departs: MPI's request, whether it is under way, the address of its bytes."""

_PATIENCE = 1000
"""Polls before a rank that waits yields the processor, unless ranks outnumber the cores: about a millisecond."""
_MOST_AT_ONCE = 64
"""Messages that are applied before a waiting call checks its condition."""

_MODULE = "gondwana.sync.delivery_native"
_poll = Native(_MODULE, "poll", 1, brief=True)
_take_soon = Native(_MODULE, "take_soon", 4, brief=True)
_send = Native(_MODULE, "send", 8, brief=True)
_ENTRIES = (
    (POLL_AT, Native(_MODULE, "poll", 1)),
    (SEND_AT, Native(_MODULE, "send", 8)),
    (COMPLETE_AT, Native(_MODULE, "complete", 2)),
)
_ask = Native(_MODULE, "ask", 3, brief=True)
_end = Native(_MODULE, "end", 1)


class Delivery:
    """What this rank knows of signalled puts. Collective over the world to create; everything else is local.

    Args:
        world: the team of all ranks, on several nodes.
    """

    def __init__(self, world: Team) -> None:
        self._comm = world.comm.Dup()
        self._any_source = mpi.any_source(self._comm, None)
        self._peers = np.zeros((world.size, PEER // WORD), np.int64)
        self._slots = np.zeros((RECEIVES + SLOTS, SLOT // WORD), np.int64)
        self._bytes = np.empty((RECEIVES + SLOTS, ROOM), np.uint8)
        self._slots[:, BUFFER // WORD] = self._bytes.ctypes.data + ROOM * np.arange(RECEIVES + SLOTS)
        self._words = np.zeros(21, np.int64)
        self._started = self._words.data[STARTED // WORD : STARTED // WORD + 1]
        self.state = self._words.ctypes.data
        self._words[COMMUNICATOR // WORD] = addresses.handle(self._comm)
        self._words[RANK // WORD], self._words[RANKS // WORD] = world.rank, world.size
        self._words[PEERS // WORD] = self._peers.ctypes.data
        self._words[ARRIVALS // WORD] = self._slots.ctypes.data
        self._words[DEPARTURES // WORD] = self._slots[RECEIVES:].ctypes.data
        self._watched: deque[Applied] = deque()
        self._entries: tuple[tuple[int, Native], ...] = _ENTRIES
        self._linked = False

    def link(self) -> None:
        """Load the machine code that is called by address. Local; cheap if that was done before."""
        if not self._linked:
            self._words[PATIENCE // WORD] = 0 if cores.crowded() else _PATIENCE
            for word, entry in self._entries:
                self._words[word // WORD] = entry.address
            self._linked = True

    def carry(self, carrier: int, accept: Native, resume: Native) -> None:
        """Hand the messages of the room above to its machine code. Local; before any can come.

        Args:
            carrier: what both functions get as their first argument.
            accept: `accept(carrier, message, rank)`: takes a message that has arrived.
            resume: `resume(carrier, 0, 0)`: sends what had no room, and returns how many messages MPI still sends. It
                is called where POSTPONED has been set, and at the end.
        """
        self._words[CARRIER // WORD] = carrier
        self._entries += (ACCEPT_AT, accept), (RESUME_AT, resume)

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
        return bool(self._peers[rank, ACKNOWLEDGED // WORD] >= number)

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
        """Answer and send nothing any more. Local."""
        self._words[QUIET // WORD] = 1

    def _receive_all(self, comm: Any, ranks: Sequence[int]) -> None:
        peers = self._peers[list(ranks)]
        sent, coming = np.ascontiguousarray(peers[:, SENT // WORD]), np.empty(len(ranks), np.int64)
        comm.Alltoall(sent, coming)
        while (self._peers[list(ranks), RECEIVED // WORD] < coming).any():
            self.apply()
            os.sched_yield()

    def _fail(self) -> NoReturn:
        reason = mpi.module().Get_error_string(int(self._words[FAILED // WORD]))
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
            progress.wait_until(self.done, self._what(), timeout)

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
