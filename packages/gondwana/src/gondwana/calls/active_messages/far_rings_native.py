"""Carrying rings between nodes (see `far_rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.calls import rings
from gondwana.calls.active_messages import far_rings
from gondwana.calls.active_messages.far_rings import PEERS as FIRST_PEER
from gondwana.calls.active_messages.message_native import handle_ring
from gondwana.calls.rings_native import KIND_BITS, LENGTH_BITS, at, next_record, padded, put_at
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import atomic_store, exchange, load_acquire, load_word, move_bytes, store_release
from gondwana.sync.delivery import BUFFER, CARGO_BEGIN, POSTPONED, QUIET, SENDING, SLOT
from gondwana.sync.delivery_native import is_free, lock, send_cargo


@inlined
def peer_at(far: int, place: int) -> int:
    """Return the address of a peer."""
    return at(far, FIRST_PEER) + place * far_rings.PEER * rings.WORD  # type: ignore[no-any-return]


@inlined
def out_block(peer: int, queue: int) -> int:
    """Return the address of the OUT block of a queue to a peer."""
    return peer + rings.WORD * (far_rings.OUT + queue * rings.BLOCK)


@inlined
def _in_block(peer: int, queue: int) -> int:
    return peer + rings.WORD * (far_rings.IN + queue * rings.BLOCK)


# -- sending -------------------------------------------------------------------------------------------------------


@inlined
def _free_slot(peer: int) -> int:
    """Return a slot from which MPI does not send, 0 if there is none."""
    for place in range(far_rings.SLOTS):
        slot = peer + rings.WORD * far_rings.FIRST_SLOT + place * SLOT
        if is_free(slot):
            return slot
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
def _send_range(state: int, peer: int, slot: int, queue: int) -> int:
    """Send what goes next of a queue, perhaps nothing, and how far this rank has read; return the error of MPI."""
    out = out_block(peer, queue)
    message = load_word(slot + BUFFER)
    cargo = message + CARGO_BEGIN
    capacity = at(out, rings.CAPACITY)
    offset = at(out, rings.PASSED) & (capacity - 1)
    nbytes = _range_from(out)
    put_at(cargo, far_rings.OFFSET, offset)
    put_at(cargo, far_rings.FOLLOWING, at(out, rings.PASSED) & (capacity - 1))
    put_at(cargo, far_rings.QUEUE, queue)
    put_at(cargo, far_rings.NBYTES, nbytes)
    for other in range(far_rings.QUEUES):
        block = _in_block(peer, other)
        head = load_acquire(block + rings.WORD * rings.HEAD)
        put_at(cargo, far_rings.READ + other, head)
        put_at(block, rings.TOLD, head)
    move_bytes(cargo + rings.WORD * far_rings.CARGO, at(out, rings.RING) + rings.LINE + offset, nbytes)
    return send_cargo(state, slot, at(peer, far_rings.WORLD_RANK), CARGO_BEGIN + rings.WORD * far_rings.CARGO + nbytes)  # type: ignore[no-any-return]


@inlined
def _waits(peer: int, queue: int) -> bool:
    """Return whether a range of a queue waits for a slot."""
    out = out_block(peer, queue)
    return at(out, rings.PASSED) != load_acquire(out + rings.WORD * rings.TAIL)  # type: ignore[no-any-return]


@inlined
def _credit_is_due(peer: int) -> bool:
    due = False
    for queue in range(far_rings.QUEUES):
        block = _in_block(peer, queue)
        if load_acquire(block + rings.WORD * rings.HEAD) - at(block, rings.TOLD) >= far_rings.CREDIT:
            due = True
    return due


def forward(far: int, place: int, unused: int) -> int:
    """Send a peer what has been written for it and the credit that is due, as far as there are slots.

    The rest goes when something is received. Return 0, or -1 if MPI failed or nothing is sent any more.
    """
    state, peer, outcome = at(far, far_rings.DELIVERY), peer_at(far, place), 0
    lock(state + SENDING)
    if load_word(state + QUIET) != 0:
        outcome = -1
    while outcome == 0 and (_waits(peer, rings.MESSAGE_REPLY) or _waits(peer, rings.MESSAGE) or _credit_is_due(peer)):
        slot = _free_slot(peer)
        if slot == 0:
            put_at(at(far, far_rings.OWING), place, 1)
            store_release(state + POSTPONED, 1)
            break
        queue = rings.MESSAGE_REPLY if _waits(peer, rings.MESSAGE_REPLY) else rings.MESSAGE
        if _send_range(state, peer, slot, queue) != 0:
            outcome = -1
    store_release(state + SENDING, 0)
    return outcome


_forward = inlined(forward)


def resume(far: int, unused: int, unused_too: int) -> int:
    """Send what has waited for slots; once nothing is sent any more, return how many slots MPI still sends from."""
    quiet, busy = load_word(at(far, far_rings.DELIVERY) + QUIET) != 0, 0
    for place in range(at(far, far_rings.RANKS)):
        if quiet:
            for step in range(far_rings.SLOTS):
                if not is_free(peer_at(far, place) + rings.WORD * far_rings.FIRST_SLOT + step * SLOT):
                    busy += 1
        elif at(at(far, far_rings.OWING), place) != 0:
            put_at(at(far, far_rings.OWING), place, 0)
            _forward(far, place, 0)
    return busy


# -- receiving -----------------------------------------------------------------------------------------------------


def accept(far: int, cargo: int, rank: int) -> int:
    """Store a range of a ring that has arrived, its first word last, and note how far the sender has read."""
    place = at(at(far, far_rings.PLACES), rank)
    peer = peer_at(far, place)
    for queue in range(far_rings.QUEUES):
        store_release(at(out_block(peer, queue), rings.RING), at(cargo, far_rings.READ + queue))
    nbytes = at(cargo, far_rings.NBYTES)
    if nbytes > 0:
        data = at(_in_block(peer, at(cargo, far_rings.QUEUE)), rings.RING) + rings.LINE
        target, source = data + at(cargo, far_rings.OFFSET), cargo + rings.WORD * far_rings.CARGO
        store_release(data + at(cargo, far_rings.FOLLOWING), 0)
        move_bytes(target + rings.WORD, source + rings.WORD, nbytes - rings.WORD)
        atomic_store(target, load_word(source))
        store_release(at(far, far_rings.COMING) + rings.WORD * place, 1)
        store_release(far + rings.WORD * far_rings.CAME, 1)
    return 0


@inlined
def _more_comes(peer: int) -> bool:
    """Return whether a peer's messages are left to be handled."""
    more = False
    for queue in range(far_rings.QUEUES):
        if load_acquire(next_record(_in_block(peer, queue))) != 0:
            more = True
    return more


def serve_far(state: int, limit: int, unused: int) -> int:
    """Run the compiled handlers of messages from other nodes, up to a limit for each peer; return their number.

    Flags are cleared before the rings are read: what arrives later sets them again.
    """
    far = at(state, rings.FAR)
    exchange(far + rings.WORD * far_rings.CAME, 0)
    done = 0
    for place in range(at(far, far_rings.RANKS)):
        flag = at(far, far_rings.COMING) + rings.WORD * place
        if load_word(flag) != 0:
            exchange(flag, 0)
            peer, source = peer_at(far, place), at(state, rings.PEERS) + place
            reply = out_block(peer, rings.MESSAGE_REPLY)
            done += handle_ring(state, rings.MESSAGE_REPLY, _in_block(peer, rings.MESSAGE_REPLY), reply, source, limit)
            done += handle_ring(state, rings.MESSAGE, _in_block(peer, rings.MESSAGE), reply, source, limit)
            if _more_comes(peer):
                store_release(flag, 1)
                store_release(far + rings.WORD * far_rings.CAME, 1)
            _forward(far, place, 0)
    return done
