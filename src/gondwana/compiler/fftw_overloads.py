"""`fftw.execute` in compiled code: a call by address. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np import arrayobj

from gondwana.compiler import fftw
from gondwana.compiler.inlining import INLINED
from gondwana.compiler.types.handle_types import handle_word, is_handle
from gondwana.compiler.types.points import INT


@overload(fftw.execute, jit_options=INLINED)
def _execute(plan: Any, data: Any) -> Any:
    if not is_handle(plan, fftw.FAMILY):
        raise TypingError(f"the first argument is {plan}: give a plan of FFTW")
    if not isinstance(data, types.Array) or data.dtype != types.complex128 or data.layout != "C" or not data.mutable:
        raise TypingError(f"the second argument is {data}: give an array of complex128 without gaps")

    def run(plan: Any, data: Any) -> None:
        _transform(handle_word(plan, 0), handle_word(plan, 1), data)

    return run


@intrinsic
def _transform(typingctx: Any, function: Any, plan: Any, data: Any) -> Any:
    """Call fftw_execute_dft(plan, data, data)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [INT, INT, INT])
        first = builder.ptrtoint(arrayobj.make_array(data)(context, builder, args[2]).data, INT)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], first, first])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, data), codegen
