"""Writing and reading rings (see `rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.memory_order import (
    atomic_load,
    atomic_store,
    call_at,
    exchange,
    futex_wake,
    load_acquire,
    load_word,
    move_bytes,
    pause,
    store_release,
)
from gondwana.compiler.native import BYTES_AT, LENGTH_AT
from gondwana.runtime import ordering
from gondwana.sync import rings
from gondwana.sync.delivery import STATE

LENGTH_BITS = (1 << rings.KIND_SHIFT) - 1
KIND_BITS = (1 << (rings.TAG_SHIFT - rings.KIND_SHIFT)) - 1
"""Of the first word of a header, shifted: the length, the kind."""


@inlined
def at(block: int, word: int) -> int:
    """Read a word of a block."""
    return load_word(block + rings.WORD * word)  # type: ignore[no-any-return]


@inlined
def put_at(block: int, word: int, value: int) -> None:
    """Write a word of a block."""
    store_release(block + rings.WORD * word, value)


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
    return (size + rings.HEADER - 1) & ~(rings.HEADER - 1)


# -- the writer ---------------------------------------------------------------------------------------------------


@inlined
def reserve(out: int, size: int) -> int:
    """Return the address for a record with a payload of `size` bytes, 0 if there is no room now.

    It must fit half of the ring: then there is room for it in an empty ring wherever it begins.
    """
    capacity = at(out, rings.CAPACITY)
    tail = at(out, rings.TAIL)
    need = rings.HEADER + padded(size)
    offset = tail & (capacity - 1)
    skipped = capacity - offset if offset + need > capacity else 0
    end = tail + skipped + need + rings.HEADER  # the header behind it, which is to be cleared, included
    ring = at(out, rings.RING)
    if end - at(out, rings.SEEN) > capacity:
        put_at(out, rings.SEEN, load_acquire(ring))
        if end - at(out, rings.SEEN) > capacity:
            return 0
    return ring + rings.LINE + (0 if skipped else offset)  # type: ignore[no-any-return]


def has_room(out: int, size: int) -> int:
    """Return 1 if there is room for a record with a payload of `size` bytes now, else 0."""
    return (reserve(out, size) != 0) + 0  # type: ignore[no-any-return]


@inlined
def publish(out: int, record: int, size: int, kind: int, tag: int, number: int) -> None:
    """Publish a record whose payload has been written to the reader."""
    capacity = at(out, rings.CAPACITY)
    tail = at(out, rings.TAIL)
    data = at(out, rings.RING) + rings.LINE
    offset = tail & (capacity - 1)
    need = rings.HEADER + padded(size)
    store_release(data + ((record - data + need) & (capacity - 1)), 0)
    store_release(record + rings.WORD, number)
    atomic_store(record, size | kind << rings.KIND_SHIFT | tag << rings.TAG_SHIFT)
    skipped = 0
    if record != data + offset:
        skipped = capacity - offset
        atomic_store(data + offset, skipped | rings.SKIP << rings.KIND_SHIFT)
    put_at(out, rings.TAIL, tail + skipped + need)
    bell = at(out, rings.BELL)
    if bell != 0:
        ring_bell(bell)


@inlined
def longest(out: int) -> int:
    """Return the bytes of the longest payload of a record."""
    return rings.LONGEST_MESSAGE if at(out, rings.CARRIER) != 0 else at(out, rings.CAPACITY) // 2 - 2 * rings.HEADER


@inlined
def pass_on(block: int) -> int:
    """Have what is written to a ring and what is due to its peer sent, if that is on another node; -1: it cannot."""
    carrier = at(block, rings.CARRIER)
    if carrier == 0:
        return 0
    return call_at(at(carrier, STATE.forward), carrier, at(block, rings.RANK))  # type: ignore[no-any-return]


@inlined
def count_message(block: int) -> None:
    """Count a message that has been sent or finished, which nobody else counts."""
    put_at(block, rings.COUNT, at(block, rings.COUNT) + 1)


@inlined
def push(out: int, tag: int, number: int, data: int, size: int) -> int:
    """Write a message if it fits a record; return 1, or 0 if others wait or there is no room now."""
    record = reserve(out, size) if at(out, rings.HELD) == 0 and size <= longest(out) else 0
    if record == 0:
        return 0
    move_bytes(record + rings.HEADER, data, size)
    publish(out, record, size, rings.WHOLE, tag, number)
    pass_on(out)  # if that fails, the next poll will say so
    return 1


def push_one(out: int, tag: int, number: int, data: int) -> int:
    """Write a message that is a bytes object: as `push`."""
    return push(out, tag, number, data + BYTES_AT, load_word(data + LENGTH_AT))  # type: ignore[no-any-return]


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
    whole = longest(out)
    largest = whole if total <= whole else at(out, rings.CAPACITY) // 4 - rings.HEADER
    while done < total:
        left = total - done
        size = largest if largest < left else left
        record = reserve(out, size)
        if record == 0:
            return done
        _gather(record + rings.HEADER, parts, count, done, size)
        if total <= whole:
            publish(out, record, size, rings.WHOLE, tag, number)
        elif done == 0:
            publish(out, record, size, rings.FIRST, tag, total)
        else:
            publish(out, record, size, rings.MORE, tag, number)
        done += size
    pass_on(out)
    return done


# -- the reader ---------------------------------------------------------------------------------------------------


@inlined
def blocks_of(state: int, index: int) -> int:
    """Return the address of the blocks of a queue to (queue) or from (QUEUES + queue) all peers."""
    return state + rings.WORD * (rings.BLOCKS + index * at(state, rings.PEERS) * rings.BLOCK)  # type: ignore[no-any-return]


@inlined
def block_of(state: int, index: int, peer: int) -> int:
    """Return the address of the block of a queue to (queue) or from (QUEUES + queue) a peer."""
    return blocks_of(state, index) + peer * rings.BLOCK * rings.WORD  # type: ignore[no-any-return]


@inlined
def next_record(block: int) -> int:
    """Return the address of the next record of a ring."""
    return at(block, rings.RING) + rings.LINE + (at(block, rings.HEAD) & (at(block, rings.CAPACITY) - 1))  # type: ignore[no-any-return]


@inlined
def consume(block: int, nbytes: int) -> None:
    """Release the space of a record to the writer; tell one on another node after a quarter of the ring."""
    head = at(block, rings.HEAD) + nbytes
    put_at(block, rings.HEAD, head)
    store_release(at(block, rings.RING), head)
    if at(block, rings.CARRIER) != 0 and head - at(block, rings.TOLD) >= rings.CREDIT:
        pass_on(block)


@inlined
def next_header(block: int) -> int:
    """Return the first word of the next record, 0 if there is none."""
    word = load_acquire(next_record(block))
    if (word >> rings.KIND_SHIFT) & KIND_BITS == rings.SKIP:
        consume(block, word & LENGTH_BITS)
        word = load_acquire(next_record(block))
    return word  # type: ignore[no-any-return]


@inlined
def look_again(state: int, queue: int) -> None:
    """Have the rings from other nodes looked at once more."""
    store_release(state + rings.WORD * (rings.CAME + queue), 1)


@inlined
def seen_peers(state: int, queue: int) -> int:
    """Return how many peers may have written to a queue: those of this node, or all, if something has come from others.

    That is forgotten before the rings are looked at: what arrives later sets it again.
    """
    came = state + rings.WORD * (rings.CAME + queue)
    return at(state, rings.PEERS if load_acquire(came) != 0 and exchange(came, 0) != 0 else rings.NEAR)  # type: ignore[no-any-return]


# -- the recorded order: see `runtime.ordering`, whose class does the same in Python ----------------------------------


@inlined
def step(order: int) -> None:
    """Begin a step of the program."""
    put_at(order, ordering.STEP, at(order, ordering.STEP) + ordering.TURN)


@inlined
def _event_of(order: int) -> int:
    return order + ordering.WORD * (ordering.HEAD + ordering.EVENT * at(order, ordering.AT))  # type: ignore[no-any-return]


@inlined
def happens(order: int, kind: int, value: int) -> None:
    """Note that an event happens; in a replay it is the next one."""
    place = at(order, ordering.AT)
    if place >= at(order, ordering.ROOM):
        put_at(order, ordering.FULL, 1)
        return
    if at(order, ordering.REPLAYED) == 0:
        event = _event_of(order)
        put_at(event, 0, at(order, ordering.STEP) + at(order, ordering.LOOSE))
        put_at(event, 1, kind << ordering.KIND_SHIFT | value)
    put_at(order, ordering.AT, place + 1)


@inlined
def is_repeated(order: int) -> bool:
    """Return whether events have to wait until they are due."""
    return order != 0 and at(order, ordering.REPLAYED) != 0 and at(order, ordering.AT) < at(order, ordering.ROOM)


@inlined
def due_event(order: int) -> int:
    """Return the kind and the value of the next event of a replay, -1 if it is not due."""
    event = _event_of(order)
    return at(event, 1) if at(event, 0) <= at(order, ordering.STEP) + 1 else -1


@inlined
def caught_up(order: int) -> bool:
    """Return whether all events up to the present step have happened."""
    return not is_repeated(order) or at(_event_of(order), 0) > at(order, ordering.STEP)


@inlined
def arrives(state: int, queue: int, peer: int) -> None:
    """Note that a message of a peer is taken from a queue."""
    order = at(state, rings.ORDER)
    if order != 0:
        happens(order, queue, peer)


@called
def _due_peer(state: int, queue: int, order: int) -> int:
    """Return the peer whose message in a queue is the next event; -1: it is another event, or has not come."""
    look_again(state, queue)
    event = due_event(order)
    if event == -1 or event >> ordering.KIND_SHIFT != queue:
        return -1
    peer = event & (1 << ordering.KIND_SHIFT) - 1
    block = block_of(state, rings.QUEUES + queue, peer)
    if at(block, rings.PAUSED) == 0 and at(block, rings.RING) != 0 and next_header(block) != 0:
        return peer  # type: ignore[no-any-return]
    return -1


@inlined
def next_peer(state: int, queue: int) -> int:
    """Return the next peer that has written to a queue and need not wait, the peers in turn; -1: there is none."""
    order = at(state, rings.ORDER)
    if is_repeated(order):
        return _due_peer(state, queue, order)  # type: ignore[no-any-return]
    peers = seen_peers(state, queue)
    peer = at(state, rings.NEXT + queue)
    blocks = blocks_of(state, rings.QUEUES + queue)
    for _ in range(peers):
        if peer >= peers:
            peer = 0
        block = blocks + peer * rings.BLOCK * rings.WORD
        if at(block, rings.PAUSED) == 0 and at(block, rings.RING) != 0 and next_header(block) != 0:
            if peers > at(state, rings.NEAR):
                look_again(state, queue)
            return peer  # type: ignore[no-any-return]
        peer += 1
    return -1


@inlined
def _something(state: int, queue: int) -> bool:
    """Return whether a queue has something to read, or may have from other nodes."""
    blocks = blocks_of(state, rings.QUEUES + queue)
    for peer in range(at(state, rings.NEAR)):
        block = blocks + peer * rings.BLOCK * rings.WORD
        if load_acquire(next_record(block)) != 0 and at(block, rings.PAUSED) == 0:
            return True
    return load_acquire(state + rings.WORD * (rings.CAME + queue)) != 0  # type: ignore[no-any-return]


@inlined
def receive(state: int) -> None:
    """Take what other nodes send, once this rank has to do with any; if that fails, the next poll will say so."""
    carrier = at(state, rings.FAR)
    if carrier != 0:
        call_at(at(carrier, STATE.poll), carrier)


def poll(state: int) -> int:
    """Return a bit for each queue that has something to read."""
    found = 0
    for queue in range(rings.QUEUES):
        if _something(state, queue):
            found |= 1 << queue
    return found


def watch(state: int, polls: int) -> int:
    """Return 1 as soon as a queue has something to read, 0 after a number of polls."""
    for _ in range(polls):
        receive(state)
        for queue in range(rings.QUEUES):
            if _something(state, queue):
                return 1
        pause()
    return 0


@inlined
def _assemble(block: int) -> bool:
    """Copy what has arrived of a long message to its memory; return whether it is complete."""
    while at(block, rings.MISSING) > 0:
        word = next_header(block)
        if word == 0:
            return False
        size = word & LENGTH_BITS
        record = next_record(block)
        move_bytes(at(block, rings.INTO), record + rings.HEADER, size)
        put_at(block, rings.INTO, at(block, rings.INTO) + size)
        put_at(block, rings.MISSING, at(block, rings.MISSING) - size)
        if (word >> rings.KIND_SHIFT) & KIND_BITS != rings.FIRST:
            put_at(block, rings.EXPECTED, at(record, 1))
        consume(block, rings.HEADER + padded(size))
    return True


@inlined
def is_small(block: int, word: int, most: int) -> bool:
    """Return whether the next record, which has a given header, is all of a message of at most so many bytes."""
    kind = (word >> rings.KIND_SHIFT) & KIND_BITS
    return kind == rings.WHOLE and word & LENGTH_BITS <= most and at(block, rings.INTO) == 0


@inlined
def take_small(block: int, word: int, target: int) -> int:
    """Copy the payload of such a record and release its space; return the bytes of the payload."""
    size = word & LENGTH_BITS
    move_bytes(target, next_record(block) + rings.HEADER, size)
    consume(block, rings.HEADER + padded(size))
    return size


@inlined
def number_of(block: int) -> int:
    """Return the number of the message in the next record."""
    return at(next_record(block), 1)  # type: ignore[no-any-return]


@inlined
def _event(state: int, block: int, word: int) -> int:
    """Take the next message of a ring, whose record has a given header."""
    size = word & LENGTH_BITS
    kind = (word >> rings.KIND_SHIFT) & KIND_BITS
    record = next_record(block)
    put_at(state, rings.TAG, word >> rings.TAG_SHIFT)
    if at(block, rings.INTO) != 0:
        if not _assemble(block):
            return rings.NOTHING
        put_at(block, rings.INTO, 0)
        put_at(state, rings.NUMBER, at(block, rings.EXPECTED))
        put_at(state, rings.LENGTH, at(block, rings.SIZE))
        return rings.ASSEMBLED
    if is_small(block, word, rings.SMALL_BYTES):
        put_at(state, rings.NUMBER, number_of(block))
        put_at(state, rings.LENGTH, take_small(block, word, at(state, rings.BUFFER)))
        return rings.SMALL
    put_at(state, rings.LENGTH, size if kind == rings.WHOLE else at(record, 1))
    return rings.WANTED


def take(state: int, queue: int) -> int:
    """Take a message from a queue, the peers in turn; return the event and leave its description in the state."""
    for _ in range(at(state, rings.PEERS)):
        peer = next_peer(state, queue)
        if peer < 0:
            break
        block = block_of(state, rings.QUEUES + queue, peer)
        event = _event(state, block, next_header(block))
        put_at(state, rings.NEXT + queue, peer if event == rings.WANTED else peer + 1)
        if event != rings.NOTHING:
            put_at(state, rings.PEER, peer)
            put_at(state, rings.MORE_CAME, 1 if _something(state, queue) else 0)
            if event != rings.WANTED:
                arrives(state, queue, peer)
            return event  # type: ignore[no-any-return]
    return rings.NOTHING


def provide(state: int, queue: int, peer: int, memory: int, size: int) -> int:
    """Provide the memory for a long message that `take` has announced."""
    block = block_of(state, rings.QUEUES + queue, peer)
    put_at(block, rings.MISSING, size)
    put_at(block, rings.SIZE, size)
    put_at(block, rings.INTO, memory)
    return 0
