"""Calls of a kernel that note at which point it raised. Imports Numba.

Of several threads whose points raise, the first one notes its exception and its point; a launch raises that one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, imputils
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.types.arguments import WORD
from gondwana.compiler.types.points import INT, coordinates
from gondwana.kernels.cpu.launch import RAISED


@intrinsic
def _call(typingctx: Any, function: Any, p: Any, block: Any, args: Any) -> Any:
    """Call `function(p, *args)`; if it raises, note that in the argument block, then pass it on."""
    kinds = (p, *args.types)
    function.dispatcher.compile(kinds)
    compiled = function.dispatcher.overloads[kinds]

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.active_code_library.add_linking_library(compiled.library)
        unpacked = [builder.extract_value(values[3], index) for index in range(len(args.types))]
        given = [values[1], *unpacked]
        status, result = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, given)
        with cgutils.if_unlikely(builder, status.is_error):
            _note(builder, values[2], builder.ptrtoint(status.excinfoptr, INT), coordinates(builder, p, values[1]))
            context.call_conv.return_status_propagate(builder, status)
        return imputils.fix_returning_optional(context, builder, compiled.signature, status, result)

    return compiled.signature.return_type(function, p, block, args), codegen


def _note(builder: Any, block: Any, exception: Any, point: list[Any]) -> None:
    def word(number: int) -> Any:
        return builder.inttoptr(builder.add(block, ir.Constant(INT, WORD * number)), INT.as_pointer())

    noted = builder.cmpxchg(word(RAISED), ir.Constant(INT, 0), exception, "monotonic")
    with builder.if_then(builder.extract_value(noted, 1)):
        for axis, coordinate in enumerate(point):
            builder.store(coordinate, word(RAISED + 1 + axis))


def noting(kernel: Any) -> Any:
    """Return what calls a kernel as `(p, block, *args)` and notes in the block at which point it raised."""

    @inlined
    def run(p: Any, block: int, *args: Any) -> Any:
        return _call(kernel, p, block, args)

    return run
