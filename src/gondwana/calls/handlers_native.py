"""Compilation of the handlers of active messages: context from a block, arguments from the message. Imports Numba."""

from __future__ import annotations

import types as pytypes
from typing import Any

from numba.core import types

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.function import HEADER_WORDS
from gondwana.compiler.inlining import called
from gondwana.compiler.types.arguments import WORD, Spec, working_precision
from gondwana.compiler.types.unpack import Typing, loader


def compile_handler(
    function: pytypes.FunctionType, context: tuple[Spec, ...], arguments: tuple[Spec, ...]
) -> ObjectCode:
    """Compile `entry(block, source, arguments)`, whose first and last argument are addresses. Local.

    Raises:
        KernelError: the types of the function cannot be inferred.
    """
    typing = Typing(working_precision((*context, *arguments)))
    bound = tuple(typing.type_of(spec) for spec in context)
    sent = tuple(typing.type_of(spec) for spec in arguments)
    twin, _ = typed(function, (types.int64, *bound, *sent))
    load_context = loader(context, bound, HEADER_WORDS * WORD)
    load_arguments = loader(arguments, sent, 0)

    @called
    def run(block: int, values: Any) -> int:
        twin(*values)
        return 0

    def entry(block: int, source: int, data: int) -> int:
        return guarded(run, block, ((source,) + load_context(block) + load_arguments(data),))  # type: ignore[no-any-return]

    return compile_entry(entry, 3)
