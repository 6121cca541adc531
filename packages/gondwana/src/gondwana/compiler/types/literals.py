"""Python's numbers take the type of the arrays beside them, as in NumPy 2.

Numba types the literal 6.0 as float64, and an integer times a float32 as float64, so that `6 * u[p]` on float32 arrays
would be calculated in float64: slower, and not what the user wrote. In functions without arguments wider than float32,
literals and constants become float32, and integers do beside float32. In all functions integers have NumPy's types (see
`integers`), for which it must be known which of them are Python's: constants, arguments, counters, coordinates,
lengths, and values calculated from those alone.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import LiteralPropagationSubPipelinePass

from gondwana.compiler import inlining
from gondwana.compiler.function import Compilable
from gondwana.compiler.types.handle_types import DomainType
from gondwana.compiler.types.integer_code import OWN_IN_ARRAYS
from gondwana.compiler.types.integers import (
    INTEGER,
    StandIn,
    WeakInteger,
    as_plain,
    as_weak,
    check_literals,
    signature,
    stand_ins,
    unified,
)
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.views import ViewType


@register_pass(mutates_CFG=False, analysis_only=False)
class WeakNumbers(inlining.Pass):
    """Make Python's numbers weak before types are inferred."""

    _name = "gondwana_weak_numbers"

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function."""
        return weaken(state, ir)


@register_pass(mutates_CFG=False, analysis_only=False)
class OwnOperators(inlining.Pass):
    """Return operations on other than integers to Numba, which knows more of them: array expressions, powers."""

    _name = "gondwana_own_operators"

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function whose types are known."""
        return give_back(state, ir)


class Compiler(inlining.Compiler):
    """The compiler with these passes around type inference."""

    def add_passes(self, manager: Any) -> None:
        """Add the passes."""
        manager.add_pass_after(WeakNumbers, LiteralPropagationSubPipelinePass)
        manager.add_pass_after(OwnOperators, NopythonTypeInference)


class _Unifying:
    """A typing context in which a variable that is uint64 or a signed integer is not a float64."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def unify_pairs(self, first: Any, second: Any) -> Any:
        """Return the type of a variable that has two."""
        return unified(first, second) or type(self._context).unify_pairs(self, first, second)

    def unify_types(self, *kinds: Any) -> Any:
        """Return the type of a variable that has several."""
        return type(self._context).unify_types(self, *kinds)


def weaken(state: Any, ir: Any) -> bool:
    """Make the Python numbers of a function under compilation weak. Local.

    Args:
        state: state of the compiler.
        ir: module of the classes of its IR: Numba and numba-cuda have their own.

    Returns:
        True: the IR has changed.
    """
    single = widest_float(state.args) == 32
    weak = _PythonIntegers(state, ir)
    state.typingctx = _Unifying(state.typingctx)
    state.gondwana_functions = {}
    state.gondwana_operations = []
    blocks = state.func_ir.blocks.values()
    for block in blocks:
        for statement in block.find_insts(ir.Assign):
            if single:
                _narrow_constant(state, statement, ir)
            _replace_function(state, statement, ir, single=single)
    for block in blocks:
        body = []
        for statement in block.body:
            if isinstance(statement, ir.Assign):
                body += _replace_operation(state, statement, ir, weak, single=single)
            body.append(statement)
        block.body = body
    return True


def give_back(state: Any, ir: Any) -> bool:
    """Undo `weaken` for operations whose operands are not integers, now that their types are known. Local.

    Raises:
        TypingError: a literal does not fit the type of the integer beside it.
    """
    kept = _copied(state, ir) if state.gondwana_functions else set()
    given_back = []
    for expression, original, before in state.gondwana_operations:
        found = state.calltypes[expression].args
        check_literals(original, [state.typemap[v.name] for v in _operands(expression._kws)], expression.loc)
        operands = [types.unliteral(state.typemap[variable.name]) for variable in _operands(before)]
        ours = signature(original, found) is not None
        arrays = [kind for kind in found if isinstance(kind, types.Array)]
        if arrays:
            divides = original in OWN_IN_ARRAYS and all(isinstance(kind.dtype, types.Integer) for kind in arrays)
            ours = divides or operands != [*map(types.unliteral, found)]
        if not ours:
            given_back.append((expression, before))
        elif "func" in before:
            kept.add(before["func"].name)
    functions = state.gondwana_functions.keys() - kept
    for expression, before in given_back:
        if "func" not in before or before["func"].name in functions:
            expression._kws.update(before)
    for name in functions:
        statement, value, original = state.gondwana_functions[name]
        statement.value = value
        del state.typemap[name]
        state.typemap[name] = state.typingctx.resolve_value_type(original)
    return True


def _copied(state: Any, ir: Any) -> set[str]:
    """The names of variables that are assigned to others: those have the type of the stand-in, too."""
    names = set()
    for block in state.func_ir.blocks.values():
        for statement in block.find_insts(ir.Assign):
            value = statement.value
            if isinstance(value, ir.Var):
                names.add(value.name)
            elif _does(value, "phi"):
                names |= {variable.name for variable in value.incoming_values if isinstance(variable, ir.Var)}
    return names


def _operands(before: dict[str, Any]) -> list[Any]:
    """The variables that an operation had."""
    if "args" in before:
        return [*before["args"]]
    return [before[name] for name in ("lhs", "rhs", "value") if name in before]


def _narrow_constant(state: Any, statement: Any, ir: Any) -> None:
    """Make a constant with floats single precision."""
    value = statement.value
    if isinstance(value, ir.Const | ir.Global | ir.FreeVar) and _has_float(value.value):
        statement.value = ir.Const(_narrow(value.value), value.loc)
    elif isinstance(value, ir.Arg) and _has_float(getattr(state.args[value.index], "value", None)):
        # A parameter that the caller left out: its type holds the default.
        statement.value = ir.Const(_narrow(state.args[value.index].value), value.loc)


_MODULES = (np, operator, builtins)
"""Modules of the functions that have stand-ins."""


def _replace_function(state: Any, statement: Any, ir: Any, *, single: bool) -> None:
    """Replace a function that has a stand-in, where it is named to be called at once."""
    value = statement.value
    if isinstance(value, ir.Global | ir.FreeVar):
        original = value.value
    elif isinstance(value, ir.Expr) and value.op == "getattr":
        named = _definition(state.func_ir, value.value.name, ir)
        found = named.value if isinstance(named, ir.Global | ir.FreeVar) else None
        original = getattr(found, value.attr, None) if any(found is module for module in _MODULES) else None
    else:
        return
    stand_in = _stand_in(original, single=single)
    if stand_in is not None and statement.target.name.startswith("$"):
        state.gondwana_functions[statement.target.name] = statement, value, original
        statement.value = ir.Global(str(original), stand_in, value.loc)


def _replace_operation(state: Any, statement: Any, ir: Any, weak: _PythonIntegers, *, single: bool) -> list[Any]:
    """Replace an operator, and mark operands that are Python's integers; return the statements to put before it."""
    value, marks = statement.value, list[Any]()

    def marked(variable: Any, operation: Any) -> Any:
        name = f"$weak{len(state.gondwana_operations)}.{len(marks)}.{statement.target.name}"
        new = ir.Var(statement.target.scope, name, statement.loc)
        marks.append(ir.Assign(ir.Expr.unary(operation, variable, statement.loc), new, statement.loc))
        return new

    def operand(variable: Any) -> Any:
        return marked(variable, as_weak) if variable.name in weak.computed else variable

    if isinstance(value, ir.Arg):
        if isinstance(state.args[value.index], WeakInteger):
            name = f"$weak.{statement.target.name}"
            new = ir.Var(statement.target.scope, name, statement.loc)
            marks.append(ir.Assign(value, new, statement.loc))
            statement.value = ir.Expr.unary(as_plain, new, statement.loc)
        return marks
    if not isinstance(value, ir.Expr):
        return marks
    if value.op in ("binop", "inplace_binop", "unary"):
        original = value.fn
        stand_in = _stand_in(original, single=single)
        if stand_in is None:
            return marks
        before = dict(value._kws)
        value.fn = stand_in
        if value.op == "inplace_binop":
            value.immutable_fn = stand_in
        for name in ("lhs", "rhs", "value"):
            if name in before:
                setattr(value, name, operand(before[name]))
    elif value.op != "call" or value.vararg is not None:
        return marks
    elif (called := _called(state, value.func.name, ir)) is not None:
        original = state.gondwana_functions[called][2]
        before = {"func": value.func, "args": value.args}
        value.args = tuple(map(operand, value.args))
    else:
        if _is_helper(state, value.func.name, ir):
            value.args = tuple(marked(v, as_weak) if v.name in weak.names else v for v in value.args)
        return marks
    state.gondwana_operations.append((value, original, before))
    return marks


def _called(state: Any, name: str, ir: Any) -> str | None:
    """The variable whose value is a stand-in that is called as `name`."""
    while name not in state.gondwana_functions:
        found = state.func_ir._definitions.get(name, ())
        if len(found) != 1 or not isinstance(found[0], ir.Var):
            return None
        name = found[0].name
    return name


def _is_helper(state: Any, name: str, ir: Any) -> bool:
    """Whether a variable is a non-recursive function of `gw.jit`; in a recursive one all arguments are of one type."""
    found = _definition(state.func_ir, name, ir)
    value = found.value if isinstance(found, ir.Global | ir.FreeVar) else None
    if not isinstance(value, Compilable):
        return False
    function = value.py_func
    known = [function.__globals__.get(name) for name in function.__code__.co_names]
    known += [cell.cell_contents for cell in function.__closure__ or ()]
    return not any(other is value for other in known)


def _stand_in(original: Any, *, single: bool) -> StandIn | None:
    try:
        return stand_ins.get((original, single))
    except TypeError:  # an unhashable global
        return None


def _definition(func_ir: Any, name: str, ir: Any) -> Any:
    """The only value assigned to a variable; None if there are several."""
    while True:
        found = func_ir._definitions.get(name, ())
        if len(found) != 1:
            return None
        if not isinstance(found[0], ir.Var):
            return found[0]
        name = found[0].name


_DESCRIBED = ("shape", "lo", "hi", "stride")


class _PythonIntegers:
    """The variables of a function that are Python's integers in all cases.

    Attributes:
        names: names of all.
        computed: names of those that are not constants; constants are known by their types.
    """

    def __init__(self, state: Any, ir: Any) -> None:
        self._ir = ir
        self._args = state.args
        self._func_ir = state.func_ir
        definitions = state.func_ir._definitions
        # All are, until an operand is not: so a counter that a loop adds to is one.
        self.names = {name for name, values in definitions.items() if values}
        while wrong := {name for name in self.names if not all(map(self._is, definitions[name]))}:
            self.names -= wrong
        constants = {name for name in self.names if self._is_constant(_definition(state.func_ir, name, ir))}
        self.computed = self.names - constants

    def _is_constant(self, value: Any) -> bool:
        ir = self._ir
        if isinstance(value, ir.Arg):
            return isinstance(self._args[value.index], types.IntegerLiteral)
        return isinstance(value, ir.Const | ir.Global | ir.FreeVar)

    def _definition(self, name: str) -> Any:
        return _definition(self._func_ir, name, self._ir)

    def _is(self, value: Any) -> bool:
        ir = self._ir
        if isinstance(value, ir.Var):
            return value.name in self.names
        if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            return type(value.value) is int
        if isinstance(value, ir.Arg):
            kind = self._args[value.index]
            constant = isinstance(kind, types.IntegerLiteral) or type(getattr(kind, "value", None)) is int
            return constant or isinstance(kind, WeakInteger)
        return isinstance(value, ir.Expr) and self._is_result(value)

    def _is_result(self, value: Any) -> bool:
        match value.op:
            case "phi":
                return all(
                    variable is self._ir.UNDEFINED or variable.name in self.names for variable in value.incoming_values
                )
            case "binop" | "inplace_binop":
                return value.fn in INTEGER and value.lhs.name in self.names and value.rhs.name in self.names
            case "unary":
                return value.fn in INTEGER and value.value.name in self.names
            case "cast":
                return value.value.name in self.names
            case "pair_first":
                return self._counts(value.value)
            case "call":
                function = self._definition(value.func.name)
                called = getattr(function, "value", None) if isinstance(function, self._ir.Global) else None
                if called is len or called is int:
                    return True
                return called in (abs, min, max, pow) and all(v.name in self.names for v in value.args)
            case "static_getitem" | "getitem":
                return self._has_coordinates(value.value)
            case "getattr":
                return value.attr in ("size", "ndim") and self._describes(value.value)
        return False

    def _counts(self, pair: Any) -> bool:
        """Whether a pair comes from an iterator of `range`."""
        step = self._definition(pair.name)
        for op, operand in (("iternext", "value"), ("getiter", "value"), ("call", "func")):
            if not _does(step, op):
                return False
            step = self._definition(getattr(step, operand).name)
        return isinstance(step, self._ir.Global) and step.value is range

    def _has_coordinates(self, variable: Any) -> bool:
        """Whether a variable is a point that is an argument, or the shape or a corner of an array or a domain."""
        value = self._definition(variable.name)
        if _does(value, "exhaust_iter"):
            return self._has_coordinates(value.value)
        if _does(value, "getattr"):
            return value.attr in _DESCRIBED and self._describes(value.value)
        return isinstance(value, self._ir.Arg) and isinstance(self._args[value.index], PointType)

    def _describes(self, variable: Any) -> bool:
        """Whether a variable is an array or a domain, an argument or a global, with attributes that are Python's."""
        value = self._definition(variable.name)
        if isinstance(value, self._ir.Global | self._ir.FreeVar):
            return isinstance(value.value, np.ndarray)
        if not isinstance(value, self._ir.Arg):
            return False
        kind = self._args[value.index]
        return isinstance(kind, ViewType | types.Array | PointType | DomainType)


def _does(value: Any, op: str) -> bool:
    return getattr(value, "op", None) == op


def _has_float(value: Any) -> bool:
    return any(map(_has_float, value)) if type(value) is tuple else type(value) in (float, complex)


def _narrow(value: Any) -> Any:
    """A constant with its Python floats in single precision."""
    if type(value) is tuple:
        return tuple(map(_narrow, value))
    return np.float32(value) if type(value) is float else np.complex64(value) if type(value) is complex else value


def widest_float(args: Any) -> int:
    """Bits of the widest float among the argument types of a function, 0 if there is none."""
    widths = [0]
    for arg in args:
        if isinstance(arg, types.BaseTuple):
            widths.append(widest_float(arg.types))
            continue
        # For an array the type of its elements, however compiled code sees it.
        dtype = arg if isinstance(arg, types.Record) else getattr(arg, "dtype", arg)
        if isinstance(dtype, types.Float):
            widths.append(dtype.bitwidth)
        elif isinstance(dtype, types.Complex):
            widths.append(dtype.bitwidth // 2)
        elif isinstance(dtype, types.Record):
            widths.append(widest_float([field.type for field in dtype.fields.values()]))
    return max(widths)
