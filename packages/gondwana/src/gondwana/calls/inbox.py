"""The inbox of this rank: the rings from and to all ranks, and the compiled functions that write and read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.mpi import table
from gondwana.memory.segment import Segment
from gondwana.runtime import idle, ordering
from gondwana.runtime.later import ComputedOnce
from gondwana.sync import delivery, rings
from gondwana.sync.rings import NOTHING, SMALL
from gondwana.teams import Team

_NODE_BYTES = 8 * 2**20
_SMALLEST_RING, _LARGEST_RING = 2**15, 2**18
_MOMENT = 60
"""Rings at which a waiting rank looks in a microsecond: four of each peer at each poll."""
_LOOK_OF_MPI = 8
"""Peers at whose rings a rank looks in the time of a look for messages of other nodes."""

Found = tuple[int, int, int, Any]
"""A message: the rank in the world that sent it, its tag, its number, and its bytes, valid until the next is taken.
The buffer may be longer than the message."""


class Inbox:
    """The rings in which this rank writes to the others and they to it.

    Those of ranks of the node are memory that both share, the others are carried (see `sync.delivery`). Collective
    over the world to create; everything else is local.

    Args:
        team: the world.

    Attributes:
        ranks: the ranks of the world by their places in tables of compiled code: those of this node come first.
        near: how many of them are on this node.
        place: index of each rank in `ranks`.
        words: the state that compiled code works on.
        state: the address of `words`.
        awake: whether this rank has sent or received anything by a ring.
        more: whether there was another message behind the one taken last.
        outs: of each queue, the addresses of the OUT blocks to ranks that this one has sent to.
        push: the machine code that writes a message; there once this rank has sent.
    """

    def __init__(self, team: Team) -> None:
        self._own = team.rank
        near = [rank for rank in range(team.size) if team.node_of(rank) == team.node_index]
        self.ranks = (*near, *(rank for rank in range(team.size) if team.node_of(rank) != team.node_index))
        self.near = len(near)
        self.place = {rank: place for place, rank in enumerate(self.ranks)}
        self._capacities = _capacities(self.near)
        self._starts = _starts(self._capacities)
        self._segment = Segment(team, rings.LINE + self.near * self._starts[-1], window=False)
        self._bell = self._segment.view(team.rank)[:8].data.cast("B").cast("q")
        self.awake = False
        self.outs: list[dict[int, int]] = [{} for _ in range(rings.QUEUES)]
        self._long: dict[tuple[int, int], Any] = {}
        self.words = np.zeros(rings.state_words(len(self.ranks)), np.int64)
        self.state = self.words.ctypes.data
        self._found = self.words.data[rings.PEER : rings.LENGTH + 1]
        self.more = self.words.data[rings.MORE_CAME : rings.MORE_CAME + 1]
        self._buffer = np.zeros(rings.SMALL_BYTES, np.uint8)
        self._small = self._buffer.data
        self._far = delivery.opened()
        self._polls = 1 + _MOMENT // (self.near + _LOOK_OF_MPI * (self.near < team.size))
        self._lay_out()

    def _lay_out(self) -> None:
        idle.install(self._segment.view(self._own)[rings.BELL_AT :][:8].data.cast("B").cast("q"))
        self.words[rings.PEERS], self.words[rings.NEAR] = len(self.ranks), self.near
        self.words[rings.BUFFER] = self._buffer.ctypes.data
        for queue in range(rings.QUEUES):
            for rank in self.ranks[: self.near]:
                block = self.in_block(queue, rank)
                self.words[block + rings.RING] = self._segment.address + self._offset(queue, self.place[rank])
                self.words[block + rings.CAPACITY] = self._capacities[queue]
        if self._far is not None:
            self._far.join(self.state, self.place, self._segment.address)
        if ordering.log is not None:
            ordering.log.connected(len(self.ranks), self.near)
            self.words[rings.ORDER] = ordering.log.address
        table.set_mailbox(self.state)

    def _offset(self, queue: int, writer: int) -> int:
        """Return the offset of a writer's ring in an inbox."""
        return rings.LINE + writer * self._starts[-1] + self._starts[queue]

    @ComputedOnce
    def bells(self) -> npt.NDArray[np.int64]:
        """The number of the ranks of this node and the addresses of their bells, for compiled code."""
        near = self.ranks[: self.near]
        return np.array([self.near, *[self._segment.base(rank) + rings.BELL_AT for rank in near]], np.int64)

    def is_near(self, rank: int) -> bool:
        """Return whether a rank of the world is on this node. Local."""
        return self.place[rank] < self.near

    def wake(self) -> None:
        """Load the compiled functions, at the first message to or from this rank. Local."""
        if not self.awake:
            self.push = rings.native("push_one", 4, objects=1)
            self._push_parts = rings.native("push_parts", 7)
            self._has_room = rings.native("has_room", 2)
            self._take = rings.native("take", 2)
            self._poll = rings.native("poll", 1)
            self._watch = rings.native("watch", 2)
            self._provide = rings.native("provide", 5)
            if self._far is not None:
                self._far.link()
            self.awake = True

    def connect(self, rank: int) -> None:
        """Prepare the rings to a rank; notify one of this node that messages may come. Local."""
        if rank in self.outs[0]:
            return
        self.wake()
        if self._far is not None and not self.is_near(rank):
            self._far.connect(rank)
        else:
            self._map(rank)
        for queue in range(rings.QUEUES):
            self.outs[queue][rank] = self.state + rings.WORD * self.out_block(queue, rank)

    def _map(self, rank: int) -> None:
        base = self._segment.base(rank)
        for queue in range(rings.QUEUES):
            block = self.out_block(queue, rank)
            self.words[block + rings.RING] = base + self._offset(queue, self.place[self._own])
            self.words[block + rings.CAPACITY] = self._capacities[queue]
            self.words[block + rings.BELL] = base + rings.BELL_AT
        self._segment.view(rank)[:8].view(np.int64)[0] = 1

    def out_block(self, queue: int, rank: int) -> int:
        """Return the index in `words` of the OUT block of a queue to a rank. Local."""
        return rings.out_block(queue, self.place[rank], len(self.ranks))

    def in_block(self, queue: int, rank: int) -> int:
        """Return the index in `words` of the IN block of a queue from a rank. Local."""
        return rings.in_block(queue, self.place[rank], len(self.ranks))

    def pause(self, rank: int, pause: bool) -> None:
        """Leave the calls of a rank in their ring from now on, or take them again. Local."""
        word = self.in_block(rings.CALL, rank) + rings.PAUSED
        if self.words[word] != pause:
            self.words[word] = pause
            if not self.is_near(rank):
                self.words[rings.CAME + rings.CALL] = 1  # or what waits there would not be looked for

    def totals(self, ranks: Sequence[int]) -> tuple[int, int]:
        """Return how many messages machine code has sent to some ranks, and finished of theirs. Local."""
        blocks = [(queue, rank) for rank in ranks for queue in range(rings.QUEUES)]
        sent = sum(int(self.words[self.out_block(*block) + rings.COUNT]) for block in blocks)
        return sent, sum(int(self.words[self.in_block(*block) + rings.COUNT]) for block in blocks)

    def push_one(self, rank: int, queue: int, tag: int, number: int, data: bytes) -> bool:
        """Write a message if it fits a record, there is room for it now, and no others wait. Local; no progress."""
        out = self.outs[queue].get(rank)
        if out is None:
            self.connect(rank)
            out = self.outs[queue][rank]
        return bool(self.push(out, tag, number, data))

    def has_room(self, rank: int, queue: int) -> bool:
        """Return whether the ring to a rank of another node has room for any record now. Local."""
        self.connect(rank)
        return bool(self._has_room(self.outs[queue][rank], rings.LONGEST_MESSAGE))

    def push_parts(self, rank: int, queue: int, tag: int, number: int, parts: tuple[int, int, int], done: int) -> int:
        """Continue writing a message of several parts; return how many of its bytes are written. Local.

        Args:
            rank: the receiver.
            queue: of the message.
            tag: of the message.
            number: of the message.
            parts: address of the table of its parts, their number, and their total bytes; to another node, at most
                `rings.LONGEST_MESSAGE`.
            done: the number of bytes written before.
        """
        self.connect(rank)
        return int(self._push_parts(self.outs[queue][rank], tag, number, *parts, done))

    def poll(self) -> int:
        """Return a bit for each queue that has something to read. Local; cheap if nothing has ever arrived."""
        if self.awake:
            seen: int = self._poll(self.state)
            return seen
        if self._bell[0] != 0:
            self.wake()
        return 0

    def receive(self) -> None:
        """Take what other nodes have sent. Local."""
        if self._far is not None:
            self._far.apply()

    def watch(self) -> bool:
        """Return whether something comes within about a microsecond. Local."""
        return self.awake and self._watch(self.state, self._polls) != 0

    def take(self, queue: int) -> Found | None:
        """Return a message that has arrived in a queue, None if there is none. Local."""
        while self.awake:
            event = self._take(self.state, queue)
            if event == NOTHING:
                return None
            peer, tag, number, length = self._found
            if event == SMALL:
                return self.ranks[peer], tag, number, self._small
            if event == rings.ASSEMBLED:
                return self.ranks[peer], tag, number, self._long.pop((queue, peer)).data
            memory = self._long[queue, peer] = np.empty(length, np.uint8)
            self._provide(self.state, queue, peer, memory.ctypes.data, length)
        return None


def _capacities(peers: int) -> tuple[int, ...]:
    """Return the bytes of the ring of each queue, powers of two."""
    share = min(_LARGEST_RING, max(_SMALLEST_RING, _NODE_BYTES // peers))
    calls = 2 ** (share.bit_length() - 1)
    return (rings.MESSAGE_RING, rings.MESSAGE_RING, calls, calls)


def _starts(capacities: Sequence[int]) -> list[int]:
    """Return the offsets of the rings of one writer, and of the first ring of the next writer."""
    starts = [0]
    for capacity in capacities:
        starts.append(starts[-1] + rings.LINE + capacity)
    return starts
