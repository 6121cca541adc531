"""`print` as compiled code sees it: a call that contains its texts and passes its values. Imports Numba."""

from __future__ import annotations

import functools
import operator
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.errors import TypingError
from numba.extending import intrinsic, typeof_impl
from numba.np import numpy_support

from gondwana.compiler.debugging.printing import SYMBOL, Kind, Line, text_of
from gondwana.compiler.externs import register
from gondwana.compiler.inlining import Pass, inlined
from gondwana.compiler.types.points import INT, OffsetType, PointType, coordinates
from gondwana.compiler.types.views import DtypeType
from gondwana.domains import Offset

_ADVICE = "write print(x) with numbers, points, tuples of those and texts in quotes, or set GONDWANA_INTERPRET=1"


@register_pass(mutates_CFG=False, analysis_only=False)
class Printing(Pass):
    """Replace calls of `print` by calls of a `Line`, before types are inferred: Numba's keep the interpreter's lock."""

    _name = "gondwana_printing"

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function."""
        changed = False
        for block in state.func_ir.blocks.values():
            calls = [statement for statement in block.find_insts(ir.Assign) if _is_print(state.func_ir, statement)]
            for statement in calls:
                _Call(state.func_ir, block, statement).replace()
                changed = True
        return changed


def _is_print(func_ir: Any, statement: Any) -> bool:
    value = statement.value
    if not isinstance(value, ir.Expr) or value.op != "call":
        return False
    return getattr(_definition(func_ir, value.func), "value", None) is print


def _definition(func_ir: Any, variable: Any) -> Any:
    """The only value assigned to a variable, None if there are several."""
    found = func_ir._definitions[variable.name]
    return found[0] if len(found) == 1 else None


class _Call:
    """A call of `print` in Numba's IR."""

    def __init__(self, func_ir: Any, block: Any, statement: Any) -> None:
        self.func_ir = func_ir
        self.block = block
        self.statement = statement
        self.call = statement.value
        self.values: list[Any] = []
        self.joined: set[str] = set()  # the variables that an f-string takes

    def replace(self) -> None:
        """Call a `Line` with the values."""
        if self.call.kws or self.call.vararg:
            raise TypingError(
                f"print in compiled code takes values only, no sep=, end= or file=: {_ADVICE}", self.call.loc
            )
        line = Line(tuple(tuple(self._item(argument)) for argument in self.call.args))
        place = self.call.loc
        function = self.block.scope.redefine("$print", place)
        named = ir.Assign(ir.Global("print", line, place), function, place)
        self.func_ir._definitions[function.name] = [named.value]
        called = ir.Assign(ir.Expr.call(function, self.values, (), place), self.statement.target, place)
        body = []
        for statement in self.block.body:
            if statement is self.statement:
                body += [named, called]
            elif not (isinstance(statement, ir.Assign) and statement.target.name in self.joined):
                body.append(statement)
        self.block.body = body

    def _item(self, argument: Any) -> list[str | int]:
        """Texts and numbers of values in an argument."""
        parts = self._text(argument)
        item: list[str | int] = []
        for part in [argument] if parts is None else parts:
            if not isinstance(part, str):
                self.values.append(part)
                part = len(self.values) - 1
            item.append(part)
        return item

    def _text(self, variable: Any) -> list[Any] | None:
        """The texts and values in an f-string, None for anything that is not a text."""
        found = _definition(self.func_ir, variable)
        if isinstance(found, ir.Const | ir.Global | ir.FreeVar) and isinstance(found.value, str):
            return [found.value]
        if not isinstance(found, ir.Expr) or not variable.name.startswith("$"):
            return None
        if found.op == "call" and getattr(_definition(self.func_ir, found.func), "value", None) is str:
            self.joined.add(variable.name)
            return list(found.args)
        if found.op == "binop" and found.fn is operator.add:
            left, right = self._text(found.lhs), self._text(found.rhs)
            if left is not None and right is not None:
                self.joined.add(variable.name)
                return left + right
        return None


@typeof_impl.register(Line)
def _typeof_line(value: Line, context: Any) -> Any:
    return types.Dispatcher(_printer(value))


@functools.cache
def _printer(line: Line) -> Any:
    """The compiled function that prints a line."""
    register(SYMBOL)

    @intrinsic
    def emit(typingctx: Any, values: Any) -> Any:
        text = text_of(line, [kind_of(value) for value in values])

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = []
            for index, kind in enumerate(values):
                words += _words(context, builder, kind, builder.extract_value(args[0], index))
            room = cgutils.alloca_once(builder, llvm.ArrayType(INT, max(1, len(words))))
            for index, word in enumerate(words):
                builder.store(word, builder.gep(room, [INT(0), INT(index)]))
            kind = llvm.FunctionType(llvm.VoidType(), [INT, INT, INT])
            function = cgutils.get_or_insert_function(builder.module, kind, SYMBOL)
            constant = context.insert_const_bytes(builder.module, text)
            builder.call(function, [builder.ptrtoint(constant, INT), INT(len(text)), builder.ptrtoint(room, INT)])
            return context.get_dummy_value()

        return types.none(values), codegen

    @inlined
    def call(*values: Any) -> None:
        emit(values)

    return call


def kind_of(kind: Any) -> Kind:
    """The meaning of the words of a value of a Numba type (see `printing.Kind`)."""
    match kind:
        case types.StringLiteral():
            return ["text", kind.literal_value]
        case types.NoneType():
            return ["text", "None"]
        case OffsetType():
            return ["text", str(Offset(kind.terms))]
        case DtypeType():
            return ["text", str(kind.dtype)]
        case PointType():
            return ["point", kind.ndim]
        case types.BaseTuple():
            return ["tuple", [kind_of(member) for member in kind.types]]
        case types.Number() | types.Boolean():
            return numpy_support.as_dtype(types.unliteral(kind)).name
    raise TypingError(f"print in compiled code cannot show {kind}: {_ADVICE}")


def _words(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """The 64-bit words of a value."""
    if isinstance(kind, PointType):
        return coordinates(builder, kind, value)
    if isinstance(kind, types.BaseTuple):
        members = [_words(context, builder, m, builder.extract_value(value, i)) for i, m in enumerate(kind.types)]
        return [word for member in members for word in member]
    if not isinstance(kind, types.Number | types.Boolean):
        return []
    plain = types.unliteral(kind)
    data = context.data_model_manager[plain].as_data(builder, context.cast(builder, value, kind, plain))
    words = max(1, numpy_support.as_dtype(plain).itemsize // 8)
    room = cgutils.alloca_once_value(builder, llvm.Constant(llvm.ArrayType(INT, words), None))
    builder.store(data, builder.bitcast(room, data.type.as_pointer()))
    return [builder.load(builder.gep(room, [INT(0), INT(i)])) for i in range(words)]
