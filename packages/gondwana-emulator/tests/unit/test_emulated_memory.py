"""What kernels do to memory on the emulated GPU: loads, stores, atomics, spaces, and what they must not touch."""

from __future__ import annotations

import numpy as np
import pytest

from gondwana.gpu.interface import CudaError
from support.emulated import HEAD, Gpu, evaluate, value_of

KINDS = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"]


def kernel(body: str, parameters: int = 1, before: str = "") -> str:
    """A kernel of pointers %p0, %p1, ..., with its thread in %t and its block in %b."""
    names = ", ".join(f".param .u64 a{place}" for place in range(parameters))
    loads = "".join(f"ld.param.u64 %p{place}, [a{place}];" for place in range(parameters))
    registers = (
        ".reg .u64 %p<9>, %q<9>; .reg .u32 %t, %b, %r<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %c<9>;"
        ".reg .b16 %h<9>;"
    )
    start = "mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;"
    return f"{HEAD}{before}.visible .entry kernel({names}) {{ {registers} {loads} {start} {body} ret; }}"


@pytest.mark.parametrize("kind", KINDS)
def test_loads_are_extended_as_their_type_says(kind: str) -> None:
    """A narrow value in a wide register."""
    width = int(kind[1:])
    data = np.arange(256, dtype=np.uint64) * np.uint64(0x0123_4567_89AB_CDEF)
    found = value_of(
        f".reg .b64 %x; .local .b64 slot; st.local.b64 [slot], %a; ld.local.{kind} %x, [slot]; mov.b64 %d, %x;",
        "u64", a=data,
    )  # fmt: skip
    small = data.astype(f"u{width // 8}")
    wanted = small.view(f"i{width // 8}").astype(np.int64).view(np.uint64) if kind[0] == "s" else small
    np.testing.assert_array_equal(found, wanted.astype(np.uint64))


@pytest.mark.parametrize("modifiers", ["", ".nc", ".cs", ".nc.L1::no_allocate.L2::128B", ".volatile", ".relaxed.gpu"])
def test_global_loads_know_all_hints(modifiers: str) -> None:
    order = ".volatile.global" if modifiers == ".volatile" else f"{modifiers if 'rel' in modifiers else ''}.global"
    hint = "" if modifiers == ".volatile" or "rel" in modifiers else modifiers
    data = np.arange(32, dtype=np.float64)
    code = (
        f"mul.wide.u32 %q0, %t, 8; add.u64 %p0, %p0, %q0; add.u64 %p1, %p1, %q0;"
        f"ld{order}{hint}.f64 %d0, [%p0]; st.global.cs.f64 [%p1], %d0;"
    )
    result = np.zeros(32)
    Gpu().run(kernel(code, 2), "", 1, 32, data, result)
    np.testing.assert_array_equal(result, data)


@pytest.mark.parametrize(("kind", "many"), [("f64", 2), ("f32", 2), ("f32", 4), ("u32", 4), ("u16", 4), ("u64", 2)])
def test_vectors(kind: str, many: int) -> None:
    element = np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    data = np.arange(32 * many).astype(element)
    result = np.zeros_like(data)
    size = many * element.itemsize
    names = [f"%v{place}" for place in range(many)]
    code = (
        f".reg .{kind} %v<{many}>; mul.wide.u32 %q0, %t, {size}; add.u64 %p0, %p0, %q0; add.u64 %p1, %p1, %q0;"
        f"ld.global.v{many}.{kind} {{{', '.join(names)}}}, [%p0];"
        f"st.global.v{many}.{kind} [%p1], {{{', '.join(reversed(names))}}};"
    )
    Gpu().run(kernel(code, 2), "", 1, 32, data, result)
    np.testing.assert_array_equal(result.reshape(-1, many), data.reshape(-1, many)[:, ::-1])


def test_addresses_have_offsets() -> None:
    data = np.arange(8, dtype=np.int64)
    code = "ld.global.u64 %q0, [%p0+56]; add.u64 %p0, %p0, 16; st.global.u64 [%p0+-16], %q0;"
    Gpu().run(kernel(code), "", 1, 1, data)
    assert data[0] == 7


def test_shared_memory_turns_a_tile() -> None:
    """Static shared memory, and dynamic behind it."""
    code = """
        shl.b32 %r0, %t, 2; mov.u32 %r1, tile; add.u32 %r2, %r1, %r0; mul.wide.u32 %q0, %t, 4; add.u64 %q1, %p0, %q0;
        ld.global.f32 %f0, [%q1]; st.shared.f32 [%r2], %f0;
        mov.u32 %r3, more; add.u32 %r3, %r3, %r0; st.shared.u32 [%r3], %t;
        bar.sync 0;
        sub.u32 %r4, 252, %r0; add.u32 %r4, %r4, %r1; ld.shared.f32 %f1, [%r4];
        xor.b32 %r5, %r0, 4; mov.u32 %r3, more; add.u32 %r3, %r3, %r5; ld.shared.u32 %r6, [%r3];
        cvt.rn.f32.u32 %f2, %r6;
        add.f32 %f1, %f1, %f2; st.global.f32 [%q1], %f1;
    """
    before = ".shared .align 4 .b8 tile[256];\n.extern .shared .align 16 .b8 more[];\n"
    data = np.arange(64, dtype=np.float32) * 100
    gpu, wanted = Gpu(), data[::-1] + (np.arange(64) ^ 1)
    text = kernel(code, before=before)
    gpu.run(text, "", 1, 64, data, shared=256)
    np.testing.assert_array_equal(data, wanted)
    facts = gpu.driver.entry_facts(gpu.driver.entry(gpu.load(text), "kernel"))
    assert facts.shared == 256


def test_shared_memory_holds_rubbish_at_first() -> None:
    data = np.zeros(2, np.uint32)
    code = (
        "ld.shared.u32 %r0, [cell]; mul.wide.u32 %q0, %b, 4; add.u64 %p0, %p0, %q0; st.global.u32 [%p0], %r0;"
        "mov.u32 %r1, 1; st.shared.u32 [cell], %r1;"
    )
    Gpu().run(kernel(code, before=".shared .u32 cell;\n"), "", 2, 1, data)
    np.testing.assert_array_equal(data, [0xDBDBDBDB] * 2)


def test_generic_addresses_reach_every_space() -> None:
    code = """
        .local .align 8 .b64 mine;
        mov.u64 %q0, mine; cvta.local.u64 %q1, %q0; mov.u64 %q2, ours; cvta.shared.u64 %q3, %q2;
        st.u64 [%q1], 3; st.u64 [%q3], 4; ld.local.u64 %q4, [mine]; ld.shared.u64 %q5, [ours];
        ld.u64 %q6, [%p0]; add.u64 %q4, %q4, %q5; add.u64 %q4, %q4, %q6; st.u64 [%p0], %q4;
        cvta.to.shared.u64 %q7, %q3; ld.shared.u64 %q7, [%q7]; st.u64 [%p0+8], %q7;
        isspacep.shared %c0, %q3; isspacep.local %c1, %q3; isspacep.global %c2, %p0; isspacep.local %c3, %q1;
        selp.u64 %q0, 1, 0, %c0; selp.u64 %q1, 1, 0, %c1; selp.u64 %q2, 1, 0, %c2; selp.u64 %q3, 1, 0, %c3;
        st.u64 [%p0+16], %q0; st.u64 [%p0+24], %q1; st.u64 [%p0+32], %q2; st.u64 [%p0+40], %q3;
    """
    data = np.array([10, 0, 0, 0, 0, 0], np.int64)
    Gpu().run(kernel(code, before=".shared .align 8 .b64 ours;\n"), "", 1, 1, data)
    np.testing.assert_array_equal(data, [17, 4, 1, 0, 1, 1])


def test_variables_of_the_module() -> None:
    before = """
        .const .align 4 .u32 table[4] = {10, 20, 30, 0x28};
        .global .align 8 .f64 factor = 0d3FE0000000000000;
        .visible .global .align 4 .b8 bytes[8] = {1, 2, 3};
        .global .align 8 .u64 counter;
    """
    code = """
        mov.u64 %q0, table; mul.wide.u32 %q1, %t, 4; add.u64 %q0, %q0, %q1; ld.const.u32 %r0, [%q0];
        ld.global.f64 %d0, [factor]; cvt.rn.f64.u32 %d1, %r0; mul.f64 %d0, %d0, %d1;
        ld.global.u8 %h0, [bytes+2]; cvt.rn.f64.u16 %d1, %h0; add.f64 %d0, %d0, %d1;
        red.global.add.u64 [counter], 1;
        mul.wide.u32 %q1, %t, 8; add.u64 %q1, %p0, %q1; st.global.f64 [%q1], %d0;
    """
    data = np.zeros(4)
    Gpu().run(kernel(code, before=before), "", 1, 4, data)
    np.testing.assert_array_equal(data, [8, 13, 18, 23])


ATOMICS = {
    "add.u32": ("u32", np.add), "add.u64": ("u64", np.add), "add.f32": ("f32", np.add), "add.f64": ("f64", np.add),
    "min.s32": ("s32", np.minimum), "max.s32": ("s32", np.maximum), "min.u32": ("u32", np.minimum),
    "max.u32": ("u32", np.maximum), "min.s64": ("s64", np.minimum), "max.u64": ("u64", np.maximum),
    "and.b32": ("u32", np.bitwise_and), "or.b32": ("u32", np.bitwise_or), "xor.b64": ("u64", np.bitwise_xor),
}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name: str, space: str) -> None:
    """All threads on one word: in device memory of the whole grid, in shared memory of each block."""
    kind, function = ATOMICS[name]
    letter = {"u": "u", "s": "i", "f": "f"}[kind[0]]
    data = (
        np.random.default_rng(3)
        .integers(-100 if letter != "u" else 0, 100, 128)
        .astype(f"{letter}{int(kind[1:]) // 8}")
    )
    size = data.itemsize
    total = np.zeros(3, data.dtype)
    mad = (
        f"mad.lo.u32 %r0, %b, 64, %t; mul.wide.u32 %q0, %r0, {size}; add.u64 %p0, %p0, %q0; ld.global.{kind} %x, [%p0];"
    )
    if space == "global":
        code = f".reg .{kind} %x; {mad} red.global.{name} [%p1], %x;"
    else:
        code = (
            f".reg .{kind} %x, %z; {mad} setp.eq.u32 %c0, %t, 0; mov.b{kind[1:]} %z, 0; "
            f"@%c0 st.shared.{kind} [cell], %z;"
            f"bar.sync 0; atom.shared.{name} %z, [cell], %x; bar.sync 0; @!%c0 ret; ld.shared.{kind} %z, [cell];"
            f"mul.wide.u32 %q0, %b, {size}; add.u64 %p1, %p1, %q0; st.global.{kind} [%p1], %z;"
        )
    Gpu().run(kernel(code, 2, f".shared .align 8 .{kind} cell;\n"), "", 2, 64, data, total)
    first = np.zeros(1, data.dtype)
    parts = [data] if space == "global" else [data[:64], data[64:]]
    np.testing.assert_array_equal(total[: len(parts)], [function.reduce(np.append(first, part)) for part in parts])


def test_atomics_return_what_was_there() -> None:
    data, before = np.zeros(1, np.uint32), np.zeros(64, np.uint32)
    code = (
        "atom.global.add.u32 %r0, [%p0], 1; mul.wide.u32 %q0, %t, 4; add.u64 %p1, %p1, %q0; st.global.u32 [%p1], %r0;"
    )
    Gpu().run(kernel(code, 2), "", 1, 64, data, before)
    np.testing.assert_array_equal(np.sort(before), np.arange(64))


def test_exchanges_and_counters() -> None:
    cells = np.array([5, 5, 7, 0], np.uint32)
    code = """
        atom.global.cas.b32 %r0, [%p0], 5, 9; atom.global.cas.b32 %r1, [%p0+4], 6, 9;
        atom.global.exch.b32 %r2, [%p0+8], 1;
        atom.global.inc.u32 %r3, [%p0+8], 1; atom.global.dec.u32 %r4, [%p0+12], 3;
        st.global.u32 [%p1], %r0; st.global.u32 [%p1+4], %r1; st.global.u32 [%p1+8], %r2;
    """
    before = np.zeros(3, np.uint32)
    Gpu().run(kernel(code, 2), "", 1, 1, cells, before)
    np.testing.assert_array_equal(cells, [9, 5, 0, 3])
    np.testing.assert_array_equal(before, [5, 5, 7])


def test_places_of_threads() -> None:
    code = """
        .reg .u32 %x<20>;
        mov.u32 %x0, %tid.x; mov.u32 %x1, %tid.y; mov.u32 %x2, %tid.z; mov.u32 %x3, %ctaid.x; mov.u32 %x4, %ctaid.y;
        mov.u32 %x5, %ctaid.z; mov.u32 %x6, %laneid; mov.u32 %x7, %warpid; mov.u32 %x8, %nctaid.y; mov.u32 %x9, %ntid.z;
        mov.u32 %x10, %lanemask_lt; mov.u32 %x11, %lanemask_ge; mov.u32 %x12, %nwarpid; mov.u32 %x13, %lanemask_le;
        mov.u32 %x14, %lanemask_gt; mov.u32 %x15, %lanemask_eq;
        mad.lo.u32 %r0, %x5, 2, %x4; mad.lo.u32 %r0, %r0, 3, %x3;
        mad.lo.u32 %r0, %r0, 2, %x2; mad.lo.u32 %r0, %r0, 3, %x1; mad.lo.u32 %r0, %r0, 11, %x0;
        mul.wide.u32 %q0, %r0, 64; add.u64 %p0, %p0, %q0;
    """
    code += "".join(f"st.global.u32 [%p0+{4 * place}], %x{place};" for place in range(16))
    found = np.zeros((2, 2, 3, 2, 3, 11, 16), np.uint32)
    Gpu().run(kernel(code), "", (3, 2, 2), (11, 3, 2), found)
    block_z, block_y, block_x, z, y, x = np.indices(found.shape[:-1])
    number = x + 11 * (y + 3 * z)
    lane = (number % 32).astype(np.uint64)
    one = np.uint64(1)
    low, every = (one << lane) - one, np.uint64(2**32 - 1)
    wanted = [x, y, z, block_x, block_y, block_z, lane, number // 32, np.full_like(x, 2), np.full_like(x, 2), low]
    wanted += [every - low, np.full_like(x, 3), (low << one) | one, every - ((low << one) | one), one << lane]
    np.testing.assert_array_equal(found, np.stack([array.astype(np.uint32) for array in wanted], -1))


LOAD = "mul.wide.u32 %q0, %t, 8; add.u64 %p0, %p0, %q0; ld.global.f64 %d0, [%p0]; st.global.f64 [%p0], %d0;"


@pytest.mark.parametrize("code", [LOAD, LOAD.replace(".global", "")])
def test_an_access_outside_is_told_with_all_that_helps(code: str) -> None:
    gpu = Gpu()
    address = gpu.array(np.zeros(20))
    entry = gpu.driver.entry(gpu.load(kernel(code)), "kernel")
    gpu.driver.launch(entry, (1, 1, 1), (32, 1, 1), 0, gpu.stream, address.to_bytes(8, "little"))
    outside = address + 160
    pattern = rf"ILLEGAL_ADDRESS: kernel kernel, thread \(20, 0, 0\), block \(0, 0, 0\): 8-byte load at {outside:#x} is"
    with pytest.raises(CudaError, match=pattern) as caught:
        gpu.driver.finish(gpu.stream)
    assert "outside of all memory" in str(caught.value)
    with pytest.raises(CudaError, match="ILLEGAL_ADDRESS"):
        gpu.driver.allocate(8)


def failure(code: str, *arguments: int | np.ndarray, before: str = "", threads: int = 1) -> str:
    with pytest.raises(CudaError) as caught:
        Gpu().run(kernel(code, len(arguments), before), "", 1, threads, *arguments)
    return str(caught.value)


def test_every_kind_of_access_is_checked() -> None:
    here = np.zeros(4)
    pair = "ld.global.v2.f64 {%d0, %d1}, [%p0+%s];"
    assert "16-byte load" in failure(pair.replace("%s", "32"), here)
    assert "CUDA_ERROR_MISALIGNED_ADDRESS" in failure(pair.replace("%s", "8"), here)
    assert "is not on 4 bytes" in failure("ld.global.u32 %r0, [%p0+2];", here)
    assert "8-byte store" in failure("st.global.f64 [%p0+32], 0d0000000000000000;", here)
    assert "8-byte store" in failure("st.global.f64 [%p0+-8], 0d0000000000000000;", here)
    assert "4-byte atomic operation" in failure("red.global.add.u32 [%p0+32], 1;", here)
    assert "4-byte load at 0x20 is outside" in failure("ld.global.u32 %r0, [%p0];", 32)
    shared = ".shared .align 4 .b8 tile[64];\n"
    assert "outside of all shared memory" in failure("ld.shared.u32 %r0, [tile+64];", here, before=shared)
    assert "outside of all shared memory" in failure("mov.u32 %r1, 0; ld.shared.u32 %r0, [%r1];", here, before=shared)
    local = ".local .align 4 .b8 mine[64]; st.local.u32 [mine+64], 1;"
    assert "outside of all local memory" in failure(local, here)
    assert "trap" in failure("trap;", here)


def test_memory_of_the_host_must_be_registered() -> None:
    code = "ld.global.f64 %d0, [%p0]; add.f64 %d0, %d0, %d0; st.global.f64 [%p0], %d0;"
    data = np.array([1.5])
    assert f"at {data.ctypes.data:#x}" in failure(code, data.ctypes.data)
    gpu = Gpu()
    gpu.driver.register(data.ctypes.data, data.nbytes)
    gpu.run(kernel(code), "", 1, 1, data.ctypes.data)
    gpu.driver.unregister(data.ctypes.data)
    assert data[0] == 3


def test_addresses_of_the_device_are_of_no_use_to_the_processor() -> None:
    """Bits that no processor translates are set."""
    address = Gpu().array(np.zeros(4))
    assert address >> 48 not in (0, 0xFFFF)
    assert address < 2**63


def test_waiting_in_vain_is_found() -> None:
    code = "setp.eq.u32 %c0, %t, 3; @%c0 bra other; bar.sync 0; bra end; other: bar.sync 1; end:"
    assert "waits at a barrier or in its warp for ever" in failure(code, 0, threads=64)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("frobnicate.u32 %r0, %r1;", "does not know the instruction"),
        ("add.s32.odd %r0, %r1, %r2;", r"does not know \.odd"),
        ("add.u32 %r0, %r1, %unknown;", "does not know the register %unknown"),
        ("mov.u32 %r0, %pm0;", "does not know the register %pm0"),
        ("bra nowhere;", "a branch to nowhere"),
        ("add.u32 %r0, %r1;", "an operand is missing"),
        ("call nobody;", "there is no function nobody"),
        ("add.u32 %r0 %r1;", "',' expected"),
        ("ld.u32 %r0, [somewhere];", "a variable needs its space"),
        ("ld.global.v2.u32 %r0, [%p0];", "as many registers"),
        ("add %r0, %r1, %r2;", "is missing"),
        ("add.u32 5, %r1, %r2;", "a result needs a register"),
    ],
)
def test_what_the_machine_does_not_know_names_the_line(code: str, reason: str) -> None:
    text = kernel(f"\n{code}\n").encode()
    with pytest.raises(CudaError, match=rf"CUDA_ERROR_INVALID_PTX: line 5: .*{reason}"):
        Gpu().driver.link(text, (9, 0))


def test_several_results() -> None:
    found = evaluate("add.u32 %x, %a, 1; sub.u32 %y, %a, 1;", {"x": "u32", "y": "u32"}, a=np.array([5], np.uint32))
    assert (found["x"][0], found["y"][0]) == (6, 4)
