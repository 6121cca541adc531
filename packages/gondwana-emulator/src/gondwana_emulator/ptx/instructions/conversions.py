"""Comparisons, choices, conversions and moves."""

from __future__ import annotations

from gondwana_emulator.ptx.instructions.floats import flush, rounded, saturate
from gondwana_emulator.ptx.instructions.integers import clamp
from gondwana_emulator.ptx.instructions.table import Statement, operation
from gondwana_emulator.ptx.syntax import Pair, Vector
from gondwana_emulator.ptx.writer import bits, integer, native

_REAL = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _compare(statement: Statement, how: str, kind: str, *, ftz: bool) -> str:
    code, left, right = statement.code, statement.get(1, kind), statement.get(2, kind)
    if kind[0] == "f":
        if ftz:
            left, right = flush(statement, kind, left), flush(statement, kind, right)
        return code.value(f"fcmp {_REAL[how]} {native(kind)} {left}, {right}")
    if how not in ("eq", "ne"):
        how = f"u{_UNSIGNED[how]}" if how in _UNSIGNED else f"{'s' if kind[0] == 's' else 'u'}{how}"
    return code.compare(how, integer(kind), left, right)


@operation("setp", "set")
def compare(statement: Statement) -> None:
    """Comparisons, combined with another predicate if given; the second result is the opposite comparison."""
    how = statement.choice((*_REAL, *_UNSIGNED))
    join = statement.choice(("and", "or", "xor"), "none")
    ftz = statement.flag("ftz")
    target = statement.kind() if statement.opcode == "set" else "pred"
    kind = statement.kind()
    code = statement.code
    holds = _compare(statement, how, kind, ftz=ftz)
    third = statement.get(3, "pred") if join != "none" else ""
    results = statement.operand(0)
    both = (results.first, results.second) if isinstance(results, Pair) else (results,)
    for result in both:
        value = code.value(f"{join} i1 {holds}, {third}") if third else holds
        if target[0] == "f":
            value = code.select(value, "float", "1.0", "0.0")
        elif target != "pred":
            value = code.value(f"sext i1 {value} to {integer(target)}")
        statement.context.put(result, target, value)
        holds = code.value(f"xor i1 {holds}, true")


@operation("selp")
def select(statement: Statement) -> None:
    """The first if the predicate holds, else the second."""
    kind = statement.kind()
    values = statement.get(1, kind), statement.get(2, kind)
    statement.put(kind, statement.code.select(statement.get(3, "pred"), native(kind), *values))


@operation("slct")
def select_by_sign(statement: Statement) -> None:
    """The first if the third is not negative, else the second."""
    ftz = statement.flag("ftz")
    kind, sign = statement.kind(), statement.kind()
    code, third = statement.code, statement.get(3, sign)
    if sign[0] == "f":
        third = flush(statement, sign, third) if ftz else third
        first = code.value(f"fcmp oge {native(sign)} {third}, 0.0")
    else:
        first = code.compare("sge", integer(sign), third, "0")
    statement.put(kind, code.select(first, native(kind), statement.get(1, kind), statement.get(2, kind)))


@operation("mov")
def move(statement: Statement) -> None:
    """Copies of registers, and of several narrow ones to or from a wide one."""
    kind = statement.kind()
    target, source = statement.operand(0), statement.operand(1)
    code, width = statement.code, bits(kind)
    if isinstance(target, Vector):
        whole = statement.get(1, f"b{width}")
        part = width // len(target.parts)
        for place, operand in enumerate(target.parts):
            moved = code.value(f"lshr i{width} {whole}, {place * part}")
            statement.context.put(operand, f"b{part}", code.resize(moved, width, part))
    elif isinstance(source, Vector):
        part, whole = width // len(source.parts), "0"
        for place, operand in enumerate(source.parts):
            value = code.resize(statement.context.get(operand, f"b{part}"), part, width)
            whole = code.value(f"or i{width} {whole}, {code.value(f'shl i{width} {value}, {place * part}')}")
        statement.put(f"b{width}", whole)
    else:
        statement.put(kind, statement.get(1, kind))


@operation("cvt")
def convert(statement: Statement) -> None:
    """Conversions between all types."""
    whole = statement.choice(tuple(_TO_INTEGER), "none")
    rounding = statement.choice(("rn", "rz", "rm", "rp"), "rn")
    ftz, clamped = statement.flag("ftz"), statement.flag("sat")
    target, source = statement.kind(), statement.kind()
    value = statement.get(1, source)
    if ftz:
        value = flush(statement, source, value)
    if source[0] == "f" and whole != "none":
        name = f"llvm.{_TO_INTEGER[whole]}.{source}"
        value = statement.code.call(name, native(source), (native(source), value))
    if target[0] == "f":
        value = _to_real(statement, target, source, value, rounding)
        value = flush(statement, target, value) if ftz else value
        value = saturate(statement, target, value) if clamped else value
    elif source[0] == "f":
        value = _to_whole(statement, target, source, value)
    else:
        value = _between_whole(statement, target, source, value, clamped=clamped)
    statement.put(target, value)


def _to_real(statement: Statement, target: str, source: str, value: str, rounding: str) -> str:
    if source == target or (source, target) == ("f32", "f64"):
        return statement.code.convert("fpext", native(source), value, native(target))
    name = "fptrunc" if source[0] == "f" else "sitofp" if source[0] == "s" else "uitofp"
    if rounding != "rn":
        return rounded(statement, name, rounding, native(target), (native(source), value))
    return statement.code.convert(name, native(source), value, native(target))


def _to_whole(statement: Statement, target: str, source: str, value: str) -> str:
    """Out of range: the nearest value. NaN: 0, or the top bit alone if either type has 64 bits."""
    code, real, width = statement.code, native(source), integer(target)
    name = f"llvm.fpto{'s' if target[0] == 's' else 'u'}i.sat.{width}.{source}"
    found = code.call(name, width, (real, value))
    if source != "f64" and bits(target) != 64:
        return found
    none = code.value(f"fcmp uno {real} {value}, 0.0")
    return code.select(none, width, str(1 << bits(target) - 1), found)


def _between_whole(statement: Statement, target: str, source: str, value: str, *, clamped: bool) -> str:
    signed = source[0] == "s"
    if not clamped:
        return statement.code.resize(value, bits(source), bits(target), signed=signed)
    wide = statement.code.resize(value, bits(source), 128, signed=signed)
    return clamp(statement, wide, 128, target, signed=True)
