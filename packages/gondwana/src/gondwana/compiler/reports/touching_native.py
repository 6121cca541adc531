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
from gondwana.compiler.reports.touching import ENTER, GIVE, PLACES, RUN, RUNS, WATCH, WATCH_NAME
from gondwana.compiler.types.points import INT


def _shared(builder: Any, offset: int) -> Any:
    """Return a word of what all threads share, an LLVM integer."""
    register(WATCH_NAME)
    module = builder.module
    found = module.globals.get(WATCH_NAME) or ir.GlobalVariable(module, INT, WATCH_NAME)
    place = builder.add(builder.ptrtoint(found, INT), INT(offset))
    return builder.load(builder.inttoptr(place, INT.as_pointer()))


def is_watched(builder: Any, address: Any) -> Any:
    """Return whether an address may lie in memory that is watched, an LLVM bit."""
    low, high = _shared(builder, WATCH.low), _shared(builder, WATCH.high)
    return builder.icmp_unsigned("<", builder.sub(address, low), builder.sub(high, low))


@intrinsic
def _own(typingctx: Any) -> Any:
    """The table of the calling thread, 0 before it has one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow = ir.IntType(32)
        function = declare(builder, "pthread_getspecific", ir.FunctionType(INT, [narrow]))
        return builder.call(function, [builder.trunc(_shared(builder, WATCH.key), narrow)])

    return types.int64(), codegen


@intrinsic
def _enter(typingctx: Any) -> Any:
    return types.int64(), calling(ENTER)


@intrinsic
def _give(typingctx: Any, text: Any, length: Any, item: Any, first: Any, count: Any, stride: Any) -> Any:
    return types.none(*[types.int64] * 6), calling(GIVE)


@inlined
def _begin(run: int, text: int, length: int, item: int, first: int) -> None:
    store_release(run + RUN.text, text)
    store_release(run + RUN.length, length)
    store_release(run + RUN.item, item)
    store_release(run + RUN.first, first)
    store_release(run + RUN.number, 1)
    store_release(run + RUN.stride, item)


def touch(address: int, item: int, text: int, length: int) -> int:
    """Note an access to an element: keep it, and give away the run that it does not continue. Returns 0."""
    table = _own()
    if table == 0:
        table = _enter()
    store_release(table, 1)
    run = table + RUNS + (text >> 5) % PLACES * RUN.bytes
    count, first, stride = load_word(run + RUN.number), load_word(run + RUN.first), load_word(run + RUN.stride)
    last = first + (count - 1) * stride
    known = load_word(run + RUN.text)
    if known == text and (count < 0 or address in (last, first)):
        return 0
    if known == text and (count == 1 or address == last + stride):
        store_release(run + RUN.stride, address - last)
        store_release(run + RUN.number, count + 1)
        return 0
    length_before, item_before = load_word(run + RUN.length), load_word(run + RUN.item)
    _begin(run, text, length, item, address)
    if known != 0 and count >= 0:
        _give(known, length_before, item_before, first, count, stride)
    return 0
