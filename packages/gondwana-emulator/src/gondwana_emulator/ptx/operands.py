"""Operands of PTX instructions."""

from __future__ import annotations

import struct

from gondwana_emulator.ptx.lex import Reader, integer
from gondwana_emulator.ptx.syntax import (
    Address,
    Immediate,
    Names,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)


class OperandReader(Reader):
    """Reads operands. `scopes` are the registers declared in the open braces, inner ones last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[dict[str, Register]] = []

    def guard(self) -> Register | Negated:
        """Read the predicate of an instruction."""
        negated = self.accept("!")
        register = self._register(self.name())
        return Negated(register) if negated else register

    def _register(self, name: str) -> Register:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise self.wrong(f"{name} is no register")

    def operand(self) -> Operand:
        """Read an operand."""
        if self.accept("{"):
            return Vector(self._operands("}"))
        if self.accept("("):
            return Names(self._operands(")"))
        if self.accept("["):
            inside = self._sum()
            self.expect("]")
            return inside
        if self.accept("!"):
            return Negated(self._register(self.name()))
        found: Operand = self.constant()
        if self.accept("|"):
            return Pair(found, self.constant())
        if self.now.text == "+" and isinstance(found, Symbol):
            self.next()
            return Address(found, self.integer())
        return found

    def _operands(self, end: str) -> tuple[Operand, ...]:
        """Read operands up to a closing mark."""
        found = []
        while not self.accept(end):
            found.append(self.operand())
            self.accept(",")
        return tuple(found)

    def _sum(self) -> Address:
        """Read an address in brackets."""
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
            return self._named(self.next().text)
        negative = bool(self.accept("-"))
        kind, text = self.now.kind, self.now.text
        if kind == "int":
            return Immediate(-integer(self.next().text) if negative else integer(self.next().text), "int")
        if kind != "float":
            raise self.wrong(f"an operand expected, found {text!r}")
        self.next()
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16) ^ (negative << 31), "f32")
        bits = int(text[2:], 16) if text[:2] in ("0d", "0D") else struct.unpack("<Q", struct.pack("<d", float(text)))[0]
        return Immediate(bits ^ (negative << 63), "f64")

    def _named(self, name: str) -> Register | Special | Immediate | Symbol:
        if name == "WARP_SZ":
            return Immediate(32, "int")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return Special(name) if name[0] == "%" or name == "_" else Symbol(name)


def bits_of(constant: Immediate, width: int) -> int:
    """Return the bits of a constant in a register of `width` bits."""
    value, kind = constant
    if kind == "f32" and width == 64:
        value = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))[0]
    elif kind == "f64" and width == 32:
        value = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0]))[0]
    return value & ((1 << width) - 1)
