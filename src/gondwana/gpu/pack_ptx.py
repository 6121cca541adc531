"""The kernels that copy boxes with gaps on a device, as PTX: one for each size of what is moved at a time.

They are written by hand since the compiler of Python's kernels stands above memory in the layers.
"""

from __future__ import annotations

UNITS = (16, 8, 4, 2, 1)
"""Bytes that a thread moves at a time."""

AXES = 4
"""Strided axes of a kernel. Its parameters: target, source, units in all, units along the axes but the first, strides
in bytes along all axes in the target, then in the source. Axes go from the slowest to the fastest."""

MOST_UNITS = 1 << 31
"""Units in all must be fewer, so that indices are of 32 bits: the processor divides those four times as fast."""

HEAD = """\
.version 7.0
.target sm_70
.address_size 64
"""

_ENTRY = """
.visible .entry {name}(
{parameters}
)
{{
    .reg .pred %done;
    .reg .b32 %i, %end, %step, %n<4>, %rest, %product, %x<4>;
    .reg .b64 %word, %index, %from, %to, %source, %target, %s<4>, %t<4>;
    .reg {register} %value, %other;

    ld.param.u64 %word, [{name}_0];
    cvta.to.global.u64 %target, %word;
    ld.param.u64 %word, [{name}_1];
    cvta.to.global.u64 %source, %word;
    ld.param.u64 %word, [{name}_2];
    cvt.u32.u64 %end, %word;
{loads}
    mov.u32 %rest, %ntid.x;
    mov.u32 %product, %ctaid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %product, %rest, %i;
    mov.u32 %product, %nctaid.x;
    mul.lo.u32 %step, %product, %rest;
    setp.ge.u32 %done, %i, %end;
    @%done bra $ready;
$next:
{indices}
    mov.u64 %from, %source;
    mov.u64 %to, %target;
{offsets}
    {load}
    {store}
    add.u32 %i, %i, %step;
    setp.lt.u32 %done, %i, %end;
    @%done bra $next;
$ready:
    ret;
}}
"""

_MOVES = {
    1: (".b16", "ld.global.u8 %value, [%from];", "st.global.u8 [%to], %value;"),
    2: (".b16", "ld.global.u16 %value, [%from];", "st.global.u16 [%to], %value;"),
    4: (".b32", "ld.global.u32 %value, [%from];", "st.global.u32 [%to], %value;"),
    8: (".b64", "ld.global.u64 %value, [%from];", "st.global.u64 [%to], %value;"),
    16: (".b64", "ld.global.v2.u64 {%value, %other}, [%from];", "st.global.v2.u64 [%to], {%value, %other};"),
}


def name(unit: int) -> str:
    """Return the name of the kernel that moves so many bytes at a time. Local."""
    return f"copy_box_{unit}"


def text() -> bytes:
    """Return all kernels as PTX that every GPU since Volta runs. Local."""
    return (HEAD + "".join(map(_entry, UNITS))).encode()


def _entry(unit: int) -> str:
    register, load, store = _MOVES[unit]
    called = name(unit)
    words = 3 + AXES - 1 + 2 * AXES
    parameters = ",\n".join(f"    .param .u64 {called}_{word}" for word in range(words))
    loads = []
    for axis in range(1, AXES):
        loads += [f"    ld.param.u64 %word, [{called}_{2 + axis}];", f"    cvt.u32.u64 %n{axis}, %word;"]
    loads += [f"    ld.param.u64 %t{axis}, [{called}_{2 + AXES + axis}];" for axis in range(AXES)]
    loads += [f"    ld.param.u64 %s{axis}, [{called}_{2 + 2 * AXES + axis}];" for axis in range(AXES)]
    return _ENTRY.format(
        name=called,
        parameters=parameters,
        register=register,
        loads="\n".join(loads),
        indices=indices(),
        offsets="\n".join(offset(axis, {"from": "s", "to": "t"}) for axis in range(AXES)),
        load=load,
        store=store,
    )


def indices() -> str:
    """Return PTX that takes the number %i of a unit apart: %x0 to %x3 become its indices along the axes. Local."""
    lines = ["mov.u32 %rest, %i;"]
    for axis in range(AXES - 1, 0, -1):
        lines += [
            f"div.u32 %x0, %rest, %n{axis};",
            f"mul.lo.u32 %product, %x0, %n{axis};",
            f"sub.u32 %x{axis}, %rest, %product;",
            "mov.u32 %rest, %x0;",
        ]
    return "\n".join(f"    {line}" for line in lines)


def offset(axis: int, strides: dict[str, str]) -> str:
    """Return PTX that moves pointers to the index along an axis. Local.

    Args:
        axis: which one.
        strides: how the registers of the strides are called, for each pointer.
    """
    lines = [f"cvt.u64.u32 %index, %x{axis};"]
    lines += [f"mad.lo.s64 %{pointer}, %index, %{stride}{axis}, %{pointer};" for pointer, stride in strides.items()]
    return "\n".join(f"    {line}" for line in lines)
