"""`clock` in compiled code, and records of its waits and messages. Imports Numba.

If this process does not record, `begin`, `end`, `sent` and `fetched` are empty functions, which leave nothing in the
machine code. If it does, handles have a specification of their own, so that the cache keeps both apart.
"""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import declare, fetch_add_word, load_word, store_release
from gondwana.compiler.mpi.mpi_overloads import mpi_constant
from gondwana.compiler.mpi.table import RECORDS
from gondwana.compiler.timing import clock
from gondwana.compiler.types.points import INT
from gondwana.runtime.tracing import part, recorder

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_BILLION = 10**9

_WORD = 8
_records = mpi_constant(RECORDS)
_ROOM, _COUNT, _FIRST, _RANKS, _OWN = (
    word * _WORD for word in (part.ROOM, part.COMPILED, part.COMPILED_AT, part.RANKS, part.RANK)
)
_LENGTH, _NAME, _TRACK, _VALUE = (word * _WORD for word in (part.LENGTH, part.NAME, part.TRACK, part.VALUE))
_RECORD, _PEERS, _PEER = part.RECORD * _WORD, part.HEAD * _WORD, part.PEER * _WORD
_SENT, _FETCHED = part.SENT_BYTES * _WORD, part.FETCHED_BYTES * _WORD


@overload(clock, jit_options=INLINED)
def _clock() -> Any:
    def read() -> int:
        return monotonic()  # type: ignore[no-any-return]

    return read


@intrinsic
def monotonic(typingctx: Any) -> Any:
    """Read the seconds and nanoseconds of CLOCK_MONOTONIC as one number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(_INT, 2))
        function = declare(builder, "clock_gettime", ir.FunctionType(_INT32, [_INT32, _INT.as_pointer()]))
        words = builder.bitcast(place, _INT.as_pointer())
        builder.call(function, [ir.Constant(_INT32, time.CLOCK_MONOTONIC), words])
        seconds, rest = (builder.load(builder.gep(words, [ir.Constant(_INT32, word)])) for word in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(_INT, _BILLION)), rest)

    return types.int64(), codegen


@intrinsic
def _thread(typingctx: Any) -> Any:
    """The identifier of the calling thread, equal to Python's."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(declare(builder, "pthread_self", ir.FunctionType(INT, [])), [])

    return types.int64(), codegen


@inlined
def _begin() -> int:
    return monotonic()  # type: ignore[no-any-return]


@inlined
def _end(begin: int, name: int, value: int) -> None:
    area = _records()
    place = fetch_add_word(area + _COUNT, 1)
    if place < load_word(area + _ROOM):
        record = area + load_word(area + _FIRST) + place * _RECORD
        store_release(record, begin)
        store_release(record + _LENGTH, monotonic() - begin)
        store_release(record + _TRACK, _thread())
        store_release(record + _VALUE, value)
        store_release(record + _NAME, name)


@inlined
def _count(rank: int, which: int, nbytes: int) -> None:
    area = _records()
    if rank < load_word(area + _RANKS) and rank != load_word(area + _OWN):
        peer = area + _PEERS + rank * _PEER + which
        fetch_add_word(peer, nbytes)
        fetch_add_word(peer + _WORD, 1)


@inlined
def _sent(ranks: int, rank: int, nbytes: int) -> None:
    _count(load_word(ranks + rank * _WORD), _SENT, nbytes)


@inlined
def _fetched(ranks: int, rank: int, nbytes: int) -> None:
    _count(load_word(ranks + rank * _WORD), _FETCHED, nbytes)


@inlined
def _no_time() -> int:
    return 0


@inlined
def _no_end(begin: int, name: int, value: int) -> None:
    pass


@inlined
def _no_message(ranks: int, rank: int, nbytes: int) -> None:
    pass


begin = _no_time if recorder is None else _begin
"""Return the begin of a span."""
end = _no_end if recorder is None else _end
"""Record a span that ends now: its begin, its name (of `tracing.part.COMPILED_SPANS`), and a number or -1."""
sent = _no_message if recorder is None else _sent
"""Count a message to a rank of a team: address of the world ranks of the team, the rank, bytes."""
fetched = _no_message if recorder is None else _fetched
"""Count bytes read from a rank, likewise."""
