"""Compilation of the handlers of active messages: context from a block, arguments from the message. Imports Numba."""

from __future__ import annotations

import types as pytypes
from typing import Any

from numba.core import types
from numba.core.errors import NumbaError

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, inline_njit
from gondwana.compiler.errors import readable
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
    kinds = (types.int64, *bound, *sent)
    twin = inline_njit(function)
    try:
        twin.compile(kinds)
    except NumbaError as error:
        raise readable(error, function.__qualname__, [str(kind) for kind in kinds]) from None
    load_context = loader(context, bound, HEADER_WORDS * WORD)
    load_arguments = loader(arguments, sent, 0)

    @called
    def run(block: int, values: Any) -> int:
        twin(*values)
        return 0

    def entry(block: int, source: int, data: int) -> int:
        return guarded(run, block, ((source,) + load_context(block) + load_arguments(data),))  # type: ignore[no-any-return]

    return compile_entry(entry, 3)
