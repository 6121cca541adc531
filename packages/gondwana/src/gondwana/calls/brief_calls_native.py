"""Machine code of brief calls (see `brief_calls`): it works on objects of CPython and holds the GIL. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.calls import brief_calls, wire
from gondwana.calls.endpoints import FORGET
from gondwana.compiler.cpython_native import (
    as_integer,
    called_alone,
    called_with,
    clear_exception,
    decref,
    dict_item,
    incref,
    integer_object,
    list_item,
    marshalled,
    new_tuple,
    set_tuple_item,
    tuple_item,
    tuple_size,
    unmarshalled,
)
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, pause
from gondwana.compiler.native import BYTES_AT, LENGTH_AT, TYPE_AT
from gondwana.sync import rings
from gondwana.sync.rings_native import (
    arrives,
    at,
    block_of,
    count_message,
    is_small,
    next_header,
    next_peer,
    number_of,
    poll,
    push,
    put_at,
    receive,
    take_small,
)

_poll = inlined(poll)


@intrinsic
def _buffer(typingctx: Any) -> Any:
    """Return the address of room for a payload on the stack."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():  # not by `cgutils.alloca_once`, which fills it with zeros
            room = builder.alloca(ir.ArrayType(ir.IntType(8), rings.BRIEF_BYTES))
        return builder.ptrtoint(room, ir.IntType(64))

    return types.int64(), codegen


# -- plain values ---------------------------------------------------------------------------------------------------


@inlined
def _is_value(kinds: int, thing: int) -> bool:
    """Return whether an object is of one of the types that are marshalled."""
    kind = load_word(thing + TYPE_AT)
    for place in range(brief_calls.VALUES, brief_calls.END_OF_KINDS):  # noqa: SIM110 - generators are not compiled
        if at(kinds, place) == kind:
            return True
    return False


@inlined
def _is_tuple(kinds: int, thing: int) -> bool:
    return load_word(thing + TYPE_AT) == at(kinds, brief_calls.TUPLE)  # type: ignore[no-any-return]


@inlined
def _has_values(kinds: int, things: int) -> bool:
    for index in range(tuple_size(things)):  # noqa: SIM110 - generators are not compiled
        if not _is_value(kinds, tuple_item(things, index)):
            return False
    return True


@inlined
def _is_plain(kinds: int, things: int) -> bool:
    """Return whether all items of a tuple are values, or tuples of such: as `wire` has it."""
    for index in range(tuple_size(things)):
        thing = tuple_item(things, index)
        if not _is_value(kinds, thing) and not (_is_tuple(kinds, thing) and _has_values(kinds, thing)):
            return False
    return True


# -- sending --------------------------------------------------------------------------------------------------------


@inlined
def _push(out: int, tag: int, number: int, data: int, size: int) -> int:
    """Write a message of few bytes and count it; return 1, or 0 if there is no room now or others wait."""
    if size > rings.BRIEF_BYTES or push(out, tag, number, data, size) == 0:
        return 0
    count_message(out)
    return 1


@inlined
def _push_marshalled(out: int, tag: int, number: int, value: int) -> int:
    """Write a message with a value; return 1, or 0 if that is not possible now."""
    data = marshalled(value)
    if data == 0:
        clear_exception()  # the general path says what is wrong
        return 0
    sent = _push(out, tag, number, data + BYTES_AT, load_word(data + LENGTH_AT))
    decref(data)
    return sent  # type: ignore[no-any-return]


@inlined
def _number_of_function(known: int, kinds: int, function: int) -> int:
    """Return the number of a function, -1 if it has none or its name does not lead to it any more."""
    kind = load_word(function + TYPE_AT)
    if kind != at(kinds, brief_calls.FUNCTION) and kind != at(kinds, brief_calls.BUILTIN_FUNCTION):
        return -1
    entry = dict_item(known, function)
    if entry == 0 or dict_item(tuple_item(entry, 0), tuple_item(entry, 1)) != function:
        return -1
    return as_integer(tuple_item(entry, 2))  # type: ignore[no-any-return]


def send_call(out: int, known: int, kinds: int, number: int, function: int, args: int) -> int:
    """Send a call of a function that has a number, with plain arguments; return 1, or 0 if that is not possible now."""
    index = _number_of_function(known, kinds, function)
    if index < 0:
        return 0
    tag = brief_calls.NUMBERED | (index + 1) << brief_calls.NUMBER_SHIFT
    if tuple_size(args) == 0:
        return _push(out, tag | brief_calls.ALONE, number, out, 0)  # type: ignore[no-any-return]
    return _push_marshalled(out, tag, number, args) if _is_plain(kinds, args) else 0


# -- requests are served --------------------------------------------------------------------------------------------


@inlined
def _none(block: int) -> int:
    nothing = at(at(block, brief_calls.KINDS), brief_calls.NONE)
    incref(nothing)
    return nothing  # type: ignore[no-any-return]


@inlined
def _report(block: int, outcome: int, peer: int, number: int) -> None:
    put_at(block, brief_calls.OUTCOME, outcome)
    put_at(block, brief_calls.PEER, peer)
    put_at(block, brief_calls.NUMBER, number)


@inlined
def _function(functions: int, peer: int, index: int) -> int:
    """Return the function that a peer means by a number, a new reference; 0 if it is not there."""
    entry = list_item(list_item(functions, peer), index)
    if entry == 0:
        clear_exception()  # it has not been introduced, which the general path will say
        return 0
    found = dict_item(tuple_item(entry, 0), tuple_item(entry, 1))
    if found != 0:
        incref(found)
    return found  # type: ignore[no-any-return]


@inlined
def _call(function: int, tag: int, data: int, size: int) -> int:
    """Call a function with marshalled arguments; return its result, or 0 with an exception."""
    if tag & brief_calls.ALONE:
        return called_alone(function)  # type: ignore[no-any-return]
    args = unmarshalled(data, size)
    if args == 0:
        return 0
    value = called_with(function, args)
    decref(args)
    return value  # type: ignore[no-any-return]


@inlined
def _reply(block: int, peer: int, number: int, value: int) -> bool:
    """Send a result if it is plain and there is room; return whether it was sent."""
    kinds = at(block, brief_calls.KINDS)
    out = block_of(at(block, brief_calls.STATE), rings.CALL_REPLY, peer)
    if at(out, rings.RING) == 0:
        return False  # nothing has been sent there yet
    if _is_value(kinds, value) or (_is_tuple(kinds, value) and _is_plain(kinds, value)):
        return _push_marshalled(out, wire.BUILTIN, number, value) != 0  # type: ignore[no-any-return]
    return False


@inlined
def _finish(block: int, peer: int, number: int, value: int) -> bool:
    """End a call that has returned a value, whose reference this takes if it returns True."""
    nothing = value == at(at(block, brief_calls.KINDS), brief_calls.NONE)
    if number == FORGET and not nothing:
        return False
    if number != FORGET and not _reply(block, peer, number, value):
        return False
    decref(value)
    count_message(block_of(at(block, brief_calls.STATE), rings.QUEUES + rings.CALL, peer))
    return True


def serve_calls(block: int, limit: int) -> int:
    """Run brief calls that have arrived, up to a limit.

    Returns:
        The result of the last one if it is not sent from here, else None; 0 if it has failed.
    """
    state, buffer = at(block, brief_calls.STATE), _buffer()
    outcome, served = brief_calls.NOTHING, 0
    while served < limit:
        peer = next_peer(state, rings.CALL)
        if peer < 0:
            break
        ring = block_of(state, rings.QUEUES + rings.CALL, peer)
        word = next_header(ring)
        tag = word >> rings.TAG_SHIFT
        function = 0
        if tag & brief_calls.NUMBERED and is_small(ring, word, rings.BRIEF_BYTES):
            function = _function(at(block, brief_calls.FUNCTIONS), peer, (tag >> brief_calls.NUMBER_SHIFT) - 1)
        if function == 0:
            put_at(state, rings.NEXT + rings.CALL, peer)
            outcome = brief_calls.OTHER
            break
        number = number_of(ring)
        size = take_small(ring, word, buffer)
        put_at(state, rings.NEXT + rings.CALL, peer + 1)
        arrives(state, rings.CALL, peer)
        value = _call(function, tag, buffer, size)
        decref(function)
        served += 1
        if value == 0 or not _finish(block, peer, number, value):
            put_at(block, brief_calls.SERVED, served)
            _report(block, brief_calls.FAILED if value == 0 else brief_calls.VALUE, peer, number)
            return value  # type: ignore[no-any-return]
    put_at(block, brief_calls.SERVED, served)
    put_at(block, brief_calls.OUTCOME, outcome)
    return _none(block)  # type: ignore[no-any-return]


# -- replies arrive -------------------------------------------------------------------------------------------------


@inlined
def _described(peer: int, number: int, value: int) -> int:
    """Return a new tuple of who has sent a reply, its number, and the value, whose reference it takes."""
    items = new_tuple(3) if value != 0 else 0
    if items != 0:
        set_tuple_item(items, 0, integer_object(peer))
        set_tuple_item(items, 1, integer_object(number))
        set_tuple_item(items, 2, value)
    return items


def take_reply(block: int, polls: int) -> int:
    """Return the peer, the number and the result of the next reply, as a tuple.

    It is None after a number of polls, or if something else has come.
    """
    state, buffer = at(block, brief_calls.STATE), _buffer()
    for _ in range(polls):
        receive(state)
        peer = next_peer(state, rings.CALL_REPLY)
        if peer >= 0:
            ring = block_of(state, rings.QUEUES + rings.CALL_REPLY, peer)
            word = next_header(ring)
            if word >> rings.TAG_SHIFT != wire.BUILTIN or not is_small(ring, word, rings.BRIEF_BYTES):
                break
            number = number_of(ring)
            size = take_small(ring, word, buffer)
            put_at(state, rings.NEXT + rings.CALL_REPLY, peer + 1)
            arrives(state, rings.CALL_REPLY, peer)
            return _described(peer, number, unmarshalled(buffer, size))  # type: ignore[no-any-return]
        if _poll(state) != 0:
            break
        pause()
    return _none(block)  # type: ignore[no-any-return]
