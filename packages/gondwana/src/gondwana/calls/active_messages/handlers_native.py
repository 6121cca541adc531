"""Compilation of the handlers of active messages: context from a block, the rest from the message. Imports Numba."""

from __future__ import annotations

import types as pytypes
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from gondwana.calls.rings import HEADER, WORD
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.function import HEADER_WORDS
from gondwana.compiler.inlining import called
from gondwana.compiler.types.arguments import Spec, spec_words, working_precision
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.unpack import Typing, loader


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
    load_context = loader(context, bound, HEADER_WORDS * WORD)
    load_arguments = loader(arguments, sent, HEADER)
    load_payload = _payload_loader(arrays, HEADER + WORD * sum(map(spec_words, arguments)))

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
    count = builder.load(builder.inttoptr(builder.add(record, INT(WORD)), INT.as_pointer()))
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
