"""Putting items into rings and taking them (see `item_rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
    atomic_load,
    atomic_store,
    compare_exchange,
    fetch_bit_and,
    fetch_bit_or,
    load_acquire,
    load_word,
    move_bytes,
    pause,
    store_release,
)
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.runtime import ordering
from gondwana.runtime.races import reporter
from gondwana.sync.rings_native import happens, ring_bell, step
from gondwana.tasks.item_rings import BITS, CLOSED, NAME_SHIFT, NAMES, NOT_NOW, RING, SIZE_BITS, SLOT, STEP, VIEW

_SIZE = (1 << SIZE_BITS) - 1
_WORD = 8


@inlined
def slot_of(ring: int, position: int) -> int:
    """Return the address of the slot of a position."""
    turn = position % load_word(ring + RING.capacity)
    return ring + RING.slots + turn * load_word(ring + RING.stride)  # type: ignore[no-any-return]


@inlined
def _nothing(slot: int) -> None:
    pass


@inlined
def _offer(slot: int) -> None:
    store_release(slot + SLOT.room, reports.post())


@inlined
def _follow(slot: int) -> None:
    name = load_word(slot + SLOT.room)
    if name != 0:
        reports.take(name)


offer, follow = (_nothing, _nothing) if reporter is None else (_offer, _follow)
"""Report that what this rank has done comes before the next item in a slot; and that this rank comes behind that."""


# -- sleepers -----------------------------------------------------------------------------------------------------


@inlined
def wake(sleepers: int, bells: int, everyone: bool) -> int:
    """Wake a rank that has announced that it may sleep, or all; those that do not sleep look again by themselves."""
    while True:
        bits = atomic_load(sleepers, 0)
        if bits == 0:
            return 0
        bit = bits & -bits
        fetch_bit_and(sleepers, ~bit)
        for place in range(load_word(bells)):
            if 1 << place % BITS == bit and ring_bell(load_word(bells + _WORD * (1 + place))) and not everyone:
                return 0


# -- putting ------------------------------------------------------------------------------------------------------


@inlined
def claim(ring: int) -> int:
    """Claim the next position for an item; return it, `NOT_NOW` if the ring is full, or `CLOSED`."""
    while True:
        tail = load_acquire(ring + RING.tail)
        if tail & 1:
            return CLOSED
        position = tail >> 1
        step = load_acquire(slot_of(ring, position)) - STEP.all * position
        if step == STEP.free:
            if compare_exchange(ring + RING.tail, tail, tail + 2) == tail:
                follow(slot_of(ring, position))
                return position  # type: ignore[no-any-return]
        elif step < STEP.free and load_acquire(ring + RING.tail) == tail:
            return NOT_NOW


@inlined
def publish(ring: int, position: int, bells: int) -> None:
    """Make the item that has been written at a position available to consumers."""
    atomic_store(slot_of(ring, position), STEP.all * position + STEP.published)
    if atomic_load(ring + RING.takers, 0) != 0:
        wake(ring + RING.takers, bells, False)


@inlined
def _push(ring: int, data: int, word: int, bells: int) -> int:
    position = claim(ring)
    if position >= 0:
        slot = slot_of(ring, position)
        store_release(slot + SLOT.length, word)
        move_bytes(slot + SLOT.bytes, data, word & _SIZE)
        publish(ring, position, bells)
    return position  # type: ignore[no-any-return]


def push(view: int, data: int, word: int) -> int:
    """Put an item, whose size and tag are in `word`; return its position, `NOT_NOW` or `CLOSED`."""
    return _push(load_word(view + VIEW.ring), data, word, load_word(view + VIEW.bells))  # type: ignore[no-any-return]


_push_view = inlined(push)


@inlined
def _noted(order: int, kind: int, view: int, position: int) -> int:
    """Note what an attempt has got: see `item_rings.OrderedOperations`."""
    if position >= 0:
        name = load_word(load_word(view + VIEW.ring) + RING.name) & NAMES
        happens(order, kind, name << NAME_SHIFT | position)
    return position


def push_soon(ring: int, data: int, word: int, bells: int, polls: int, bit: int) -> int:
    """Put an item as `push`, trying `polls` times; then announce that this rank may sleep, and try once more."""
    for _ in range(polls):
        position = _push(ring, data, word, bells)
        if position != NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    fetch_bit_or(ring + RING.putters, bit)
    return _push(ring, data, word, bells)  # type: ignore[no-any-return]


@inlined
def _is_taken(ring: int, position: int) -> bool:
    return load_acquire(slot_of(ring, position)) - STEP.all * position > STEP.withdrawn  # type: ignore[no-any-return]


def taken_soon(ring: int, position: int, polls: int, bit: int) -> int:
    """Return whether the item at a position is taken, polling `polls` times and then as `push_soon`."""
    for _ in range(polls):
        if _is_taken(ring, position):
            follow(slot_of(ring, position))
            return 1
        pause()
    fetch_bit_or(ring + RING.putters, bit)
    if not _is_taken(ring, position):
        return 0
    follow(slot_of(ring, position))
    return 1


def withdraw(ring: int, position: int) -> int:
    """Withdraw an item of a ring without capacity; return 1, or 0 if it has been taken."""
    published = STEP.all * position + STEP.published
    if compare_exchange(slot_of(ring, position), published, published + 1) == published:
        return 1
    follow(slot_of(ring, position))
    return 0


def push_in_step(view: int, data: int, word: int) -> int:
    """Put an item as `push`, in a step of the log of events."""
    order = load_word(view + VIEW.order)
    step(order)
    return _noted(order, ordering.PUT, view, _push_view(view, data, word))  # type: ignore[no-any-return]


# -- taking -------------------------------------------------------------------------------------------------------


@inlined
def release(ring: int, position: int, bells: int) -> None:
    """Free the slot of a position for the next lap."""
    atomic_store(slot_of(ring, position), STEP.all * (position + load_word(ring + RING.capacity)))
    if atomic_load(ring + RING.putters, 0) != 0:
        wake(ring + RING.putters, bells, load_word(ring + RING.unbuffered) != 0)


@inlined
def _none(ring: int, head: int) -> int:
    tail = load_acquire(ring + RING.tail)
    return CLOSED if tail == 2 * head + 1 else NOT_NOW


@inlined
def obtain(ring: int, bells: int) -> int:
    """Claim the next item; return its position, `NOT_NOW` if the ring is empty, or `CLOSED` if it will stay so."""
    while True:
        head = load_acquire(ring + RING.head)
        slot = slot_of(ring, head)
        step = load_acquire(slot) - STEP.all * head
        if step == STEP.published or step == STEP.withdrawn:
            if compare_exchange(ring + RING.head, head, head + 1) == head:
                offer(slot)
                published = STEP.all * head + STEP.published
                if (
                    load_word(ring + RING.unbuffered) == 0
                    or compare_exchange(slot, published, STEP.all * head + STEP.taken) == published
                ):
                    return head  # type: ignore[no-any-return]
                release(ring, head, bells)
        elif step <= STEP.free and load_acquire(ring + RING.head) == head:
            return _none(ring, head)  # type: ignore[no-any-return]


@inlined
def _copy(slot: int, out: int) -> None:
    word = load_word(slot + SLOT.length)
    store_release(out, word)
    move_bytes(out + _WORD, slot + SLOT.bytes, word & _SIZE)


@inlined
def _pull(ring: int, out: int, bells: int) -> int:
    position = obtain(ring, bells)
    if position >= 0:
        _copy(slot_of(ring, position), out)
        release(ring, position, bells)
    return position  # type: ignore[no-any-return]


def pull(view: int) -> int:
    """Take an item, and write its word and its bytes; return its position, `NOT_NOW` or `CLOSED`."""
    return _pull(load_word(view + VIEW.ring), view + VIEW.out, load_word(view + VIEW.bells))  # type: ignore[no-any-return]


_pull_view = inlined(pull)


def pull_in_step(view: int) -> int:
    """Take an item as `pull`, in a step of the log of events."""
    order = load_word(view + VIEW.order)
    step(order)
    return _noted(order, ordering.TAKE, view, _pull_view(view))  # type: ignore[no-any-return]


def pull_spinning(view: int, polls: int) -> int:
    """Take an item as `pull`, trying `polls` times."""
    for _ in range(polls):
        position = _pull(load_word(view + VIEW.ring), view + VIEW.out, load_word(view + VIEW.bells))
        if position != NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    return NOT_NOW


_pull_spinning = inlined(pull_spinning)


def pull_spinning_noted(view: int, polls: int) -> int:
    """Take an item as `pull_spinning`, and note it in the log of events."""
    return _noted(load_word(view + VIEW.order), ordering.TAKE, view, _pull_spinning(view, polls))  # type: ignore[no-any-return]


def pull_soon(ring: int, out: int, bells: int, polls: int, bit: int) -> int:
    """Take an item as `pull`, trying `polls` times; then announce that this rank may sleep, and try once more."""
    for _ in range(polls):
        position = _pull(ring, out, bells)
        if position != NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    fetch_bit_or(ring + RING.takers, bit)
    return _pull(ring, out, bells)  # type: ignore[no-any-return]


@inlined
def _peek(ring: int, out: int) -> int:
    while True:
        head = load_acquire(ring + RING.head)
        slot = slot_of(ring, head)
        step = load_acquire(slot) - STEP.all * head
        if step == STEP.published:
            word = load_word(slot + SLOT.length)
            if word & _SIZE <= load_word(ring + RING.stride) - SLOT.bytes:  # else it is being replaced
                _copy(slot, out)
            if compare_exchange(ring + RING.head, head, head) == head:
                return head  # type: ignore[no-any-return]
        elif step <= STEP.free and load_acquire(ring + RING.head) == head:
            return _none(ring, head)  # type: ignore[no-any-return]


def peek(ring: int, out: int, bells: int, bit: int) -> int:
    """Copy the next item as `pull`, but leave it there; if `bit` is not 0, announce that this rank may sleep."""
    position = _peek(ring, out)
    if position == NOT_NOW and bit != 0:
        fetch_bit_or(ring + RING.takers, bit)
        position = _peek(ring, out)
    if position >= 0 and atomic_load(ring + RING.takers, 0) != 0:
        wake(ring + RING.takers, bells, False)  # the item is for another
    return position  # type: ignore[no-any-return]


def leave(ring: int, sleepers: int, bit: int, bells: int) -> int:
    """End the announcement of this rank; if it may have been woken for another and `bells` is not 0, wake one."""
    before = fetch_bit_and(ring + sleepers, ~bit)
    if before & bit == 0 and bells != 0:
        wake(ring + sleepers, bells, False)
    return 0


def close(ring: int, bells: int) -> int:
    """Refuse further items, and wake all waiting ranks."""
    fetch_bit_or(ring + RING.tail, 1)
    wake(ring + RING.takers, bells, True)
    wake(ring + RING.putters, bells, True)
    return 0
