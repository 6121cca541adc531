"""Python's numbers take the precision of the arrays they meet, as in NumPy 2.

Numba types the literal 6.0 as float64, and an integer times a float32 as float64, so that `6 * u[p]` on float32 arrays
would be calculated in float64: slower, and not what the user wrote. In functions to which nothing wider than float32
comes in, this pass makes literals and constants float32 and replaces the operators by ones that keep float32 beside
integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.untyped_passes import IRProcessing
from numba.extending import lower_builtin

from gondwana.compiler import inlining


@register_pass(mutates_CFG=False, analysis_only=False)
class WeakLiterals(FunctionPass):  # type: ignore[misc]
    """Make the Python numbers of functions whose arguments are at most float32 weak."""

    _name = "gondwana_weak_literals"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function before its types are inferred."""
        return widest_float(state.args) == 32 and weaken(state, ir)


def weaken(state: Any, ir: Any) -> bool:
    """Make the Python numbers of a function under compilation single precision. Local.

    Args:
        state: of the compiler.
        ir: the module that has the classes of its IR: Numba and numba-cuda have their own.

    Returns:
        True: the IR has changed.
    """
    for block in state.func_ir.blocks.values():
        for statement in block.find_insts(ir.Assign):
            value = statement.value
            if isinstance(value, ir.Const | ir.Global | ir.FreeVar) and _has_float(value.value):
                statement.value = ir.Const(_narrow(value.value), value.loc)
            elif isinstance(value, ir.Arg) and _has_float(getattr(state.args[value.index], "value", None)):
                # A parameter that the caller left out: its type holds the default.
                statement.value = ir.Const(_narrow(state.args[value.index].value), value.loc)
            elif isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop"):
                _weaken_operator(state.func_ir, value, ir)
    return True


def _weaken_operator(func_ir: Any, operation: Any, ir: Any) -> None:
    """Replace an operator, but leave powers of constant exponents to Numba, which makes them products."""
    weak = _weak_operators.get(operation.fn)
    if weak is None:
        return
    definitions = func_ir._definitions[operation.rhs.name]
    constant = len(definitions) == 1 and isinstance(definitions[0], ir.Const)
    if not (constant and operation.fn in (operator.pow, operator.ipow)):
        operation.fn = weak


class Compiler(inlining.Compiler):
    """The compiler with `WeakLiterals` before type inference."""

    def add_passes(self, manager: Any) -> None:
        """Add it."""
        manager.add_pass_after(WeakLiterals, IRProcessing)


def _has_float(value: Any) -> bool:
    return any(map(_has_float, value)) if type(value) is tuple else type(value) in (float, complex)


def _narrow(value: Any) -> Any:
    """A constant with its Python floats in single precision."""
    if type(value) is tuple:
        return tuple(map(_narrow, value))
    return np.float32(value) if type(value) is float else np.complex64(value) if type(value) is complex else value


_weak_operators: dict[Any, Callable[[Any, Any], Any]] = {}


def _make_weak(op: Any) -> None:
    """Define the operator that keeps single precision beside integers."""

    def weak(left: Any, right: Any) -> Any:
        """Stand for `op` in Numba's IR."""

    class _Weak(AbstractTemplate):  # type: ignore[misc]
        key = weak
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            left, right = args
            if isinstance(left, types.Integer) and (right in _SINGLE or _is_quotient(op, left, right)):
                left = types.float32
            if isinstance(right, types.Integer) and left in _SINGLE:
                right = types.float32
            return self.context.resolve_function_type(op, (left, right), kws)

    infer_global(weak, types.Function(_Weak))

    @lower_builtin(weak, types.Any, types.Any)
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = context.typing_context.resolve_value_type(op)
        return context.get_function(function, sig)(builder, args)

    _weak_operators[op] = weak


_SINGLE = (types.float32, types.complex64)


def _is_quotient(op: Any, left: Any, right: Any) -> bool:
    return op in (operator.truediv, operator.itruediv) and isinstance(right, types.Integer)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _make_weak(getattr(operator, _name))
    _make_weak(getattr(operator, f"i{_name}"))


def widest_float(args: Any) -> int:
    """Bits of the widest float among the argument types of a function, 0 if there is none."""
    widths = [0]
    for arg in args:
        if isinstance(arg, types.BaseTuple):
            widths.append(widest_float(arg.types))
            continue
        # Of an array the type of its elements, however compiled code sees it.
        dtype = arg if isinstance(arg, types.Record) else getattr(arg, "dtype", arg)
        if isinstance(dtype, types.Float):
            widths.append(dtype.bitwidth)
        elif isinstance(dtype, types.Complex):
            widths.append(dtype.bitwidth // 2)
        elif isinstance(dtype, types.Record):
            widths.append(widest_float([field.type for field in dtype.fields.values()]))
    return max(widths)
