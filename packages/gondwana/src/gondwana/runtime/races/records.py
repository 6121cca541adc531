"""The records that ranks send to the race detector: words of 64 bits, the first of which says what follows.

The first word has the kind (8 bits), the number of words in all (8 bits), the stream (16 bits) and the site (32 bits).
A stream is a thread of control of a rank, or what an operation under way does beside it; the site is the number of a
text that the rank has sent before.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

VARIABLE = "GONDWANA_RACES"
"""Name of the variable with the secret and the addresses of the detector; if it is set, ranks report."""
VARIABLE_OF_JOB = "GONDWANA_RACES_OF_JOB"
"""Name of the variable in which the detector itself, which is no rank, finds that."""


class Kind(enum.IntEnum):
    """The kinds of records, with the words behind the first."""

    TEXT = 1
    """A JSON value: its bytes, then as many words as they fill."""
    READ = 2
    """Elements of a segment: key, rank in the world, offset [bytes], bytes of an element, then for each axis the number
    of elements and the distance [bytes]."""
    WRITE = 3
    """The same."""
    ATOMIC = 4
    """An atomic operation on a word: key, rank in the world, offset, bytes, the value after it, the value before it,
    and what it does: see `WRITES`."""
    FORK = 5
    """A stream begins with all that this one has done: its number, and for a thread of a launch that of the thread."""
    JOIN = 6
    """All that a stream has done is done for this one: its number."""
    POST = 7
    """What this stream has done can be taken by a name of two words."""
    TAKE = 8
    """Go on behind what was posted by a name: the name, the number of those who do so, 0 for any."""
    ADD = 9
    """Arrivals of a signal: key of the segment, rank in the world, channel, number."""
    WAIT = 10
    """Consumed arrivals: key of the segment, rank in the world, channel, number."""
    ENTER = 11
    """A collective begins: the team, who orders whom (`ALL`, `FROM`, `TO`), the root in the team, the number of the
    request or 0."""
    LEAVE = 12
    """A collective ends: the team, the number of the request or 0."""
    SEND = 13
    """A message to a rank of a team: the team, the rank, the tag."""
    EXPECT = 14
    """A receive begins: the team, the rank, the tag, the number of the request or 0."""
    START = 15
    """A round of a plan begins: the plan."""
    FINISH = 16
    """The last round of a plan has ended: the plan."""
    RESET = 17
    """Memory is new: key, rank in the world, offset, bytes."""
    RECEIVE = 18
    """A receive ends: the number of the request or 0."""
    FREE = 20
    """A rank will not use a segment any more: key."""
    INTEND = 21
    """An atomic operation is about to set a word: key, rank in the world, offset. An `ATOMIC` record follows."""
    SET = 22
    """A slot of a team of threads, or its barrier, is set: its number, the value, whether that follows the last one."""
    REACH = 23
    """Go on behind who has set it to at least a value: its number, the value."""


BARRIER = -1
"""Number of the barrier of a team of threads in `SET` and `REACH`: its value is how often threads have arrived."""

MAIN, CALLS, FIRST_OPERATION = 0, 1, 2
"""The stream of the program itself, with its tasks and threads, that of what it runs for other ranks, and the first of
those of operations under way."""

ALL, FROM, TO = range(3)
"""Who orders whom in a collective: all all, the root the others, the others the root."""

READS, WRITES, UPDATES = 1, 2, 4
"""What an atomic operation does to its word: it returns the old value, sets it, makes a new value of the old one."""

HEAD_SHIFTS = LENGTH, STREAM, SITE = 8, 16, 32
"""Places of the parts of the first word behind the kind."""

WORD = 8
MOST_AXES = 8
"""The most axes of the elements in a record."""

MUTEX, USED, ROOM, DESCRIPTOR, DATA = 0, 64, 72, 80, 128
"""Bytes from the start of a rank's buffer to its mutex, the number of bytes in it, its capacity, the descriptor of the
socket, and the records: as compiled code finds them."""


class Box(NamedTuple):
    """Elements of a segment.

    Attributes:
        key: key of the segment.
        rank: rank in the world that has them.
        offset: bytes from the start of its part to the first element.
        item: bytes of an element.
        axes: number of elements and bytes from one to the next, for each axis.
    """

    key: int
    rank: int
    offset: int
    item: int
    axes: tuple[tuple[int, int], ...]


pack = {count: struct.Struct(f"{count}q").pack_into for count in range(1, 5 + 2 * MOST_AXES + 1)}
"""Functions that write so many words into memory."""


def head(kind: int, words: int, stream: int, site: int) -> int:
    """Return the first word of a record. Pure."""
    return kind | words << LENGTH | stream << STREAM | site << SITE
