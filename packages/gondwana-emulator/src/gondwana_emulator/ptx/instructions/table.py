"""The table of operations, and the argument of a function in it: one instruction, and the writer of the code for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gondwana_emulator.ptx.context import Context
from gondwana_emulator.ptx.syntax import TYPES, Instruction, InvalidPtxError, Operand
from gondwana_emulator.ptx.writer import native

Operation: TypeAlias = Callable[["Statement"], None]

OPERATIONS: dict[tuple[str, str], Operation] = {}
"""Operations by opcode, and "integer" or "float" for those that differ in them, else ""."""


def operation(*opcodes: str, on: str = "") -> Callable[[Operation], Operation]:
    """Enter a function in the table."""

    def enter(function: Operation) -> Operation:
        OPERATIONS.update({(opcode, on): function for opcode in opcodes})
        return function

    return enter


class Statement:
    """An instruction on its way through the table: handled modifiers are removed."""

    def __init__(self, instruction: Instruction, context: Context) -> None:
        self.instruction = instruction
        self.opcode = instruction.opcode
        self.context = context
        self.code = context.code
        self.rest = list(instruction.modifiers)

    def translate(self) -> None:
        """Write the code.

        Raises:
            InvalidPtxError: the machine does not know the instruction.
        """
        kinds = [word for word in self.rest if word in TYPES]
        on = "float" if kinds and kinds[-1][0] == "f" else "integer"
        function = OPERATIONS.get((self.opcode, on)) or OPERATIONS.get((self.opcode, ""))
        if function is None:
            raise self.wrong("this machine does not know the instruction")
        function(self)
        if self.rest:
            raise self.wrong(f"this machine does not know .{self.rest[0]}")

    def wrong(self, reason: str) -> InvalidPtxError:
        """Return the error that names the instruction."""
        return InvalidPtxError(reason, self.instruction.line, self.instruction.text)

    def flag(self, *words: str) -> bool:
        """Remove modifiers; return whether one was there."""
        found = [word for word in self.rest if word in words]
        for word in found:
            self.rest.remove(word)
        return bool(found)

    def choice(self, words: Sequence[str], otherwise: str = "") -> str:
        """Remove one of several modifiers and return it."""
        for word in self.rest:
            if word in words:
                self.rest.remove(word)
                return word
        if not otherwise:
            raise self.wrong(f"one of .{', .'.join(words)} is missing")
        return otherwise

    def kind(self) -> str:
        """Remove the first type and return it."""
        return self.choice([word for word in self.rest if word in TYPES] or ["type"])

    def operand(self, number: int) -> Operand:
        """Return an operand as it is written."""
        if number >= len(self.instruction.operands):
            raise self.wrong("an operand is missing")
        return self.instruction.operands[number]

    def get(self, number: int, kind: str) -> str:
        """Return the value of an operand in LLVM's type for `kind`."""
        return self.context.get(self.operand(number), kind)

    def put(self, kind: str, value: str, number: int = 0) -> None:
        """Write a result of LLVM's type for `kind`."""
        self.context.put(self.operand(number), kind, value)

    def values(self, kind: str, count: int) -> list[tuple[str, str]]:
        """Return types and values of the operands after the result, as calls take them."""
        return [(native(kind), self.get(number, kind)) for number in range(1, count + 1)]
