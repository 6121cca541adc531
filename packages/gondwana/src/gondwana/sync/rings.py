"""The memory layout of the rings that carry messages between two ranks.

A ring is a queue of bytes with one writer and one reader, in the memory of the reader: a line that holds how many bytes
the reader has consumed (HEAD), then the data. A record is a header of two words and a payload, contiguous, on multiples
of 16 bytes. Its first word is written last: the reader waits for it to become non-zero, so that a short message costs
one transfer of a cache line and no counter is shared. Before a record appears, the writer clears the header behind it,
which the reader polls next; a record that does not fit before the end of the ring is preceded by a SKIP record.

Each side keeps its own state of a ring (an OUT or an IN block) in private memory. An inbox has a ring for each queue
and each rank of the node, the rank itself included. A ring between nodes exists twice, at its writer and at its reader:
see `delivery`. Addresses are integers; nothing here needs Numba.
"""

from __future__ import annotations

from typing import Any

from gondwana.compiler.native import Native

LINE = 128
BELL_AT = 64
"""Offset of the bell of a rank in its inbox: see `runtime.idle`. The first word says whether anything has arrived."""
WORD = 8
HEADER = 16

# The queues: active messages and remote calls, each with a queue of its own for replies, which are always read.
MESSAGE, MESSAGE_REPLY, CALL, CALL_REPLY = range(4)
QUEUES = 4

# Bits of the first word of a header: the length, the kind of record, a tag that belongs to the layer above.
KIND_SHIFT, TAG_SHIFT = 32, 40
WHOLE, FIRST, MORE, SKIP = 1, 2, 3, 4

# Words of an OUT and of an IN block. RING is 0 where nothing has been sent or has come yet. COUNT is of messages that
# machine code has sent, or finished, which nobody else counts; HELD is set while others wait, which must go first. BELL
# is the address of the reader's bell, 0 if there is none. For other nodes (see `delivery`): PASSED, how much of what is
# written has gone to MPI; TOLD, how much the writer knows to be read; CARRIER, the address of the state of the wire, 0
# on the node; and RANK, that of the peer in the world.
RING, CAPACITY, COUNT, TAIL, SEEN, HELD = range(6)
BELL = 9
HEAD, INTO, SIZE, MISSING, EXPECTED, PAUSED = range(3, 9)
PASSED = TOLD = 10
CARRIER, RANK = 11, 12
BLOCK = 16

# Words of the state of an inbox, before its OUT and IN blocks. PEERS have blocks, of which the first NEAR are on this
# node. SOURCE is the place of the rank whose message a handler runs for, plus one, until it has replied. FAR is the
# address of the state of the wire once this rank has to do with other nodes, else 0.
PEERS, POLLING, SENDING, SOURCE, FAILED, HANDLERS, BUFFER, FAR = range(8)
# What `take` reports about the message that it found, and whether there are others.
PEER, TAG, NUMBER, LENGTH, MORE_CAME = range(8, 13)
NEXT = 13  # one word per queue: the peer whose turn it is
CAME = NEXT + QUEUES  # one word per queue: whether there may be something from other nodes
NEAR = CAME + QUEUES
ORDER = NEAR + 1  # address of the log of events (see `runtime.ordering`), 0 without one
BLOCKS = 32  # where the OUT blocks begin; the IN blocks follow

MESSAGE_RING = 2**16
"""Bytes of a ring for active messages, or for their replies, on a node."""
FAR_RING = 2**17
"""Bytes of a ring between nodes."""
LONGEST_MESSAGE = MESSAGE_RING // 2 - 2 * HEADER
"""Bytes of the longest active message, its numbers and its payload, and of any record between nodes."""
CREDIT = FAR_RING // 4
"""Bytes that are read of a ring before a writer on another node is told: any record fits the other three quarters."""
ARGUMENTS = 16
"""Words of numbers that an active message has at most."""

MOST_PER_POLL = 64
"""Messages of one peer whose handlers one poll runs at most."""

# Events of `take`.
NOTHING, SMALL, WANTED, ASSEMBLED = range(4)
SMALL_BYTES = 2**13
"""Payloads up to this are copied to the buffer of the inbox; for longer ones, and so for all that have arrays beside
their pickle, the reader provides memory."""
BRIEF_BYTES = 2**15
"""Payloads up to this are read, and written, by the machine code of brief calls."""

# Words of an entry of the table of handlers: addresses of the machine code, of the context and of the ranks in the team
# by their places; and the bytes of the longest reply, -1 if it never replies.
ENTRY, CONTEXT, RANKS, LONGEST_REPLY, HANDLER = range(5)


def out_block(queue: int, peer: int, peers: int) -> int:
    """Return the offset, in words, of the OUT block of a queue to a peer. Local."""
    return BLOCKS + (queue * peers + peer) * BLOCK


def in_block(queue: int, peer: int, peers: int) -> int:
    """Return the offset, in words, of the IN block of a queue from a peer. Local."""
    return out_block(QUEUES + queue, peer, peers)


def state_words(peers: int) -> int:
    """Return the number of words of the state of an inbox. Local."""
    return out_block(2 * QUEUES, 0, peers)


def native(name: str, arguments: int, objects: int = 0) -> Any:
    """Return a function of the machine code of rings; it keeps the GIL, which excludes other Python threads. Local."""
    return Native("gondwana.sync.rings_native", name, arguments, brief=True, objects=objects).call
