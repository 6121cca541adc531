"""Operations on bits, and predicates as bits."""

from __future__ import annotations

from gondwana_emulator.ptx.instructions.table import Statement, operation
from gondwana_emulator.ptx.syntax import Immediate
from gondwana_emulator.ptx.writer import bits, integer

_WIDE = 512
"""Bits in which fields of any position and length (to 255 each) can be moved without a case for each excess."""


@operation("and", "or", "xor")
def logic(statement: Statement) -> None:
    """Bit by bit."""
    kind = statement.kind()
    left, right = statement.get(1, kind), statement.get(2, kind)
    statement.put(kind, statement.code.value(f"{statement.opcode} {integer(kind)} {left}, {right}"))


@operation("not")
def complement(statement: Statement) -> None:
    """All bits inverted."""
    kind = statement.kind()
    statement.put(kind, statement.code.value(f"xor {integer(kind)} {statement.get(1, kind)}, -1"))


@operation("cnot")
def logical_not(statement: Statement) -> None:
    """1 for 0, else 0."""
    kind = statement.kind()
    none = statement.code.compare("eq", integer(kind), statement.get(1, kind), "0")
    statement.put(kind, statement.code.value(f"zext i1 {none} to {integer(kind)}"))


@operation("lop3")
def logic_of_three(statement: Statement) -> None:
    """Any function of three bits: the table's bit 4a + 2b + c is the result."""
    kind = statement.kind()
    table = statement.operand(4)
    if not isinstance(table, Immediate):
        raise statement.wrong("the table is no constant")
    code, width = statement.code, integer(kind)
    values = [statement.get(number, kind) for number in (1, 2, 3)]
    both = [(code.value(f"xor {width} {value}, -1"), value) for value in values]
    result = "0"
    for row in range(8):
        if table.value >> row & 1:
            first = code.value(f"and {width} {both[0][row >> 2 & 1]}, {both[1][row >> 1 & 1]}")
            term = code.value(f"and {width} {first}, {both[2][row & 1]}")
            result = code.value(f"or {width} {result}, {term}")
    statement.put(kind, result)


@operation("shl", "shr")
def shift(statement: Statement) -> None:
    """Shifts; from the width on, all bits are gone."""
    kind = statement.kind()
    code, width = statement.code, bits(kind)
    value, count = statement.get(1, kind), statement.get(2, "u32")
    count64 = code.resize(count, 32, 64)
    clamped = code.call("llvm.umin.i64", "i64", ("i64", count64), ("i64", "64"))
    wide = code.resize(value, width, 128, signed=kind[0] == "s")
    how = "shl" if statement.opcode == "shl" else "ashr" if kind[0] == "s" else "lshr"
    shifted = code.value(f"{how} i128 {wide}, {code.resize(clamped, 64, 128)}")
    statement.put(kind, code.resize(shifted, 128, width))


@operation("shf")
def funnel_shift(statement: Statement) -> None:
    """Shifts of two registers as one."""
    left = statement.choice(("l", "r")) == "l"
    wrap = statement.choice(("wrap", "clamp")) == "wrap"
    kind = statement.kind()
    code = statement.code
    low, high, count = (code.resize(statement.get(number, kind), 32, 64) for number in (1, 2, 3))
    both = code.value(f"or i64 {code.value(f'shl i64 {high}, 32')}, {low}")
    if wrap:
        count = code.value(f"and i64 {count}, 31")
    else:
        count = code.call("llvm.umin.i64", "i64", ("i64", count), ("i64", "32"))
    shifted = code.value(f"{'shl' if left else 'lshr'} i64 {both}, {count}")
    if left:
        shifted = code.value(f"lshr i64 {shifted}, 32")
    statement.put(kind, code.resize(shifted, 64, 32))


@operation("bfe")
def extract(statement: Statement) -> None:
    """A field of bits; its bits beyond the register are the sign."""
    kind = statement.kind()
    signed, code, width = kind[0] == "s", statement.code, bits(kind)
    value = code.resize(statement.get(1, kind), width, _WIDE, signed=signed)
    position, length = (_byte(statement, number) for number in (2, 3))
    right = "ashr" if signed else "lshr"
    moved = code.value(f"{right} i{_WIDE} {value}, {position}")
    rest = code.value(f"sub i{_WIDE} {_WIDE - 1}, {length}")  # one less than wanted, for no shift may be of all bits
    raised = code.value(f"shl i{_WIDE} {code.value(f'shl i{_WIDE} {moved}, {rest}')}, 1")
    lowered = code.value(f"{right} i{_WIDE} {code.value(f'{right} i{_WIDE} {raised}, {rest}')}, 1")
    statement.put(kind, code.resize(lowered, _WIDE, width))


@operation("bfi")
def insert(statement: Statement) -> None:
    """A field of bits put into another register."""
    kind = statement.kind()
    code, width = statement.code, bits(kind)
    field, into = (code.resize(statement.get(number, kind), width, _WIDE) for number in (1, 2))
    position, length = (_byte(statement, number) for number in (3, 4))
    power = code.value(f"shl i{_WIDE} 1, {length}")
    mask = code.value(f"shl i{_WIDE} {code.value(f'sub i{_WIDE} {power}, 1')}, {position}")
    moved = code.value(f"and i{_WIDE} {code.value(f'shl i{_WIDE} {field}, {position}')}, {mask}")
    kept = code.value(f"and i{_WIDE} {into}, {code.value(f'xor i{_WIDE} {mask}, -1')}")
    statement.put(kind, code.resize(code.value(f"or i{_WIDE} {moved}, {kept}"), _WIDE, width))


def _byte(statement: Statement, number: int) -> str:
    low = statement.code.value(f"and i32 {statement.get(number, 'u32')}, 255")
    return statement.code.resize(low, 32, _WIDE)


@operation("prmt")
def permute(statement: Statement) -> None:
    """Four bytes chosen from eight; a selector's top bit asks for the sign of the byte instead."""
    kind = statement.kind()
    code = statement.code
    low, high, selector = (code.resize(statement.get(number, kind), 32, 64) for number in (1, 2, 3))
    both = code.value(f"or i64 {code.value(f'shl i64 {high}, 32')}, {low}")
    result = "0"
    for place in range(4):
        nibble = code.value(f"lshr i64 {selector}, {4 * place}")
        distance = code.value(f"shl i64 {code.value(f'and i64 {nibble}, 7')}, 3")
        byte = code.value(f"trunc i64 {code.value(f'lshr i64 {both}, {distance}')} to i8")
        sign = code.value(f"ashr i8 {byte}, 7")
        asked = code.compare("ne", "i64", code.value(f"and i64 {nibble}, 8"), "0")
        chosen = code.value(f"zext i8 {code.select(asked, 'i8', sign, byte)} to i64")
        result = code.value(f"or i64 {result}, {code.value(f'shl i64 {chosen}, {8 * place}')}")
    statement.put(kind, code.resize(result, 64, 32))


@operation("popc", "brev", "clz")
def count(statement: Statement) -> None:
    """Counts of bits, and their reversal."""
    kind = statement.kind()
    value = (integer(kind), statement.get(1, kind))
    if statement.opcode == "brev":
        statement.put(kind, statement.code.call(f"llvm.bitreverse.{integer(kind)}", integer(kind), value))
        return
    name = "llvm.ctpop" if statement.opcode == "popc" else "llvm.ctlz"
    flags = (("i1", "false"),) if statement.opcode == "clz" else ()
    found = statement.code.call(f"{name}.{integer(kind)}", integer(kind), value, *flags)
    statement.put("u32", statement.code.resize(found, bits(kind), 32))


@operation("bfind")
def find(statement: Statement) -> None:
    """The place of the first bit that is not the sign."""
    distance = statement.flag("shiftamt")
    kind = statement.kind()
    code, width = statement.code, integer(kind)
    value = statement.get(1, kind)
    if kind[0] == "s":
        value = code.value(f"xor {width} {value}, {code.value(f'ashr {width} {value}, {bits(kind) - 1}')}")
    zeros = code.call(f"llvm.ctlz.{width}", width, (width, value), ("i1", "false"))
    place = zeros if distance else code.value(f"sub {width} {bits(kind) - 1}, {zeros}")
    found = code.select(code.compare("eq", width, value, "0"), width, "-1", place)
    statement.put("u32", code.resize(found, bits(kind), 32))
