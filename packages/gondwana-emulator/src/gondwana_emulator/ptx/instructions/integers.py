"""Integer arithmetic."""

from __future__ import annotations

from gondwana_emulator.ptx.instructions.table import Statement, operation
from gondwana_emulator.ptx.writer import bits, integer

_CARRY = "%carry"
"""The place of a thread's carry flag."""


def wide(statement: Statement, kind: str, number: int, width: int) -> str:
    """Return an operand extended to `width` bits."""
    value = statement.get(number, kind)
    return statement.code.resize(value, bits(kind), width, signed=kind[0] == "s")


def clamp(statement: Statement, value: str, source: int, kind: str, *, signed: bool) -> str:
    """Return an integer of `source` bits limited to the range of a type, in that type."""
    code, width = statement.code, bits(kind)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    for bound, bigger in ((high, True), (low, False)):
        if not -(1 << source - 1) <= bound < 1 << source - signed:
            continue
        name = f"llvm.{'s' if signed else 'u'}{'min' if bigger else 'max'}.i{source}"
        if signed or bigger:
            value = code.call(name, f"i{source}", (f"i{source}", value), (f"i{source}", str(bound)))
    return code.resize(value, source, width, signed=signed)


@operation("add", "sub", "addc", "subc", on="integer")
def add(statement: Statement) -> None:
    """Sums and differences; with a carry flag they are one bit wider."""
    carry_out = statement.flag("cc")
    saturate = statement.flag("sat")
    kind = statement.kind()
    width, code = bits(kind), statement.code
    how = statement.opcode[:3]
    if not carry_out and not saturate and statement.opcode == how:
        left, right = statement.get(1, kind), statement.get(2, kind)
        statement.put(kind, code.value(f"{how} i{width} {left}, {right}"))
        return
    double = f"i{2 * width}"
    source = f"{'s' if saturate else 'u'}{width}"
    left, right = (wide(statement, source, number, 2 * width) for number in (1, 2))
    value = code.value(f"{how} {double} {left}, {right}")
    if statement.opcode != how:
        value = code.value(f"{how} {double} {value}, {_carry_in(statement, 2 * width)}")
    if saturate:
        statement.put(kind, clamp(statement, value, 2 * width, kind, signed=True))
        return
    _finish_carry(statement, kind, value, out=carry_out)


def _carry_in(statement: Statement, width: int) -> str:
    flag = statement.code.value(f"load i1, ptr {_CARRY}")
    return statement.code.value(f"zext i1 {flag} to i{width}")


def _finish_carry(statement: Statement, kind: str, value: str, *, out: bool) -> None:
    """Write the low half of a sum of double width, and note its carry."""
    code, width = statement.code, bits(kind)
    if out:
        high = code.value(f"lshr i{2 * width} {value}, {width}")
        code.line(f"store i1 {code.value(f'trunc i{2 * width} {high} to i1')}, ptr {_CARRY}")
    statement.put(kind, code.resize(value, 2 * width, width))


@operation("mul", "mad", "madc", on="integer")
def multiply(statement: Statement) -> None:
    """Products, and products with a sum: the low half, the high half, or both."""
    part = statement.choice(("lo", "hi", "wide"))
    carry_out = statement.flag("cc")
    saturate = statement.flag("sat")
    kind = statement.kind()
    width, code = bits(kind), statement.code
    double = f"i{2 * width}"
    left, right = (wide(statement, kind, number, 2 * width) for number in (1, 2))
    value = code.value(f"mul {double} {left}, {right}")
    if part == "wide":
        both = f"{kind[0]}{2 * width}"
        if statement.opcode == "mad":
            value = code.value(f"add {double} {value}, {statement.get(3, both)}")
        statement.put(both, value)
        return
    if part == "hi":
        value = code.value(f"lshr {double} {value}, {width}")
    value = code.resize(value, 2 * width, width)
    if statement.opcode == "mul":
        statement.put(kind, value)
        return
    third = f"{'s' if saturate else 'u'}{width}"
    value = code.resize(value, width, 2 * width, signed=saturate)
    value = code.value(f"add {double} {value}, {wide(statement, third, 3, 2 * width)}")
    if statement.opcode == "madc":
        value = code.value(f"add {double} {value}, {_carry_in(statement, 2 * width)}")
    if saturate:
        statement.put(kind, clamp(statement, value, 2 * width, kind, signed=True))
    else:
        _finish_carry(statement, kind, value, out=carry_out)


@operation("mul24", "mad24")
def multiply24(statement: Statement) -> None:
    """Products of the low 24 bits."""
    high = statement.choice(("lo", "hi")) == "hi"
    kind = statement.kind()
    code = statement.code
    right_shift = "ashr" if kind[0] == "s" else "lshr"
    parts = []
    for number in (1, 2):
        raised = code.value(f"shl i32 {statement.get(number, kind)}, 8")
        lowered = code.value(f"{right_shift} i32 {raised}, 8")
        parts.append(code.resize(lowered, 32, 64, signed=kind[0] == "s"))
    value = code.value(f"mul i64 {parts[0]}, {parts[1]}")
    if high:
        value = code.value(f"lshr i64 {value}, 16")
    value = code.resize(value, 64, 32)
    if statement.opcode == "mad24":
        value = code.value(f"add i32 {value}, {statement.get(3, kind)}")
    statement.put(kind, value)


@operation("div", "rem", on="integer")
def divide(statement: Statement) -> None:
    """Quotients and remainders. By zero: all ones, as on devices; LLVM would stop the process."""
    kind = statement.kind()
    signed, code, width = kind[0] == "s", statement.code, integer(kind)
    left, right = statement.get(1, kind), statement.get(2, kind)
    zero = code.compare("eq", width, right, "0")
    minus = code.compare("eq", width, right, "-1") if signed else "false"
    divisor = code.select(code.value(f"or i1 {zero}, {minus}"), width, "1", right)
    value = code.value(f"{'s' if signed else 'u'}{statement.opcode} {width} {left}, {divisor}")
    if signed:
        turned = code.value(f"sub {width} 0, {left}") if statement.opcode == "div" else "0"
        value = code.select(minus, width, turned, value)
    statement.put(kind, code.select(zero, width, "-1" if statement.opcode == "div" else left, value))


@operation("min", "max", on="integer")
def extreme(statement: Statement) -> None:
    """The smaller or the larger of two."""
    kind = statement.kind()
    name = f"llvm.{'s' if kind[0] == 's' else 'u'}{statement.opcode}.{integer(kind)}"
    statement.put(kind, statement.code.call(name, integer(kind), *statement.values(kind, 2)))


@operation("abs", on="integer")
def absolute(statement: Statement) -> None:
    """The absolute value; the smallest integer stays."""
    kind = statement.kind()
    value = (integer(kind), statement.get(1, kind))
    statement.put(kind, statement.code.call(f"llvm.abs.{integer(kind)}", integer(kind), value, ("i1", "false")))


@operation("neg", on="integer")
def negate(statement: Statement) -> None:
    """The negative."""
    kind = statement.kind()
    statement.put(kind, statement.code.value(f"sub {integer(kind)} 0, {statement.get(1, kind)}"))


@operation("sad")
def sum_of_differences(statement: Statement) -> None:
    """C + |a - b|."""
    kind = statement.kind()
    code, width, order = statement.code, integer(kind), "sgt" if kind[0] == "s" else "ugt"
    left, right = statement.get(1, kind), statement.get(2, kind)
    ahead = code.value(f"sub {width} {left}, {right}")
    back = code.value(f"sub {width} {right}, {left}")
    gap = code.select(code.compare(order, width, left, right), width, ahead, back)
    statement.put(kind, code.value(f"add {width} {gap}, {statement.get(3, kind)}"))
