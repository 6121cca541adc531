"""Two kernels as PTX: one carries out a whole list of copies between boxes, the other fills a box with one value.

They are written by hand since the compiler of Python's kernels stands above arrays in the layers. Both number the units
of a box, the last axis fastest, and take the number of a unit apart into its indices along four axes.
"""

from __future__ import annotations

from gondwana.gpu.pack_ptx import AXES, HEAD, UNITS, indices, offset

CHUNK = 2048
"""Units of a box that one block of threads copies."""

BOX = 128
"""Bytes of a box in a list: target and source (two words), units in all, bytes of a unit, units along all axes but the
first and nothing (32 bits each), strides in bytes along all axes in the target, then in the source (a word each)."""

COPY = "copy_boxes"
"""Parameters: address of the chunks (number of a box, first unit: 32 bits each; one a block), address of the boxes."""

_COPY = """
.visible .entry {name}(
    .param .u64 {name}_0,
    .param .u64 {name}_1
)
{{
    .reg .pred %done, %other;
    .reg .b16 %h;
    .reg .b32 %w, %i, %end, %step, %unit, %number, %rest, %product, %n<4>, %x<4>;
    .reg .b64 %word, %index, %box, %from, %to, %source, %target, %s<4>, %t<4>, %a, %b;

    ld.param.u64 %word, [{name}_0];
    cvta.to.global.u64 %box, %word;
    mov.u32 %w, %ctaid.x;
    mul.wide.u32 %index, %w, 8;
    add.u64 %box, %box, %index;
    ld.global.v2.u32 {{%number, %i}}, [%box];
    ld.param.u64 %word, [{name}_1];
    cvta.to.global.u64 %box, %word;
    mul.wide.u32 %index, %number, {box};
    add.u64 %box, %box, %index;
    ld.global.u64 %word, [%box];
    cvta.to.global.u64 %target, %word;
    ld.global.u64 %word, [%box+8];
    cvta.to.global.u64 %source, %word;
    ld.global.u32 %end, [%box+16];
    ld.global.u32 %unit, [%box+20];
{loads}
    add.u32 %w, %i, {chunk};
    min.u32 %end, %end, %w;
    mov.u32 %w, %tid.x;
    add.u32 %i, %i, %w;
    mov.u32 %step, %ntid.x;
    setp.ge.u32 %done, %i, %end;
    @%done bra $ready;
{choices}
{loops}
$ready:
    ret;
}}
"""

_LOOP = """\
$unit{unit}:
{indices}
    mov.u64 %from, %source;
    mov.u64 %to, %target;
{offsets}
    {load}
    {store}
    add.u32 %i, %i, %step;
    setp.lt.u32 %done, %i, %end;
    @%done bra $unit{unit};
    bra $ready;
"""

_FILL = """
.visible .entry {name}(
{parameters}
)
{{
    .reg .pred %done;
    .reg .b16 %h;
    .reg .b32 %w, %i, %end, %step, %rest, %product, %n<4>, %x<4>;
    .reg .b64 %word, %index, %to, %target, %t<4>, %a, %b;

    ld.param.u64 %word, [{name}_0];
    cvta.to.global.u64 %target, %word;
    ld.param.u64 %word, [{name}_1];
    cvt.u32.u64 %end, %word;
{loads}
    ld.param.u64 %a, [{name}_9];
    ld.param.u64 %b, [{name}_10];
    cvt.u32.u64 %w, %a;
    cvt.u16.u64 %h, %a;
    mov.u32 %step, %ntid.x;
    mov.u32 %product, %ctaid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %product, %step, %i;
    mov.u32 %product, %nctaid.x;
    mul.lo.u32 %step, %product, %step;
    setp.ge.u32 %done, %i, %end;
    @%done bra $ready;
$next:
{indices}
    mov.u64 %to, %target;
{offsets}
    {store}
    add.u32 %i, %i, %step;
    setp.lt.u32 %done, %i, %end;
    @%done bra $next;
$ready:
    ret;
}}
"""

_LOADS = {
    1: "ld.global.u8 %h, [%from];",
    2: "ld.global.u16 %h, [%from];",
    4: "ld.global.u32 %w, [%from];",
    8: "ld.global.u64 %a, [%from];",
    16: "ld.global.v2.u64 {%a, %b}, [%from];",
}
_STORES = {
    1: "st.global.u8 [%to], %h;",
    2: "st.global.u16 [%to], %h;",
    4: "st.global.u32 [%to], %w;",
    8: "st.global.u64 [%to], %a;",
    16: "st.global.v2.u64 [%to], {%a, %b};",
}


def fill_name(unit: int) -> str:
    """Return the name of the kernel that fills with units of so many bytes. Local.

    Parameters, a word each: target, units in all, units along the axes but the first, strides in bytes along all axes,
    the 16 bytes that the value is repeated to.
    """
    return f"fill_box_{unit}"


def text() -> bytes:
    """Return all kernels as PTX that every GPU since Volta runs. Local."""
    return (HEAD + _copy() + "".join(map(_fill, UNITS))).encode()


def _copy() -> str:
    loads = [f"    ld.global.u32 %n{axis}, [%box+{20 + 4 * axis}];" for axis in range(1, AXES)]
    loads += [f"    ld.global.u64 %t{axis}, [%box+{40 + 8 * axis}];" for axis in range(AXES)]
    loads += [f"    ld.global.u64 %s{axis}, [%box+{40 + 8 * (AXES + axis)}];" for axis in range(AXES)]
    choices = [f"    setp.eq.u32 %other, %unit, {unit};\n    @%other bra $unit{unit};" for unit in UNITS[1:]]
    offsets = "\n".join(offset(axis, {"from": "s", "to": "t"}) for axis in range(AXES))
    loops = [
        _LOOP.format(unit=unit, indices=indices(), offsets=offsets, load=_LOADS[unit], store=_STORES[unit])
        for unit in UNITS
    ]
    return _COPY.format(
        name=COPY, box=BOX, chunk=CHUNK, loads="\n".join(loads), choices="\n".join(choices), loops="".join(loops)
    )


def _fill(unit: int) -> str:
    name = fill_name(unit)
    loads = [
        f"    ld.param.u64 %word, [{name}_{1 + axis}];\n    cvt.u32.u64 %n{axis}, %word;" for axis in range(1, AXES)
    ]
    loads += [f"    ld.param.u64 %t{axis}, [{name}_{1 + AXES + axis}];" for axis in range(AXES)]
    return _FILL.format(
        name=name,
        parameters=",\n".join(f"    .param .u64 {name}_{word}" for word in range(3 + 2 * AXES)),
        loads="\n".join(loads),
        indices=indices(),
        offsets="\n".join(offset(axis, {"to": "t"}) for axis in range(AXES)),
        store=_STORES[unit],
    )
