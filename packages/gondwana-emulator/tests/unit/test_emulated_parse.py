"""PTX is read as compilers write it."""

from __future__ import annotations

import pytest

from gondwana_emulator.ptx.flow import blocks_of
from gondwana_emulator.ptx.inline import flatten
from gondwana_emulator.ptx.parse import parse
from gondwana_emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    InvalidPtxError,
    Label,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)

TEXT = """
.version 8.5  // of the language
.target sm_90, debug
.address_size 64
.file 1 "a; {file}.py"
.extern .func vprintf (.param .b32 status, .param .b64 format) ;
.visible .const .align 8 .u16 table[2][2] = {{1, 0x2}, {3, 4}};
.extern .shared .align 16 .b8 dynamic[];
.visible .entry run(
    .param .u64 .ptr .global .align 8 first,
    .param .u32 second
)
.maxntid 128, 2, 1
.minnctapersm 3
{
    .reg .pred %p<3>;
    .reg .b32 %r<5>, %single;
    .loc 1 10 3, function_name $L__info, inlined_at 1 7 3
$L__start:
    @!%p1 add.s32 %r1, %r2, -7;
    .pragma "nounroll";
    {
        .reg .b32 %r1, t;
        setp.lt.u32 %p1|%p2, %r1, %tid.x;
        ld.global.v2.u32 {%r1, _}, [%r2+-8];
    }
    mov.f64 %r1, 0dBFF0000000000000; /* two
    lines */ mov.u32 %r4, dynamic+4;
    st.shared.u32 [table], %r1;
}
.section .debug_str { $L__info: .b8 95 }
"""


def test_a_module() -> None:
    module = parse(TEXT)
    assert list(module.functions) == ["run"]
    function = module.functions["run"]
    assert (function.entry, function.threads) == (True, 256)
    assert [(one.name, one.size, one.align) for one in function.parameters] == [("first", 8, 8), ("second", 4, 4)]
    table = module.variables["table"]
    assert (table.space, table.align, table.initial) == ("const", 8, bytes([1, 0, 2, 0, 3, 0, 4, 0]))
    assert module.variables["dynamic"].size == 0


def test_instructions() -> None:
    label, add, compare, load, move, address, store = parse(TEXT).functions["run"].body
    assert label == Label("$L__start")
    first, second = Register("%r1", "b32"), Register("%r2", "b32")
    assert add == Instruction(
        "add", ("s32",), (first, second, Immediate(-7, "int")), Negated(Register("%p1", "pred")), 20,
        "@!%p1 add.s32 %r1, %r2, -7",
    )  # fmt: skip
    assert isinstance(compare, Instruction)
    assert compare.operands[0] == Pair(Register("%p1", "pred"), Register("%p2", "pred"))
    inner = compare.operands[1]
    assert inner != first, "a register of an inner scope hides one of its name"
    assert compare.operands[2] == Special("%tid.x")
    assert isinstance(load, Instruction)
    assert load.operands == (Vector((inner, Special("_"))), Address(second, -8))
    assert isinstance(move, Instruction)
    assert move.operands == (first, Immediate(0xBFF0 << 48, "f64"))
    assert isinstance(address, Instruction)
    assert (address.operands[1], address.line) == (Address(Symbol("dynamic"), 4), 28)
    assert isinstance(store, Instruction)
    assert store.operands[0] == Address(Symbol("table"), 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (".entry f() {", "line 1: the text ends too early"),
        (".entry f(\n.param .u64 a", "line 2: the text ends too early"),
        (".entry f() {\n .reg .b128 %x; }", "line 2: registers of type b128"),
        ("\n.frobnicate", "line 2: unknown directive .frobnicate"),
        (".entry f() { add.u32 ^; }", "line 1: unexpected '\\^'"),
        (".entry f(.reg .u32 %a) {}", "line 1: .reg: parameters in registers"),
        (".global .u64 pointer = other;", "line 1: addresses as first values"),
        (".entry f() { @%p ret; }", "line 1: %p is no register"),
        (".entry f() { ld.u32 %x, [%y]; }", "line 1: no address"),
        (".entry f() { .reg .u32 %x<n>; }", "line 1: a number expected"),
    ],
)
def test_what_is_no_ptx_names_the_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidPtxError, match=f"CUDA_ERROR_INVALID_PTX: {reason}"):
        parse(text)


CALLS = """
.func (.param .b32 out) inner(.param .b32 given)
{ .reg .u32 %x; ld.param.u32 %x, [given]; st.param.b32 [out], %x; ret; }
.func outer() { .reg .u32 %x; .param .b32 a; .param .b32 b; call (b), inner, (a); ret; }
.func again() { call again; ret; }
.entry f() { .reg .u32 %x; .reg .pred %p; call outer; bar.sync 0; @%p mov.u32 %x, 1; add.u32 %x, %x, 1; ret; }
.entry g() { call again; ret; }
"""


def test_functions_are_put_into_their_callers() -> None:
    module = parse(CALLS)
    kernel = flatten(module, module.functions["f"])
    assert not any(isinstance(item, Instruction) and item.opcode == "call" for item in kernel.body)
    assert set(kernel.slots) == {"1:a", "1:b"}
    with pytest.raises(InvalidPtxError, match="line 5: again calls itself"):
        flatten(module, module.functions["g"])


def test_what_is_alive_after_a_barrier() -> None:
    """A guarded instruction may leave what was there."""
    module = parse(CALLS)
    blocks, _ = blocks_of(flatten(module, module.functions["f"]))
    after = next(number for number, block in enumerate(blocks) if block.instructions[-1].opcode == "bar") + 1
    assert blocks[after].alive == {Register("%x", "u32"), Register("%p", "pred")}
