"""Active messages and `gw.progress()` in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import default_manager
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, overload_attribute, overload_method

from gondwana.calls.active_messages.message import REPLY, SEND, word_bytes
from gondwana.calls.active_messages.message_native import post_reserved, report, serve
from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import load_word, move_bytes, pause, sched_yield, store_release
from gondwana.compiler.mpi.mpi_overloads import mpi_constant
from gondwana.compiler.mpi.table import MAILBOX
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.buffers import address_of, check_array, contiguous_count, item_size
from gondwana.compiler.types.handle_types import family_type, handle_word
from gondwana.compiler.types.unpack import scalar_type
from gondwana.runtime import progress
from gondwana.runtime.ordering import LOOSE
from gondwana.sync.delivery_native import lock
from gondwana.sync.delivery_overloads import apply_what_arrives
from gondwana.sync.rings import FAILED, HEADER, MESSAGE, MESSAGE_REPLY, MOST_PER_POLL, ORDER, SENDING, SOURCE, WORD
from gondwana.sync.rings_native import at, block_of, caught_up, pass_on, put_at, reserve, step

_STATE, _NUMBER, _PLACES, _RANKS, _LONGEST = range(5)
_SPINS_BEFORE_YIELD = 200
_mailbox = mpi_constant(MAILBOX)


def _numbers(kind: Any) -> tuple[str, ...]:
    """Return the dtypes of the numbers of a message."""
    return kind.parameters[:-1]  # type: ignore[no-any-return]


def _payload(kind: Any) -> str:
    """Return the dtype of the payload of a message, empty if it has none."""
    return kind.parameters[-1]  # type: ignore[no-any-return]


def _nbytes(kind: Any) -> int:
    """Return the bytes of the numbers of a message."""
    return sum(map(word_bytes, _numbers(kind)))


@intrinsic
def _store(typingctx: Any, message: Any, address: Any, values: Any) -> Any:
    """Write the numbers of a message at an address, each as its dtype."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = 0
        for index, name in enumerate(_numbers(message)):
            kind = scalar_type(name)
            value = context.cast(builder, builder.extract_value(args[2], index), values[index], kind)
            data = default_manager[kind].as_data(builder, value)
            where = builder.add(args[1], ir.Constant(ir.IntType(64), offset))
            builder.store(data, builder.inttoptr(where, data.type.as_pointer()))
            offset += word_bytes(name)
        return context.get_dummy_value()

    return types.none(message, types.int64, values), codegen


def _check(kind: Any, values: Any, method: str) -> None:
    """Refuse, when a function is compiled, what a message does not take."""
    count, payload = len(_numbers(kind)), _payload(kind)
    takes = f"a rank and {count} numbers" + (f" and an array of {payload}" if payload else "")
    if len(values) != count + (1 if payload else 0):
        raise TypingError(f"{method} of an active message takes {takes}, not {len(values)} values after the rank")
    if not all(isinstance(value, types.Number | types.Boolean | types.Literal) for value in values[:count]):
        raise TypingError(f"{method} of an active message takes {takes}, not {values}")
    if payload:
        check_array(values[-1], f"the payload of {method}")
        if values[-1].dtype != scalar_type(payload):
            raise TypingError(f"the payload of {method} has elements of {values[-1].dtype}: give {payload}")


def _last(message: Any, values: Any) -> Any:
    """Return the payload among what is sent: its address, the number of its elements, and their bytes."""
    raise NotImplementedError  # in compiled code only


@overload(_last, jit_options=INLINED)
def _last_of(message: Any, values: Any) -> Any:
    place = len(values) - 1

    def array(message: Any, values: Any) -> tuple[int, int, int]:
        count = contiguous_count(values[place])
        if count > handle_word(message, _LONGEST):
            raise ValueError("send or reply of an active message: the payload is longer than its max_payload")
        return address_of(values[place]), count, count * item_size(values[place])

    def nothing(message: Any, values: Any) -> tuple[int, int, int]:
        return 0, 0, 0

    return array if _payload(message) else nothing


@inlined
def _place(message: Any, rank: int) -> int:
    if rank < 0 or rank >= handle_word(message, _RANKS):
        raise IndexError("send or reply of an active message: there is no such rank in its team")
    return load_word(handle_word(message, _PLACES) + rank * WORD)  # type: ignore[no-any-return]


@called
def _make_room(state: int, out: int, nbytes: int) -> int:
    """Run compiled handlers until there is room for a record; the lock is held before and after."""
    polls, order = 0, at(state, ORDER)
    if order != 0:
        put_at(order, LOOSE, 1)
    while True:
        store_release(state + WORD * SENDING, 0)
        _serve(state)
        polls += 1
        if polls < _SPINS_BEFORE_YIELD:
            pause()
        else:
            sched_yield()
        lock(state + WORD * SENDING)
        record = reserve(out, nbytes)
        if record != 0:
            if order != 0:
                put_at(order, LOOSE, 0)
            return record  # type: ignore[no-any-return]


@inlined
def _serve(state: int) -> int:
    """Receive active messages and run compiled handlers; return their number."""
    apply_what_arrives()
    done = serve(state, MOST_PER_POLL)
    if at(state, FAILED) != 0:
        raise RuntimeError("a handler of an active message raised an exception: gw.progress() in Python raises it")
    return done  # type: ignore[no-any-return]


@inlined
def _write(message: Any, out: int, record: int, numbers: int, values: Any, payload: Any) -> None:
    """Write a message into a record; `numbers` is the bytes of its numbers, `payload` its address and length."""
    address, count, nbytes = payload
    _store(message, record + HEADER, values)
    if nbytes != 0:
        move_bytes(record + HEADER + numbers, address, nbytes)
    post_reserved(out, record, numbers + nbytes, handle_word(message, _NUMBER), count)


def _sent(values: Any) -> Any:
    """Return the types of what is sent: Numba may have put them into a tuple."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], types.BaseTuple) else values


@overload_method(family_type(SEND), "send", jit_options=INLINED)
def _send(message: Any, rank: Any, *values: Any) -> Any:
    _check(message, _sent(values), "send")
    numbers = _nbytes(message)

    def run(message: Any, rank: Any, *values: Any) -> None:
        state, place = handle_word(message, _STATE), _place(message, rank)
        payload = _last(message, values)
        out, nbytes = block_of(state, MESSAGE, place), numbers + payload[2]
        reports.report(reports.INTEND, 0, 0, 0, 0)
        report(MESSAGE, place, 1)
        lock(state + WORD * SENDING)
        record = reserve(out, nbytes)
        if record == 0:
            record = _make_room(state, out, nbytes)
        _write(message, out, record, numbers, values, payload)
        store_release(state + WORD * SENDING, 0)
        reports.report(reports.OVER, 0, 0, 0, 0)
        if pass_on(out) != 0:
            raise RuntimeError("send of an active message to another node: MPI failed; in Python, send says more")

    return run


@overload_method(family_type(REPLY), "reply", jit_options=INLINED)
def _reply(message: Any, source: Any, *values: Any) -> Any:
    _check(message, _sent(values), "reply")
    numbers = _nbytes(message)

    def run(message: Any, source: Any, *values: Any) -> None:
        state, place = handle_word(message, _STATE), _place(message, source)
        payload = _last(message, values)
        if at(state, SOURCE) != place + 1:
            raise RuntimeError("reply of an active message: once, and only to the source of the message at hand")
        put_at(state, SOURCE, 0)
        out = block_of(state, MESSAGE_REPLY, place)
        report(MESSAGE_REPLY, place, 1)
        record = reserve(out, numbers + payload[2])  # there is room: the caller checked before it ran the handler
        _write(message, out, record, numbers, values, payload)

    return run


def _max_payload(message: Any) -> Any:
    def read(message: Any) -> int:
        return handle_word(message, _LONGEST)  # type: ignore[no-any-return]

    return read


for _family in (SEND, REPLY):
    overload_attribute(family_type(_family), "max_payload", jit_options=INLINED)(_max_payload)


@overload(progress.progress, jit_options=INLINED)
def _progress() -> Any:
    def run() -> bool:
        state = _mailbox()
        if state == 0:
            return False
        order = at(state, ORDER)
        if order != 0:
            step(order)
        done = _serve(state)
        while order != 0 and not caught_up(order):
            sched_yield()
            done += _serve(state)
        return done > 0  # type: ignore[no-any-return]

    return run
