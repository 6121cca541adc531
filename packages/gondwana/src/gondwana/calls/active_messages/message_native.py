"""Machine code of active messages: writing them, compiling their handlers and running those. Imports Numba.

What a handler gets is the context from a block, and the rest from the message.
"""

from __future__ import annotations

import types as pytypes
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from gondwana.calls.active_messages.handlers import REPORT
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.externs_overloads import calling
from gondwana.compiler.function import HEADER_WORDS
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.memory_order import (
    call_at,
    exchange,
    load_acquire,
    load_word,
    move_bytes,
    store_release,
)
from gondwana.compiler.types.arguments import Spec, spec_words, working_precision
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.runtime.ordering import KIND_SHIFT
from gondwana.runtime.races import reporter
from gondwana.sync import rings
from gondwana.sync.delivery_native import lock
from gondwana.sync.rings_native import (
    LENGTH_BITS,
    arrives,
    at,
    block_of,
    consume,
    count_message,
    due_event,
    is_repeated,
    look_again,
    next_header,
    next_record,
    padded,
    pass_on,
    publish,
    put_at,
    reserve,
    seen_peers,
)

_STATUS = 0


@intrinsic
def _report(typingctx: Any, queue: Any, place: Any, is_sent: Any) -> Any:
    return types.none(*[types.int64] * 3), calling(REPORT)


@inlined
def _nothing(queue: int, place: int, is_sent: int) -> None:
    pass


@inlined
def _call(queue: int, place: int, is_sent: int) -> None:
    _report(queue, place, is_sent)


report = _nothing if reporter is None else _call
"""Tell the race detector about a message: see `handlers.report`."""


# -- sending -------------------------------------------------------------------------------------------------------


@inlined
def post_reserved(out: int, record: int, nbytes: int, handler: int, count: int) -> None:
    """Publish a message to the reader, with the number of elements of its payload."""
    publish(out, record, nbytes, rings.WHOLE, handler, count)
    count_message(out)


@inlined
def _post(state: int, place: int, handler: int, numbers: int, nbytes: int, payload: int, more: int, count: int) -> int:
    out = block_of(state, rings.MESSAGE, place)
    lock(state + rings.WORD * rings.SENDING)
    record = reserve(out, nbytes + more)
    if record != 0:
        move_bytes(record + rings.HEADER, numbers, nbytes)
        move_bytes(record + rings.HEADER + nbytes, payload, more)
        post_reserved(out, record, nbytes + more, handler, count)
    store_release(state + rings.WORD * rings.SENDING, 0)
    if record == 0:
        return 0
    return 1 if pass_on(out) == 0 else -1


def post(state: int, place: int, handler: int, numbers: int, nbytes: int) -> int:
    """Write a message without a payload; return 1, 0 if there is no room now, or -1 if it cannot be sent.

    Args:
        state: of the inbox.
        place: of the receiver.
        handler: its number.
        numbers: address of the numbers.
        nbytes: their bytes.
    """
    return _post(state, place, handler, numbers, nbytes, numbers, 0, 0)  # type: ignore[no-any-return]


def post_payload(
    state: int, place: int, handler: int, numbers: int, nbytes: int, array: int, more: int, count: int
) -> int:
    """Write a message with a payload: `array` is where its address is, `more` its bytes, `count` its elements."""
    return _post(state, place, handler, numbers, nbytes, load_word(array), more, count)  # type: ignore[no-any-return]


# -- running handlers ----------------------------------------------------------------------------------------------


@inlined
def _handle(state: int, handler: int, entry: int, source: int, record: int) -> None:
    """Run a handler, and note if it raises."""
    context = at(entry, rings.CONTEXT)
    call_at(at(entry, rings.ENTRY), context, source, record)
    if at(context, _STATUS) != 0:
        put_at(state, rings.FAILED, handler + 1)


@inlined
def _handle_ring(state: int, queue: int, block: int, reply: int, place: int, limit: int) -> int:
    """Run the handlers of the messages in one ring; return their number.

    Args:
        state: of the inbox.
        queue: MESSAGE or MESSAGE_REPLY.
        block: the IN block of the ring.
        reply: the OUT block of replies to its writer. A handler runs if the longest reply that it can send has room.
        place: of the writer.
        limit: of messages.
    """
    done, order = 0, at(state, rings.ORDER)
    while done < limit and at(state, rings.FAILED) == 0:
        word = next_header(block)
        if word == 0 or (is_repeated(order) and due_event(order) != (queue << KIND_SHIFT | place)):
            break
        handler = word >> rings.TAG_SHIFT
        entry = at(state, rings.HANDLERS) + handler * rings.HANDLER * rings.WORD
        if queue == rings.MESSAGE:
            longest = at(entry, rings.LONGEST_REPLY)
            if longest >= 0 and reserve(reply, longest) == 0:
                break
            put_at(state, rings.SOURCE, place + 1)
        arrives(state, queue, place)
        report(queue, place, 0)
        _handle(state, handler, entry, at(at(entry, rings.RANKS), place), next_record(block))
        put_at(state, rings.SOURCE, 0)
        consume(block, rings.HEADER + padded(word & LENGTH_BITS))
        count_message(block)
        done += 1
    return done


@inlined
def _serve_queue(state: int, queue: int, limit: int) -> int:
    """Run the handlers of what has arrived in a queue, up to a limit for each peer; return their number."""
    done = 0
    for peer in range(seen_peers(state, queue)):
        block = block_of(state, rings.QUEUES + queue, peer)
        if at(block, rings.RING) != 0:
            reply = block_of(state, rings.MESSAGE_REPLY, peer)
            served = _handle_ring(state, queue, block, reply, peer, limit)
            if served > 0:
                pass_on(reply)
            if peer >= at(state, rings.NEAR) and load_acquire(next_record(block)) != 0:
                look_again(state, queue)
            done += served
    return done


@inlined
def serve(state: int, limit: int) -> int:
    """Run the compiled handlers of messages that have arrived, up to a limit for each peer; return their number."""
    polling = state + rings.WORD * rings.POLLING
    if exchange(polling, 1) != 0:
        return 0  # inside a handler, or another thread runs handlers
    done = 0
    for queue in range(rings.MESSAGE_REPLY, rings.MESSAGE - 1, -1):
        done += _serve_queue(state, queue, limit)
    store_release(polling, 0)
    return done


def serve_messages(state: int, limit: int) -> int:
    """Run the compiled handlers of messages that have arrived, up to a limit for each peer; return their number."""
    return serve(state, limit)  # type: ignore[no-any-return]


def compile_handler(
    function: pytypes.FunctionType,
    context: tuple[Spec, ...],
    arguments: tuple[Spec, ...],
    payload: tuple[Spec, ...],
) -> ObjectCode:
    """Compile `entry(block, source, record)`, whose first and last argument are addresses. Local.

    Args:
        function: the handler.
        context: what the block holds.
        arguments: the numbers in a record.
        payload: the array that follows them, if there is one.

    Raises:
        KernelError: the types of the function cannot be inferred.
    """
    typing = Typing(working_precision((*context, *arguments, *payload)))
    bound, sent, arrays = (tuple(map(typing.type_of, specs)) for specs in (context, arguments, payload))
    twin, _ = typed(function, (types.int64, *bound, *sent, *arrays))
    load_context = loader(context, bound, HEADER_WORDS * rings.WORD)
    load_arguments = loader(arguments, sent, rings.HEADER)
    load_payload = _payload_loader(arrays, rings.HEADER + rings.WORD * sum(map(spec_words, arguments)))

    @called
    def run(block: int, values: Any) -> int:
        twin(*values)
        return 0

    def entry(block: int, source: int, record: int) -> int:
        values = (source,) + load_context(block) + load_arguments(record) + load_payload(record)
        return guarded(run, block, (values,))  # type: ignore[no-any-return]

    return compile_entry(entry, 3)


def _payload_loader(kinds: tuple[Any, ...], offset: int) -> Any:
    """A compiled function from the address of a record to a tuple of its payload, if it has one.

    Args:
        kinds: the Numba type of the payload, if there is one.
        offset: bytes of the record before it.
    """
    packed = types.Tuple(kinds)

    @intrinsic
    def load(typingctx: Any, record: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [_array(context, builder, kind, args[0], offset) for kind in kinds]
            return context.make_tuple(builder, packed, values)

        return packed(types.int64), codegen

    return load


def _array(context: Any, builder: Any, kind: Any, record: Any, offset: int) -> Any:
    """The array at an offset of a record, whose second word is the number of its elements."""
    count = builder.load(builder.inttoptr(builder.add(record, INT(rings.WORD)), INT.as_pointer()))
    data_type = context.get_data_type(kind.dtype)
    itemsize = numpy_support.as_dtype(kind.dtype).itemsize
    array = arrayobj.make_array(kind)(context, builder)
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(builder.add(record, INT(offset)), data_type.as_pointer()),
        shape=cgutils.pack_array(builder, [count]),
        strides=cgutils.pack_array(builder, [INT(itemsize)]),
        itemsize=INT(itemsize),
        meminfo=None,
    )
    return array._getvalue()
