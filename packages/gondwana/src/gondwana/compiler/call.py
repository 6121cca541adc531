"""Compilation of a `@gw.jit` function that Python calls: arguments from a block, the result into another."""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import default_manager
from numba.extending import intrinsic
from numba.np import numpy_support

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.function import HEADER_WORDS, RESULT_WORDS
from gondwana.compiler.inlining import inlined
from gondwana.compiler.types.arguments import WORD, Spec
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.errors import KernelError


def compile_call(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> ObjectCode:
    """Machine code for a call of `function` with arguments of these specs. Local.

    Raises:
        KernelError: the function does not type, or returns what cannot be handed to Python.
    """
    entry, names = call_entry(function, specs, precision, reassociate=reassociate)
    return compile_entry(entry, 1, {"results": names})


def call_entry(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> tuple[Callable[[int], int], str | list[str]]:
    """The entry that calls `function` with what an argument block holds, and the dtypes of the result. Local.

    Arguments and errors as for `compile_call`.
    """
    typing = Typing(precision)
    kinds = tuple(typing.type_of(spec) for spec in specs)
    twin, result = typed(function, kinds, reassociate=reassociate)
    names = result_names(function, result)
    load = loader(specs, kinds, HEADER_WORDS * WORD)
    store = storer(result)

    @inlined
    def run(block: int, args: Any) -> int:
        store(block, twin(*args))
        return 0

    def entry(block: int) -> int:
        return guarded(run, block, (load(block),))  # type: ignore[no-any-return]

    return entry, names


def result_names(function: pytypes.FunctionType, result: Any) -> str | list[str]:
    """Return the dtype of a result, a list for a tuple, "none" for None. Local.

    Raises:
        KernelError: it cannot be handed to Python.
    """
    if isinstance(result, types.NoneType):
        return "none"
    members = list(result.types) if isinstance(result, types.BaseTuple) else [result]
    plain = all(isinstance(member, types.Number | types.Boolean) for member in members)
    if not plain or len(members) * 2 > RESULT_WORDS:
        raise KernelError(
            f"{function.__qualname__} returns {result}: a compiled function hands a number, up to {RESULT_WORDS // 2} "
            "numbers in a tuple, or None to Python; write larger results into an array argument"
        )
    names = [numpy_support.as_dtype(member).name for member in members]
    return names if isinstance(result, types.BaseTuple) else names[0]


def storer(result: Any) -> Any:
    """Return a compiled function that writes a result where the third word of the block points. Local."""

    @intrinsic
    def store(typingctx: Any, block: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if isinstance(result, types.NoneType):
                return context.get_dummy_value()
            where = builder.add(args[0], ir.Constant(INT, 2 * WORD))
            out = builder.load(builder.inttoptr(where, INT.as_pointer()))
            is_tuple = isinstance(result, types.BaseTuple)
            offset = 0
            for index, member in enumerate(result.types if is_tuple else [result]):
                part = builder.extract_value(args[1], index) if is_tuple else args[1]
                data = default_manager[member].as_data(builder, part)
                address = builder.add(out, ir.Constant(INT, offset))
                builder.store(data, builder.inttoptr(address, data.type.as_pointer()))
                offset += max(WORD, numpy_support.as_dtype(member).itemsize)
            return context.get_dummy_value()

        return types.none(types.int64, value), codegen

    return store
