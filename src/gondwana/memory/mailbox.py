"""The mailbox of a rank: what other ranks send to it, and the ways to theirs.

Ranks of one node write into rings in each other's memory (see `rings`), ranks of different nodes send parcels. The
ring, or the budget of parcels, is the credit of a sender: what finds no room waits in a queue of the sender, in order.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.jit import mpi_table
from gondwana.jit.errors import raise_from_block
from gondwana.memory import names, rings
from gondwana.memory.segment import Segment
from gondwana.world import Team, parcels, start, world

MOST_QUEUED = 2**20
"""Bytes of replies to a rank that wait for room before its requests have to wait."""
_MESSAGE_RING = 2**16
_NODE_BYTES = 8 * 2**20
_SMALLEST_RING, _LARGEST_RING = 2**15, 2**18
_FAR_HEADER = struct.Struct("<qq")
_FOUND = struct.Struct("4q")
_REPLIES = 1 << rings.CALL_REPLY
_REQUESTS = 1 << rings.CALL
_MESSAGES = 1 << rings.MESSAGE | 1 << rings.MESSAGE_REPLY
MOST_HANDLERS = 4096
ACTIVE = 4
"""Bit of the tag of a parcel that is for a compiled handler."""

Received = tuple[int, int, int, Any]
"""A message: the rank in the world that sent it, its tag, its number, and its bytes, valid until the next is taken."""


class Message:
    """A message that waits for room, or is under way in fragments. Local.

    Args:
        tag: for the receiver.
        number: for the receiver.
        parts: contiguous buffers, in all at least one byte; they must not change until `done` is `total`, or `keep`.
    """

    def __init__(self, tag: int, number: int, parts: Sequence[Any]) -> None:
        self.tag, self.number, self.done = tag, number, 0
        self._set(parts)

    def _set(self, parts: Sequence[Any]) -> None:
        self.parts = [np.frombuffer(part, np.uint8) for part in parts if len(part)]
        self._table = np.array([(part.ctypes.data, part.size) for part in self.parts], np.int64)
        self.table = self._table.ctypes.data
        self.total = sum(part.size for part in self.parts)

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


@dataclass
class Handled:
    """An active message as its receiver knows it.

    Attributes:
        name: of the handler.
        block: the argument block of the handler.
        sources: for each rank in the world that may send it, its rank in the team.
        context: what the block refers to, kept alive.
    """

    name: str
    block: npt.NDArray[np.int64]
    sources: dict[int, int]
    context: tuple[Any, ...]


class Mailbox:
    """The mailbox of this rank. Collective over the world to make; everything else is local.

    Args:
        team: the world.

    Attributes:
        team: the world.
        ranks: the ranks of this node.
        place: where in `ranks` a rank is; others are on other nodes.
        state: address of the words that compiled code works on.
        sent: how many calls and replies this rank has sent to each.
        finished: how many from each it has dealt with.
    """

    def __init__(self, team: Team) -> None:
        self.team = team
        self.ranks = tuple(sorted(team.world_ranks[rank] for rank in _node_ranks(team)))
        self.place = {rank: place for place, rank in enumerate(self.ranks)}
        self._capacities = _capacities(len(self.ranks))
        self._starts = _starts(self._capacities)
        size = rings.LINE + len(self.ranks) * self._starts[-1]
        self._segment = Segment(team, size, window=False)
        self.sent, self.finished = [0] * team.size, [0] * team.size
        self._parcels = parcels.Parcels(team) if len(self.ranks) < team.size else None
        self._bell = self._segment.view(team.rank)[:8].data.cast("B").cast("q")
        self._awake = False
        self._outs: list[dict[int, int]] = [{} for _ in range(rings.LANES)]
        self._queues: dict[tuple[int, int], Queue] = {}
        self._sending = threading.Lock()
        self._reading = threading.Lock()
        self._handled: dict[int, Handled] = {}
        self._far_replies: deque[tuple[int, int, Any]] = deque()
        self._long: dict[tuple[int, int], Any] = {}
        self._seen = 0
        self._open_inbox()

    def _open_inbox(self) -> None:
        """Lay out the words that compiled code works on."""
        peers = len(self.ranks)
        self.words = np.zeros(rings.state_words(peers), np.int64)
        self.state = self.words.ctypes.data
        self._found = self.words.data[rings.PEER : rings.LENGTH + 1]
        self._buffer = np.zeros(rings.SMALL_BYTES, np.uint8)
        self._small = self._buffer.data
        self.words[rings.PEERS] = peers
        self._table = np.zeros((MOST_HANDLERS, rings.HANDLER), np.int64)
        self.words[rings.HANDLERS] = self._table.ctypes.data
        self._failed = self.words.data[rings.FAILED : rings.FAILED + 1]
        self.words[rings.BUFFER] = self._buffer.ctypes.data
        for lane in range(rings.LANES):
            for peer in range(peers):
                block = rings.in_block(lane, peer, peers)
                self.words[block + rings.RING] = self._segment.address + self._offset(lane, peer)
                self.words[block + rings.CAPACITY] = self._capacities[lane]
        mpi_table.set_mailbox(self.state)

    def _offset(self, lane: int, writer: int) -> int:
        """Where in an inbox the ring of a writer is."""
        return rings.LINE + writer * self._starts[-1] + self._starts[lane]

    # -- waking up -----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Load the compiled code, at the first message to or from this rank. Local."""
        if self._awake:
            return
        self._push_one = rings.Held("push_one", 5).load()
        self._push_parts = rings.Held("push_parts", 7).load()
        self._take = rings.Held("take", 2).load()
        self._look = rings.Held("look", 1).load()
        self._provide = rings.Held("provide", 5).load()
        self._post = rings.Held("post", 5).load()
        self._serve = rings.Held("serve_messages", 2).load()
        self._handle_far = rings.Held("handle_far", 5).load()
        self._awake = True

    def is_near(self, rank: int) -> bool:
        """Tell whether a rank of the world is on this node. Local."""
        return rank in self.place

    def connect(self, rank: int) -> None:
        """Find the rings to a rank of this node, and let it know that something may come. Local."""
        self.wake()
        peers, peer = len(self.ranks), self.place[rank]
        base = self._segment.base(rank)
        for lane in range(rings.LANES):
            block = rings.out_block(lane, peer, peers)
            self.words[block + rings.RING] = base + self._offset(lane, self.place[self.team.rank])
            self.words[block + rings.CAPACITY] = self._capacities[lane]
            self._outs[lane][rank] = self.state + rings.WORD * block
        self._segment.view(rank)[:8].view(np.int64)[0] = 1

    # -- sending -------------------------------------------------------------------------------------------------

    def post(self, rank: int, lane: int, tag: int, number: int, data: bytes) -> bool:
        """Send a message if there is room for it now and it is short. Local; no progress."""
        out = self._outs[lane].get(rank)
        if out is None:
            if not self.is_near(rank):
                return self._post_far(rank, lane, tag, number, [data])
            self.connect(rank)
            out = self._outs[lane][rank]
        return bool(self._push_one(out, tag, number, data, len(data)))

    def _post_far(self, rank: int, lane: int, tag: int, number: int, parts: Sequence[Any]) -> bool:
        assert self._parcels is not None
        header = _FAR_HEADER.pack(tag, number)
        return self._parcels.send(rank, [header, *parts], _far_lane(lane))

    def submit(self, rank: int, lane: int, message: Message) -> None:
        """Send a message, as much of it as there is room for; the rest follows within later progress. Local."""
        if self.is_near(rank) and rank not in self._outs[lane]:
            self.connect(rank)
        with self._sending:
            queue = self._queues.get((lane, rank))
            if queue is None:
                queue = self._queues[lane, rank] = Queue(lane, rank)
            self._hold(lane, rank, True)
            queue.messages.append(message)
            queue.nbytes += message.total
            self._write(queue)

    def offer(self, rank: int, lane: int, message: Message) -> bool:
        """Send a message unless there is no room for even its beginning, or others wait. Local; no progress."""
        if self.is_near(rank) and rank not in self._outs[lane]:
            self.connect(rank)
        with self._sending:
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
        """Let `post` refuse messages while others wait for room."""
        if rank in self.place:
            self.words[rings.out_block(lane, self.place[rank], len(self.ranks)) + rings.HELD] = int(hold)

    def _push(self, lane: int, rank: int, message: Message) -> None:
        """Write as much of a message as there is room for."""
        if rank in self.place:
            message.done = self._push_parts(
                self._outs[lane][rank],
                message.tag,
                message.number,
                message.table,
                len(message.parts),
                message.total,
                message.done,
            )
        elif self._post_far(rank, lane, message.tag, message.number, message.parts):
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
        if queue.lane == rings.CALL_REPLY:
            self._pause(queue.rank, queue.nbytes > MOST_QUEUED)
        return written

    def _pause(self, rank: int, hold: bool) -> None:
        """Let the requests of a rank wait while it does not read its replies."""
        if rank in self.place:
            peers = len(self.ranks)
            self.words[rings.in_block(rings.CALL, self.place[rank], peers) + rings.PAUSED] = int(hold)

    @property
    def queued(self) -> int:
        """How many bytes wait on this rank for room at others."""
        return sum(queue.nbytes for queue in list(self._queues.values()))

    def flush(self) -> bool:
        """Write queued messages for which there is room now; tell whether any was finished. Local."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            written = False
            for queue in list(self._queues.values()):
                written |= self._write(queue)
            return written
        finally:
            self._sending.release()

    # -- receiving -----------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Move queued messages and see whether any have arrived. Local; cheap when nothing has.

        Returns:
            Whether a queued message was sent.
        """
        if self._awake:
            self._seen = self._look(self.state)
        elif self._bell[0] != 0:
            self.wake()
        return self.flush() if self._queues else False

    @property
    def has_replies(self) -> bool:
        """Whether `look` has seen replies, or there may be some from other nodes."""
        return self._seen & _REPLIES != 0 or self._parcels is not None

    @property
    def has_requests(self) -> bool:
        """Whether `look` has seen requests, or there may be some from other nodes."""
        return self._seen & _REQUESTS != 0 or self._parcels is not None

    def take(self, lane: int) -> Received | None:
        """Return a message that has arrived in a lane; the caller holds `reading`. Local."""
        while True:
            event = self._take(self.state, lane) if self._awake else rings.NOTHING
            if event == rings.NOTHING:
                return self._take_far(lane) if self._parcels is not None else None
            peer, tag, number, length = self._found
            if event == rings.SMALL:
                return self.ranks[peer], tag, number, self._small[:length]
            if event == rings.ASSEMBLED:
                return self.ranks[peer], tag, number, memoryview(self._long.pop((lane, peer)))
            memory = self._long[lane, peer] = np.empty(length, np.uint8)
            self._provide(self.state, lane, peer, memory.ctypes.data, length)

    def _take_far(self, lane: int) -> Received | None:
        assert self._parcels is not None
        if lane == rings.CALL and self._far_waits():
            return None
        parcel = self._parcels.poll(_far_lane(lane))
        if parcel is None:
            return None
        rank, data = parcel
        tag, number = _FAR_HEADER.unpack_from(data)
        return rank, tag, number, data[_FAR_HEADER.size :]

    def _far_waits(self) -> bool:
        """Whether a rank of another node does not read its replies: parcels cannot be taken from the others alone."""
        return any(
            queue.nbytes > MOST_QUEUED
            for (lane, rank), queue in list(self._queues.items())
            if lane == rings.CALL_REPLY and rank not in self.place
        )

    # -- messages with compiled handlers -------------------------------------------------------------------------

    @property
    def handlers(self) -> int:
        """The lowest number that no handler of this rank, nor of a higher number, has."""
        return max(self._handled, default=-1) + 1

    def enter(self, number: int, entry: int, handled: Handled) -> int:
        """Enter a handler, so that messages with its number run it; return the number. Local.

        Raises:
            UsageError: there are too many.
        """
        if number >= MOST_HANDLERS:
            raise UsageError(f"more than {MOST_HANDLERS} active messages: make them once, not in a loop")
        ranks = np.array([handled.sources.get(rank, -1) for rank in self.ranks], np.int64)
        handled.context = (*handled.context, ranks)
        self._table[number] = (entry, handled.block.ctypes.data, ranks.ctypes.data, 0)
        self._handled[number] = handled
        self.wake()
        return number

    def post_message(self, rank: int, number: int, data: bytes) -> bool:
        """Send a message for a compiled handler if there is room for it now. Local; no progress."""
        place = self.place.get(rank)
        if place is not None:
            return bool(self._post(self.state, place, number, data, len(data)))
        sent = self._post_far(rank, rings.CALL, ACTIVE, number, [data])
        self.sent[rank] += sent
        return sent

    def queue_message(self, rank: int, number: int, data: bytes) -> None:
        """Send a message for a compiled handler on another node, or keep it until there is room. Local."""
        self._submit_far(rank, rings.CALL, number, data)

    def _submit_far(self, rank: int, lane: int, number: int, data: bytes) -> None:
        self.sent[rank] += 1
        message = Message(ACTIVE, number, [data or b"\0"])  # in a queue it has one byte at least
        self.submit(rank, lane, message)
        message.keep()

    @property
    def has_messages(self) -> bool:
        """Whether `look` has seen messages for compiled handlers, or one of them failed in compiled code."""
        return self._seen & _MESSAGES != 0 or bool(self._far_replies) or self._failed[0] != 0

    def serve_messages(self) -> bool:
        """Run the compiled handlers of messages that have arrived; tell whether there were any. Local.

        Raises:
            Exception: that of a handler.
        """
        while self._far_replies:
            self.handle_far(*self._far_replies.popleft(), is_reply=True)
        done = self._serve(self.state, rings.AT_ONCE)
        self._raise_failure()
        return bool(done)

    def keep_far_reply(self, rank: int, number: int, data: Any) -> None:
        """Keep a message that answers one of this rank's until user-level progress runs its handler. Local."""
        self._far_replies.append((rank, number, bytes(data)))

    def handle_far(self, rank: int, number: int, data: Any, *, is_reply: bool = False) -> None:
        """Run the compiled handler of a message from another node. Local."""
        handled, content = self._handled[number], bytes(data)
        place = 0 if is_reply else -1 - rank
        while not self._handle_far(self.state, number, place, handled.sources[rank], content):
            os.sched_yield()
        self.finished[rank] += 1
        self._raise_failure()
        answer, nbytes = self.words[rings.FAR_REPLY : rings.FAR_REPLY + 2].tolist()
        if answer:
            begin = rings.FAR_REPLY + 2
            self.words[rings.FAR_REPLY] = 0
            self._submit_far(rank, rings.CALL_REPLY, answer - 1, self.words[begin:].tobytes()[:nbytes])

    def _raise_failure(self) -> None:
        if self._failed[0]:
            handled = self._handled[self._failed[0] - 1]
            self._failed[0] = 0
            try:
                raise_from_block(handled.block.ctypes.data_as(ctypes.c_void_p), handled.name)
            finally:
                handled.block[:2] = 0

    def totals(self, ranks: Sequence[int]) -> tuple[int, int]:
        """Return how many messages this rank has sent to these ranks, and how many of theirs it has finished. Local."""
        sent, finished = sum(self.sent[rank] for rank in ranks), sum(self.finished[rank] for rank in ranks)
        peers = len(self.ranks)
        for rank in ranks:
            if self.is_near(rank):
                for lane in (rings.MESSAGE, rings.MESSAGE_REPLY):
                    sent += int(self.words[rings.out_block(lane, self.place[rank], peers) + rings.COUNT])
                    finished += int(self.words[rings.in_block(lane, self.place[rank], peers) + rings.COUNT])
        return sent, finished

    @property
    def reading(self) -> threading.Lock:
        """Held while a message is taken and its bytes are read."""
        return self._reading


def _far_lane(lane: int) -> int:
    return parcels.REQUESTS if lane == rings.CALL else parcels.REPLIES


def _capacities(peers: int) -> tuple[int, ...]:
    """Bytes of the ring of each lane, powers of two."""
    share = min(_LARGEST_RING, max(_SMALLEST_RING, _NODE_BYTES // peers))
    calls = 2 ** (share.bit_length() - 1)
    return (_MESSAGE_RING, _MESSAGE_RING, calls, calls)


def _starts(capacities: Sequence[int]) -> list[int]:
    """Where the rings of one writer start, and where those of the next one do."""
    starts = [0]
    for capacity in capacities:
        starts.append(starts[-1] + rings.LINE + capacity)
    return starts


def _node_ranks(team: Team) -> list[int]:
    return [rank for rank in range(team.size) if team.node_of(rank) == team.node_index]


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
