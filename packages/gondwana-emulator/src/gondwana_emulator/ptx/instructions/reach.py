"""From addresses of the device to real ones: every access is checked."""

from __future__ import annotations

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.instructions.table import Statement
from gondwana_emulator.ptx.syntax import Address, Symbol

_SPACES = {
    # Of a block or of a thread: from the first valid offset to the end.
    "inside": """define internal i64 @inside(i64 %base, i64 %first, i64 %end, i64 %address, i64 %size) {
  %low = icmp uge i64 %address, %first
  %left = sub i64 %end, %address
  %begins = icmp ult i64 %address, %end
  %ends = icmp uge i64 %left, %size
  %mask = sub i64 %size, 1
  %odd = and i64 %address, %mask
  %aligned = icmp eq i64 %odd, 0
  %a = and i1 %low, %begins
  %b = and i1 %ends, %aligned
  %fits = and i1 %a, %b
  %offset = sub i64 %address, %first
  %real = add i64 %base, %offset
  %result = select i1 %fits, i64 %real, i64 0
  ret i64 %result
}""",
    # Of the device: the row that was right last time, else the last row that begins at or before the address.
    "find": f"""define internal i64 @find(ptr %L, ptr %hint, i64 %address, i64 %size) noinline {{
  %last = load i64, ptr %hint
  %lastrow = inttoptr i64 %last to ptr
  %quick = call i64 @inrow(ptr %lastrow, i64 %address, i64 %size)
  %good = icmp ne i64 %quick, 0
  br i1 %good, label %found, label %search
found:
  ret i64 %quick
search:
  %rowsat = getelementptr i64, ptr %L, i64 {layout.ROWS}
  %rows = load i64, ptr %rowsat
  %countat = getelementptr i64, ptr %L, i64 {layout.ROW_COUNT}
  %count = load i64, ptr %countat
  br label %loop
loop:
  %low = phi i64 [ 0, %search ], [ %nextlow, %step ]
  %high = phi i64 [ %count, %search ], [ %nexthigh, %step ]
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %bytes = mul i64 %middle, {8 * layout.ROW_WORDS}
  %at = add i64 %rows, %bytes
  %row = inttoptr i64 %at to ptr
  %gap = sub i64 %high, %low
  %more = icmp ugt i64 %gap, 1
  br i1 %more, label %step, label %done
step:
  %start = load i64, ptr %row
  %before = icmp ule i64 %start, %address
  %nextlow = select i1 %before, i64 %middle, i64 %low
  %nexthigh = select i1 %before, i64 %high, i64 %middle
  br label %loop
done:
  store i64 %at, ptr %hint
  %slow = call i64 @inrow(ptr %row, i64 %address, i64 %size)
  ret i64 %slow
}}""",
    "inrow": """define internal i64 @inrow(ptr %row, i64 %address, i64 %size) {
  %start = load i64, ptr %row
  %lengthat = getelementptr i64, ptr %row, i64 1
  %length = load i64, ptr %lengthat
  %shiftat = getelementptr i64, ptr %row, i64 2
  %shift = load i64, ptr %shiftat
  %offset = sub i64 %address, %start
  %begins = icmp ult i64 %offset, %length
  %left = sub i64 %length, %offset
  %ends = icmp uge i64 %left, %size
  %mask = sub i64 %size, 1
  %odd = and i64 %address, %mask
  %aligned = icmp eq i64 %odd, 0
  %a = and i1 %begins, %ends
  %fits = and i1 %a, %aligned
  %real = add i64 %address, %shift
  %result = select i1 %fits, i64 %real, i64 0
  ret i64 %result
}""",
}


def reach(statement: Statement, space: str, number: int, size: int) -> str:
    """Return the pointer to `size` bytes; if they are not in the memory of the space, the thread stops there.

    Args:
        statement: the access.
        space: space of the address: "global", "shared", "local", "param" or "generic".
        number: number of the operand that has the address.
        size: number of bytes.
    """
    operand = statement.operand(number)
    if not isinstance(operand, Address):
        raise statement.wrong("an address is missing")
    if operand.base is None:
        address = str(operand.offset)
    elif isinstance(operand.base, Symbol) and space == "generic":
        raise statement.wrong("a variable needs its space")
    else:
        address = statement.get(number, "u64")
    for name, text in _SPACES.items():
        statement.code.helper(name, text)
    ways = {"global": _find, "shared": _shared, "local": _local, "param": _local, "generic": _anywhere}
    real = ways[space](statement, address, size)
    return _checked(statement, address, real)


def _checked(statement: Statement, address: str, real: str) -> str:
    code, context = statement.code, statement.context
    good, bad = code.fresh(), code.fresh()
    code.line(f"br i1 {code.compare('eq', 'i64', real, '0')}, label %{bad}, label %{good}, !prof !0")
    code.start(bad)
    context.fail(context.site(statement.instruction), address)
    code.start(good)
    return code.value(f"inttoptr i64 {real} to ptr")


def _find(statement: Statement, address: str, size: int) -> str:
    code, context = statement.code, statement.context
    hint = code.value(f"getelementptr i64, ptr %L, i64 {layout.HINTS + context.hints}")
    context.hints += 1
    return code.value(f"call i64 @find(ptr %L, ptr {hint}, i64 {address}, i64 {size})")


def _shared(statement: Statement, address: str, size: int) -> str:
    context = statement.context
    base, end = context.word("%L", layout.SHARED), context.word("%L", layout.SHARED_END)
    return _inside(statement, base, layout.SHARED_START, end, address, size)


def _local(statement: Statement, address: str, size: int) -> str:
    base = statement.code.value("ptrtoint ptr %memory to i64")
    return _inside(statement, base, layout.LOCAL_START, str(statement.context.spaces.local_end), address, size)


def _inside(statement: Statement, base: str, first: int, end: str, address: str, size: int) -> str:
    given = f"i64 {base}, i64 {first}, i64 {end}, i64 {address}, i64 {size}"
    return statement.code.value(f"call i64 @inside({given})")


def _anywhere(statement: Statement, address: str, size: int) -> str:
    """A generic address: one of three."""
    code = statement.code
    names = [code.fresh() for _ in range(4)]
    window = code.value(f"lshr i64 {address}, 32")
    cases = {layout.SHARED_WINDOW: _shared, layout.LOCAL_WINDOW: _local}
    table = " ".join(f"i64 {start >> 32}, label %{name}" for start, name in zip(cases, names, strict=False))
    code.line(f"switch i64 {window}, label %{names[2]} [ {table} ]")
    found = []
    for name, (start, way) in zip(names, {**cases, 0: _find}.items(), strict=False):
        code.start(name)
        offset = code.value(f"sub i64 {address}, {start}")
        found.append((way(statement, offset, size), name))
        code.line(f"br label %{names[3]}")
    code.start(names[3])
    return code.value("phi i64 " + ", ".join(f"[ {value}, %{name} ]" for value, name in found))
