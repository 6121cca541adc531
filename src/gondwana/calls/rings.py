"""Where everything lies in the rings that carry messages between two ranks of a node.

A ring is a queue of bytes with one writer and one reader, in the memory of the reader: a line that holds how many bytes
the reader has consumed (HEAD), then the data. A record is a header of two words and a payload, contiguous, on multiples
of 16 bytes. Its first word is written last: the reader waits for it to become non-zero, so that a short message costs
one transfer of a cache line and no counter is shared. Before a record appears, the writer clears the header behind it,
where the reader will look next; a record that does not fit before the end of the ring is preceded by one that says so.

Each side keeps its own state of a ring (an OUT or an IN block) in private memory. One inbox has a ring for each lane
and each rank of the node, the rank itself included. Addresses are integers; nothing here needs Numba.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gondwana.compiler.native import Native

LINE = 128
WORD = 8
HEADER = 16

# The lanes: messages with compiled handlers and remote calls, each with a lane for replies, which are always read.
MESSAGE, MESSAGE_REPLY, CALL, CALL_REPLY = range(4)
LANES = 4

# Bits of the first word of a header: the length, the kind of record, a tag that belongs to the layer above.
KIND_SHIFT, TAG_SHIFT = 32, 40
WHOLE, FIRST, MORE, SKIP = 1, 2, 3, 4

# Words of an OUT and of an IN block. COUNT is of messages; HELD says that others wait, which must go first.
RING, CAPACITY, COUNT, TAIL, SEEN, HELD = range(6)
HEAD, INTO, SIZE, MISSING, EXPECTED, PAUSED = range(3, 9)
BLOCK = 16

# Words of the state of an inbox, before its OUT and IN blocks.
PEERS, POLLING, SENDING, SOURCE, FAILED, HANDLERS, BUFFER, START = range(8)
# What `take` says about the message that it found, and whether there are others.
PEER, TAG, NUMBER, LENGTH, MORE_CAME = range(8, 13)
NEXT = 13  # one word a lane: the peer whose turn it is
FAR_REPLY = 17  # a reply to a rank of another node: number + 1 or 0, bytes, up to ARGUMENTS words
ARGUMENTS = 16
BLOCKS = 48  # where the OUT blocks begin; the IN blocks follow

AT_ONCE = 64
"""Messages of one peer whose handlers one poll runs."""

# Events of `take`.
NOTHING, SMALL, WANTED, ASSEMBLED = range(4)
SMALL_BYTES = 4096
"""Payloads up to this are copied to the buffer of the inbox; for longer ones the reader provides memory."""

# Words of an entry of the table of handlers.
ENTRY, CONTEXT, RANKS, HANDLER = 0, 1, 2, 4


def out_block(lane: int, peer: int, peers: int) -> int:
    """Return the place, in words, of the OUT block of a lane to a peer. Local."""
    return BLOCKS + (lane * peers + peer) * BLOCK


def in_block(lane: int, peer: int, peers: int) -> int:
    """Return the place, in words, of the IN block of a lane from a peer. Local."""
    return out_block(LANES + lane, peer, peers)


def state_words(peers: int) -> int:
    """Return how many words the state of an inbox has. Local."""
    return out_block(2 * LANES, 0, peers)


class Held:
    """A compiled function that is called with the GIL held: shorter, and Python threads take turns. Local.

    Args:
        name: the function in `native_rings`.
        arguments: how many integers it takes; where one stands for an address, bytes will do as well.
    """

    def __init__(self, name: str, arguments: int) -> None:
        self._native = Native("gondwana.calls.rings_native", name, arguments)

    def load(self) -> Any:
        """Return the C function, compiled or loaded at the first use. Local."""
        address = ctypes.cast(self._native.call, ctypes.c_void_p).value or 0
        return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * self._native.arguments)(address)
