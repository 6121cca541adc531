"""The mailbox of a rank: it receives the messages of other ranks and sends to their mailboxes.

They go through rings (see `inbox`), long ones to other nodes with payloads beside them. The room in the ring, and for
payloads, is the credit of a sender: messages without room wait at the sender, in order.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gondwana.calls import names
from gondwana.calls.brief_calls import BriefCalls
from gondwana.calls.inbox import Found, Inbox
from gondwana.calls.payloads import Payloads
from gondwana.runtime import progress
from gondwana.sync import rings
from gondwana.teams import Team, mpi, world

MOST_QUEUED = 2**20
"""Bytes of replies to a rank that wait for room before its requests have to wait."""
LONG = 4
"""Bit of the tag of a message whose bytes are the length of its payload, which follows by itself."""
_LENGTH = struct.Struct("q")
REPLIES, REQUESTS = 1 << rings.CALL_REPLY, 1 << rings.CALL
MESSAGES = 1 << rings.MESSAGE | 1 << rings.MESSAGE_REPLY
WRITTEN = 1 << rings.QUEUES
"""Bits of `Mailbox.seen`: there are replies, requests, active messages; waiting messages have been sent."""


class Message:
    """A message that waits for room, or is being sent in fragments. Local.

    Args:
        tag: for the receiver.
        number: for the receiver.
        parts: contiguous buffers of at least one byte in total; unchanged until it is finished, or `keep` is called.
    """

    def __init__(self, tag: int, number: int, parts: Sequence[Any]) -> None:
        self.tag, self.number, self.done = tag, number, 0
        self._set(parts)

    def _set(self, parts: Sequence[Any]) -> None:
        self.parts = [np.frombuffer(part, np.uint8) for part in parts if len(part)]
        self.total = sum(part.size for part in self.parts)
        self._table = np.array([(part.ctypes.data, part.size) for part in self.parts], np.int64)
        self.table = self._table.ctypes.data, len(self.parts), self.total

    def finished(self) -> bool:
        """Return whether all of it has been written. Local."""
        return self.done == self.total

    def keep(self) -> None:
        """Copy what has not been written yet, so that the buffers may change. Local."""
        if not self.finished():
            self._set([part.tobytes() for part in self.parts])


@dataclass
class Backlog:
    """The messages to one queue of a rank that wait for room, in order."""

    queue: int
    rank: int
    messages: deque[Message] = field(default_factory=deque)
    nbytes: int = 0


class Mailbox:
    """The mailbox of this rank. Collective over the world to create; everything else is local.

    Args:
        team: the world.

    Attributes:
        rings: the rings from and to all ranks.
        brief: calls by machine code through these rings.
        sent: number of calls and replies that this rank has sent to each rank of the world, but for brief ones.
        finished: number of those that it has received from each and completed, but for brief calls.
        reading: the lock to hold while a message is taken and its bytes are read.
        seen: what `poll` has found.
    """

    def __init__(self, team: Team) -> None:
        self.rings = Inbox(team)
        self.brief = BriefCalls(self.rings)
        self._payloads = Payloads(team) if self.rings.near < team.size else None
        self.sent, self.finished = [0] * team.size, [0] * team.size
        self.reading = threading.Lock()
        self._length = np.zeros(1, np.int64)
        self._announcement = Message(0, 0, [self._length])
        self._backlogs: dict[tuple[int, int], Backlog] = {}
        self._sending, self._busy = threading.RLock(), False
        self._late: deque[tuple[int, int, Message]] = deque()
        self.seen = 0

    # -- sending -------------------------------------------------------------------------------------------------

    def post_long(self, rank: int, queue: int, tag: int, number: int, parts: Sequence[Any]) -> bool:
        """Send a message to another node if it is long, there is room for it now, and no others wait. Local."""
        if self._payloads is None or self.rings.is_near(rank) or (queue, rank) in self._backlogs:
            return False
        nbytes = sum(map(len, parts))
        if nbytes <= rings.LONGEST_MESSAGE:
            return False
        return bool(self._alone(lambda: self._push_long(rank, queue, tag, number, parts, nbytes)))

    def _push_long(self, rank: int, queue: int, tag: int, number: int, parts: Sequence[Any], nbytes: int) -> bool:
        """Send a message whose payload goes by itself, if there is room for both.

        In the ring that is room for the longest record, or long messages would pass those that find none.
        """
        payloads = self._payloads
        if payloads is None or not payloads.has_room(rank, queue, nbytes) or not self.rings.has_room(rank, queue):
            return False
        self._length[0] = nbytes
        self.rings.push_parts(rank, queue, tag | LONG, number, self._announcement.table, 0)
        payloads.send(rank, queue, np.frombuffer(b"".join(parts), np.uint8))
        return True

    def submit(self, rank: int, queue: int, message: Message) -> None:
        """Send as much of a message as there is room for; later progress sends the rest. Local."""
        if self._alone(lambda: self._enqueue(rank, queue, message)) is None:
            message.keep()
            self._late.append((rank, queue, message))

    def keep(self, message: Message) -> None:
        """Copy what has not been written of a submitted message, so that its buffers may change. Local."""
        if not message.finished():
            with self._sending:
                message.keep()

    def offer(self, rank: int, queue: int, message: Message) -> bool:
        """Send a message unless others wait or there is no room for its beginning. Local; no progress."""
        return bool(self._alone(lambda: self._begin(rank, queue, message)))

    def _alone(self, work: Callable[[], bool]) -> bool | None:
        """Run work that sends, exclusively; return None in a finalizer that interrupts such work of its own thread."""
        with self._sending:
            if self._busy:
                return None
            self._busy = True
            try:
                with progress.callback():  # no finalizer may wait in here
                    done = work()
                    while self._late:
                        self._enqueue(*self._late.popleft())
                return done
            finally:
                self._busy = False

    def _enqueue(self, rank: int, queue: int, message: Message) -> bool:
        """Append a message to its backlog and write what there is room for; return whether any was finished."""
        backlog = self._backlogs.get((queue, rank))
        if backlog is None:
            backlog = self._backlogs[queue, rank] = Backlog(queue, rank)
        self._hold(queue, rank, True)
        backlog.messages.append(message)
        backlog.nbytes += message.total
        return self._write(backlog)

    def _begin(self, rank: int, queue: int, message: Message) -> bool:
        """Write a message unless others wait or there is no room for its beginning; keep the rest for later."""
        if (queue, rank) in self._backlogs:
            return False
        self._hold(queue, rank, True)
        self._push(queue, rank, message)
        if message.done == 0 or message.finished():
            self._hold(queue, rank, False)
            return message.finished()
        message.keep()
        self._backlogs[queue, rank] = Backlog(queue, rank, deque([message]), message.total)
        return True

    def _hold(self, queue: int, rank: int, hold: bool) -> None:
        """Make the ring refuse other messages while some wait for room, since those go first."""
        self.rings.words[self.rings.out_block(queue, rank) + rings.HELD] = int(hold)

    def _push(self, queue: int, rank: int, message: Message) -> None:
        """Write as much of a message as there is room for."""
        tag, number = message.tag, message.number
        if message.total <= rings.LONGEST_MESSAGE or self.rings.is_near(rank):
            message.done = self.rings.push_parts(rank, queue, tag, number, message.table, message.done)
        elif self._push_long(rank, queue, tag, number, message.parts, message.total):
            message.done = message.total

    def _write(self, backlog: Backlog) -> bool:
        """Write what there is room for; return whether any message was finished."""
        written = False
        while backlog.messages:
            message = backlog.messages[0]
            self._push(backlog.queue, backlog.rank, message)
            if not message.finished():
                break
            backlog.messages.popleft()
            backlog.nbytes -= message.total
            written = True
        if not backlog.messages:
            self._backlogs.pop((backlog.queue, backlog.rank), None)
            self._hold(backlog.queue, backlog.rank, False)
        if backlog.queue == rings.CALL_REPLY:
            # The requests of a rank that does not read its replies have to wait.
            self.rings.pause(backlog.rank, backlog.nbytes > MOST_QUEUED)
        return written

    @property
    def queued(self) -> int:
        """The bytes that wait on this rank for room at others."""
        return sum(backlog.nbytes for backlog in list(self._backlogs.values()))

    def _write_all(self) -> bool:
        """Write what there is room for, to all ranks; return whether any message was finished."""
        return sum([self._write(backlog) for backlog in list(self._backlogs.values())]) > 0

    def _flush(self) -> bool:
        """Write waiting messages for which there is room now; return whether any was finished."""
        if not self._sending.acquire(False):
            return False
        try:
            return bool(self._alone(self._write_all))
        finally:
            self._sending.release()

    # -- receiving -----------------------------------------------------------------------------------------------

    def poll(self) -> int:
        """Send waiting messages and poll for arrivals; return bits of `seen`. Local; cheap when there are none."""
        self.seen = self.rings.poll()
        if self._payloads is not None:
            self.seen |= self._payloads.coming
        if (self._backlogs or self._late) and self._flush():
            self.seen |= WRITTEN
        return self.seen

    def must_poll(self) -> bool:
        """Return whether messages may leave that ring no bell. Local."""
        return bool(self._backlogs) or bool(self._late)

    def more(self, queue: int) -> bool:
        """Return whether there may be more messages in a queue behind the one that was taken last. Local."""
        return self.rings.more[0] != 0 or self.is_coming(queue)

    def is_coming(self, queue: int) -> bool:
        """Return whether messages of a queue have been announced whose payloads have not arrived. Local."""
        return self._payloads is not None and bool(self._payloads.coming >> queue & 1)

    def totals(self, ranks: Sequence[int]) -> tuple[int, int]:
        """Return how many messages of all kinds this rank has sent to some ranks, and finished of theirs. Local."""
        sent, finished = self.rings.totals(ranks)
        return sent + sum(self.sent[rank] for rank in ranks), finished + sum(self.finished[rank] for rank in ranks)

    def take(self, queue: int) -> Found | None:
        """Return a message that has arrived in a queue; the caller holds `reading`. Local."""
        if self._payloads is None:
            return self.rings.take(queue)
        while (found := self._payloads.arrived(queue) or self.rings.take(queue)) is not None:
            rank, tag, number, data = found
            if not tag & LONG:
                return found
            self._payloads.expect(queue, rank, tag & ~LONG, number, *_LENGTH.unpack_from(data))
        return None


_own: Mailbox | None = None
_of_the_rank: list[Mailbox | None] = []
"""In a forked copy of a rank the mailbox that is the rank's, which the copy must neither read nor close."""


def own() -> Mailbox:
    """Return the mailbox of this rank. Local; with several ranks, connecting the world has opened it."""
    global _own
    if _own is None:
        size = world.comm.size  # connects the world; a forked copy of a rank raises
        if size == 1:
            _own = Mailbox(world)
    assert _own is not None
    return _own


def opened() -> Mailbox | None:
    """Return the mailbox of this rank if it is open. Local."""
    return _own


def connect(team: Team) -> None:
    """Open the mailbox of this rank. Collective over team, the world."""
    global _own
    names.remember_main()
    if team.size > 1:
        _own = Mailbox(team)
        _ = team.key  # agreed here, so that creating distributed objects of the world is local


def _leave() -> None:
    global _own
    if mpi.is_running():
        _of_the_rank.append(_own)
        _own = None


os.register_at_fork(after_in_child=_leave)
