"""Tuples of arrays and of offsets in compiled code, indexed by a variable: `f[q][p - e[q]]`.

Each array of a kernel has its own type (see `views`), so an item of such a tuple has no type until `q` is known. A loop
over a constant range is therefore written out, with `q` a constant in each copy: what comes of it is the code of nine
arrays with names of their own, of which every access is known. (LLVM unrolls such a loop, too, but after accesses have
been marked: it would not know that nine stores touch nine arrays, and not vectorise the loop over the points.) Where
`q` is not constant, the item is an array "among" those of the tuple.
"""

from __future__ import annotations

import collections
import copy
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import ir as numba_ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, lower_cast

from gondwana.compiler import inlining
from gondwana.compiler.types.points import INT, OffsetType, StepType, axes, convention_of
from gondwana.compiler.types.views import ElementsType
from gondwana.domains import Offset

_MOST_COPIES = 64
_MOST_STATEMENTS = 8000
"""The most copies of a loop, and the most statements of all its copies: longer loops stay loops."""


class _Loop(NamedTuple):
    """A loop over a constant range.

    Attributes:
        labels: labels of its blocks.
        header: label of the block that asks for the next number.
        first: label of the block that a number is given to.
        end: label of the block after the last number.
        number: name of the variable that holds the number.
        numbers: the range.
        assigned: number of the assignments to each variable in it.
    """

    labels: list[int]
    header: int
    first: int
    end: int
    number: str
    numbers: range
    assigned: collections.Counter[str]


@register_pass(mutates_CFG=True, analysis_only=False)
class WriteOutLoops(inlining.Pass):
    """Write out the loops over constant ranges whose number is the index of a tuple of arrays or offsets."""

    _name = "gondwana_write_out_loops"

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function before its types are inferred."""
        return write_out(state, numba_ir)


def write_out(state: Any, ir: Any) -> bool:
    """Write out the loops of a function under compilation that index tuples of arrays or offsets. Local.

    Args:
        state: state of the compiler.
        ir: module of the classes of its IR: Numba and numba-cuda have their own.

    Returns:
        Whether the IR has changed.
    """
    function = _Function(state, ir)
    changed = False
    while any(function.writes_out(loop) for loop in function.loops()):
        changed = True
    return changed


class _Function:
    """The Numba IR of a function whose loops are written out, the innermost first.

    Args:
        state: state of the compiler.
        ir: module of the classes of the IR.
    """

    def __init__(self, state: Any, ir: Any) -> None:
        self._code, self._kinds, self._ir = state.func_ir, state.args, ir

    def loops(self) -> list[_Loop]:
        """The loops over constant ranges, the shortest first."""
        found = compute_cfg_from_blocks(self._code.blocks).loops().values()
        return [one for loop in sorted(found, key=lambda loop: len(loop.body)) if (one := self._loop(loop)) is not None]

    def _loop(self, loop: Any) -> _Loop | None:
        block = self._code.blocks[loop.header]
        steps = {statement.target.name: statement.value for statement in block.find_insts(self._ir.Assign)}
        names = {getattr(value, "op", None): name for name, value in steps.items()}
        branch = block.terminator
        if "iternext" not in names or getattr(branch, "cond", None) is None:
            return None
        numbers = self._range(steps[names["iternext"]].value)
        if branch.cond.name != names.get("pair_second") or not numbers or len(numbers) > _MOST_COPIES:
            return None
        every = (self._code.blocks[label].find_insts(self._ir.Assign) for label in loop.body)
        assigned = collections.Counter(one.target.name for part in every for one in part)
        ends = loop.header, branch.truebr, branch.falsebr
        return _Loop(sorted(loop.body), *ends, names["pair_first"], numbers, assigned)

    def _definition(self, variable: Any) -> Any:
        """The value of a variable that is assigned once, None of others."""
        found = self._code._definitions[variable.name]
        while len(found) == 1 and isinstance(found[0], self._ir.Var):
            found = self._code._definitions[found[0].name]
        return found[0] if len(found) == 1 else None

    def _range(self, iterator: Any) -> range | None:
        """The range of an iterator, None if it is another or not constant."""
        step = self._definition(iterator)
        call: Any = self._definition(step.value) if getattr(step, "op", None) == "getiter" else None
        if getattr(call, "op", None) != "call" or self._constant(call.func) is not range or call.kws or call.vararg:
            return None
        ends = [self._constant(one) for one in call.args]
        return range(*ends) if all(type(end) is int for end in ends) and 0 not in ends[2:] else None

    def _constant(self, variable: Any) -> Any:
        """The value of a constant, or of the length of a tuple; None of others."""
        value = self._definition(variable)
        if isinstance(value, self._ir.Const | self._ir.Global | self._ir.FreeVar):
            return value.value
        if getattr(value, "op", None) == "call" and len(value.args) == 1 and self._constant(value.func) is len:
            given = self._tuple(value.args[0])
            return None if given is None else len(given)
        return None

    def _tuple(self, variable: Any) -> Any:
        """A tuple that is constant, or the type of one that is an argument or a field of one; None of others."""
        value = self._definition(variable)
        if isinstance(value, self._ir.Arg):
            return found if isinstance(found := self._kinds[value.index], types.BaseTuple) else None
        if getattr(value, "op", None) == "getattr":
            outer = self._tuple(value.value)
            fields = dict(zip(getattr(outer, "fields", ()), getattr(outer, "types", ()), strict=True))
            return found if isinstance(found := fields.get(value.attr), types.BaseTuple) else None
        constant = self._constant(variable)
        return constant if isinstance(constant, tuple) else None

    def writes_out(self, loop: _Loop) -> bool:
        """Write out a loop if it indexes a tuple of arrays or offsets by its number, and return whether so."""
        blocks = self._code.blocks
        statements = sum(len(blocks[label].body) for label in loop.labels)
        if statements * len(loop.numbers) > _MOST_STATEMENTS or not self._indexes(loop):
            return False
        distance = max(blocks) + 1
        copies: dict[int, Any] = {}
        for turn, number in enumerate((*loop.numbers, None)):
            labels = loop.labels if number is not None else [loop.header]
            moved = {label: label + turn * distance for label in labels}
            copies |= self._copied(loop, number, moved | {loop.header: loop.header + (turn + 1) * distance})
            copies[moved[loop.header]] = self._header(loop, number, moved)
        self._code.blocks = {label: block for label, block in blocks.items() if label not in loop.labels} | copies
        self._code._definitions = collections.defaultdict(list)
        for block in self._code.blocks.values():
            for one in block.find_insts(self._ir.Assign):
                self._code._definitions[one.target.name].append(one.value)
        return True

    def _indexes(self, loop: _Loop) -> bool:
        """Whether a loop indexes a tuple of arrays or offsets by its number."""
        known = self._known(loop, 0)
        reads = (one.value for label in loop.labels for one in self._code.blocks[label].find_insts(self._ir.Assign))
        given = (self._tuple(read.value) for read in reads if _is_item(read) and read.index.name in known)
        return any(
            isinstance(one, types.Tuple | types.NamedTuple) or (type(one) is tuple and Offset in map(type, one))
            for one in given
        )

    def _known(self, loop: _Loop, number: int) -> dict[str, int]:
        """The integers that variables of a loop hold all along its turn with a number."""
        known = {loop.number: number}
        for label in (loop.header, loop.first):
            for one in self._code.blocks[label].body:
                self._learn(one, known, loop)
        return known

    def _learn(self, statement: Any, known: dict[str, int], loop: _Loop) -> None:
        """Enter a variable that a statement gives a known integer, if no other of the loop changes it."""
        if isinstance(statement, self._ir.Assign):
            name, value = statement.target.name, self._integer(statement.value, known)
            if value is not None and loop.assigned[name] == 1:
                known[name] = value

    def _integer(self, value: Any, known: dict[str, int]) -> int | None:
        """The value of a copy, or of an item of a constant tuple; None of others."""
        if isinstance(value, self._ir.Var):
            return known.get(value.name)
        if not _is_item(value) or value.index.name not in known:
            return None
        items, index = self._tuple(value.value), known[value.index.name]
        item = items[index] if type(items) is tuple and -len(items) <= index < len(items) else None
        return item if type(item) is int else None

    def _header(self, loop: _Loop, number: int | None, moved: dict[int, int]) -> Any:
        """The block that begins a turn, without a question; after the last turn, number None, it leaves the loop."""
        block = self._code.blocks[loop.header]
        made = self._ir.Block(block.scope, block.loc)
        for one in block.body[:-1]:
            operation = getattr(getattr(one, "value", None), "op", None)
            if operation == "pair_first":
                last = loop.numbers[-1] if number is None else number
                made.append(self._ir.Assign(self._ir.Const(last, one.loc), one.target, one.loc))
            elif operation not in ("iternext", "pair_second"):
                made.append(self._copy(one, {}))
        made.append(self._ir.Jump(loop.end if number is None else moved[loop.first], block.loc))
        return made

    def _copied(self, loop: _Loop, number: int | None, moved: dict[int, int]) -> dict[int, Any]:
        """The other blocks of a turn, by label."""
        if number is None:
            return {}
        known, copies = self._known(loop, number), {}
        for label in loop.labels:
            if label == loop.header:
                continue
            block, here = self._code.blocks[label], dict(known)
            copies[moved[label]] = made = self._ir.Block(block.scope, block.loc)
            for one in block.body:
                made.append(self._jump(one, moved) if one.is_terminator else self._copy(one, here))
                self._learn(one, here, loop)
        return copies

    def _jump(self, end: Any, moved: dict[int, int]) -> Any:
        """The end of a block of a turn."""
        if isinstance(end, self._ir.Jump):
            return self._ir.Jump(moved.get(end.target, end.target), end.loc)
        if isinstance(end, self._ir.Branch):
            there = (moved.get(target, target) for target in (end.truebr, end.falsebr))
            return self._ir.Branch(end.cond, *there, end.loc)
        return copy.copy(end)

    def _copy(self, statement: Any, known: dict[str, int]) -> Any:
        """A statement of a turn: later steps change statements in their place."""
        made = copy.copy(statement)
        value = getattr(statement, "value", None)
        if not isinstance(value, self._ir.Expr):
            return made
        if _is_item(value) and value.index.name in known and self._tuple(value.value) is not None:
            index = known[value.index.name]
            made.value = self._ir.Expr.static_getitem(value.value, index, value.index, value.loc)
        else:
            parts = {name: list(part) if isinstance(part, list) else part for name, part in value._kws.items()}
            made.value = self._ir.Expr(value.op, value.loc, **parts)
        return made


def _is_item(value: Any) -> bool:
    return getattr(value, "op", None) == "getitem"


@infer_global(operator.getitem)
class _Chosen(AbstractTemplate):  # type: ignore[misc]
    """An item at an index that is known when the code runs."""

    def generic(self, args: Any, kws: Any) -> Any:
        items, index = args
        if not isinstance(items, types.Tuple | types.NamedTuple) or not isinstance(index, types.Integer):
            return None
        if all(isinstance(item, OffsetType | StepType) for item in items.types):
            return signature(StepType(max(map(axes, items.types))), items, types.int64)
        if all(isinstance(item, ElementsType) for item in items.types):
            return signature(items.types[0].among(items.types), items, types.int64)
        return None


@lower_builtin(operator.getitem, types.Tuple, types.int64)
@lower_builtin(operator.getitem, types.NamedTuple, types.int64)
def _lower_chosen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kinds, target = sig.args[0].types, sig.return_type
    count = ir.Constant(INT, len(kinds))
    from_end = builder.icmp_signed("<", args[1], ir.Constant(INT, 0))
    index = builder.select(from_end, builder.add(args[1], count), args[1])
    with builder.if_then(builder.icmp_unsigned(">=", index, count), likely=False):
        convention_of(context).return_user_exc(builder, IndexError, ("tuple index out of range",))
    parts: list[Any] = []
    for place, kind in enumerate(kinds):
        own = _parts(builder, context.cast(builder, builder.extract_value(args[0], place), kind, target))
        here = builder.icmp_signed("==", index, ir.Constant(INT, place))
        parts = [builder.select(here, *pair) for pair in zip(own, parts or own, strict=True)]
    return _whole(builder, ir.Constant(context.get_value_type(target), ir.Undefined), iter(parts))


@lower_cast(ElementsType, ElementsType)
def _lower_cast(context: Any, builder: Any, source: ElementsType, target: ElementsType, value: Any) -> Any:
    """Forget which array it is: what the others do not have comes last in a value."""
    return _whole(builder, ir.Constant(context.get_value_type(target), ir.Undefined), iter(_parts(builder, value)))


def _parts(builder: Any, value: Any) -> list[Any]:
    """The numbers and addresses in an LLVM value, in order."""
    if not isinstance(value.type, ir.BaseStructType):
        return [value]
    members = (builder.extract_value(value, place) for place in range(len(value.type.elements)))
    return [part for member in members for part in _parts(builder, member)]


def _whole(builder: Any, value: Any, parts: Iterator[Any]) -> Any:
    """An LLVM value of a type, with numbers and addresses of its own."""
    if not isinstance(value.type, ir.BaseStructType):
        return next(parts)
    for place in range(len(value.type.elements)):
        member = _whole(builder, builder.extract_value(value, place), parts)
        value = builder.insert_value(value, member, place)
    return value
