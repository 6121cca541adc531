"""C functions in compiled code: calls by name. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, typeof_impl
from numba.np import arrayobj, numpy_support

from gondwana.compiler.externs import Extern, Value, register
from gondwana.compiler.inlining import inlined, takes_addresses
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.unpack import scalar_type

_INT32 = ir.IntType(32)


@typeof_impl.register(Extern)
def _typeof_extern(value: Extern, context: Any) -> Any:
    """Let compiled code call functions of `gw.extern`."""
    if value.twin is None:
        value.twin = _twin(value)
    return types.Dispatcher(value.twin)


def _twin(function: Extern) -> Any:
    """A function for compiled code that calls the C function."""
    register(function.name)  # Numba links what it compiles for its own use, too
    result = types.none if function.result == Value("void", False) else _kind(function.result)

    @intrinsic
    def invoke(typingctx: Any, packed: Any) -> Any:
        _check(function, tuple(packed))

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            members = [builder.extract_value(values[0], index) for index in range(len(packed))]
            words = [
                _passed(context, builder, parameter, kind, value)
                for parameter, kind, value in zip(function.parameters, packed, members, strict=True)
            ]
            returned = ir.VoidType() if result is types.none else context.get_value_type(result)
            prototype = ir.FunctionType(returned, [word.type for word in words])
            found = builder.call(_declare(builder.module, function.name, prototype), words)
            return context.get_dummy_value() if result is types.none else found

        return result(packed), codegen

    def call(*args: Any) -> Any:
        return invoke(args)

    return inlined(takes_addresses(call) if any(parameter.pointer for parameter in function.parameters) else call)


def calling(name: str) -> Any:
    """Return what emits the call of an intrinsic: of the function that `externs.provide` has given this name.

    It takes words and returns a word, or nothing.
    """

    def codegen(context: Any, builder: Any, signature: Any, words: Any) -> Any:
        register(name)
        is_silent = signature.return_type == types.none
        prototype = ir.FunctionType(ir.VoidType() if is_silent else INT, [INT] * len(words))
        found = builder.call(_declare(builder.module, name, prototype), words)
        return context.get_dummy_value() if is_silent else found

    return codegen


def _kind(value: Value) -> Any:
    """The Numba type of a number or an address."""
    return types.int64 if value.pointer else scalar_type(value.dtype or "")


def _check(function: Extern, kinds: tuple[Any, ...]) -> None:
    if len(kinds) != len(function.parameters):
        raise TypingError(f"{function!r} takes {len(function.parameters)} arguments, not {len(kinds)}")
    for number, (parameter, kind) in enumerate(zip(function.parameters, kinds, strict=True)):
        if parameter.pointer:
            fits = isinstance(kind, types.Integer) or _is_array(parameter, kind)
        else:
            is_float = parameter.code[0] == "f"
            fits = isinstance(kind, types.Integer | types.Boolean) or (is_float and isinstance(kind, types.Float))
        if not fits:
            raise TypingError(f"argument {number + 1} of {function!r} is {kind}: give {_wanted(parameter)}")


def _is_array(parameter: Value, kind: Any) -> bool:
    return (
        isinstance(kind, types.Array)
        and kind.layout in "CF"
        and parameter.dtype in (None, numpy_support.as_dtype(kind.dtype).name)
    )


def _wanted(parameter: Value) -> str:
    if not parameter.pointer:
        return f"a number that becomes {parameter}"
    elements = f" of {parameter.dtype}" if parameter.dtype else ""
    return f"a NumPy array{elements} without gaps, or an address"


def _passed(context: Any, builder: Any, parameter: Value, kind: Any, value: Any) -> Any:
    """An argument for C. Integers below 32 bits are extended: the called function may rely on it."""
    if isinstance(kind, types.Array):
        return builder.ptrtoint(arrayobj.make_array(kind)(context, builder, value).data, INT)
    wanted = _kind(parameter)
    number = context.cast(builder, value, kind, wanted)
    if isinstance(wanted, types.Integer) and wanted.bitwidth < 32:
        return (builder.sext if wanted.signed else builder.zext)(number, _INT32)
    return number


def _declare(module: Any, name: str, prototype: Any) -> Any:
    """The function of this name, which may have been declared with other types before."""
    if name not in module.globals:
        return ir.Function(module, prototype, name)
    return module.globals[name].bitcast(prototype.as_pointer())
