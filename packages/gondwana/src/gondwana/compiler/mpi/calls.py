"""Calls of MPI's C functions from compiled code, without the interpreter and without the GIL.

Every argument travels as a 64-bit integer with a sign: a pointer, a handle, an `int` or an `MPI_Aint`. On Linux the
calling conventions of x86-64 and AArch64 give each of them a register or eight bytes of the stack, and a function that
takes an `int` looks at the low 32 bits only, so no prototypes are needed.

For compiled code only: this module imports Numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np import numpy_support

from gondwana.compiler.inlining import inlined
from gondwana.compiler.mpi import table

_INT = ir.IntType(64)
_INT32 = ir.IntType(32)

table.register()  # Numba links what it compiles for its own use, too


def mpi_call(name: str) -> Any:
    """Return a function for compiled code that calls `MPI_<name>` and returns MPI's error code.

    Args:
        name: one of `table.FUNCTIONS`. The arguments are those of C, as int64.

    Example:
        >>> barrier = mpi_call("Barrier")
    """
    count = table.FUNCTIONS[name]

    @intrinsic
    def invoke(typingctx: Any, packed: Any) -> Any:
        if len(packed) != count or not all(isinstance(kind, types.Integer) for kind in packed):
            raise TypingError(f"MPI_{name} takes {count} integers, not {packed}")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            members = enumerate(packed)
            words = [
                context.cast(builder, builder.extract_value(values[0], index), kind, types.int64)
                for index, kind in members
            ]
            prototype = ir.FunctionType(_INT32, [_INT] * count)
            function = builder.inttoptr(_entry(builder, name), prototype.as_pointer())
            return builder.sext(builder.call(function, words), _INT)

        return types.int64(packed), codegen

    @inlined
    def call(*args: int) -> int:
        return invoke(args)  # type: ignore[no-any-return]

    return call


def checked_call(name: str) -> Any:
    """Return a function like that of `mpi_call` that raises RuntimeError in compiled code if MPI returns an error.

    Args:
        name: one of `table.FUNCTIONS`.
    """
    call = mpi_call(name)
    message = f"MPI_{name} failed; the same operation called from Python says more"

    @inlined
    def run(*args: int) -> None:
        if call(*args) != 0:
            raise RuntimeError(message)

    return run


def mpi_constant(name: str) -> Any:
    """Return a function for compiled code that returns an entry of the table: a handle or a constant.

    Args:
        name: an operation ("SUM"), a dtype for the handle of its datatype ("float64"), "IN_PLACE", "STATUS" or another
            of `table.SLOTS`.
    """

    @intrinsic
    def constant(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _entry(builder, name)

        return types.int64(), codegen

    return constant


@intrinsic
def datatype_of(typingctx: Any, value: Any) -> Any:
    """The handle of the MPI datatype of a number, or of the elements of an array."""
    dtype = numpy_support.as_dtype(types.unliteral(getattr(value, "dtype", value))).name

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _entry(builder, dtype)

    return types.int64(value), codegen


def _entry(builder: Any, name: str) -> Any:
    """Load one word of the table."""
    module = builder.module
    if table.SYMBOL in module.globals:
        words = module.globals[table.SYMBOL]
    else:
        words = ir.GlobalVariable(module, ir.ArrayType(_INT, len(table.SLOTS)), table.SYMBOL)
    zero, place = ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), table.SLOTS[name])
    return builder.load(builder.gep(words, [zero, place]))
