"""`put`, `take` and `close` of remote channels in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.datamodel import default_manager
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload_method

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_acquire, pause, sched_yield, store_release
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.handle_types import advise, family_type, handle_word
from gondwana.compiler.types.records import DTYPES
from gondwana.compiler.types.unpack import scalar_type
from gondwana.compiler.waits_overloads import note, over
from gondwana.runtime.races import reporter
from gondwana.runtime.watching.waits import CHANNEL, KINDS
from gondwana.tasks import item_rings_native as native
from gondwana.tasks.item_rings import CLOSED, NOT_NOW, SIMPLE, SIZE_BITS, SLOT, STEP

_RING, _BELLS = 0, 1
_SPINS = 200
"""Polls before a waiting call yields the processor between polls."""
_FAMILY = family_type("remote_channel")
_CHANNEL = KINDS.index(CHANNEL)
_WORD = 8
_REPORTED = reporter is not None
"""Whether the name of an item stands behind it: see `item_rings.ReportedValues`."""

_only = "channel.put(x) and channel.take(); other operations are for Python"
advise("remote_channel", peek=_only, put_nowait=_only, take_nowait=_only)

_close = inlined(native.close)


@intrinsic
def _store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a number as an element of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = default_manager[value].as_data(builder, args[1])
        builder.store(data, builder.inttoptr(args[0], data.type.as_pointer()))
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def _load(typingctx: Any, address: Any, like: Any) -> Any:
    """Read an element of an array; `like` is any value of its type."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        model = default_manager[like]
        pointer = builder.inttoptr(args[0], model.get_data_type().as_pointer())
        return model.from_data(builder, builder.load(pointer))

    return like(types.int64, like), codegen


@inlined
def _relax(polls: int) -> None:
    if polls < _SPINS:
        pause()
    else:
        sched_yield()


def _number(channel: Any) -> Any:
    """Return the type of the items of a channel."""
    name, _ = channel.parameters
    if name not in DTYPES:
        raise TypingError(
            "compiled code puts and takes numbers: give the channel their dtype when you make it, as in "
            f"gw.RemoteChannel(100, dtype=float), not dtype={name or None}"
        )
    return scalar_type(name)


@inlined
def _await_taker(ring: int, position: int) -> None:
    polls = 0
    while load_acquire(native.slot_of(ring, position)) - STEP.all * position == STEP.published:
        _relax(polls)
        polls += 1
        note(polls, _CHANNEL, ring, 0)
    over(polls)
    native.follow(native.slot_of(ring, position))


@overload_method(_FAMILY, "put", strict=False, jit_options=INLINED)
def _put(channel: Any, item: Any) -> Any:
    kind = _number(channel)
    if not isinstance(item, types.Number | types.Boolean | types.Literal):
        raise TypingError(f"put of {channel} takes a number, not {item}")
    unbuffered = not channel.parameters[1]
    nbytes = default_nbytes(kind)
    word = nbytes + (_WORD if _REPORTED else 0) | SIMPLE << SIZE_BITS

    def run(channel: Any, item: Any) -> None:
        ring = handle_word(channel, _RING)
        position = native.claim(ring)
        polls = 0
        while position == NOT_NOW:
            _relax(polls)
            polls += 1
            note(polls, _CHANNEL, ring, 0)
            position = native.claim(ring)
        over(polls)
        if position == CLOSED:
            raise RuntimeError("an item was put into a channel that is closed")
        slot = native.slot_of(ring, position)
        store_release(slot + SLOT.length, word)
        _store(slot + SLOT.bytes, kind(item))
        if _REPORTED:
            _store(slot + SLOT.bytes + nbytes, reports.post())
        native.publish(ring, position, handle_word(channel, _BELLS))
        if unbuffered:
            _await_taker(ring, position)

    return run


@overload_method(_FAMILY, "take", strict=False, jit_options=INLINED)
def _take(channel: Any) -> Any:
    kind = _number(channel)
    nbytes = default_nbytes(kind)

    def run(channel: Any) -> Any:
        ring, bells = handle_word(channel, _RING), handle_word(channel, _BELLS)
        position = native.obtain(ring, bells)
        polls = 0
        while position == NOT_NOW:
            _relax(polls)
            polls += 1
            note(polls, _CHANNEL, ring, 1)
            position = native.obtain(ring, bells)
        over(polls)
        if position == CLOSED:
            raise RuntimeError("take from a channel that is closed, and all of whose items have been taken")
        where = native.slot_of(ring, position) + SLOT.bytes
        item = _load(where, kind(0))
        name = _load(where + nbytes, 0) if _REPORTED else 0
        native.release(ring, position, bells)
        if _REPORTED:
            reports.take(name)
        return item

    return run


@overload_method(_FAMILY, "close", strict=False, jit_options=INLINED)
def _close_channel(channel: Any) -> Any:
    def run(channel: Any) -> None:
        _close(handle_word(channel, _RING), handle_word(channel, _BELLS))

    return run


def default_nbytes(kind: Any) -> int:
    """Return the bytes of a number of a type in memory."""
    return 1 if isinstance(kind, types.Boolean) else kind.bitwidth // 8
