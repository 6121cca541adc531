"""Active messages and `gw.progress()` in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import default_manager
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, overload_method

from gondwana.calls.active_messages import REPLY, SEND, word_bytes
from gondwana.calls.rings import FAILED, FAR_REPLY, HEADER, MESSAGE, MESSAGE_REPLY, MOST_PER_POLL, SENDING, SOURCE, WORD
from gondwana.calls.rings_native import at, lock, out_of, post_reserved, put_at, reserve, serve
from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import load_word, pause, sched_yield, store_release
from gondwana.compiler.mpi.calls import mpi_constant
from gondwana.compiler.mpi.table import MAILBOX
from gondwana.compiler.types.handle_types import family_type, handle_word
from gondwana.compiler.types.unpack import scalar_type
from gondwana.runtime import progress

_STATE, _NUMBER, _PLACES, _RANKS = range(4)
_SPINS_BEFORE_YIELD = 200
_mailbox = mpi_constant(MAILBOX)


def _nbytes(kind: Any) -> int:
    """Return the bytes of the numbers of a message."""
    return sum(map(word_bytes, kind.parameters))


@intrinsic
def _store(typingctx: Any, message: Any, address: Any, values: Any) -> Any:
    """Write the numbers of a message at an address, each as its dtype."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = 0
        for index, name in enumerate(message.parameters):
            kind = scalar_type(name)
            value = context.cast(builder, builder.extract_value(args[2], index), values[index], kind)
            data = default_manager[kind].as_data(builder, value)
            where = builder.add(args[1], ir.Constant(ir.IntType(64), offset))
            builder.store(data, builder.inttoptr(where, data.type.as_pointer()))
            offset += word_bytes(name)
        return context.get_dummy_value()

    return types.none(message, types.int64, values), codegen


def _check_numbers(kind: Any, values: Any, method: str) -> None:
    given = len(values)
    if given != len(kind.parameters):
        raise TypingError(f"{method} of an active message takes a rank and {len(kind.parameters)} numbers, not {given}")
    if not all(isinstance(value, types.Number | types.Boolean | types.Literal) for value in values):
        raise TypingError(f"{method} of an active message takes numbers, not {values}")


@inlined
def _place(message: Any, rank: int) -> int:
    if rank < 0 or rank >= handle_word(message, _RANKS):
        raise IndexError("send or reply of an active message: there is no such rank in its team")
    return load_word(handle_word(message, _PLACES) + rank * WORD)  # type: ignore[no-any-return]


@called
def _make_room(state: int, out: int, nbytes: int) -> int:
    """Run compiled handlers until there is room for a record; the lock is held before and after."""
    polls = 0
    while True:
        store_release(state + WORD * SENDING, 0)
        serve(state, MOST_PER_POLL)
        polls += 1
        if polls < _SPINS_BEFORE_YIELD:
            pause()
        else:
            sched_yield()
        lock(state + WORD * SENDING)
        record = reserve(out, nbytes)
        if record != 0:
            return record  # type: ignore[no-any-return]


@overload_method(family_type(SEND), "send", jit_options=INLINED)
def _send(message: Any, rank: Any, *values: Any) -> Any:
    numbers = values[0] if len(values) == 1 and isinstance(values[0], types.BaseTuple) else values
    _check_numbers(message, numbers, "send")
    nbytes = _nbytes(message)

    def run(message: Any, rank: Any, *values: Any) -> None:
        place = _place(message, rank)
        if place < 0:
            raise RuntimeError("send of an active message: the rank is on another node; send from Python")
        state = handle_word(message, _STATE)
        out = out_of(state, MESSAGE, place)
        lock(state + WORD * SENDING)
        record = reserve(out, nbytes)
        if record == 0:
            record = _make_room(state, out, nbytes)
        _store(message, record + HEADER, values)
        post_reserved(out, record, nbytes, handle_word(message, _NUMBER))
        store_release(state + WORD * SENDING, 0)

    return run


@overload_method(family_type(REPLY), "reply", jit_options=INLINED)
def _reply(message: Any, source: Any, *values: Any) -> Any:
    numbers = values[0] if len(values) == 1 and isinstance(values[0], types.BaseTuple) else values
    _check_numbers(message, numbers, "reply")
    nbytes = _nbytes(message)

    def run(message: Any, source: Any, *values: Any) -> None:
        state = handle_word(message, _STATE)
        place = _place(message, source)
        if at(state, SOURCE) != (place + 1 if place >= 0 else place):
            raise RuntimeError("reply of an active message: once, and only to the source of the message at hand")
        put_at(state, SOURCE, 0)
        if place < 0:
            _store(message, state + WORD * (FAR_REPLY + 2), values)
            put_at(state, FAR_REPLY + 1, nbytes)
            put_at(state, FAR_REPLY, handle_word(message, _NUMBER) + 1)
        else:
            out = out_of(state, MESSAGE_REPLY, place)
            record = reserve(out, nbytes)  # there is room: the caller checked before it ran the handler
            _store(message, record + HEADER, values)
            post_reserved(out, record, nbytes, handle_word(message, _NUMBER))

    return run


@overload(progress.progress, jit_options=INLINED)
def _progress() -> Any:
    def run() -> bool:
        state = _mailbox()
        if state == 0:
            return False
        done = serve(state, MOST_PER_POLL)
        if at(state, FAILED) != 0:
            raise RuntimeError("a handler of an active message raised an exception: gw.progress() in Python raises it")
        return done > 0  # type: ignore[no-any-return]

    return run
