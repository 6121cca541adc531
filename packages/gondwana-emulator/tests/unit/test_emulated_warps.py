"""Threads that wait for each other on the emulated GPU: barriers, shuffles, votes; and threads that part ways."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from support.emulated import HEAD, Gpu

REGISTERS = (
    ".reg .u64 %in, %out, %q<9>; .reg .u32 %t, %x, %y, %r<9>; .reg .pred %p, %c<9>; .reg .u64 %w; .reg .f64 %d<9>;"
)
START = """
    ld.param.u64 %in, [a0]; ld.param.u64 %out, [a1]; mov.u32 %t, %tid.x; mul.wide.u32 %q0, %t, 4;
    add.u64 %in, %in, %q0; add.u64 %out, %out, %q0; ld.global.u32 %x, [%in]; mov.u32 %y, 0;
"""


def run(code: str, values: np.ndarray, before: str = "", blocks: int = 1) -> np.ndarray:
    """Each thread has its value in %x and gives back %y."""
    data, result = np.ascontiguousarray(values, np.uint32), np.zeros(len(values), np.uint32)
    body = f"{REGISTERS} {START} {code} st.global.u32 [%out], %y; ret;"
    text = f"{HEAD}{before}.visible .entry kernel(.param .u64 a0, .param .u64 a1) {{ {body} }}"
    Gpu().run(text, "kernel", blocks, len(values), data, result)
    return result


def shuffled(mode: str, values: list[int], distance: int, clamp: int) -> tuple[list[int], list[bool]]:
    """The rule of the PTX manual."""
    results, holding = [], []
    for lane in range(32):
        segment, limit = clamp >> 8 & 31, clamp & 31
        highest, lowest = (lane & segment) | (limit & ~segment & 31), lane & segment
        source = {
            "up": lane - distance,
            "down": lane + distance,
            "bfly": lane ^ distance,
            "idx": lowest | (distance & ~segment & 31),
        }[mode]
        holds = source >= highest if mode == "up" else source <= highest
        holding.append(holds)
        results.append(values[source if holds else lane])
    return results, holding


@pytest.mark.parametrize("clamp", [0, 31, 0x181F, 0x1800, 0x1C1F])
@pytest.mark.parametrize("distance", [0, 1, 5, 31])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode: str, distance: int, clamp: int) -> None:
    if mode == "up" and clamp & 31:
        clamp &= ~31  # the lower bound of shuffles upward is 0 in all that compilers write
    values = list(range(100, 132))
    code = f"shfl.sync.{mode}.b32 %r0|%p, %x, {distance}, {clamp}, -1; selp.u32 %r1, 1000, 0, %p; add.u32 %y, %r0, %r1;"
    results, holding = shuffled(mode, values, distance, clamp)
    wanted = [value + 1000 * holds for value, holds in zip(results, holding, strict=True)]
    np.testing.assert_array_equal(run(code, np.array(values)), wanted)


def test_a_warp_is_summed_by_shuffles() -> None:
    code = "mov.u32 %y, %x;" + "".join(
        f"shfl.sync.down.b32 %r0, %y, {distance}, 31, 0xffffffff; add.u32 %y, %y, %r0;" for distance in (16, 8, 4, 2, 1)
    )
    values = np.arange(96)
    found = run(code, values)
    np.testing.assert_array_equal(found[::32], values.reshape(3, 32).sum(1))


def test_shuffles_inside_a_loop() -> None:
    code = """
        mov.u32 %y, %x; mov.u32 %r1, 16;
        again: shfl.sync.bfly.b32 %r0, %y, %r1, 31, -1; max.u32 %y, %y, %r0; shr.u32 %r1, %r1, 1;
        setp.ne.u32 %p, %r1, 0; @%p bra again;
    """
    values = np.random.default_rng(1).integers(0, 1000, 64)
    np.testing.assert_array_equal(run(code, values), np.repeat(values.reshape(2, 32).max(1), 32))


def test_only_the_members_wait() -> None:
    """Even and odd lanes each shuffle among themselves, at different places."""
    code = """
        and.b32 %r1, %t, 1; setp.eq.u32 %p, %r1, 0; @%p bra even;
        shfl.sync.bfly.b32 %y, %x, 2, 31, 0xAAAAAAAA; bra end;
        even: shfl.sync.bfly.b32 %y, %x, 4, 31, 0x55555555;
        end:
    """
    values, lane = np.arange(32), np.arange(32)
    np.testing.assert_array_equal(run(code, values), values[np.where(lane % 2, lane ^ 2, lane ^ 4)])


VOTES: dict[str, Callable[[np.ndarray], int]] = {
    "all": lambda holds: int(holds.all()),
    "any": lambda holds: int(holds.any()),
    "uni": lambda holds: int(holds.all() or not holds.any()),
    "ballot": lambda holds: sum(1 << int(lane) for lane in np.nonzero(holds)[0]),
}


@pytest.mark.parametrize("pattern", ["none", "some", "every"])
@pytest.mark.parametrize("mode", VOTES)
def test_votes(mode: str, pattern: str) -> None:
    values = {"none": np.zeros(32), "some": np.arange(32) % 3 == 0, "every": np.ones(32)}[pattern].astype(np.uint32)
    code = "setp.ne.u32 %p, %x, 0;"
    if mode == "ballot":
        code += "vote.sync.ballot.b32 %y, %p, -1;"
    else:
        code += f"vote.sync.{mode}.pred %c0, %p, -1; selp.u32 %y, 1, 0, %c0;"
    np.testing.assert_array_equal(run(code, values), [VOTES[mode](values != 0)] * 32)


def test_matches() -> None:
    values = np.arange(32) % 3
    wanted = [sum(1 << lane for lane in range(32) if values[lane] == value) for value in values]
    np.testing.assert_array_equal(run("match.any.sync.b32 %y, %x, -1;", values), wanted)
    code = "match.all.sync.b32 %r0|%p, %x, -1; selp.u32 %y, %r0, 7, %p;"
    np.testing.assert_array_equal(run(code, values), [7] * 32)
    np.testing.assert_array_equal(run(code, values * 0), [2**32 - 1] * 32)


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_of_a_warp(name: str) -> None:
    values = np.random.default_rng(5).integers(0, 2**16, 32).astype(np.uint32)
    function = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[name]  # fmt: skip
    kind = "b32" if name in ("and", "or", "xor") else "u32"
    np.testing.assert_array_equal(run(f"redux.sync.{name}.{kind} %y, %x, -1;", values), [function.reduce(values)] * 32)
    if kind == "u32" and name != "add":
        signed = (values - np.uint32(2**15)).astype(np.uint32)
        wanted = np.array([function.reduce(signed.view(np.int32))] * 32)
        np.testing.assert_array_equal(run(f"redux.sync.{name}.s32 %y, %x, -1;", signed).view(np.int32), wanted)


@pytest.mark.parametrize(("name", "wanted"), [("popc", 22), ("and", 0), ("or", 1)])
def test_barriers_that_count(name: str, wanted: int) -> None:
    values = np.arange(64) % 3 == 0
    if name == "popc":
        code = "setp.ne.u32 %p, %x, 0; bar.red.popc.u32 %y, 0, %p;"
    else:
        code = f"setp.ne.u32 %p, %x, 0; bar.red.{name}.pred %c0, 0, %p; selp.u32 %y, 1, 0, %c0;"
    np.testing.assert_array_equal(run(code, values), [wanted] * 64)


def test_barriers_of_some_threads() -> None:
    """The first warp hands over to the second through a barrier of its own; threads that left are not waited for."""
    code = """
        setp.ge.u32 %p, %t, 64; @%p ret;
        mov.u32 %r3, cell; setp.ge.u32 %p, %t, 32; @%p bra second;
        setp.ne.u32 %c0, %t, 0; @!%c0 st.shared.u32 [%r3], %x; barrier.sync 1, 64; bra end;
        second: barrier.sync 1, 64; ld.shared.u32 %y, [%r3];
        end: bar.sync 0;
    """
    found = run(code, np.arange(7, 7 + 96), ".shared .u32 cell;\n")
    np.testing.assert_array_equal(found, [0] * 32 + [7] * 32 + [0] * 32)


def test_a_missing_barrier_shows() -> None:
    """Threads of different warps run one after the other, in any order: what a barrier should protect is broken."""
    code = """
        shl.b32 %r0, %t, 2; mov.u32 %r1, tile; add.u32 %r2, %r1, %r0; st.shared.u32 [%r2], %x; %s
        sub.u32 %r3, 252, %r0; add.u32 %r3, %r3, %r1; ld.shared.u32 %y, [%r3];
    """
    values, tile = np.arange(64), ".shared .align 4 .b8 tile[256];\n"
    np.testing.assert_array_equal(run(code.replace("%s", "bar.sync 0;"), values, tile), values[::-1])
    assert (run(code.replace("%s", ""), values, tile) != values[::-1]).any()


def test_a_block_is_summed_in_shared_memory() -> None:
    code = """
        shl.b32 %r0, %t, 2; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0; st.shared.u32 [%r1], %x; mov.u32 %r2, 64;
        again: bar.sync 0; setp.ge.u32 %p, %t, %r2; @%p bra skip;
        shl.b32 %r3, %r2, 2; add.u32 %r3, %r1, %r3; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r1];
        add.u32 %r5, %r5, %r4; st.shared.u32 [%r1], %r5;
        skip: shr.u32 %r2, %r2, 1; setp.ne.u32 %p, %r2, 0; @%p bra again;
        bar.sync 0; ld.shared.u32 %y, [tile];
    """
    values = np.random.default_rng(2).integers(0, 2**31, 128).astype(np.uint32)
    wanted = [int(values.sum(dtype=np.uint64)) % 2**32] * 128
    np.testing.assert_array_equal(run(code, values, ".shared .align 4 .b8 tile[512];\n"), wanted)


def test_loops_of_different_lengths() -> None:
    """The steps of the Collatz problem."""
    code = """
        again: setp.le.u32 %p, %x, 1; @%p bra end; add.u32 %y, %y, 1; and.b32 %r0, %x, 1; setp.eq.u32 %c0, %r0, 0;
        @%c0 bra even; mad.lo.u32 %x, %x, 3, 1; bra again;
        even: shr.u32 %x, %x, 1; bra again;
        end:
    """

    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value, count = (3 * value + 1 if value % 2 else value // 2), count + 1
        return count

    np.testing.assert_array_equal(run(code, np.arange(200)), [steps(value) for value in range(200)])


def test_branches_by_a_table() -> None:
    code = """
        places: .branchtargets one, two, three, one;
        and.b32 %r0, %x, 3; brx.idx %r0, places;
        one: mov.u32 %y, 10; bra.uni end;
        two: mov.u32 %y, 20; bra.uni end;
        three: mov.u32 %y, 30;
        end:
    """
    np.testing.assert_array_equal(run(code, np.arange(8)), [10, 20, 30, 10] * 2)


def test_guards_of_every_kind() -> None:
    code = """
        setp.lt.u32 %p, %x, 16; @%p add.u32 %y, %y, 1; @!%p add.u32 %y, %y, 2; @%p bra end; add.u32 %y, %y, 100;
        setp.ge.u32 %c0, %x, 24; @%c0 membar.gl; @%c0 exit;
        end:
    """
    np.testing.assert_array_equal(run(code, np.arange(32)), [1] * 16 + [102] * 8 + [0] * 8)


FUNCTIONS = """
.func (.param .b32 result) twice(.param .b32 value)
{
    .reg .u32 %x; .reg .pred %p;
    ld.param.u32 %x, [value]; setp.gt.u32 %p, %x, 1000; @%p bra big; add.u32 %x, %x, %x; st.param.b32 [result], %x; ret;
big:
    mov.u32 %x, 1; st.param.b32 [result+0], %x; ret;
}
.func (.param .b64 result) fourfold(.param .align 8 .b8 pair[16])
{
    .reg .u32 %x, %y; .reg .u64 %w;
    ld.param.u32 %x, [pair]; ld.param.u32 %y, [pair+8];
    { .param .b32 given; .param .b32 found; st.param.b32 [given+0], %x;
      call.uni (found), twice, (given); ld.param.b32 %x, [found+0]; }
    { .param .b32 given; .param .b32 found; st.param.b32 [given+0], %x;
      call (found), twice, (given); ld.param.b32 %x, [found+0]; }
    bar.sync 0;
    add.u32 %x, %x, %y; cvt.u64.u32 %w, %x; st.param.b64 [result+0], %w;
}
.func nothing() { ret; }
"""


def test_functions_are_called() -> None:
    code = """
        { .param .align 8 .b8 given[16]; .param .b64 found; st.param.b32 [given+0], %x; st.param.b32 [given+8], 5;
          call.uni (found), fourfold, (given); ld.param.b64 %w, [found+0]; cvt.u32.u64 %y, %w; }
        setp.lt.u32 %p, %x, 3; @%p call nothing, ();
        call.uni nothing;
    """
    found = run(code, np.array([*range(40), 600, 5000]), FUNCTIONS)
    np.testing.assert_array_equal(found, [*(4 * value + 5 for value in range(40)), 1 + 5, 2 + 5])


def test_blocks_and_warps_run_in_any_order() -> None:
    """But the same seed gives the same order."""
    body = """
        .reg .u64 %in, %out, %q; .reg .u32 %b, %n;
        ld.param.u64 %in, [a0]; ld.param.u64 %out, [a1]; mov.u32 %b, %ctaid.x;
        atom.global.add.u32 %n, [%in], 1; mul.wide.u32 %q, %n, 4; add.u64 %out, %out, %q; st.global.u32 [%out], %b; ret;
    """
    text = f"{HEAD}.visible .entry kernel(.param .u64 a0, .param .u64 a1) {{ {body} }}"
    orders = []
    for _ in range(2):
        order = np.zeros(50, np.uint32)
        Gpu().run(text, "kernel", 50, 1, np.zeros(1, np.uint32), order)
        assert sorted(order) == list(range(50))
        orders.append(order)
    np.testing.assert_array_equal(*orders)
    assert list(orders[0]) != sorted(orders[0])


def test_registers_survive_waiting() -> None:
    """Registers of every width, and predicates, over a barrier."""
    numbers = random.Random(0)
    words = [numbers.getrandbits(64) for _ in range(5)]
    code = """
        .reg .b16 %h; .reg .b64 %l; .reg .f64 %f; .reg .pred %g;
        mov.u16 %h, 0x1234; mov.u64 %l, WORD; mov.f64 %f, 0d4008000000000000; setp.ge.u32 %g, %t, 10;
        bar.sync 0;
        cvt.u32.u16 %r0, %h; cvt.u32.u64 %r1, %l; cvt.rzi.u32.f64 %r2, %f; selp.u32 %r3, 1, 0, %g;
        add.u32 %y, %r0, %r1; add.u32 %y, %y, %r2; add.u32 %y, %y, %r3;
    """.replace("WORD", hex(words[0]))
    wanted = (0x1234 + words[0] + 3 + (np.arange(64) >= 10)) % 2**32
    np.testing.assert_array_equal(run(code, np.zeros(64)), wanted.astype(np.uint32))


def test_a_warp_hands_over_through_shared_memory() -> None:
    code = """
        shl.b32 %r0, %t, 2; mov.u32 %r1, tile; add.u32 %r2, %r1, %r0; st.shared.u32 [%r2], %x; bar.warp.sync -1;
        xor.b32 %r3, %r0, 28; add.u32 %r3, %r3, %r1; ld.shared.u32 %y, [%r3];
    """
    values = np.arange(64)
    np.testing.assert_array_equal(run(code, values, ".shared .align 4 .b8 tile[256];\n"), values[values ^ 7])


def test_advice_does_nothing() -> None:
    code = """
        membar.gl; fence.acq_rel.gpu; prefetch.global.L2 [%in]; nanosleep.u32 10; mov.u64 %w, %clock64;
        mov.u64 %q1, %clock64;
        setp.ge.u64 %p, %q1, %w; activemask.b32 %r0; mov.u32 %r1, %lanemask_eq; and.b32 %r0, %r0, %r1;
        setp.ne.and.u32 %p, %r0, 0, %p; selp.u32 %y, 1, 0, %p;
    """
    np.testing.assert_array_equal(run(code, np.arange(64)), [1] * 64)
