"""The mailbox of a rank: it receives the messages of other ranks and sends to their mailboxes.

Ranks of one node write into rings in each other's memory (see `rings`), ranks of different nodes send parcels. The room
in the ring, or the budget of parcels, is the credit of a sender: messages without room wait at the sender, in order.
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

from gondwana.calls import names, parcels, rings
from gondwana.calls.brief_calls import BriefCalls
from gondwana.calls.node_rings import Found, NodeRings
from gondwana.runtime import progress
from gondwana.teams import Team, mpi, world

MOST_QUEUED = 2**20
"""Bytes of replies to a rank that wait for room before its requests have to wait."""
_HEADER = struct.Struct("<qq")
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
        rings: the rings among the ranks of this node.
        brief: calls by machine code through these rings.
        sent: number of calls and replies that this rank has sent to each rank of the world, but for brief ones.
        finished: number of those that it has received from each and completed, but for brief calls.
        reading: the lock to hold while a message is taken and its bytes are read.
        seen: what `poll` has found; messages from other nodes are always assumed.
    """

    def __init__(self, team: Team) -> None:
        self.rings = NodeRings(team)
        self.brief = BriefCalls(self.rings)
        self._place = self.rings.place
        self._parcels = parcels.Parcels(team) if len(self._place) < team.size else None
        self.sent, self.finished = [0] * team.size, [0] * team.size
        self.reading = threading.Lock()
        self._backlogs: dict[tuple[int, int], Backlog] = {}
        self._sending, self._busy = threading.RLock(), False
        self._late: deque[tuple[int, int, Message]] = deque()
        self.seen = 0
        self._far = 0 if self._parcels is None else REPLIES | REQUESTS

    def is_near(self, rank: int) -> bool:
        """Return whether a rank of the world is on this node. Local."""
        return rank in self._place

    # -- sending -------------------------------------------------------------------------------------------------

    def post(self, rank: int, queue: int, tag: int, number: int, data: bytes) -> bool:
        """Send a message if it is short, there is room for it now, and no others wait. Local; no progress."""
        out = self.rings.outs[queue].get(rank)
        if out is not None:
            return bool(self.rings.push(out, tag, number, data))
        if rank in self._place:
            return self.rings.push_one(rank, queue, tag, number, data)
        if (queue, rank) in self._backlogs:
            return False
        return bool(self._alone(lambda: self._post_far(rank, queue, tag, number, [data])))

    def post_call(self, rank: int, function: Any, tag: int, number: int, data: bytes) -> bool:
        """Post a call of a function: as `post`. On this node, further calls of it may be brief."""
        if rank in self._place:
            return self.brief.post(rank, function, tag, number, data)
        return self.post(rank, rings.CALL, tag, number, data)

    def _post_far(self, rank: int, queue: int, tag: int, number: int, parts: Sequence[Any]) -> bool:
        assert self._parcels is not None
        return self._parcels.send(rank, [_HEADER.pack(tag, number), *parts], _far_queue(queue))

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
        if rank in self._place:
            self.rings.words[self.rings.out_block(queue, rank) + rings.HELD] = int(hold)

    def _push(self, queue: int, rank: int, message: Message) -> None:
        """Write as much of a message as there is room for."""
        tag, number = message.tag, message.number
        if rank in self._place:
            message.done = self.rings.push_parts(rank, queue, tag, number, message.table, message.done)
        elif self._post_far(rank, queue, tag, number, message.parts):
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
        if backlog.queue == rings.CALL_REPLY and backlog.rank in self._place:
            # The requests of a rank that does not read its replies have to wait.
            block = self.rings.in_block(rings.CALL, backlog.rank)
            self.rings.words[block + rings.PAUSED] = int(backlog.nbytes > MOST_QUEUED)
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
        self.seen = self.rings.poll() | self._far
        if (self._backlogs or self._late) and self._flush():
            self.seen |= WRITTEN
        return self.seen

    def must_poll(self) -> bool:
        """Return whether messages may leave or arrive that ring no bell. Local."""
        return self._parcels is not None or bool(self._backlogs) or bool(self._late)

    def more(self) -> bool:
        """Return whether there may be more messages behind the one that was taken last. Local."""
        return self.rings.more[0] != 0 or self._parcels is not None

    @property
    def has_far(self) -> bool:
        """Whether messages come from other nodes, too."""
        return self._parcels is not None

    def totals(self, ranks: Sequence[int]) -> tuple[int, int]:
        """Return how many calls and replies this rank has sent to some ranks, and finished of theirs. Local."""
        sent, finished = self.brief.totals(ranks)
        return sent + sum(self.sent[rank] for rank in ranks), finished + sum(self.finished[rank] for rank in ranks)

    def take(self, queue: int) -> Found | None:
        """Return a message that has arrived in a queue; the caller holds `reading`. Local."""
        found = self.rings.take(queue)
        if found is not None or self._parcels is None or (queue == rings.CALL and self._far_waits()):
            return found
        parcel = self._parcels.poll(_far_queue(queue))
        if parcel is None:
            return None
        rank, data = parcel
        tag, number = _HEADER.unpack_from(data)
        return rank, tag, number, data[_HEADER.size :]

    def _far_waits(self) -> bool:
        """Return whether a rank of another node does not read its replies: parcels cannot be taken selectively."""
        return any(
            backlog.nbytes > MOST_QUEUED
            for (queue, rank), backlog in list(self._backlogs.items())
            if queue == rings.CALL_REPLY and rank not in self._place
        )


def _far_queue(queue: int) -> int:
    return parcels.REQUESTS if queue == rings.CALL else parcels.REPLIES


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
