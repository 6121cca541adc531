"""Machine code that sends signalled puts and applies those that arrive: see `delivery`. Imports Numba.

The state is a block of words whose address is passed on. Receives are posted in a circle, and MPI matches messages of
one sender with them in the order in which they were sent, so looking at the oldest receive suffices.
"""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
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
from gondwana.sync import delivery
from gondwana.sync.signals_native import consume

_SOURCE, _APPLIED, _LINE, _COUNT, _TARGET, _NBYTES, _AXES, _RUN = range(0, delivery.HEAD, delivery.WORD)
"""Words of a message; the first is twice the rank of the sender and the kind."""
_KINDS = 4
_ATTEMPTS = 100
"""Polls for credit or room before nothing is sent."""
_SPINS = 20
"""Attempts before the processor is yielded between them."""

_POLLS_BETWEEN_LOOKS = 16
"""Polls of what a rank waits for in MPI, between looks for what else has arrived."""

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
    return load_word(state + delivery.PEERS) + rank * delivery.PEER  # type: ignore[no-any-return]


@inlined
def _increment(address: int) -> int:
    """Add one to a word that one thread at a time writes; return the sum."""
    value = load_word(address) + 1
    store_release(address, value)
    return value  # type: ignore[no-any-return]


@inlined
def lock(word: int) -> None:
    """Acquire a lock against other threads of this process."""
    while exchange(word, 1) != 0:
        sched_yield()


# -- sending -------------------------------------------------------------------------------------------------------


@inlined
def _free_slot(state: int) -> int:
    """Return the slot of a message that MPI is not sending any more, 0 if there is none."""
    first = load_word(state + delivery.DEPARTURES)
    for step in range(delivery.SLOTS):
        place = (load_word(state + delivery.NEXT) + step) % delivery.SLOTS
        slot = first + place * delivery.SLOT
        if load_word(slot + delivery.BUSY) == 0 or _is_done(slot + delivery.REQUEST) == 1:
            store_release(slot + delivery.BUSY, 0)
            store_release(state + delivery.NEXT, (place + 1) % delivery.SLOTS)
            return slot  # type: ignore[no-any-return]
    return 0


@inlined
def _has_room(state: int, count: int) -> bool:
    """Return whether there are as many slots of messages that MPI is not sending any more."""
    first, found = load_word(state + delivery.DEPARTURES), 0
    for step in range(delivery.SLOTS):
        slot = first + (load_word(state + delivery.NEXT) + step) % delivery.SLOTS * delivery.SLOT
        if load_word(slot + delivery.BUSY) == 0 or _is_done(slot + delivery.REQUEST) == 1:
            store_release(slot + delivery.BUSY, 0)
            found += 1
            if found == count:
                return True
    return False


@inlined
def _dispatch(state: int, slot: int, rank: int, kind: int, nbytes: int) -> int:
    """Send what is in a slot; return 0 or the error of MPI. The lock of those who send is held."""
    peer, message = _peer(state, rank), load_word(slot + delivery.BUFFER)
    applied = load_acquire(peer + delivery.APPLIED)
    store_release(message + _SOURCE, load_word(state + delivery.RANK) * _KINDS + kind)
    store_release(message + _APPLIED, applied)
    error = _isend(message, nbytes, _byte(), rank, 0, load_word(state + delivery.COMMUNICATOR), slot + delivery.REQUEST)
    if error != 0:
        store_release(state + delivery.FAILED, error)
        return error  # type: ignore[no-any-return]
    store_release(slot + delivery.BUSY, 1)
    store_release(peer + delivery.REPORTED, applied)
    store_release(peer + delivery.DUE, 0)
    _increment(peer + delivery.SENT)
    return 0


@inlined
def _pack(message: int, data: int, nbytes: int, target: int, line: int, count: int, axes: int) -> int:
    """Write a put into a message after what `_dispatch` writes; return the bytes of the message."""
    store_release(message + _LINE, line)
    store_release(message + _COUNT, count)
    store_release(message + _TARGET, target)
    store_release(message + _NBYTES, nbytes)
    length, number = delivery.HEAD, 0
    if axes != 0:
        number = load_word(axes)
        store_release(message + _RUN, load_word(axes + delivery.WORD))
        move_bytes(message + delivery.HEAD, axes + 2 * delivery.WORD, number * delivery.AXIS)
        length += number * delivery.AXIS
    store_release(message + _AXES, number)
    move_bytes(message + length, data, nbytes)
    return length + nbytes


@inlined
def _try_to_send(state: int, rank: int, data: int, nbytes: int, target: int, line: int, count: int, axes: int) -> int:
    """Send all messages of a put if there is credit and room; return the number of the last, 0, or -1 if MPI failed."""
    number, peer = 0, _peer(state, rank)
    messages = max(1, (nbytes + delivery.MOST - 1) // delivery.MOST)
    most = delivery.WINDOW if nbytes != 0 else delivery.MOST_SIGNALS
    lock(state + delivery.SENDING)
    if load_word(peer + delivery.PUTS) - load_acquire(peer + delivery.ACKNOWLEDGED) + messages <= most and _has_room(
        state, messages
    ):
        for start in range(0, max(1, nbytes), delivery.MOST):
            size = min(nbytes - start, delivery.MOST)
            arrivals = count if start + size == nbytes else 0
            slot = _free_slot(state)
            length = _pack(load_word(slot + delivery.BUFFER), data + start, size, target + start, line, arrivals, axes)
            if _dispatch(state, slot, rank, delivery.PUT, length) != 0:
                number = -1
                break
            number = _increment(peer + delivery.PUTS)
    store_release(state + delivery.SENDING, 0)
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


@inlined
def _tell(state: int, rank: int, kind: int) -> int:
    """Send a message without data; return 1, 0 if there is no room for it, or -1 if MPI failed."""
    lock(state + delivery.SENDING)
    slot, sent = _free_slot(state), 0
    if slot != 0:
        sent = 1 if _dispatch(state, slot, rank, kind, delivery.HEAD) == 0 else -1
    store_release(state + delivery.SENDING, 0)
    return sent


def ask(state: int, rank: int, number: int) -> int:
    """Ask a rank how many puts it has applied, unless it was asked after the put with a number; -1 if MPI failed."""
    peer = _peer(state, rank)
    if load_acquire(peer + delivery.ASKED) >= number:
        return 0
    puts = load_acquire(peer + delivery.PUTS)
    sent = _tell(state, rank, delivery.ASK)
    if sent > 0:
        store_release(peer + delivery.ASKED, puts)
    return sent  # type: ignore[no-any-return]


# -- messages of the room above ------------------------------------------------------------------------------------


@inlined
def is_free(slot: int) -> bool:
    """Return whether MPI does not send from a slot any more."""
    if load_word(slot + delivery.BUSY) != 0 and _is_done(slot + delivery.REQUEST) == 1:
        store_release(slot + delivery.BUSY, 0)
    return load_word(slot + delivery.BUSY) == 0  # type: ignore[no-any-return]


@inlined
def send_cargo(state: int, slot: int, rank: int, nbytes: int) -> int:
    """Send what is in a slot behind CARGO_BEGIN; return 0 or the error of MPI. The lock of those who send is held."""
    return _dispatch(state, slot, rank, delivery.CARGO, nbytes)  # type: ignore[no-any-return]


# -- receiving -----------------------------------------------------------------------------------------------------


@inlined
def _post(state: int, slot: int) -> int:
    """Post a receive; return 0 or the error of MPI."""
    error = _irecv(
        load_word(slot + delivery.BUFFER),
        delivery.ROOM,
        _byte(),
        _any_source(),
        0,
        load_word(state + delivery.COMMUNICATOR),
        slot + delivery.REQUEST,
    )
    if error != 0:
        store_release(state + delivery.FAILED, error)
    return error  # type: ignore[no-any-return]


@inlined
def _scatter(message: int, target: int, nbytes: int) -> None:
    """Store data in runs that are repeated along axes."""
    axes, run = load_word(message + _AXES), load_word(message + _RUN)
    source = message + delivery.HEAD + axes * delivery.AXIS
    for place in range(nbytes // run):
        rest, offset = place, 0
        for step in range(axes):
            axis = message + delivery.HEAD + (axes - 1 - step) * delivery.AXIS
            count = load_word(axis)
            offset += rest % count * load_word(axis + delivery.WORD)
            rest //= count
        move_bytes(target + offset, source + place * run, run)


@inlined
def _apply(state: int, message: int) -> None:
    """Store the data of a message, raise its signal, and answer where that is due."""
    source = load_word(message + _SOURCE) // _KINDS
    kind, peer = load_word(message + _SOURCE) % _KINDS, _peer(state, source)
    if load_word(message + _APPLIED) > load_word(peer + delivery.ACKNOWLEDGED):
        store_release(peer + delivery.ACKNOWLEDGED, load_word(message + _APPLIED))
    if kind == delivery.PUT:
        nbytes, target = load_word(message + _NBYTES), load_word(message + _TARGET)
        if load_word(message + _AXES) == 0:
            move_bytes(target, message + delivery.HEAD, nbytes)
        else:
            _scatter(message, target, nbytes)
        fetch_add(load_word(message + _LINE), load_word(message + _COUNT))
        due = _increment(peer + delivery.APPLIED) - load_acquire(peer + delivery.REPORTED) >= delivery.WINDOW // 2
    else:
        if kind == delivery.CARGO:
            call_at(
                load_word(state + delivery.ACCEPT_AT),
                load_word(state + delivery.CARRIER),
                message + delivery.CARGO_BEGIN,
                source,
            )
        due = kind == delivery.ASK
    _increment(peer + delivery.RECEIVED)
    if due and load_word(state + delivery.QUIET) == 0 and _tell(state, source, delivery.REPORT) == 0:
        store_release(peer + delivery.DUE, 1)
        store_release(state + delivery.POSTPONED, 1)


@inlined
def _answer_late(state: int) -> None:
    """Send the answers for which there was no room."""
    store_release(state + delivery.POSTPONED, 0)
    for rank in range(load_word(state + delivery.RANKS)):
        if load_word(_peer(state, rank) + delivery.DUE) != 0 and _tell(state, rank, delivery.REPORT) == 0:
            store_release(state + delivery.POSTPONED, 1)
    if load_word(state + delivery.RESUME_AT) != 0:
        call_at(load_word(state + delivery.RESUME_AT), load_word(state + delivery.CARRIER), 0, 0)


@inlined
def _receive(state: int) -> int:
    """Apply a message if one has arrived; return how many that were. The lock of those who receive is held."""
    first = load_word(state + delivery.ARRIVALS)
    if load_word(state + delivery.STARTED) == 0:
        for place in range(delivery.RECEIVES):
            _post(state, first + place * delivery.SLOT)
        store_release(state + delivery.STARTED, 1)
    if load_word(state + delivery.POSTPONED) != 0 and load_word(state + delivery.QUIET) == 0:
        _answer_late(state)
    place = load_word(state + delivery.FIRST)
    slot = first + place * delivery.SLOT
    found = _is_done(slot + delivery.REQUEST)
    if found < 0:
        store_release(state + delivery.FAILED, -found)
    if found <= 0:
        return 0
    _apply(state, load_word(slot + delivery.BUFFER))
    _post(state, slot)
    store_release(state + delivery.FIRST, (place + 1) % delivery.RECEIVES)
    return 1


def poll(state: int) -> int:
    """Apply a message if one has arrived and no other thread does; return how many, or -1 if MPI failed.

    It takes one at a time: a look for another one costs system calls, while the program waits for the first.
    """
    if exchange(state + delivery.RECEIVING, 1) != 0:
        return 0
    done = _receive(state)
    store_release(state + delivery.RECEIVING, 0)
    return -1 if load_word(state + delivery.FAILED) != 0 else done


_poll = inlined(poll)


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
        if polls < load_word(state + delivery.PATIENCE):
            pause()
        else:
            sched_yield()


def end(state: int) -> int:
    """Give the posted receives back when all messages have left; return how many have not, or -1 if MPI failed.

    Nothing is received any more after that.
    """
    left = 0
    for place in range(delivery.SLOTS):
        slot = load_word(state + delivery.DEPARTURES) + place * delivery.SLOT
        if load_word(slot + delivery.BUSY) != 0:
            found = _is_done(slot + delivery.REQUEST)
            if found < 0:
                store_release(state + delivery.FAILED, -found)
                return -1
            store_release(slot + delivery.BUSY, 1 - found)
            left += 1 - found
    if load_word(state + delivery.RESUME_AT) != 0:
        left += call_at(load_word(state + delivery.RESUME_AT), load_word(state + delivery.CARRIER), 0, 0)
        if load_word(state + delivery.FAILED) != 0:
            return -1
    if left == 0:
        lock(state + delivery.RECEIVING)  # for ever
        for place in range(delivery.RECEIVES):
            request = load_word(state + delivery.ARRIVALS) + place * delivery.SLOT + delivery.REQUEST
            _cancel(request)
            _wait(request, _status())
    return left
