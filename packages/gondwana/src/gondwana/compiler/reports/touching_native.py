"""Machine code that keeps runs of accesses: see `touching`. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.externs import register
from gondwana.compiler.externs_overloads import calling
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import declare, load_word, store_release
from gondwana.compiler.reports.touching import ENTER, GIVE, RUN, RUN_BYTES, TABLE, WATCH, WATCH_NAME
from gondwana.compiler.types.points import INT


def word(builder: Any, base: Any, offset: int) -> Any:
    """Return the LLVM pointer to a word at a distance from an address."""
    return builder.inttoptr(builder.add(base, INT(offset)), INT.as_pointer())


def _shared(builder: Any, offset: int) -> Any:
    """Return a word of what all threads share, an LLVM integer."""
    register(WATCH_NAME)
    module = builder.module
    found = module.globals.get(WATCH_NAME) or ir.GlobalVariable(module, INT, WATCH_NAME)
    return builder.load(word(builder, builder.ptrtoint(found, INT), offset))


def is_watched(builder: Any, address: Any) -> Any:
    """Return whether an address may lie in memory that is watched, an LLVM bit."""
    low, high = _shared(builder, WATCH.low), _shared(builder, WATCH.high)
    return builder.icmp_unsigned("<", builder.sub(address, low), builder.sub(high, low))


def table(builder: Any) -> Any:
    """Return the address of the calling thread's table, of the one that stays empty before it has its own."""
    narrow = ir.IntType(32)
    function = declare(builder, "pthread_getspecific", ir.FunctionType(INT, [narrow]))
    found = builder.call(function, [builder.trunc(_shared(builder, WATCH.key), narrow)])
    return builder.select(builder.icmp_unsigned("==", found, INT(0)), _shared(builder, WATCH.empty), found)


@intrinsic
def _table(typingctx: Any) -> Any:
    return types.int64(), lambda context, builder, signature, args: table(builder)


@intrinsic
def _empty(typingctx: Any) -> Any:
    return types.int64(), lambda context, builder, signature, args: _shared(builder, WATCH.empty)


@intrinsic
def _enter(typingctx: Any) -> Any:
    return types.int64(), calling(ENTER)


@intrinsic
def _give(
    typingctx: Any, text: Any, length: Any, item: Any, first: Any, following: Any, stride: Any, span: Any, rows: Any,
    distance: Any, at: Any,
) -> Any:  # fmt: skip
    return types.none(*[types.int64] * len(RUN)), calling(GIVE)


@inlined
def _begin(table: int, place: int, text: int, length: int, item: int, address: int) -> None:
    run = table + TABLE.runs + place * RUN_BYTES
    if load_word(run + RUN.text) == 0:
        used = load_word(table + TABLE.used)
        store_release(table + TABLE.places + 8 * used, place)
        store_release(table + TABLE.used, used + 1)
    store_release(run + RUN.text, text)
    store_release(run + RUN.length, length)
    store_release(run + RUN.item, item)
    store_release(run + RUN.first, address)
    store_release(run + RUN.span, 0)
    store_release(run + RUN.rows, 0)
    _begin_row(run, address, item)


@inlined
def _begin_row(run: int, at: int, stride: int) -> None:
    store_release(run + RUN.at, at)
    store_release(run + RUN.stride, stride)
    store_release(run + RUN.following, at + stride)


@inlined
def _goes_on(run: int, address: int) -> bool:
    """Add an element to a run, unless it is in neither the present row nor the next one."""
    at, following, stride = load_word(run + RUN.at), load_word(run + RUN.following), load_word(run + RUN.stride)
    span = load_word(run + RUN.span)
    if following == 0 or address in (at, following - stride):
        return True
    if address == following:
        store_release(run + RUN.following, following + stride)
        return True
    if span == 0 and following == at + stride:
        store_release(run + RUN.stride, address - at)
        store_release(run + RUN.following, address + address - at)
        return True
    if span == 0:
        store_release(run + RUN.span, following - at)
        store_release(run + RUN.distance, address - at)
    elif following != at + span or address != at + load_word(run + RUN.distance):
        return False
    store_release(run + RUN.rows, load_word(run + RUN.rows) + 1)
    _begin_row(run, address, stride)
    return True


def touch(place: int, address: int, item: int, text: int, length: int) -> int:
    """Note an access that is not the next of its run: keep it, and give away what it does not continue. Returns 0."""
    table = _table()
    if table == _empty():
        table = _enter()
    run = table + TABLE.runs + place * RUN_BYTES
    known = load_word(run + RUN.text)
    if known == text and _goes_on(run, address):
        return 0
    length_before, item_before = load_word(run + RUN.length), load_word(run + RUN.item)
    first, following, stride = load_word(run + RUN.first), load_word(run + RUN.following), load_word(run + RUN.stride)
    span, rows, distance = load_word(run + RUN.span), load_word(run + RUN.rows), load_word(run + RUN.distance)
    at = load_word(run + RUN.at)
    if known == text and following != at + span:
        # What there is of the present row is the first row of the next run.
        _begin(table, place, text, length, item, at)
        store_release(run + RUN.stride, stride)
        store_release(run + RUN.following, following)
        _goes_on(run, address)
        following, rows = at + span, rows - 1
    else:
        _begin(table, place, text, length, item, address)
    if known != 0 and following != 0:
        _give(known, length_before, item_before, first, following, stride, span, rows, distance, at)
    return 0
