"""Kernels in PTX by hand, for tests of a driver without a compiler."""

from __future__ import annotations

HEAD = """.version 7.8
.target sm_75
.address_size 64
"""

SCALE = """
// data[i] *= factor for all i below count; one thread an element
.visible .entry scale(
    .param .u64 scale_param_0,
    .param .f64 scale_param_1,
    .param .u64 scale_param_2
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f64 %fd<4>;
    .reg .b64 %rd<8>;

    ld.param.u64 %rd1, [scale_param_0];
    ld.param.f64 %fd1, [scale_param_1];
    ld.param.u64 %rd2, [scale_param_2];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd3, %r1, %r2;
    cvt.u64.u32 %rd4, %r3;
    add.s64 %rd5, %rd3, %rd4;
    setp.ge.s64 %p1, %rd5, %rd2;
    @%p1 bra $L__scale_end;
    cvta.to.global.u64 %rd6, %rd1;
    shl.b64 %rd7, %rd5, 3;
    add.s64 %rd6, %rd6, %rd7;
    ld.global.f64 %fd2, [%rd6];
    mul.f64 %fd3, %fd2, %fd1;
    st.global.f64 [%rd6], %fd3;
$L__scale_end:
    ret;
}
"""

CHAIN = """
// data[0] after so many steps x = 5 x + 3, each of which waits for the one before; one thread
.visible .entry chain(
    .param .u64 chain_param_0,
    .param .u64 chain_param_1
)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<6>;

    ld.param.u64 %rd1, [chain_param_0];
    ld.param.u64 %rd2, [chain_param_1];
    cvta.to.global.u64 %rd3, %rd1;
    ld.global.u64 %rd4, [%rd3];
$L__chain_step:
    mad.lo.s64 %rd4, %rd4, 5, 3;
    add.s64 %rd2, %rd2, -1;
    setp.gt.s64 %p1, %rd2, 0;
    @%p1 bra $L__chain_step;
    st.global.u64 [%rd3], %rd4;
    ret;
}
"""

REVERSE = """
// data[i] = data[count - 1 - i] by way of shared memory; one block of count threads
.extern .shared .align 8 .b8 reverse_shared[];
.visible .entry reverse(
    .param .u64 reverse_param_0
)
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;

    ld.param.u64 %rd1, [reverse_param_0];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mul.wide.u32 %rd3, %r1, 8;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u64 %rd5, [%rd4];
    mov.u32 %r3, reverse_shared;
    shl.b32 %r4, %r1, 3;
    add.s32 %r5, %r3, %r4;
    st.shared.u64 [%r5], %rd5;
    bar.sync 0;
    sub.s32 %r6, %r2, %r1;
    add.s32 %r7, %r6, -1;
    shl.b32 %r8, %r7, 3;
    add.s32 %r9, %r3, %r8;
    ld.shared.u64 %rd6, [%r9];
    st.global.u64 [%rd4], %rd6;
    ret;
}
"""

MODULE = (HEAD + SCALE + CHAIN + REVERSE).encode()


def chain(start: int, steps: int) -> int:
    """The effect of `chain` on data[0], as a number with a sign."""
    factor, offset, power, addend = 1, 0, 5, 3
    while steps:  # by squaring: the steps are many
        if steps % 2:
            factor, offset = factor * power % 2**64, (offset * power + addend) % 2**64
        power, addend = power * power % 2**64, (addend * power + addend) % 2**64
        steps //= 2
    found = (factor * start + offset) % 2**64
    return found - 2**64 if found >= 2**63 else found
