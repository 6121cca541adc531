"""From PTX text to functions, variables and instructions."""

from __future__ import annotations

import math

from gondwana_emulator.ptx.operands import OperandReader, bits_of
from gondwana_emulator.ptx.syntax import (
    TYPES,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    Variable,
    size_of,
)

_LINKING = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}
_WHOLE_LINES = {".version", ".address_size", ".target", ".file", ".loc"}
_ENDS = {".section": "}", ".pragma": ";", ".alias": ";"}
_LIMITS = {".maxntid", ".reqntid"}


def parse(text: str) -> Module:
    """Read a PTX text.

    Raises:
        InvalidPtxError: the text is not PTX; the message names the line.
    """
    return _Parser(text).module()


class _Parser(OperandReader):
    """Reads functions and variables; `count` numbers the scopes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.count = 0

    # Outside of functions

    def module(self) -> Module:
        module = Module()
        while self.now.kind != "end":
            linking = set()
            while self.now.text in _LINKING:
                linking.add(self.next().text)
            word = self.now.text
            if word in (".entry", ".func"):
                self.function(module)
            elif word in _SPACES:
                for variable in self.variables(extern=".extern" in linking):
                    module.variables[variable.name] = variable
            else:
                self.directive()
        return module

    def directive(self) -> None:
        """Skip a directive without effect on the program."""
        word, line = self.now.text, self.now.line
        if word not in _WHOLE_LINES and word not in _ENDS:
            raise self.wrong(f"unknown directive {word}")
        self.next()
        if word in _WHOLE_LINES:
            while self.now.line == line and self.now.kind != "end":
                self.next()
        else:
            while self.next().text != _ENDS[word]:
                pass

    def function(self, module: Module) -> None:
        entry = self.next().text == ".entry"
        self.count += 1
        results = self.parameters() if self.now.text == "(" else []
        function = Function(self.name(), entry, results=results)
        function.parameters = self.parameters() if self.now.text == "(" else []
        while self.now.text not in ("{", ";"):
            limit = self.name()
            sizes = [self.integer()] if self.now.kind == "int" else []
            while self.accept(","):
                sizes.append(self.integer())
            if limit in _LIMITS:
                function.threads = min(function.threads, math.prod(sizes))
        if self.accept(";"):
            return
        self.expect("{")
        self.block(function)
        module.functions[function.name] = function

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            found.extend(self.declaration(self.space(), extern=False))
            self.accept(",")
        return found

    # Declarations

    def space(self) -> str:
        word = self.name()
        if word not in _SPACES:
            raise self.wrong(f"{word}: parameters in registers are unknown to this machine")
        return _SPACES[word]

    def variables(self, *, extern: bool) -> list[Variable]:
        found = self.declaration(self.space(), extern=extern)
        while self.accept(","):
            found.extend(self.declaration(found[0].space, extern=extern))
        self.expect(";")
        return found

    def declaration(self, space: str, *, extern: bool) -> list[Variable]:
        align, kind, count = 0, "b8", 1
        while self.now.text.startswith("."):
            word = self.next().text[1:]
            if word == "align":
                align = self.integer()
            elif word in TYPES:
                kind = word
            elif word in ("v2", "v4"):
                count = int(word[1:])
        name, unknown = self.name(), False
        while self.accept("["):
            unknown = self.now.text == "]"
            count *= 0 if unknown else self.integer()
            self.expect("]")
        initial = self.initial(kind) if self.accept("=") else None
        size = size_of(kind) * count
        if initial is not None and (unknown or size < len(initial)):
            size = len(initial)
        return [Variable(name, space, align or size_of(kind), 0 if extern and space == "shared" else size, initial)]

    def initial(self, kind: str) -> bytes:
        values, depth = b"", 0
        while True:
            if self.accept("{"):
                depth += 1
            elif self.accept("}"):
                depth -= 1
            elif not self.accept(","):
                values += self.bytes_of(kind)
            if depth == 0:
                return values

    def bytes_of(self, kind: str) -> bytes:
        constant = self.constant()
        if not isinstance(constant, Immediate):
            raise self.wrong("addresses as first values are unknown to this machine")
        width = size_of(kind)
        return bits_of(constant, 8 * width).to_bytes(width, "little")

    def registers(self) -> None:
        kind = self.name()[1:]
        if kind not in TYPES:
            raise self.wrong(f"registers of type {kind} are unknown to this machine")
        while True:
            name = self.name()
            names = [name]
            if self.accept("<"):
                names = [f"{name}{number}" for number in range(self.integer())]
                self.expect(">")
            mark = f"@{self.count}" if len(self.scopes) > 1 else ""
            self.scopes[-1].update({name: Register(name + mark, kind) for name in names})
            if not self.accept(","):
                break
        self.expect(";")

    # Inside of functions

    def block(self, function: Function) -> None:
        self.scopes.append({})
        self.count += 1
        while not self.accept("}"):
            word = self.now.text
            if self.accept("{"):
                self.block(function)
            elif self.accept(".reg"):
                self.registers()
            elif word in _SPACES:
                function.variables.extend(self.variables(extern=False))
            elif word.startswith("."):
                self.directive()
            elif self.tokens[self.at + 1].text == ":":
                self.label(function)
            elif not self.accept(";"):
                function.body.append(self.instruction())
        self.scopes.pop()

    def label(self, function: Function) -> None:
        name = self.name()
        self.expect(":")
        if not self.accept(".branchtargets"):
            function.body.append(Label(name))
            return
        targets = [self.name()]
        while self.accept(","):
            targets.append(self.name())
        self.expect(";")
        function.tables[name] = tuple(targets)

    def instruction(self) -> Instruction:
        first, guard = self.now, self.guard() if self.accept("@") else None
        opcode, *modifiers = self.name().split(".")
        operands = []
        while not self.accept(";"):
            operands.append(self.operand())
            if self.now.text != ";":
                self.expect(",")
        text = " ".join(self.text[first.start : self.tokens[self.at - 1].start].split())
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, first.line, text)
