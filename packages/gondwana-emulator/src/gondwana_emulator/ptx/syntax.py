"""The syntax elements of PTX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gondwana.gpu.interface import CudaError


class Register(NamedTuple):
    """A register of a thread; `name` is unique in its function, `kind` such as "b32" or "pred"."""

    name: str
    kind: str


class Special(NamedTuple):
    """A register with the place of a thread, such as %tid.x; "_" stands for an unwanted result."""

    name: str


class Immediate(NamedTuple):
    """A constant: `kind` is "int", or "f32" or "f64" with the bits of the number as the value."""

    value: int
    kind: str


class Symbol(NamedTuple):
    """The name of a variable, a function or a label."""

    name: str


class Address(NamedTuple):
    """A place in memory; without brackets the same stands for its address."""

    base: Register | Symbol | None
    offset: int


class Vector(NamedTuple):
    """Several operands in braces."""

    parts: tuple[Operand, ...]


class Pair(NamedTuple):
    """A result and the predicate that comes with it, joined by a bar."""

    first: Operand
    second: Operand


class Negated(NamedTuple):
    """The opposite of a predicate."""

    register: Register


class Names(NamedTuple):
    """Operands in parentheses, as in calls."""

    parts: tuple[Operand, ...]


Operand: TypeAlias = Register | Special | Immediate | Symbol | Address | Vector | Pair | Negated | Names


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: opcode, such as "ld".
        modifiers: modifiers, such as ("global", "f64").
        operands: operands, the result first.
        guard: condition of its execution, None without one.
        line: number of its line in the text.
        text: text of the instruction.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    """The target of branches."""

    name: str


class Variable(NamedTuple):
    """Something in memory; `initial` are its first bytes or None; `size` is 0 if the launch determines it."""

    name: str
    space: str
    align: int
    size: int
    initial: bytes | None = None


@dataclass(slots=True)
class Function:
    """A kernel or a function that kernels call.

    Attributes:
        name: name of the function.
        entry: whether the function is a kernel.
        parameters: parameters of the function.
        results: results of the function.
        variables: variables declared inside.
        body: instructions and labels in order.
        tables: lists of labels that indexed branches choose from.
        threads: most threads of a block.
    """

    name: str
    entry: bool
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] = field(default_factory=list)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    threads: int = 1024


@dataclass(slots=True)
class Module:
    """A PTX text."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
TYPES = {f"{letter}{bits}" for letter in "bus" for bits in BYTES} | {"f32", "f64", "pred"}


def size_of(kind: str) -> int:
    """Return the bytes of a type."""
    return BYTES[kind[1:]] if kind != "pred" else 1


class InvalidPtxError(CudaError):
    """The text is not PTX, or PTX that this machine does not know."""

    def __init__(self, reason: str, line: int, text: str = "") -> None:
        super().__init__(f"CUDA_ERROR_INVALID_PTX: line {line}: {reason}" + (f" in: {text}" if text else ""))
