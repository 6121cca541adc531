"""Rings for active messages between nodes: each is in the memory of its writer and, once more, in that of its reader.

The writer writes records into its copy as into a ring of the node (see `rings`). What is new there travels to the same
place in the reader's copy, in messages of `sync.delivery`. These carry in return how far their sender has read in the
rings of the other direction, which is the credit of the writer there. So order, room for replies and what quiescence
counts are as on a node, and the same code runs the handlers.

A rank hands at most `SLOTS` messages to another one to MPI at a time. What it writes meanwhile waits in its copy and
then goes together. So a rank that does not receive holds up nothing that goes to others.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np

from gondwana.calls.rings import BLOCK, CAPACITY, COUNT, HEADER, LINE, MESSAGE_RING, RING, WORD
from gondwana.compiler.native import Native
from gondwana.sync.delivery import BUFFER, CARGO_BEGIN, ROOM, SLOT, Delivery

QUEUES = 2
"""The queues of `rings` that lead to other nodes: active messages and their replies."""

OFFSET, FOLLOWING, QUEUE, NBYTES, READ = range(5)
CARGO = READ + QUEUES
"""Words of a message before its bytes: where they belong in the ring, where the next header will be, the queue, how
many there are; and how far each ring of the other direction has been read."""

LONGEST_RANGE = (ROOM - CARGO_BEGIN - WORD * CARGO) // HEADER * HEADER
"""Bytes of a ring that one message takes."""
LONGEST_MESSAGE = LONGEST_RANGE - HEADER
"""Bytes of the longest active message, its numbers and its payload, between nodes."""
CREDIT = MESSAGE_RING // 4
"""Bytes that are read of a ring before its writer is told: with the other three quarters any record fits."""
SLOTS = 2

DELIVERY, CAME, FORWARD_AT, SERVE_AT, RANKS, PLACES, COMING, OWING, PEERS = range(9)
"""Words of the state: the state of `Delivery`; whether anything has come; machine code of `forward` and `serve_far`,
which compiled code calls; the number of ranks of other nodes; addresses of tables: the places of all ranks of the
world, negative on this node; of each place whether something has come, and whether something waits for a slot; and of
the peers."""

WORLD_RANK, FIRST_SLOT, OUT = 0, 1, 8
IN = OUT + QUEUES * BLOCK
PEER = IN + QUEUES * BLOCK
"""Words of a peer: its rank in the world, `SLOTS` slots, and its OUT and IN blocks (see `rings`). PASSED, in an OUT
block, says how much of what is written has gone to MPI, TOLD, in an IN block, how much the writer knows to be read."""

_MODULE = "gondwana.calls.active_messages.far_rings_native"
_accept = Native(_MODULE, "accept", 3)
_resume = Native(_MODULE, "resume", 3)
_forward = Native(_MODULE, "forward", 3)
_serve = Native(_MODULE, "serve_far", 3)


class FarRings:
    """The rings between this rank and those of other nodes. Local.

    Args:
        ranks: of the world, on other nodes.
        size: the number of ranks in the world.
        delivery: carries what is written.

    Attributes:
        place: index of each rank in `ranks`.
        state: address of the words that compiled code works on.
        came: whether there may be something to read.
    """

    def __init__(self, ranks: Sequence[int], size: int, delivery: Delivery) -> None:
        self.place = {rank: place for place, rank in enumerate(ranks)}
        self._places = np.full(size, -1, np.int64)
        self._places[list(ranks)] = np.arange(len(ranks))
        self._flags = np.zeros((2, len(ranks)), np.int64)
        self._peers = np.zeros((len(ranks), PEER), np.int64)
        self._peers[:, WORLD_RANK] = ranks
        self._lay_out()
        self._words = np.zeros(PEERS + 1, np.int64)
        self._words[[DELIVERY, RANKS]] = delivery.state, len(ranks)
        self._words[[FORWARD_AT, SERVE_AT]] = _forward.address, _serve.address
        tables = self._places, self._flags[0], self._flags[1], self._peers
        self._words[PLACES:] = [table.ctypes.data for table in tables]
        self.state = self._words.ctypes.data
        self.came = self._words.data[CAME : CAME + 1]
        self._delivery = delivery
        delivery.carry(self.state, _accept.address, _resume.address)

    def _lay_out(self) -> None:
        """Take address space for the rings and buffers of all peers, which become memory where they are used."""
        ring, buffer = LINE + MESSAGE_RING, -(-ROOM // LINE) * LINE
        share = 2 * QUEUES * ring + SLOTS * buffer
        memory = mmap.mmap(-1, len(self._peers) * share, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # or the first byte of a ring would take 2 MiB
        self._memory = np.frombuffer(memory, np.uint8)
        first = self._memory.ctypes.data + share * np.arange(len(self._peers))
        for block in range(2 * QUEUES):
            self._peers[:, OUT + block * BLOCK + RING] = first + block * ring
            self._peers[:, OUT + block * BLOCK + CAPACITY] = MESSAGE_RING
        for slot in range(SLOTS):
            word = FIRST_SLOT + (slot * SLOT + BUFFER) // WORD
            self._peers[:, word] = first + 2 * QUEUES * ring + slot * buffer

    def receive(self) -> None:
        """Take what has arrived; run no handlers. Local."""
        self._delivery.apply()

    def totals(self, rank: int) -> tuple[int, int]:
        """Return how many messages this rank has sent to a rank of another node and handled from it. Local."""
        counts = self._peers[self.place[rank], OUT + COUNT :: BLOCK]
        return int(counts[:QUEUES].sum()), int(counts[QUEUES:].sum())
