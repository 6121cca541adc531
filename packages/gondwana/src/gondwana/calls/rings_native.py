"""Writing and reading rings (see `rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.calls.rings import (
    ASSEMBLED,
    BELL,
    BLOCK,
    BLOCKS,
    BUFFER,
    CAPACITY,
    COUNT,
    EXPECTED,
    FIRST,
    HEAD,
    HEADER,
    HELD,
    INTO,
    KIND_SHIFT,
    LENGTH,
    LINE,
    MISSING,
    MORE,
    MORE_CAME,
    NEXT,
    NOTHING,
    NUMBER,
    PAUSED,
    PEER,
    PEERS,
    QUEUES,
    RING,
    SEEN,
    SIZE,
    SKIP,
    SMALL,
    SMALL_BYTES,
    TAG,
    TAG_SHIFT,
    TAIL,
    WANTED,
    WHOLE,
    WORD,
)
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
    atomic_load,
    atomic_store,
    exchange,
    futex_wake,
    load_acquire,
    load_word,
    move_bytes,
    pause,
    store_release,
)
from gondwana.compiler.native import BYTES_AT, LENGTH_AT

LENGTH_BITS = (1 << KIND_SHIFT) - 1
KIND_BITS = (1 << (TAG_SHIFT - KIND_SHIFT)) - 1
"""Of the first word of a header, shifted: the length, the kind."""


@inlined
def at(block: int, word: int) -> int:
    """Read a word of a block."""
    return load_word(block + WORD * word)  # type: ignore[no-any-return]


@inlined
def put_at(block: int, word: int, value: int) -> None:
    """Write a word of a block."""
    store_release(block + WORD * word, value)


@inlined
def ring_bell(bell: int) -> bool:
    """Wake the rank whose bell this is if it sleeps (see `runtime.idle`); return whether it did."""
    if atomic_load(bell, 0) == 0 or exchange(bell, 0) == 0:
        return False
    futex_wake(bell, 1)
    return True


@inlined
def padded(size: int) -> int:
    """Return the bytes that a payload takes in a ring."""
    return (size + HEADER - 1) & ~(HEADER - 1)


# -- the writer ---------------------------------------------------------------------------------------------------


@inlined
def reserve(out: int, size: int) -> int:
    """Return the address for a record with a payload of `size` bytes, 0 if there is no room now.

    It must fit half of the ring: then there is room for it in an empty ring wherever it begins.
    """
    capacity = at(out, CAPACITY)
    tail = at(out, TAIL)
    need = HEADER + padded(size)
    offset = tail & (capacity - 1)
    skipped = capacity - offset if offset + need > capacity else 0
    end = tail + skipped + need + HEADER  # the header behind it, which is to be cleared, included
    ring = at(out, RING)
    if end - at(out, SEEN) > capacity:
        put_at(out, SEEN, load_acquire(ring))
        if end - at(out, SEEN) > capacity:
            return 0
    return ring + LINE + (0 if skipped else offset)  # type: ignore[no-any-return]


@inlined
def publish(out: int, record: int, size: int, kind: int, tag: int, number: int) -> None:
    """Publish a record whose payload has been written to the reader."""
    capacity = at(out, CAPACITY)
    tail = at(out, TAIL)
    data = at(out, RING) + LINE
    offset = tail & (capacity - 1)
    need = HEADER + padded(size)
    store_release(data + ((record - data + need) & (capacity - 1)), 0)
    store_release(record + WORD, number)
    atomic_store(record, size | kind << KIND_SHIFT | tag << TAG_SHIFT)
    skipped = 0
    if record != data + offset:
        skipped = capacity - offset
        atomic_store(data + offset, skipped | SKIP << KIND_SHIFT)
    put_at(out, TAIL, tail + skipped + need)
    bell = at(out, BELL)
    if bell != 0:
        ring_bell(bell)


def push_one(out: int, tag: int, number: int, data: int) -> int:
    """Write a message that is a bytes object, if it fits half the ring; return 1, or 0 if there is no room now."""
    size = load_word(data + LENGTH_AT)
    if size > at(out, CAPACITY) // 2 - 2 * HEADER or at(out, HELD) != 0:
        return 0
    record = reserve(out, size)
    if record == 0:
        return 0
    move_bytes(record + HEADER, data + BYTES_AT, size)
    publish(out, record, size, WHOLE, tag, number)
    put_at(out, COUNT, at(out, COUNT) + 1)
    return 1


@inlined
def _gather(target: int, parts: int, count: int, done: int, size: int) -> None:
    """Copy bytes [done, done + size) of the concatenated parts, which are pairs (address, length)."""
    part = 0
    while size > 0 and part < count:
        length = at(parts, 2 * part + 1)
        if done < length:
            left = length - done
            step = size if size < left else left  # min() would need Numba at run time
            move_bytes(target, at(parts, 2 * part) + done, step)
            target += step
            size -= step
            done = 0
        else:
            done -= length
        part += 1


def push_parts(out: int, tag: int, number: int, parts: int, count: int, total: int, done: int) -> int:
    """Continue writing a message of several parts, of which `done` bytes are written; return how many are now.

    What does not fit half of the ring goes in fragments of a quarter. The number travels in the header; in the first
    fragment the total length has that place.
    """
    whole = at(out, CAPACITY) // 2 - 2 * HEADER
    largest = whole if total <= whole else at(out, CAPACITY) // 4 - HEADER
    while done < total:
        left = total - done
        size = largest if largest < left else left
        record = reserve(out, size)
        if record == 0:
            return done
        _gather(record + HEADER, parts, count, done, size)
        if total <= whole:
            publish(out, record, size, WHOLE, tag, number)
        elif done == 0:
            publish(out, record, size, FIRST, tag, total)
        else:
            publish(out, record, size, MORE, tag, number)
        done += size
    put_at(out, COUNT, at(out, COUNT) + 1)
    return done


# -- the reader ---------------------------------------------------------------------------------------------------


@inlined
def blocks_of(state: int, index: int) -> int:
    """Return the address of the blocks of a queue to (queue) or from (QUEUES + queue) all peers."""
    return state + WORD * (BLOCKS + index * at(state, PEERS) * BLOCK)  # type: ignore[no-any-return]


@inlined
def block_of(state: int, index: int, peer: int) -> int:
    """Return the address of the block of a queue to (queue) or from (QUEUES + queue) a peer."""
    return blocks_of(state, index) + peer * BLOCK * WORD  # type: ignore[no-any-return]


@inlined
def next_record(block: int) -> int:
    """Return the address of the next record of a ring."""
    return at(block, RING) + LINE + (at(block, HEAD) & (at(block, CAPACITY) - 1))  # type: ignore[no-any-return]


@inlined
def consume(block: int, nbytes: int) -> None:
    """Release the space of a record to the writer."""
    head = at(block, HEAD) + nbytes
    put_at(block, HEAD, head)
    store_release(at(block, RING), head)


@inlined
def next_header(block: int) -> int:
    """Return the first word of the next record, 0 if there is none."""
    word = load_acquire(next_record(block))
    if (word >> KIND_SHIFT) & KIND_BITS == SKIP:
        consume(block, word & LENGTH_BITS)
        word = load_acquire(next_record(block))
    return word  # type: ignore[no-any-return]


@inlined
def _something(state: int, queue: int) -> bool:
    """Return whether a queue has something to read."""
    blocks = blocks_of(state, QUEUES + queue)
    for peer in range(at(state, PEERS)):
        block = blocks + peer * BLOCK * WORD
        if load_acquire(next_record(block)) != 0 and at(block, PAUSED) == 0:
            return True
    return False


def poll(state: int) -> int:
    """Return a bit for each queue that has something to read."""
    found = 0
    for queue in range(QUEUES):
        if _something(state, queue):
            found |= 1 << queue
    return found


def watch(state: int, polls: int) -> int:
    """Return 1 as soon as a queue has something to read, 0 after a number of polls."""
    for _ in range(polls):
        for queue in range(QUEUES):
            if _something(state, queue):
                return 1
        pause()
    return 0


@inlined
def _assemble(block: int) -> bool:
    """Copy what has arrived of a long message to its memory; return whether it is complete."""
    while at(block, MISSING) > 0:
        word = next_header(block)
        if word == 0:
            return False
        size = word & LENGTH_BITS
        record = next_record(block)
        move_bytes(at(block, INTO), record + HEADER, size)
        put_at(block, INTO, at(block, INTO) + size)
        put_at(block, MISSING, at(block, MISSING) - size)
        if (word >> KIND_SHIFT) & KIND_BITS != FIRST:
            put_at(block, EXPECTED, at(record, 1))
        consume(block, HEADER + padded(size))
    return True


@inlined
def is_small(block: int, word: int) -> bool:
    """Return whether the next record, which has a given header, is all of a message, and a short one."""
    kind = (word >> KIND_SHIFT) & KIND_BITS
    return kind == WHOLE and word & LENGTH_BITS <= SMALL_BYTES and at(block, INTO) == 0


@inlined
def take_small(block: int, word: int, target: int) -> int:
    """Copy the payload of such a record and release its space; return the bytes of the payload."""
    size = word & LENGTH_BITS
    move_bytes(target, next_record(block) + HEADER, size)
    consume(block, HEADER + padded(size))
    return size


@inlined
def number_of(block: int) -> int:
    """Return the number of the message in the next record."""
    return at(next_record(block), 1)  # type: ignore[no-any-return]


@inlined
def _event(state: int, block: int, word: int) -> int:
    """Take the next message of a ring, whose record has a given header."""
    size = word & LENGTH_BITS
    kind = (word >> KIND_SHIFT) & KIND_BITS
    record = next_record(block)
    put_at(state, TAG, word >> TAG_SHIFT)
    if at(block, INTO) != 0:
        if not _assemble(block):
            return NOTHING
        put_at(block, INTO, 0)
        put_at(state, NUMBER, at(block, EXPECTED))
        put_at(state, LENGTH, at(block, SIZE))
        return ASSEMBLED
    if is_small(block, word):
        put_at(state, NUMBER, number_of(block))
        put_at(state, LENGTH, take_small(block, word, at(state, BUFFER)))
        return SMALL
    put_at(state, LENGTH, size if kind == WHOLE else at(record, 1))
    return WANTED


def take(state: int, queue: int) -> int:
    """Take a message from a queue, the peers in turn; return the event and leave its description in the state."""
    peers = at(state, PEERS)
    peer = at(state, NEXT + queue)
    blocks = blocks_of(state, QUEUES + queue)
    for _ in range(peers):
        if peer >= peers:
            peer = 0
        block = blocks + peer * BLOCK * WORD
        if at(block, PAUSED) == 0:
            word = next_header(block)
            if word != 0:
                event = _event(state, block, word)
                if event != NOTHING:
                    put_at(state, PEER, peer)
                    put_at(state, NEXT + queue, peer if event == WANTED else peer + 1)
                    put_at(state, MORE_CAME, 1 if _something(state, queue) else 0)
                    return event  # type: ignore[no-any-return]
        peer += 1
    return NOTHING


def provide(state: int, queue: int, peer: int, memory: int, size: int) -> int:
    """Provide the memory for a long message that `take` has announced."""
    block = block_of(state, QUEUES + queue, peer)
    put_at(block, MISSING, size)
    put_at(block, SIZE, size)
    put_at(block, INTO, memory)
    return 0
