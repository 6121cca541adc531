"""Carrying rings between nodes (see `far_rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.calls import far_rings, rings
from gondwana.calls.far_rings import PEERS as FIRST_PEER
from gondwana.calls.rings_native import KIND_BITS, LENGTH_BITS, at, block_of, look_again, padded, put_at
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import atomic_store, load_acquire, load_word, move_bytes, store_release
from gondwana.sync.delivery import BUFFER, CARGO_BEGIN, POSTPONED, QUIET, SENDING, SLOT
from gondwana.sync.delivery_native import is_free, lock, send_cargo


@inlined
def _far(far: int, place: int) -> int:
    """Return which peer the rank at a place is."""
    return place - at(at(far, far_rings.INBOX), rings.NEAR)  # type: ignore[no-any-return]


@inlined
def _peer(far: int, place: int) -> int:
    """Return the address of the words of the peer at a place."""
    return at(far, FIRST_PEER) + _far(far, place) * far_rings.PEER * rings.WORD  # type: ignore[no-any-return]


@inlined
def _out_block(far: int, queue: int, place: int) -> int:
    return block_of(at(far, far_rings.INBOX), queue, place)  # type: ignore[no-any-return]


@inlined
def _in_block(far: int, queue: int, place: int) -> int:
    return block_of(at(far, far_rings.INBOX), rings.QUEUES + queue, place)  # type: ignore[no-any-return]


@inlined
def _slot(peer: int, number: int) -> int:
    return peer + rings.WORD * far_rings.FIRST_SLOT + number * SLOT


def connect(far: int, place: int, unused: int) -> int:
    """Lay out the rings to and from the peer at a place, which may have been done before."""
    peer = _peer(far, place)
    memory = at(far, far_rings.MEMORY) + _far(far, place) * far_rings.SHARE
    for number in range(far_rings.SLOTS):
        buffer = memory + 2 * rings.QUEUES * far_rings.RING_BYTES + number * far_rings.BUFFER_BYTES
        store_release(_slot(peer, number) + BUFFER, buffer)
    for index in range(2 * rings.QUEUES):
        block = block_of(at(far, far_rings.INBOX), index, place)
        put_at(block, rings.CAPACITY, rings.FAR_RING)
        put_at(block, rings.CARRIER, far)
        put_at(block, rings.PLACE, place)
        put_at(block, rings.RING, memory + index * far_rings.RING_BYTES)
    put_at(far, far_rings.CONNECTED, 1)
    return 0


_connect = inlined(connect)


# -- sending -------------------------------------------------------------------------------------------------------


@inlined
def _free_slot(peer: int) -> int:
    """Return a slot from which MPI does not send, 0 if there is none."""
    for number in range(far_rings.SLOTS):
        if is_free(_slot(peer, number)):
            return _slot(peer, number)  # type: ignore[no-any-return]
    return 0


@inlined
def _range_from(out: int) -> int:
    """Choose what goes next of what has been written; return its bytes, and leave in PASSED where it ends.

    It consists of whole records. A SKIP record is the last one of a range, and goes without what it skips.
    """
    data, capacity = at(out, rings.RING) + rings.LINE, at(out, rings.CAPACITY)
    begin, written = at(out, rings.PASSED), load_acquire(out + rings.WORD * rings.TAIL)
    end, nbytes = begin, 0
    while end < written:
        word = load_acquire(data + (end & (capacity - 1)))
        skips = (word >> rings.KIND_SHIFT) & KIND_BITS == rings.SKIP
        step = rings.HEADER if skips else rings.HEADER + padded(word & LENGTH_BITS)
        if nbytes + step > far_rings.LONGEST_RANGE:
            break
        nbytes += step
        end += word & LENGTH_BITS if skips else step
        if end & (capacity - 1) == 0:
            break
    put_at(out, rings.PASSED, end)
    return nbytes


@inlined
def _send_range(far: int, place: int, slot: int, queue: int) -> int:
    """Send what goes next of a queue, perhaps nothing, and how far this rank has read; return the error of MPI."""
    out = _out_block(far, queue, place)
    cargo = load_word(slot + BUFFER) + CARGO_BEGIN
    capacity = at(out, rings.CAPACITY)
    offset = at(out, rings.PASSED) & (capacity - 1)
    nbytes = _range_from(out)
    put_at(cargo, far_rings.OFFSET, offset)
    put_at(cargo, far_rings.FOLLOWING, at(out, rings.PASSED) & (capacity - 1))
    put_at(cargo, far_rings.QUEUE, queue)
    put_at(cargo, far_rings.NBYTES, nbytes)
    for other in range(rings.QUEUES):
        block = _in_block(far, other, place)
        head = load_acquire(block + rings.WORD * rings.HEAD)
        put_at(cargo, far_rings.READ + other, head)
        put_at(block, rings.TOLD, head)
    move_bytes(cargo + rings.WORD * far_rings.CARGO, at(out, rings.RING) + rings.LINE + offset, nbytes)
    rank = at(_peer(far, place), far_rings.WORLD_RANK)
    return send_cargo(at(far, far_rings.DELIVERY), slot, rank, CARGO_BEGIN + rings.WORD * far_rings.CARGO + nbytes)  # type: ignore[no-any-return]


@inlined
def _next_queue(far: int, place: int) -> int:
    """Return a queue of which something waits to be sent, the queues in turn; -1: there is none.

    Where nothing but credit is due, any queue takes it.
    """
    turn, due = at(_peer(far, place), far_rings.TURN), -1
    for step in range(rings.QUEUES):
        queue = (turn + step) % rings.QUEUES
        out, back = _out_block(far, queue, place), _in_block(far, queue, place)
        if at(out, rings.PASSED) != load_acquire(out + rings.WORD * rings.TAIL):
            return queue  # type: ignore[no-any-return]
        if load_acquire(back + rings.WORD * rings.HEAD) - at(back, rings.TOLD) >= rings.CREDIT:
            due = queue
    return due


def forward(far: int, place: int, unused: int) -> int:
    """Send a peer what has been written for it and the credit that is due, as far as there are slots.

    The rest goes when something is received. Return 0, or -1 if MPI failed or nothing is sent any more.
    """
    state, peer, outcome = at(far, far_rings.DELIVERY), _peer(far, place), 0
    lock(state + SENDING)
    if load_word(state + QUIET) != 0:
        outcome = -1
    while outcome == 0:
        queue = _next_queue(far, place)
        if queue < 0:
            break
        slot = _free_slot(peer)
        if slot == 0:
            put_at(at(far, far_rings.OWING), _far(far, place), 1)
            store_release(state + POSTPONED, 1)
            break
        put_at(peer, far_rings.TURN, queue + 1)
        if _send_range(far, place, slot, queue) != 0:
            outcome = -1
    store_release(state + SENDING, 0)
    return outcome


_forward = inlined(forward)


def resume(far: int, unused: int, unused_too: int) -> int:
    """Send what has waited for slots; once nothing is sent any more, return how many slots MPI still sends from."""
    quiet, busy = load_word(at(far, far_rings.DELIVERY) + QUIET) != 0, 0
    inbox = at(far, far_rings.INBOX)
    for place in range(at(inbox, rings.NEAR), at(inbox, rings.PEERS)):
        owing = at(far, far_rings.OWING) + rings.WORD * _far(far, place)
        if quiet:
            for number in range(far_rings.SLOTS):
                if not is_free(_slot(_peer(far, place), number)):
                    busy += 1
        elif load_word(owing) != 0:
            store_release(owing, 0)
            _forward(far, place, 0)
    return busy


# -- receiving -----------------------------------------------------------------------------------------------------


def accept(far: int, cargo: int, rank: int) -> int:
    """Store a range of a ring that has arrived, its first word last, and note how far the sender has read."""
    place, queue = load_word(at(far, far_rings.PLACES) + rings.WORD * rank), at(cargo, far_rings.QUEUE)
    block = _in_block(far, queue, place)
    if at(block, rings.RING) == 0:
        _connect(far, place, 0)
    for other in range(rings.QUEUES):
        store_release(at(_out_block(far, other, place), rings.RING), at(cargo, far_rings.READ + other))
    nbytes = at(cargo, far_rings.NBYTES)
    if nbytes > 0:
        data = at(block, rings.RING) + rings.LINE
        target, source = data + at(cargo, far_rings.OFFSET), cargo + rings.WORD * far_rings.CARGO
        store_release(data + at(cargo, far_rings.FOLLOWING), 0)
        move_bytes(target + rings.WORD, source + rings.WORD, nbytes - rings.WORD)
        atomic_store(target, load_word(source))
        look_again(at(far, far_rings.INBOX), queue)
        store_release(at(far, far_rings.BELL), 1)
    return 0
