"""The mailbox of a rank: what other ranks send to it, and the ways to theirs.

Ranks of one node write into rings in each other's memory (see `rings`), ranks of different nodes send parcels. The
ring, or the budget of parcels, is the credit of a sender: what finds no room waits in a queue of the sender, in order.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gondwana.calls import names, parcels, rings
from gondwana.calls.node_rings import Found, NodeRings
from gondwana.runtime import progress, start
from gondwana.teams import Team, world

MOST_QUEUED = 2**20
"""Bytes of replies to a rank that wait for room before its requests have to wait."""
_HEADER = struct.Struct("<qq")
REPLIES, REQUESTS = 1 << rings.CALL_REPLY, 1 << rings.CALL
MESSAGES = 1 << rings.MESSAGE | 1 << rings.MESSAGE_REPLY
WRITTEN = 1 << rings.LANES
"""Bits of `Mailbox.seen`: there are replies, requests, messages for compiled handlers; queued messages have left."""


class Message:
    """A message that waits for room, or is under way in fragments. Local.

    Args:
        tag: for the receiver.
        number: for the receiver.
        parts: contiguous buffers, in all at least one byte; they must not change until it is finished, or `keep`.
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
        """Tell whether all of it has been written. Local."""
        return self.done == self.total

    def keep(self) -> None:
        """Copy what is still to be written: the buffers may change from now on. Local."""
        if not self.finished():
            self._set([part.tobytes() for part in self.parts])


@dataclass
class Queue:
    """The messages to one rank in one lane that wait for room, in order."""

    lane: int
    rank: int
    messages: deque[Message] = field(default_factory=deque)
    nbytes: int = 0


class Mailbox:
    """The mailbox of this rank. Collective over the world to make; everything else is local.

    Args:
        team: the world.

    Attributes:
        rings: those of this node.
        sent: how many calls and replies this rank has sent to each rank of the world.
        finished: how many from each it has dealt with.
        reading: the lock to hold while a message is taken and its bytes are read.
        seen: what `look` has seen; of other nodes it does not know before something is taken.
    """

    def __init__(self, team: Team) -> None:
        self.rings = NodeRings(team)
        self._place = self.rings.place
        self._parcels = parcels.Parcels(team) if len(self._place) < team.size else None
        self.sent, self.finished = [0] * team.size, [0] * team.size
        self.reading = threading.Lock()
        self._queues: dict[tuple[int, int], Queue] = {}
        self._sending, self._busy = threading.RLock(), False
        self._late: deque[tuple[int, int, Message]] = deque()
        self.seen = 0
        self._far = 0 if self._parcels is None else REPLIES | REQUESTS

    def is_near(self, rank: int) -> bool:
        """Tell whether a rank of the world is on this node. Local."""
        return rank in self._place

    # -- sending -------------------------------------------------------------------------------------------------

    def post(self, rank: int, lane: int, tag: int, number: int, data: bytes) -> bool:
        """Send a message if there is room for it now, it is short, and no others wait. Local; no progress."""
        if rank in self._place:
            return self.rings.push_one(rank, lane, tag, number, data)
        if (lane, rank) in self._queues:
            return False
        return bool(self._alone(lambda: self._post_far(rank, lane, tag, number, [data])))

    def _post_far(self, rank: int, lane: int, tag: int, number: int, parts: Sequence[Any]) -> bool:
        assert self._parcels is not None
        return self._parcels.send(rank, [_HEADER.pack(tag, number), *parts], _far_lane(lane))

    def submit(self, rank: int, lane: int, message: Message) -> None:
        """Send a message, as much of it as there is room for; the rest follows within later progress. Local."""
        if self._alone(lambda: self._enqueue(rank, lane, message)) is None:
            message.keep()
            self._late.append((rank, lane, message))

    def keep(self, message: Message) -> None:
        """Copy what is still to be written of a submitted message: its buffers may change from now on. Local."""
        if not message.finished():
            with self._sending:
                message.keep()

    def offer(self, rank: int, lane: int, message: Message) -> bool:
        """Send a message unless there is no room for even its beginning, or others wait. Local; no progress."""
        return bool(self._alone(lambda: self._begin(rank, lane, message)))

    def _alone(self, work: Callable[[], bool]) -> bool | None:
        """Run what sends while nothing else of this rank does; None: this thread is inside of that, in a finalizer."""
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

    def _enqueue(self, rank: int, lane: int, message: Message) -> bool:
        """Queue a message and write what there is room for; tell whether any was finished."""
        queue = self._queues.get((lane, rank))
        if queue is None:
            queue = self._queues[lane, rank] = Queue(lane, rank)
        self._hold(lane, rank, True)
        queue.messages.append(message)
        queue.nbytes += message.total
        return self._write(queue)

    def _begin(self, rank: int, lane: int, message: Message) -> bool:
        """Write a message unless others wait or there is no room for its beginning; the rest of it is queued."""
        if (lane, rank) in self._queues:
            return False
        self._hold(lane, rank, True)
        self._push(lane, rank, message)
        if message.done == 0 or message.finished():
            self._hold(lane, rank, False)
            return message.finished()
        message.keep()
        self._queues[lane, rank] = Queue(lane, rank, deque([message]), message.total)
        return True

    def _hold(self, lane: int, rank: int, hold: bool) -> None:
        """Let rings refuse other messages while some wait for room: those go first."""
        if rank in self._place:
            self.rings.words[self.rings.out_block(lane, rank) + rings.HELD] = int(hold)

    def _push(self, lane: int, rank: int, message: Message) -> None:
        """Write as much of a message as there is room for."""
        tag, number = message.tag, message.number
        if rank in self._place:
            message.done = self.rings.push_parts(rank, lane, tag, number, message.table, message.done)
        elif self._post_far(rank, lane, tag, number, message.parts):
            message.done = message.total

    def _write(self, queue: Queue) -> bool:
        """Write what there is room for; tell whether any message was finished."""
        written = False
        while queue.messages:
            message = queue.messages[0]
            self._push(queue.lane, queue.rank, message)
            if not message.finished():
                break
            queue.messages.popleft()
            queue.nbytes -= message.total
            written = True
        if not queue.messages:
            self._queues.pop((queue.lane, queue.rank), None)
            self._hold(queue.lane, queue.rank, False)
        if queue.lane == rings.CALL_REPLY and queue.rank in self._place:
            # The requests of a rank that does not read its replies have to wait.
            block = self.rings.in_block(rings.CALL, queue.rank)
            self.rings.words[block + rings.PAUSED] = int(queue.nbytes > MOST_QUEUED)
        return written

    @property
    def queued(self) -> int:
        """How many bytes wait on this rank for room at others."""
        return sum(queue.nbytes for queue in list(self._queues.values()))

    def _write_all(self) -> bool:
        """Write what there is room for, to everybody; tell whether any message was finished."""
        return sum([self._write(queue) for queue in list(self._queues.values())]) > 0

    def _flush(self) -> bool:
        """Write queued messages for which there is room now; tell whether any was finished."""
        if not self._sending.acquire(False):
            return False
        try:
            return bool(self._alone(self._write_all))
        finally:
            self._sending.release()

    # -- receiving -----------------------------------------------------------------------------------------------

    def look(self) -> int:
        """Move queued messages and see whether any have arrived; return bits of `seen`. Local; cheap when none have."""
        self.seen = self.rings.look() | self._far
        if (self._queues or self._late) and self._flush():
            self.seen |= WRITTEN
        return self.seen

    def more(self) -> bool:
        """Tell whether there may be more messages behind the one that was taken last. Local."""
        return self.rings.more[0] != 0 or self._parcels is not None

    def take(self, lane: int) -> Found | None:
        """Return a message that has arrived in a lane; the caller holds `reading`. Local."""
        found = self.rings.take(lane)
        if found is not None or self._parcels is None or (lane == rings.CALL and self._far_waits()):
            return found
        parcel = self._parcels.poll(_far_lane(lane))
        if parcel is None:
            return None
        rank, data = parcel
        tag, number = _HEADER.unpack_from(data)
        return rank, tag, number, data[_HEADER.size :]

    def _far_waits(self) -> bool:
        """Whether a rank of another node does not read its replies: parcels cannot be taken from the others alone."""
        return any(
            queue.nbytes > MOST_QUEUED
            for (lane, rank), queue in list(self._queues.items())
            if lane == rings.CALL_REPLY and rank not in self._place
        )


def _far_lane(lane: int) -> int:
    return parcels.REQUESTS if lane == rings.CALL else parcels.REPLIES


_own: Mailbox | None = None


def own() -> Mailbox:
    """Return the mailbox of this rank. Local; the world's first use opens it where there are several ranks."""
    global _own
    if _own is None:
        size = world.size  # connects the world
        if size == 1:
            _own = Mailbox(world)
    assert _own is not None
    return _own


def opened() -> Mailbox | None:
    """Return the mailbox of this rank if it is open. Local."""
    return _own


def _at_connect(team: Team) -> None:
    global _own
    names.remember_main()
    if team.size > 1:
        _own = Mailbox(team)
        _ = team.key  # agreed here, so that distributed objects of the world make nobody wait


start.at_connect(_at_connect)
