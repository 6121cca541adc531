"""Inlining of functions into the kernels that call them, so that a thread can be stopped anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gondwana_emulator.ptx.syntax import (
    Address,
    Function,
    Instruction,
    InvalidPtxError,
    Label,
    Module,
    Names,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

Item = Instruction | Label


@dataclass(slots=True)
class Kernel:
    """A kernel without calls.

    Attributes:
        name: name of the kernel.
        parameters: parameters of the kernel.
        threads: most threads of a block.
        body: instructions and labels in order.
        slots: variables in the memory of each thread, by name.
        shared: shared memory declared inside.
        tables: labels that indexed branches choose from.
    """

    name: str
    parameters: list[Variable]
    threads: int
    body: list[Item] = field(default_factory=list)
    slots: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


def flatten(module: Module, function: Function) -> Kernel:
    """Return a kernel with all functions that it calls.

    Raises:
        InvalidPtxError: the kernel calls a missing function, or itself.
    """
    kernel = Kernel(function.name, function.parameters, function.threads)
    _Inliner(module, kernel).put(function, {}, (function.name,))
    return kernel


class _Inliner:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module = module
        self.kernel = kernel
        self.calls = 0

    def put(self, function: Function, actual: dict[str, str], callers: tuple[str, ...]) -> None:
        """Append a function's body. `actual` has the caller's names for its parameters and results."""
        mark = f"{self.calls}:" if len(callers) > 1 else ""
        names = dict(actual)
        for variable in function.variables:
            if variable.space == "shared":
                self.kernel.shared[variable.name] = variable
            else:
                self._slot(variable._replace(name=mark + variable.name))
                names[variable.name] = mark + variable.name
        for item in function.body:
            if isinstance(item, Label):
                names[item.name] = mark + item.name
        for name, labels in function.tables.items():
            names[name] = mark + name
            self.kernel.tables[mark + name] = tuple(names[label] for label in labels)
        rename = _renaming(mark, names)
        for item in function.body:
            self._item(item, rename, mark, callers)
        if mark:
            self.kernel.body.append(Label(mark + "end"))

    def _slot(self, variable: Variable) -> None:
        """Variables of the same name are never alive at once: they share the memory of the largest."""
        known = self.kernel.slots.get(variable.name)
        if known is None or known.size < variable.size:
            self.kernel.slots[variable.name] = variable

    def _item(self, item: Item, rename: Callable[[Operand], Operand], mark: str, callers: tuple[str, ...]) -> None:
        if isinstance(item, Label):
            self.kernel.body.append(Label(_symbol(rename(Symbol(item.name)))))
            return
        guard = rename(item.guard) if item.guard else None
        item = replace(item, operands=tuple(rename(o) for o in item.operands), guard=guard)  # type: ignore[arg-type]
        if item.opcode == "call":
            self._call(item, callers)
        elif item.opcode == "ret" and mark:
            self.kernel.body.append(replace(item, opcode="bra", modifiers=(), operands=(Symbol(mark + "end"),)))
        else:
            self.kernel.body.append(item)

    def _call(self, item: Instruction, callers: tuple[str, ...]) -> None:
        parts = list(item.operands)
        results: tuple[Operand, ...] = ()
        if isinstance(parts[0], Names):
            results, parts = parts[0].parts, parts[1:]
        name = _symbol(parts.pop(0))
        arguments = parts[0].parts if parts and isinstance(parts[0], Names) else ()
        callee = self.module.functions.get(name)
        if callee is None:
            raise InvalidPtxError(f"there is no function {name}", item.line, item.text)
        if name in callers:
            raise InvalidPtxError(f"{name} calls itself, which this machine does not know", item.line, item.text)
        if len(results) != len(callee.results) or len(arguments) != len(callee.parameters):
            raise InvalidPtxError(f"{name} takes other parameters", item.line, item.text)
        self.calls += 1
        skip = f"{self.calls}:skip"
        if item.guard:
            self.kernel.body.append(replace(item, opcode="bra", operands=(Symbol(skip),), guard=_turned(item.guard)))
        actual = {}
        for variable, given in zip(callee.results + callee.parameters, results + arguments, strict=True):
            actual[variable.name] = self._passed(variable, given)
            if variable in callee.parameters and isinstance(given, Register):
                place = Address(Symbol(actual[variable.name]), 0)
                self.kernel.body.append(
                    Instruction("st", ("param", _bits(given)), (place, given), None, item.line, item.text)
                )
        self.put(callee, actual, (*callers, name))
        for variable, given in zip(callee.results, results, strict=True):
            if isinstance(given, Register):
                place = Address(Symbol(actual[variable.name]), 0)
                self.kernel.body.append(
                    Instruction("ld", ("param", _bits(given)), (given, place), None, item.line, item.text)
                )
        if item.guard:
            self.kernel.body.append(Label(skip))

    def _passed(self, variable: Variable, given: Operand) -> str:
        """The name of the memory of a parameter in this call."""
        if isinstance(given, Symbol):
            return given.name
        slot = variable._replace(name=f"{self.calls}:{variable.name}")
        self._slot(slot)
        return slot.name


def _bits(register: Register) -> str:
    return f"b{register.kind[1:]}"


def _turned(guard: Register | Negated) -> Register | Negated:
    return guard.register if isinstance(guard, Negated) else Negated(guard)


def _symbol(operand: Operand) -> str:
    assert isinstance(operand, Symbol), operand
    return operand.name


def _renaming(mark: str, names: dict[str, str]) -> Callable[[Operand], Operand]:
    def rename(operand: Operand) -> Operand:
        match operand:
            case Register(name, kind):
                return Register(mark + name, kind)
            case Symbol(name):
                return Symbol(names.get(name, name))
            case Address(base, offset):
                return operand if base is None else Address(rename(base), offset)  # type: ignore[arg-type]
            case Vector(parts) | Names(parts):
                return type(operand)(tuple(rename(part) for part in parts))
            case Pair(first, second):
                return Pair(rename(first), rename(second))
            case Negated(register):
                return Negated(rename(register))  # type: ignore[arg-type]
        return operand

    return rename
