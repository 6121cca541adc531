"""Rings between nodes: each is in the memory of its writer and, once more, in that of its reader.

The writer writes records into its copy as into a ring of the node (see `rings`). What is new there travels to the same
place in the reader's copy, in messages of `sync.delivery`. These carry in return how far their sender has read in the
rings of the other direction, which is the credit of the writer there. So order, room for replies and what quiescence
counts are as on a node, and the same code writes and reads.

A rank hands at most `SLOTS` messages to another one to MPI at a time, with what is new in one of its queues each, the
queues in turn. What it writes meanwhile waits in its copy and then goes together. So a rank that does not receive holds
up nothing that goes to others.
"""

from __future__ import annotations

import mmap

import numpy as np

from gondwana.calls.rings import FAR_RING, HEADER, LINE, LONGEST_MESSAGE, QUEUES, WORD
from gondwana.compiler.native import Native
from gondwana.sync.delivery import CARGO_BEGIN, ROOM, SLOT, Delivery

OFFSET, FOLLOWING, QUEUE, NBYTES, READ = range(5)
CARGO = READ + QUEUES
"""Words of a message before its bytes: where they belong in the ring, where the next header will be, the queue, how
many there are; and how far each ring of the other direction has been read."""

LONGEST_RANGE = (ROOM - CARGO_BEGIN - WORD * CARGO) // HEADER * HEADER
"""Bytes of a ring that one message takes."""
assert LONGEST_MESSAGE + HEADER <= LONGEST_RANGE
SLOTS = 2

RING_BYTES, BUFFER_BYTES = LINE + FAR_RING, -(-ROOM // LINE) * LINE
SHARE = 2 * QUEUES * RING_BYTES + SLOTS * BUFFER_BYTES
"""Bytes of memory for a peer: its rings in both directions, and what is being sent to it."""

FORWARD_AT, CONNECTED, DELIVERY, INBOX, BELL, MEMORY, PLACES, OWING, PEERS = range(9)
"""Words of the state: machine code of `forward`; whether this rank has sent to another node or received anything; the
state of `Delivery`; that of the inbox; the address of the word that says that something has arrived; and of memory for
all peers, and of tables: the place of each rank of the world, whether something waits for a slot, the peers."""

WORLD_RANK, TURN, FIRST_SLOT = range(3)
PEER = FIRST_SLOT + SLOTS * SLOT // WORD
"""Words of a peer: its rank in the world, the queue whose turn it is, and slots. PASSED, in an OUT block, says how much
of what is written has gone to MPI, TOLD, in an IN block, how much the writer knows to be read."""

_MODULE = "gondwana.calls.far_rings_native"
_accept = Native(_MODULE, "accept", 3)
_resume = Native(_MODULE, "resume", 3)
_forward = Native(_MODULE, "forward", 3)
_connect = Native(_MODULE, "connect", 3)


class FarRings:
    """What carries the rings between this rank and those of other nodes. Local.

    Args:
        inbox: address of the state of the inbox.
        places: the place of each rank of the world; those of this node come first.
        near: how many those are.
        bell: address of the word that says that something has arrived.
        delivery: carries what is written.
    """

    def __init__(self, inbox: int, places: dict[int, int], near: int, bell: int, delivery: Delivery) -> None:
        far = len(places) - near
        self._places = np.array([places[rank] for rank in range(len(places))], np.int64)
        self._owing = np.zeros(far, np.int64)
        self._peers = np.zeros((far, PEER), np.int64)
        self._peers[:, WORLD_RANK] = list(places)[near:]
        # Address space, which becomes memory where it is used.
        self._memory = mmap.mmap(-1, far * SHARE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_NOHUGEPAGE)  # or the first byte of a ring would take 2 MiB
        self._words = np.zeros(PEERS + 1, np.int64)
        self._words[DELIVERY : BELL + 1] = delivery.state, inbox, bell
        tables = np.frombuffer(self._memory, np.uint8), self._places, self._owing, self._peers
        self._words[MEMORY:] = [table.ctypes.data for table in tables]
        self.state = self._words.ctypes.data
        self._delivery = delivery
        delivery.carry(self.state, _accept, _resume)

    def link(self) -> None:
        """Load the machine code by which this rank sends. Local."""
        self._delivery.link()
        self._words[FORWARD_AT] = _forward.address

    def connect(self, place: int) -> None:
        """Lay out the rings to and from a rank of another node. Local."""
        _connect.call(self.state, place, 0)

    def receive(self) -> None:
        """Take what has arrived. Local."""
        self._delivery.apply()
