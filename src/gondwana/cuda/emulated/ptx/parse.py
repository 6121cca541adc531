"""From PTX text to functions, variables and instructions."""

from __future__ import annotations

import math
import struct

from gondwana.cuda.emulated.ptx.lex import Token, tokens
from gondwana.cuda.emulated.ptx.syntax import (
    TYPES,
    Address,
    Function,
    Immediate,
    Instruction,
    InvalidPtxError,
    Label,
    Module,
    Names,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
    size_of,
)  # fmt: skip

_LINKING = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}
_LIMITS = {".maxntid", ".reqntid"}


def parse(text: str) -> Module:
    """Read a PTX text.

    Raises:
        InvalidPtxError: it is none; the line is named.
    """
    return _Parser(text).module()


class _Parser:
    """Reads from left to right. `scopes` are the registers declared in the open braces, inner ones last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.scopes: list[dict[str, Register]] = []
        self.count = 0

    # Words

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *texts: str) -> str:
        return self.next().text if self.now.text in texts and self.now.kind != "string" else ""

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.wrong(f"{text!r} expected, found {self.now.text!r}")

    def wrong(self, reason: str) -> InvalidPtxError:
        return InvalidPtxError(reason, self.now.line)

    def name(self) -> str:
        if self.now.kind != "word":
            raise self.wrong(f"a name expected, found {self.now.text!r}")
        return self.next().text

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.now.kind != "int":
            raise self.wrong(f"a number expected, found {self.now.text!r}")
        return sign * _integer(self.next().text)

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
        """Skip what does not change what a program does."""
        word, line = self.name(), self.now.line
        if word in (".version", ".address_size", ".target", ".file", ".loc"):
            while self.now.line == line and self.now.kind != "end":
                self.next()
        elif word == ".section":
            while self.next().text != "}":
                pass
        elif word in (".pragma", ".alias"):
            while self.next().text != ";":
                pass
        else:
            raise self.wrong(f"unknown directive {word}")

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

    def guard(self) -> Register | Negated:
        negated = self.accept("!")
        register = self.register(self.name())
        return Negated(register) if negated else register

    def register(self, name: str) -> Register:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise self.wrong(f"{name} is no register")

    def operand(self) -> Operand:
        if self.accept("{"):
            return Vector(self.operands("}"))
        if self.accept("("):
            return Names(self.operands(")"))
        if self.accept("["):
            inside = self.sum()
            self.expect("]")
            return inside
        if self.accept("!"):
            return Negated(self.register(self.name()))
        found: Operand = self.constant()
        if self.accept("|"):
            return Pair(found, self.constant())
        if self.now.text == "+" and isinstance(found, Symbol):
            self.next()
            return Address(found, self.integer())
        return found

    def operands(self, end: str) -> tuple[Operand, ...]:
        found = []
        while not self.accept(end):
            found.append(self.operand())
            self.accept(",")
        return tuple(found)

    def sum(self) -> Address:
        base = self.constant()
        if isinstance(base, Immediate):
            return Address(None, base.value)
        if not isinstance(base, Register | Symbol):
            raise self.wrong("no address")
        if self.accept("+"):
            return Address(base, self.integer())
        return Address(base, self.integer() if self.now.text == "-" else 0)

    def constant(self) -> Register | Special | Immediate | Symbol:
        """A number or a name."""
        if self.now.kind == "word":
            return self.named(self.next().text)
        negative = bool(self.accept("-"))
        kind, text = self.now.kind, self.now.text
        if kind == "int":
            return Immediate(-_integer(self.next().text) if negative else _integer(self.next().text), "int")
        if kind != "float":
            raise self.wrong(f"an operand expected, found {text!r}")
        self.next()
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16) ^ (negative << 31), "f32")
        bits = int(text[2:], 16) if text[:2] in ("0d", "0D") else struct.unpack("<Q", struct.pack("<d", float(text)))[0]
        return Immediate(bits ^ (negative << 63), "f64")

    def named(self, name: str) -> Register | Special | Immediate | Symbol:
        if name == "WARP_SZ":
            return Immediate(32, "int")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return Special(name) if name[0] == "%" or name == "_" else Symbol(name)


def _integer(text: str) -> int:
    return int(text.rstrip("U"), 16) if text[:2] in ("0x", "0X") else int(text.rstrip("U"))


def bits_of(constant: Immediate, width: int) -> int:
    """Return the bits of a constant in a register of so many bits."""
    value, kind = constant
    if kind == "f32" and width == 64:
        value = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))[0]
    elif kind == "f64" and width == 32:
        value = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0]))[0]
    return value & ((1 << width) - 1)
