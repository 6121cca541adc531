"""Atomic operations."""

from __future__ import annotations

from gondwana_emulator.ptx.memory import space_of
from gondwana_emulator.ptx.operations import Statement, operation
from gondwana_emulator.ptx.reach import reach
from gondwana_emulator.ptx.writer import bits, integer, native

_SAME = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}
_NAMES = (*_SAME, "min", "max", "cas")
_WORDS = ("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz")


@operation("atom", "red")
def update(statement: Statement) -> None:
    """Read, change and write memory in one step; `red` does not return what was there."""
    statement.flag(*_WORDS)
    space = space_of(statement)
    name = statement.choice(_NAMES)
    kind = statement.kind()
    first = 0 if statement.opcode == "red" else 1
    code, width = statement.code, integer(kind)
    pointer = reach(statement, space, first, bits(kind) // 8)
    if name == "cas":
        given = f"{width} {statement.get(2, whole(kind))}, {width} {statement.get(3, whole(kind))}"
        both = code.value(f"cmpxchg ptr {pointer}, {given} seq_cst seq_cst")
        before = code.value(f"extractvalue {{ {width}, i1 }} {both}, 0")
    elif kind[0] == "f" and name != "exch":
        if name != "add":
            raise statement.wrong("this machine knows only sums of floating-point numbers")
        value = f"{native(kind)} {statement.get(first + 1, kind)}"
        before = code.value(f"atomicrmw fadd ptr {pointer}, {value} seq_cst")
        before = code.convert("bitcast", native(kind), before, width)
    else:
        how = _SAME.get(name) or (name if kind[0] == "s" else f"u{name}")
        value = f"{width} {statement.get(first + 1, whole(kind))}"
        before = code.value(f"atomicrmw {how} ptr {pointer}, {value} seq_cst")
    if statement.opcode == "atom":
        statement.put(whole(kind), before)


def whole(kind: str) -> str:
    """Return the type of bits of the width of a type."""
    return f"b{bits(kind)}"
