"""Arrays whose address is taken live until the function returns, as in Python, not until their last use.

Numba frees an array behind the last statement that names it. That is too early where something else has its address: a
C function that keeps it for later calls, the integer `a.ctypes.data`, a record, which is a pointer to an element. This
pass names such arrays once more where the function returns. A variable that gets another array gives up the one before.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass

_takers: weakref.WeakSet[Any] = weakref.WeakSet()
"""Python functions that take addresses of what they are given, or call such functions."""


def takes_addresses(function: Any) -> Any:
    """State that a function for compiled code may keep the addresses of the arrays that it is given. Local."""
    _takers.add(function)
    return function


@register_pass(mutates_CFG=False, analysis_only=False)
class KeepAddressed(FunctionPass):  # type: ignore[misc]
    """Name the arrays whose address is taken before each return; it runs before the ends of lifetimes are entered."""

    _name = "gondwana_keep_addressed"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function after its types have been inferred."""
        kept = {
            variable.name: variable
            for block in state.func_ir.blocks.values()
            for statement in block.find_insts(ir.Assign)
            for variable in _addressed(statement, state.typemap)
            if state.targetctx.data_model_manager[state.typemap[variable.name]].contains_nrt_meminfo()
        }
        if not kept:
            return False
        takes_addresses(state.func_id.func)
        kind = types.Tuple([state.typemap[name] for name in kept])
        for label, block in state.func_ir.blocks.items():
            if isinstance(block.terminator, ir.Return):
                name, where = f"$kept.{label}", block.terminator.loc
                state.typemap[name] = kind
                value = ir.Expr.build_tuple(list(kept.values()), where)
                block.insert_before_terminator(ir.Assign(value, ir.Var(block.scope, name, where), where))
        return True


def _addressed(statement: Any, kinds: dict[str, Any]) -> Iterator[Any]:
    """The variables whose addresses a statement takes."""
    value = statement.value
    operation = getattr(value, "op", None)
    if operation == "getattr" and value.attr == "ctypes":
        yield value.value
    elif operation in ("getitem", "static_getitem", "typed_getitem"):
        if isinstance(kinds[statement.target.name], types.Record):
            yield value.value
    elif operation == "getiter":
        if isinstance(getattr(kinds[value.value.name], "dtype", None), types.Record):
            yield value.value
    elif operation == "call":
        called = kinds[value.func.name]
        if isinstance(called, types.Dispatcher) and called.dispatcher.py_func in _takers:
            yield from value.args
            yield from (given for _, given in value.kws)
            if value.vararg is not None:
                yield value.vararg
