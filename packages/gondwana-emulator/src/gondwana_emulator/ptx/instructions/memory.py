"""Loads, stores, atomic operations and addresses."""

from __future__ import annotations

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.instructions.reach import reach
from gondwana_emulator.ptx.instructions.table import Statement, operation
from gondwana_emulator.ptx.syntax import Address, Operand, Symbol, Vector
from gondwana_emulator.ptx.writer import bits, integer, native

_SPACES = ("global", "shared", "local", "param", "const", "shared::cta", "param::entry", "param::func")
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_CACHES = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak")


def _space_of(statement: Statement) -> str:
    """Remove the space from the modifiers and return it, "generic" if none is named."""
    return statement.choice(_SPACES, "generic").partition("::")[0].replace("const", "global")


def _plain(statement: Statement) -> None:
    """Remove modifiers that concern only caches."""
    statement.flag(*_CACHES, *_SCOPES, *[word for word in statement.rest if word.startswith(("L1::", "L2::"))])


def _parts(statement: Statement, number: int) -> tuple[Operand, ...]:
    """The registers of an access, one or several."""
    many = int(statement.choice(("v2", "v4", "v8"), "v1")[1:])
    operand = statement.operand(number)
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(parts) != many:
        raise statement.wrong("as many registers as the vector has are needed")
    return parts


@operation("ld", "ldu")
def load(statement: Statement) -> None:
    """From memory to registers."""
    strong = "volatile " if statement.flag(*_STRONG) else ""
    space = _space_of(statement)
    _plain(statement)
    parts, kind = _parts(statement, 0), statement.kind()
    size, code, whole = max(bits(kind) // 8, 1), statement.code, f"{_letter(kind)}{bits(kind)}"
    pointer = _parameter(statement, space) or reach(statement, space, 1, size * len(parts))
    for place, operand in enumerate(parts):
        at = code.value(f"getelementptr i8, ptr {pointer}, i64 {place * size}")
        value = code.value(f"load {strong}{integer(kind)}, ptr {at}, align {size}")
        statement.context.put(operand, whole, value)


def _letter(kind: str) -> str:
    return "s" if kind[0] == "s" else "b"


def _parameter(statement: Statement, space: str) -> str:
    """The pointer to a parameter of the kernel, "" for other operands."""
    address = statement.operand(1)
    if space != "param" or not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return ""
    places = statement.context.spaces.parameters
    if address.base.name not in places:
        return ""
    first = statement.code.value(f"inttoptr i64 {statement.context.word('%L', layout.PARAMETERS)} to ptr")
    offset = places[address.base.name] + address.offset
    return statement.code.value(f"getelementptr i8, ptr {first}, i64 {offset}")


@operation("st")
def store(statement: Statement) -> None:
    """From registers to memory."""
    strong = "volatile " if statement.flag(*_STRONG) else ""
    space = _space_of(statement)
    _plain(statement)
    parts, kind = _parts(statement, 1), statement.kind()
    size, code = max(bits(kind) // 8, 1), statement.code
    values = [statement.context.get(operand, _bits(kind)) for operand in parts]
    pointer = reach(statement, space, 0, size * len(parts))
    for place, value in enumerate(values):
        at = code.value(f"getelementptr i8, ptr {pointer}, i64 {place * size}")
        code.line(f"store {strong}{integer(kind)} {value}, ptr {at}, align {size}")


_WINDOWS = {"shared": layout.SHARED_WINDOW, "local": layout.LOCAL_WINDOW, "global": 0, "const": 0}


@operation("cvta")
def convert_address(statement: Statement) -> None:
    """Addresses in a space to generic ones and back."""
    back = statement.flag("to")
    window = _WINDOWS[statement.choice(_SPACES).partition("::")[0]]
    kind = statement.kind()
    value = statement.get(1, kind)
    how = "sub" if back else "add"
    statement.put(kind, statement.code.value(f"{how} {integer(kind)} {value}, {window}") if window else value)


@operation("isspacep")
def is_in_space(statement: Statement) -> None:
    """Return whether a generic address lies in a space."""
    space = statement.choice(_SPACES).partition("::")[0]
    code, value = statement.code, statement.get(1, "u64")
    inside = {}
    for name in ("shared", "local"):
        offset = code.value(f"sub i64 {value}, {_WINDOWS[name]}")
        inside[name] = code.compare("ult", "i64", offset, str(layout.WINDOW))
    other = code.value(f"or i1 {inside['shared']}, {inside['local']}")
    statement.put("pred", inside.get(space) or code.value(f"xor i1 {other}, true"))


@operation("prefetch", "prefetchu", "discard", "applypriority", "membar", "fence", "nanosleep")
def advise(statement: Statement) -> None:
    """Advice about caches has no effect here; fences order the stores that other processes see."""
    if statement.opcode in ("membar", "fence"):
        statement.code.line("fence seq_cst")
    statement.rest.clear()


_SAME = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}
_NAMES = (*_SAME, "min", "max", "cas")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", *_SCOPES, "noftz")


@operation("atom", "red")
def update(statement: Statement) -> None:
    """Read, change and write memory in one step; `red` does not return the old value."""
    statement.flag(*_ORDERS)
    space = _space_of(statement)
    name = statement.choice(_NAMES)
    kind = statement.kind()
    first = 0 if statement.opcode == "red" else 1
    code, width = statement.code, integer(kind)
    pointer = reach(statement, space, first, bits(kind) // 8)
    if name == "cas":
        given = f"{width} {statement.get(2, _bits(kind))}, {width} {statement.get(3, _bits(kind))}"
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
        value = f"{width} {statement.get(first + 1, _bits(kind))}"
        before = code.value(f"atomicrmw {how} ptr {pointer}, {value} seq_cst")
    if statement.opcode == "atom":
        statement.put(_bits(kind), before)


def _bits(kind: str) -> str:
    """Return the type of bits of the width of a type."""
    return f"b{bits(kind)}"
