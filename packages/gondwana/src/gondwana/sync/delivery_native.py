"""Machine code of the wire between nodes: see `delivery`. Imports Numba.

Receives are posted in a circle, and MPI matches messages of one sender with them in the order in which they were sent,
so looking at the oldest receive suffices.
"""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
    atomic_store,
    call_at,
    exchange,
    fetch_add,
    load_acquire,
    load_word,
    move_bytes,
    pause,
    sched_yield,
    store_release,
)
from gondwana.compiler.mpi.mpi_overloads import mpi_call, mpi_constant
from gondwana.compiler.types.buffers import on_stack
from gondwana.sync import delivery, rings
from gondwana.sync.delivery import MESSAGE, PEER, SLOT, STATE
from gondwana.sync.rings_native import KIND_BITS, LENGTH_BITS, at, block_of, look_again, padded, put_at
from gondwana.sync.signals_native import consume

_ATTEMPTS = 100
"""Polls for credit or room before nothing is sent."""
_SPINS = 20
"""Attempts before the processor is yielded between them."""
_POLLS_BETWEEN_LOOKS = 16
"""Polls of what a rank waits for in MPI, between looks for what else has arrived."""

_PEER, _SLOT = rings.WORD * len(PEER), rings.WORD * len(SLOT)
"""Bytes of a peer and of a slot."""
_PUTS = delivery.RECEIVES * _SLOT
_OWN = _PUTS + delivery.SLOTS * _SLOT
"""Where the slots of puts and of other messages are."""

_isend, _irecv, _test = mpi_call("Isend"), mpi_call("Irecv"), mpi_call("Test")
_cancel, _wait = mpi_call("Cancel"), mpi_call("Wait")
_byte, _any_source, _status = mpi_constant("uint8"), mpi_constant("ANY_SOURCE"), mpi_constant("STATUS")


@inlined
def _is_done(request: int) -> int:
    """Return 1 if the request at an address is complete, 0 if not, or minus the error of MPI."""
    flag = on_stack(0)
    error = _test(request, flag, _status())
    return -error if error != 0 else (load_word(flag) & 0xFFFFFFFF != 0) + 0  # type: ignore[no-any-return]


@inlined
def _peer(state: int, rank: int) -> int:
    return at(state, STATE.peers) + rank * _PEER  # type: ignore[no-any-return]


@inlined
def _increment(block: int, word: int) -> int:
    """Add one to a word that one thread at a time writes; return the sum."""
    value = at(block, word) + 1
    put_at(block, word, value)
    return value  # type: ignore[no-any-return]


@inlined
def lock(word: int) -> None:
    """Acquire a lock against other threads of this process."""
    while exchange(word, 1) != 0:
        sched_yield()


@inlined
def _poll(state: int) -> int:
    """Call `poll`."""
    return call_at(at(state, STATE.poll), state)  # type: ignore[no-any-return]


@inlined
def _out_block(state: int, queue: int, rank: int) -> int:
    return block_of(at(state, STATE.inbox), queue, at(_peer(state, rank), PEER.place))  # type: ignore[no-any-return]


@inlined
def _in_block(state: int, queue: int, rank: int) -> int:
    return _out_block(state, rings.QUEUES + queue, rank)  # type: ignore[no-any-return]


@inlined
def _owed(peer: int) -> int:
    """Return the number of puts that have been applied here and of which their sender does not know."""
    return load_acquire(peer + rings.WORD * PEER.applied) - at(peer, PEER.told)  # type: ignore[no-any-return]


def connect(state: int, rank: int) -> int:
    """Lay out the rings to and from a rank, which may have been done before."""
    memory = at(state, STATE.rings) + rank * 2 * rings.QUEUES * delivery.RING
    for index in range(2 * rings.QUEUES):
        block = _out_block(state, index, rank)
        put_at(block, rings.CAPACITY, rings.FAR_RING)
        put_at(block, rings.CARRIER, state)
        put_at(block, rings.RANK, rank)
        put_at(block, rings.RING, memory + index * delivery.RING)
    put_at(at(state, STATE.inbox), rings.FAR, state)
    return 0


_connect = inlined(connect)


# -- sending -------------------------------------------------------------------------------------------------------


@inlined
def _free_slot(slots: int, begin: int, total: int, count: int) -> int:
    """Return the next slot from which MPI does not send, if there are as many as `count`, else 0.

    The slots are looked at in a circle, from the one with the number `begin` on.
    """
    first = 0
    for step in range(total):
        slot = slots + (begin + step) % total * _SLOT
        if at(slot, SLOT.busy) == 0 or _is_done(slot + rings.WORD * SLOT.request) == 1:
            put_at(slot, SLOT.busy, 0)
            count -= 1
            if first == 0:
                first = slot
            if count == 0:
                return first
    return 0


@inlined
def _take_mark(peer: int, word: int) -> int:
    """Return 1 if a mark is set, which other threads do, and clear it; else 0."""
    return exchange(peer + rings.WORD * word, 0) if at(peer, word) != 0 else 0


@inlined
def _dispatch(state: int, slot: int, rank: int, queue: int, nbytes: int) -> int:
    """Send what is in a slot, with how many puts have been applied here; return 0 or the error of MPI.

    The lock of those who send is held.
    """
    peer, message = _peer(state, rank), at(slot, SLOT.buffer)
    _take_mark(peer, PEER.due)  # before the puts are counted: who asks later is answered later
    applied = load_acquire(peer + rings.WORD * PEER.applied)
    kind = queue + delivery.ASKS * _take_mark(peer, PEER.asking)
    put_at(message, MESSAGE.source, at(state, STATE.rank) * delivery.KINDS + kind)
    put_at(message, MESSAGE.applied, applied)
    comm, request = at(state, STATE.communicator), slot + rings.WORD * SLOT.request
    error = _isend(message, nbytes, _byte(), rank, 0, comm, request)
    if error != 0:
        put_at(state, STATE.failed, error)
        return error  # type: ignore[no-any-return]
    put_at(slot, SLOT.busy, 1)
    put_at(peer, PEER.told, applied)
    _increment(peer, PEER.sent)
    return 0


@inlined
def _pack(message: int, data: int, nbytes: int, target: int, line: int, arrivals: int, axes: int) -> int:
    """Write a put into a message; return the bytes of the message."""
    put_at(message, MESSAGE.nbytes, nbytes)
    put_at(message, MESSAGE.target, target)
    put_at(message, MESSAGE.line, line)
    put_at(message, MESSAGE.arrivals, arrivals)
    length, number = delivery.HEAD, 0
    if axes != 0:
        number = at(axes, 0)
        put_at(message, MESSAGE.run, at(axes, 1))
        move_bytes(message + length, axes + 2 * rings.WORD, number * delivery.AXIS)
        length += number * delivery.AXIS
    put_at(message, MESSAGE.axes, number)
    move_bytes(message + length, data, nbytes)
    return length + nbytes


@inlined
def _try_to_send(state: int, rank: int, data: int, nbytes: int, target: int, line: int, count: int, axes: int) -> int:
    """Send all messages of a put if there is credit and room; return the number of the last, 0, or -1 if MPI failed."""
    number, peer, slots = 0, _peer(state, rank), at(state, STATE.slots) + _PUTS
    messages = max(1, (nbytes + delivery.MOST - 1) // delivery.MOST)
    most = delivery.WINDOW if nbytes != 0 else delivery.MOST_SIGNALS
    lock(state + rings.WORD * STATE.sending)
    if at(peer, PEER.puts) - load_acquire(peer + rings.WORD * PEER.acknowledged) + messages <= most:
        for start in range(0, max(1, nbytes), delivery.MOST):
            slot = _free_slot(slots, at(state, STATE.next), delivery.SLOTS, messages)
            if slot == 0:
                break  # at the first of them: others take no slots meanwhile
            put_at(state, STATE.next, (slot - slots) // _SLOT + 1)
            size = min(nbytes - start, delivery.MOST)
            arrivals = count if start + size == nbytes else 0
            length = _pack(at(slot, SLOT.buffer), data + start, size, target + start, line, arrivals, axes)
            if _dispatch(state, slot, rank, delivery.PUT, length) != 0:
                number = -1
                break
            number = _increment(peer, PEER.puts)
            messages -= 1
    put_at(state, STATE.sending, 0)
    return number


def send(state: int, rank: int, data: int, nbytes: int, target: int, line: int, count: int, axes: int) -> int:
    """Send a put with its signal; return its number, 0 if there is neither credit nor room, or -1 if MPI failed."""
    for attempt in range(_ATTEMPTS):
        number = _try_to_send(state, rank, data, nbytes, target, line, count, axes)
        if number != 0:
            return number  # type: ignore[no-any-return]
        if _poll(state) < 0:
            return -1
        if attempt < _SPINS:
            pause()
        else:
            sched_yield()
    return 0


def ask(state: int, rank: int, number: int) -> int:
    """Ask a rank how many puts it has applied, unless it was asked after the put with a number; -1 if that failed."""
    peer = _peer(state, rank)
    if load_acquire(peer + rings.WORD * PEER.asked) >= number:
        return 0
    puts = load_acquire(peer + rings.WORD * PEER.puts)
    put_at(peer, PEER.asking, 1)
    put_at(peer, PEER.asked, puts)
    return call_at(at(state, STATE.forward), state, rank)  # type: ignore[no-any-return]


# -- sending from rings --------------------------------------------------------------------------------------------


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
        if nbytes + step > delivery.LONGEST_RANGE:
            break
        nbytes += step
        end += word & LENGTH_BITS if skips else step
        if end & (capacity - 1) == 0:
            break
    put_at(out, rings.PASSED, end)
    return nbytes


@inlined
def _send_range(state: int, rank: int, slot: int, queue: int) -> int:
    """Send what goes next of a queue, perhaps nothing, and how far this rank has read; return the error of MPI."""
    out, message = _out_block(state, queue, rank), at(slot, SLOT.buffer)
    capacity = at(out, rings.CAPACITY)
    offset = at(out, rings.PASSED) & (capacity - 1)
    nbytes = _range_from(out)
    put_at(message, MESSAGE.nbytes, nbytes)
    put_at(message, MESSAGE.offset, offset)
    put_at(message, MESSAGE.following, at(out, rings.PASSED) & (capacity - 1))
    for other in range(rings.QUEUES):
        block = _in_block(state, other, rank)
        head = load_acquire(block + rings.WORD * rings.HEAD)
        put_at(message, MESSAGE.read + other, head)
        put_at(block, rings.TOLD, head)
    move_bytes(message + delivery.RANGE_HEAD, at(out, rings.RING) + rings.LINE + offset, nbytes)
    return _dispatch(state, slot, rank, queue, delivery.RANGE_HEAD + nbytes)  # type: ignore[no-any-return]


@inlined
def _next_queue(state: int, rank: int) -> int:
    """Return a queue of which something waits to be sent, the queues in turn; -1: there is none.

    Where nothing but a question, an answer or credit is due, any queue takes it.
    """
    peer = _peer(state, rank)
    asked = load_acquire(peer + rings.WORD * PEER.asking) | load_acquire(peer + rings.WORD * PEER.due)
    due = 0 if asked != 0 or _owed(peer) >= delivery.WINDOW // 2 else -1
    for step in range(rings.QUEUES):
        queue = (at(peer, PEER.turn) + step) % rings.QUEUES
        out, back = _out_block(state, queue, rank), _in_block(state, queue, rank)
        if at(out, rings.PASSED) != load_acquire(out + rings.WORD * rings.TAIL):
            return queue  # type: ignore[no-any-return]
        if load_acquire(back + rings.WORD * rings.HEAD) - at(back, rings.TOLD) >= rings.CREDIT:
            due = queue
    return due


def forward(state: int, rank: int) -> int:
    """Send a rank what has been written for it and what else is due, as far as there are slots.

    The rest goes when something is received. Return 0, or -1 if MPI failed or nothing is sent any more.
    """
    peer, outcome = _peer(state, rank), 0
    slots = at(state, STATE.slots) + _OWN + rank * delivery.OWN_SLOTS * _SLOT
    lock(state + rings.WORD * STATE.sending)
    if at(state, STATE.quiet) != 0:
        outcome = -1
    while outcome == 0:
        queue = _next_queue(state, rank)
        if queue < 0:
            break
        slot = _free_slot(slots, 0, delivery.OWN_SLOTS, 1)
        if slot == 0:
            put_at(peer, PEER.owing, 1)
            put_at(state, STATE.postponed, 1)
            break
        put_at(peer, PEER.turn, queue + 1)
        if _send_range(state, rank, slot, queue) != 0:
            outcome = -1
    put_at(state, STATE.sending, 0)
    return outcome


@inlined
def _resume(state: int) -> None:
    """Send what has waited for slots."""
    put_at(state, STATE.postponed, 0)
    for rank in range(at(state, STATE.ranks)):
        peer = _peer(state, rank)
        if at(peer, PEER.owing) != 0:
            put_at(peer, PEER.owing, 0)
            call_at(at(state, STATE.forward), state, rank)


# -- receiving -----------------------------------------------------------------------------------------------------


@inlined
def _post(state: int, slot: int) -> int:
    """Post a receive; return 0 or the error of MPI."""
    comm, request = at(state, STATE.communicator), slot + rings.WORD * SLOT.request
    error = _irecv(at(slot, SLOT.buffer), delivery.BUFFER, _byte(), _any_source(), 0, comm, request)
    if error != 0:
        put_at(state, STATE.failed, error)
    return error  # type: ignore[no-any-return]


@inlined
def _scatter(message: int) -> None:
    """Store data in runs that are repeated along axes."""
    target, axes, run = at(message, MESSAGE.target), at(message, MESSAGE.axes), at(message, MESSAGE.run)
    source = message + delivery.HEAD + axes * delivery.AXIS
    for place in range(at(message, MESSAGE.nbytes) // run):
        rest, offset = place, 0
        for step in range(axes):
            axis = message + delivery.HEAD + (axes - 1 - step) * delivery.AXIS
            count = at(axis, 0)
            offset += rest % count * at(axis, 1)
            rest //= count
        move_bytes(target + offset, source + place * run, run)


@inlined
def _apply_put(message: int) -> None:
    """Store the data of a put, and raise its signal."""
    if at(message, MESSAGE.axes) == 0:
        move_bytes(at(message, MESSAGE.target), message + delivery.HEAD, at(message, MESSAGE.nbytes))
    else:
        _scatter(message)
    fetch_add(at(message, MESSAGE.line), at(message, MESSAGE.arrivals))


@inlined
def _store_range(state: int, message: int, rank: int, queue: int, nbytes: int) -> None:
    """Store a range of a ring, its first word last."""
    block = _in_block(state, queue, rank)
    if at(block, rings.RING) == 0:
        _connect(state, rank)
    data = at(block, rings.RING) + rings.LINE
    target, source = data + at(message, MESSAGE.offset), message + delivery.RANGE_HEAD
    store_release(data + at(message, MESSAGE.following), 0)
    move_bytes(target + rings.WORD, source + rings.WORD, nbytes - rings.WORD)
    atomic_store(target, load_word(source))
    look_again(at(state, STATE.inbox), queue)
    store_release(at(state, STATE.bell), 1)


@inlined
def _note_read(state: int, message: int, rank: int) -> None:
    """Note how far a rank has read what this one wrote to rings."""
    for queue in range(rings.QUEUES):
        ring = at(_out_block(state, queue, rank), rings.RING)
        if ring != 0:
            store_release(ring, at(message, MESSAGE.read + queue))


@inlined
def _accept(state: int, message: int) -> None:
    """Apply a message that has arrived, and answer where that is due."""
    rank, kind = at(message, MESSAGE.source) // delivery.KINDS, at(message, MESSAGE.source) % delivery.KINDS
    peer, queue = _peer(state, rank), kind % delivery.ASKS
    if at(message, MESSAGE.applied) > at(peer, PEER.acknowledged):
        put_at(peer, PEER.acknowledged, at(message, MESSAGE.applied))
    if queue == delivery.PUT:
        _apply_put(message)
        _increment(peer, PEER.applied)
    else:
        _note_read(state, message, rank)
        if at(message, MESSAGE.nbytes) > 0:
            _store_range(state, message, rank, queue, at(message, MESSAGE.nbytes))
    if kind >= delivery.ASKS:
        put_at(peer, PEER.due, 1)
    _increment(peer, PEER.received)
    if at(peer, PEER.due) != 0 or _owed(peer) >= delivery.WINDOW // 2:
        call_at(at(state, STATE.forward), state, rank)


@inlined
def _receive(state: int) -> int:
    """Apply a message if one has arrived; return how many that were. The lock of those who receive is held."""
    slots = at(state, STATE.slots)
    if at(state, STATE.started) == 0:
        for place in range(delivery.RECEIVES):
            _post(state, slots + place * _SLOT)
        put_at(state, STATE.started, 1)
    if at(state, STATE.postponed) != 0 and at(state, STATE.quiet) == 0:
        _resume(state)
    place = at(state, STATE.first)
    slot = slots + place * _SLOT
    found = _is_done(slot + rings.WORD * SLOT.request)
    if found < 0:
        put_at(state, STATE.failed, -found)
    if found <= 0:
        return 0
    _accept(state, at(slot, SLOT.buffer))
    _post(state, slot)
    put_at(state, STATE.first, (place + 1) % delivery.RECEIVES)
    return 1


def poll(state: int) -> int:
    """Apply a message if one has arrived and no other thread does; return how many, or -1 if MPI failed.

    It takes one at a time: a look for another one costs system calls, while the program waits for the first.
    """
    if exchange(state + rings.WORD * STATE.receiving, 1) != 0:
        return 0
    done = _receive(state)
    put_at(state, STATE.receiving, 0)
    return -1 if at(state, STATE.failed) != 0 else done


def take_soon(state: int, line: int, count: int, polls: int) -> int:
    """Consume arrivals of a signal: return 1, 0 if there are too few at each of a number of polls, or -1."""
    for _ in range(polls):
        if consume(line, count):
            return 1
        if _poll(state) < 0:
            return -1
    return 0


def complete(state: int, request: int) -> int:
    """Wait for the request at an address, and apply what arrives; return 0, or a negative number if MPI failed."""
    polls = 0
    while True:
        found = _is_done(request)
        if found != 0:
            return found if found < 0 else 0
        polls += 1
        if polls % _POLLS_BETWEEN_LOOKS == 0 and _poll(state) < 0:
            return -1
        if polls < at(state, STATE.patience):
            pause()
        else:
            sched_yield()


def end(state: int) -> int:
    """Give the posted receives back when all messages have left; return how many have not, or -1 if MPI failed.

    Nothing is received any more after that.
    """
    left, slots = 0, at(state, STATE.slots)
    for place in range(delivery.SLOTS + delivery.OWN_SLOTS * at(state, STATE.ranks)):
        slot = slots + _PUTS + place * _SLOT
        if at(slot, SLOT.busy) != 0:
            found = _is_done(slot + rings.WORD * SLOT.request)
            if found < 0:
                put_at(state, STATE.failed, -found)
                return -1
            put_at(slot, SLOT.busy, 1 - found)
            left += 1 - found
    if left == 0:
        lock(state + rings.WORD * STATE.receiving)  # for ever
        for place in range(delivery.RECEIVES):
            request = slots + place * _SLOT + rings.WORD * SLOT.request
            _cancel(request)
            _wait(request, _status())
    return left
