"""Putting items into rings and taking them (see `item_rings`): Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.calls.rings_native import ring_bell
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
from gondwana.tasks import item_rings

_SIZE = (1 << item_rings.SIZE_BITS) - 1
_WORD = 8


@inlined
def slot_of(ring: int, position: int) -> int:
    """Return the address of the slot of a position."""
    turn = position % load_word(ring + item_rings.CAPACITY)
    return ring + item_rings.SLOTS + turn * load_word(ring + item_rings.STRIDE)  # type: ignore[no-any-return]


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
            if (
                1 << place % item_rings.BITS == bit
                and ring_bell(load_word(bells + _WORD * (1 + place)))
                and not everyone
            ):
                return 0


# -- putting ------------------------------------------------------------------------------------------------------


@inlined
def claim(ring: int) -> int:
    """Claim the next position for an item; return it, `NOT_NOW` if the ring is full, or `CLOSED`."""
    while True:
        tail = load_acquire(ring + item_rings.TAIL)
        if tail & 1:
            return item_rings.CLOSED
        position = tail >> 1
        step = load_acquire(slot_of(ring, position)) - item_rings.STEPS * position
        if step == item_rings.FREE:
            if compare_exchange(ring + item_rings.TAIL, tail, tail + 2) == tail:
                return position  # type: ignore[no-any-return]
        elif step < item_rings.FREE and load_acquire(ring + item_rings.TAIL) == tail:
            return item_rings.NOT_NOW


@inlined
def publish(ring: int, position: int, bells: int) -> None:
    """Make the item that has been written at a position available to consumers."""
    atomic_store(slot_of(ring, position), item_rings.STEPS * position + item_rings.PUBLISHED)
    if atomic_load(ring + item_rings.TAKERS, 0) != 0:
        wake(ring + item_rings.TAKERS, bells, False)


@inlined
def _push(ring: int, data: int, word: int, bells: int) -> int:
    position = claim(ring)
    if position >= 0:
        slot = slot_of(ring, position)
        store_release(slot + item_rings.LENGTH, word)
        move_bytes(slot + item_rings.BYTES, data, word & _SIZE)
        publish(ring, position, bells)
    return position  # type: ignore[no-any-return]


def push(view: int, data: int, word: int) -> int:
    """Put an item, whose size and tag are in `word`; return its position, `NOT_NOW` or `CLOSED`."""
    return _push(load_word(view + item_rings.RING), data, word, load_word(view + item_rings.BELLS))  # type: ignore[no-any-return]


def push_soon(ring: int, data: int, word: int, bells: int, polls: int, bit: int) -> int:
    """Put an item as `push`, trying `polls` times; then announce that this rank may sleep, and try once more."""
    for _ in range(polls):
        position = _push(ring, data, word, bells)
        if position != item_rings.NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    fetch_bit_or(ring + item_rings.PUTTERS, bit)
    return _push(ring, data, word, bells)  # type: ignore[no-any-return]


@inlined
def _is_taken(ring: int, position: int) -> bool:
    return load_acquire(slot_of(ring, position)) - item_rings.STEPS * position > item_rings.WITHDRAWN  # type: ignore[no-any-return]


def taken_soon(ring: int, position: int, polls: int, bit: int) -> int:
    """Return whether the item at a position is taken, polling `polls` times and then as `push_soon`."""
    for _ in range(polls):
        if _is_taken(ring, position):
            return 1
        pause()
    fetch_bit_or(ring + item_rings.PUTTERS, bit)
    return 1 if _is_taken(ring, position) else 0


def withdraw(ring: int, position: int) -> int:
    """Withdraw an item of a ring without capacity; return 1, or 0 if it has been taken."""
    published = item_rings.STEPS * position + item_rings.PUBLISHED
    return 1 if compare_exchange(slot_of(ring, position), published, published + 1) == published else 0


# -- taking -------------------------------------------------------------------------------------------------------


@inlined
def release(ring: int, position: int, bells: int) -> None:
    """Free the slot of a position for the next lap."""
    atomic_store(slot_of(ring, position), item_rings.STEPS * (position + load_word(ring + item_rings.CAPACITY)))
    if atomic_load(ring + item_rings.PUTTERS, 0) != 0:
        wake(ring + item_rings.PUTTERS, bells, load_word(ring + item_rings.UNBUFFERED) != 0)


@inlined
def _none(ring: int, head: int) -> int:
    tail = load_acquire(ring + item_rings.TAIL)
    return item_rings.CLOSED if tail == 2 * head + 1 else item_rings.NOT_NOW


@inlined
def obtain(ring: int, bells: int) -> int:
    """Claim the next item; return its position, `NOT_NOW` if the ring is empty, or `CLOSED` if it will stay so."""
    while True:
        head = load_acquire(ring + item_rings.HEAD)
        slot = slot_of(ring, head)
        step = load_acquire(slot) - item_rings.STEPS * head
        if step == item_rings.PUBLISHED or step == item_rings.WITHDRAWN:
            if compare_exchange(ring + item_rings.HEAD, head, head + 1) == head:
                published = item_rings.STEPS * head + item_rings.PUBLISHED
                if (
                    load_word(ring + item_rings.UNBUFFERED) == 0
                    or compare_exchange(slot, published, item_rings.STEPS * head + item_rings.TAKEN) == published
                ):
                    return head  # type: ignore[no-any-return]
                release(ring, head, bells)
        elif step <= item_rings.FREE and load_acquire(ring + item_rings.HEAD) == head:
            return _none(ring, head)  # type: ignore[no-any-return]


@inlined
def _copy(slot: int, out: int) -> None:
    word = load_word(slot + item_rings.LENGTH)
    store_release(out, word)
    move_bytes(out + _WORD, slot + item_rings.BYTES, word & _SIZE)


@inlined
def _pull(ring: int, out: int, bells: int) -> int:
    position = obtain(ring, bells)
    if position >= 0:
        _copy(slot_of(ring, position), out)
        release(ring, position, bells)
    return position  # type: ignore[no-any-return]


def pull(view: int) -> int:
    """Take an item, and write its word and its bytes; return its position, `NOT_NOW` or `CLOSED`."""
    return _pull(load_word(view + item_rings.RING), view + item_rings.OUT, load_word(view + item_rings.BELLS))  # type: ignore[no-any-return]


def pull_spinning(view: int, polls: int) -> int:
    """Take an item as `pull`, trying `polls` times."""
    for _ in range(polls):
        position = _pull(load_word(view + item_rings.RING), view + item_rings.OUT, load_word(view + item_rings.BELLS))
        if position != item_rings.NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    return item_rings.NOT_NOW


def pull_soon(ring: int, out: int, bells: int, polls: int, bit: int) -> int:
    """Take an item as `pull`, trying `polls` times; then announce that this rank may sleep, and try once more."""
    for _ in range(polls):
        position = _pull(ring, out, bells)
        if position != item_rings.NOT_NOW:
            return position  # type: ignore[no-any-return]
        pause()
    fetch_bit_or(ring + item_rings.TAKERS, bit)
    return _pull(ring, out, bells)  # type: ignore[no-any-return]


@inlined
def _peek(ring: int, out: int) -> int:
    while True:
        head = load_acquire(ring + item_rings.HEAD)
        slot = slot_of(ring, head)
        step = load_acquire(slot) - item_rings.STEPS * head
        if step == item_rings.PUBLISHED:
            word = load_word(slot + item_rings.LENGTH)
            if word & _SIZE <= load_word(ring + item_rings.STRIDE) - item_rings.BYTES:  # else it is being replaced
                _copy(slot, out)
            if compare_exchange(ring + item_rings.HEAD, head, head) == head:
                return head  # type: ignore[no-any-return]
        elif step <= item_rings.FREE and load_acquire(ring + item_rings.HEAD) == head:
            return _none(ring, head)  # type: ignore[no-any-return]


def peek(ring: int, out: int, bells: int, bit: int) -> int:
    """Copy the next item as `pull`, but leave it there; if `bit` is not 0, announce that this rank may sleep."""
    position = _peek(ring, out)
    if position == item_rings.NOT_NOW and bit != 0:
        fetch_bit_or(ring + item_rings.TAKERS, bit)
        position = _peek(ring, out)
    if position >= 0 and atomic_load(ring + item_rings.TAKERS, 0) != 0:
        wake(ring + item_rings.TAKERS, bells, False)  # the item is for another
    return position  # type: ignore[no-any-return]


def leave(ring: int, sleepers: int, bit: int, bells: int) -> int:
    """End the announcement of this rank; if it may have been woken for another and `bells` is not 0, wake one."""
    before = fetch_bit_and(ring + sleepers, ~bit)
    if before & bit == 0 and bells != 0:
        wake(ring + sleepers, bells, False)
    return 0


def close(ring: int, bells: int) -> int:
    """Refuse further items, and wake all waiting ranks."""
    fetch_bit_or(ring + item_rings.TAIL, 1)
    wake(ring + item_rings.TAKERS, bells, True)
    wake(ring + item_rings.PUTTERS, bells, True)
    return 0
