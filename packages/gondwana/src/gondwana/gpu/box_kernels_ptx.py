"""The kernels that copy and fill boxes on a device, as PTX: one box in a launch, or a list of boxes.

They are written by hand since the compiler of Python's kernels stands above transfers in the layers. All number the
units of a box, the last axis fastest, and split the number of a unit into its indices along `AXES` axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

UNITS = (16, 8, 4, 2, 1)
"""Bytes that a thread moves at a time."""

AXES = 4
"""Strided axes of a box, from the slowest to the fastest."""

MOST_UNITS = 1 << 31
"""Upper limit of the units of a box, so that indices have 32 bits: the processor divides those four times as fast."""

CHUNK = 2048
"""Units of a box in a list that one block of threads copies."""

BOX = 128
"""Bytes of a box in a list: target and source (two words), number of units, bytes of a unit, units along all axes but
the first, unused (32 bits each), strides in bytes along all axes in the target, then in the source (a word each)."""

COPY_LIST = "copy_boxes"
"""Parameters: address of the chunks (number of a box, first unit: 32 bits each; one a block), address of the boxes."""

_HEAD = """\
.version 7.0
.target sm_70
.address_size 64
"""

_ENTRY = """
.visible .entry {name}(
{parameters}
)
{{
    .reg .pred %done, %other;
    .reg .b16 %h;
    .reg .b32 %w, %i, %end, %step, %unit, %number, %rest, %product, %n<4>, %x<4>;
    .reg .b64 %word, %index, %box, %from, %to, %source, %target, %s<4>, %t<4>, %a, %b;

{start}
    setp.ge.u32 %done, %i, %end;
    @%done bra $ready;
{loops}
$ready:
    ret;
}}
"""

_LOOP = """\
$unit{unit}:
{indices}
{pointers}
{offsets}
{move}
    add.u32 %i, %i, %step;
    setp.lt.u32 %done, %i, %end;
    @%done bra $unit{unit};
"""

_OWN_UNITS = """\
    mov.u32 %step, %ntid.x;
    mov.u32 %product, %ctaid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %product, %step, %i;
    mov.u32 %product, %nctaid.x;
    mul.lo.u32 %step, %product, %step;"""

_OWN_CHUNK = f"""\
    ld.param.u64 %word, [{COPY_LIST}_0];
    cvta.to.global.u64 %box, %word;
    mov.u32 %w, %ctaid.x;
    mul.wide.u32 %index, %w, 8;
    add.u64 %box, %box, %index;
    ld.global.v2.u32 {{%number, %i}}, [%box];
    ld.param.u64 %word, [{COPY_LIST}_1];
    cvta.to.global.u64 %box, %word;
    mul.wide.u32 %index, %number, {BOX};
    add.u64 %box, %box, %index;
    ld.global.u64 %word, [%box];
    cvta.to.global.u64 %target, %word;
    ld.global.u64 %word, [%box+8];
    cvta.to.global.u64 %source, %word;
    ld.global.u32 %end, [%box+16];
    ld.global.u32 %unit, [%box+20];"""

_ROUND_OF_CHUNK = f"""\
    add.u32 %w, %i, {CHUNK};
    min.u32 %end, %end, %w;
    mov.u32 %w, %tid.x;
    add.u32 %i, %i, %w;
    mov.u32 %step, %ntid.x;"""

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
_COPY = {"from": ("source", "s"), "to": ("target", "t")}
_FILL = {"to": ("target", "t")}
"""Pointers of a loop: the registers with the first address, and with the strides."""


def copy_name(unit: int) -> str:
    """Return the name of the kernel that copies a box in units of `unit` bytes. Local.

    Parameters, a word each: target, source, number of units, units along the axes but the first, strides in bytes along
    all axes in the target, then in the source.
    """
    return f"copy_box_{unit}"


def fill_name(unit: int) -> str:
    """Return the name of the kernel that fills a box in units of `unit` bytes. Local.

    Parameters, a word each: target, number of units, units along the axes but the first, strides in bytes along all
    axes, 16 bytes of repetitions of the value.
    """
    return f"fill_box_{unit}"


def names() -> list[str]:
    """Return the names of all kernels. Local."""
    return [COPY_LIST, *map(copy_name, UNITS), *map(fill_name, UNITS)]


def text() -> bytes:
    """Return all kernels as PTX that every GPU since Volta runs. Local."""
    return "".join([_HEAD, _copy_list(), *map(_copy, UNITS), *map(_fill, UNITS)]).encode()


def _copy(unit: int) -> str:
    """The kernel that copies one box."""
    words = ["target", "source", "end", *_numbered("n", 1), *_numbered("t"), *_numbered("s")]
    return _of_one_box(copy_name(unit), words, [], _loop(unit, _COPY, [_LOADS[unit], _STORES[unit]]))


def _fill(unit: int) -> str:
    """The kernel that fills one box."""
    words = ["target", "end", *_numbered("n", 1), *_numbered("t"), "a", "b"]
    narrow = ["cvt.u32.u64 %w, %a;", "cvt.u16.u64 %h, %a;"]
    return _of_one_box(fill_name(unit), words, narrow, _loop(unit, _FILL, [_STORES[unit]]))


def _of_one_box(name: str, words: Sequence[str], more: Sequence[str], loop: str) -> str:
    """A kernel whose parameters are one box: the registers of these, further settings, its loop."""
    start = [line for place, register in enumerate(words) for line in _parameter(f"{name}_{place}", register)]
    return _ENTRY.format(
        name=name,
        parameters=_parameters(name, len(words)),
        start="\n".join([_lines([*start, *more]), _OWN_UNITS]),
        loops=loop,
    )


def _copy_list() -> str:
    """The kernel that copies a list of boxes; each block of threads reads its chunk."""
    loads = [f"ld.global.u32 %n{axis}, [%box+{20 + 4 * axis}];" for axis in range(1, AXES)]
    loads += [f"ld.global.u64 %t{axis}, [%box+{40 + 8 * axis}];" for axis in range(AXES)]
    loads += [f"ld.global.u64 %s{axis}, [%box+{40 + 8 * (AXES + axis)}];" for axis in range(AXES)]
    choices = [
        line for unit in UNITS[1:] for line in (f"setp.eq.u32 %other, %unit, {unit};", f"@%other bra $unit{unit};")
    ]
    loops = "    bra $ready;\n".join(_loop(unit, _COPY, [_LOADS[unit], _STORES[unit]]) for unit in UNITS)
    # The threads of a block whose chunk is short have left before they choose a loop.
    return _ENTRY.format(
        name=COPY_LIST,
        parameters=_parameters(COPY_LIST, 2),
        start="\n".join([_OWN_CHUNK, _lines(loads), _ROUND_OF_CHUNK]),
        loops=f"{_lines(choices)}\n{loops}",
    )


def _loop(unit: int, pointers: dict[str, tuple[str, str]], move: Sequence[str]) -> str:
    """The loop of a thread over its units."""
    strides = {pointer: stride for pointer, (_, stride) in pointers.items()}
    return _LOOP.format(
        unit=unit,
        indices=_indices(),
        pointers=_lines(f"mov.u64 %{pointer}, %{first};" for pointer, (first, _) in pointers.items()),
        offsets="\n".join(_offset(axis, strides) for axis in range(AXES)),
        move=_lines(move),
    )


def _indices() -> str:
    """Split the number %i of a unit: %x0 to %x3 become its indices along the axes."""
    lines = ["mov.u32 %rest, %i;"]
    for axis in range(AXES - 1, 0, -1):
        lines += [
            f"div.u32 %x0, %rest, %n{axis};",
            f"mul.lo.u32 %product, %x0, %n{axis};",
            f"sub.u32 %x{axis}, %rest, %product;",
            "mov.u32 %rest, %x0;",
        ]
    return _lines(lines)


def _offset(axis: int, strides: dict[str, str]) -> str:
    """Move pointers, each by its own strides, to the index along an axis."""
    lines = [f"cvt.u64.u32 %index, %x{axis};"]
    lines += [f"mad.lo.s64 %{pointer}, %index, %{stride}{axis}, %{pointer};" for pointer, stride in strides.items()]
    return _lines(lines)


def _parameter(name: str, register: str) -> list[str]:
    """Load a parameter: addresses and counts are converted to the type of their registers."""
    if register in ("target", "source"):
        return [f"ld.param.u64 %word, [{name}];", f"cvta.to.global.u64 %{register}, %word;"]
    if register == "end" or register[0] == "n":
        return [f"ld.param.u64 %word, [{name}];", f"cvt.u32.u64 %{register}, %word;"]
    return [f"ld.param.u64 %{register}, [{name}];"]


def _parameters(name: str, count: int) -> str:
    return ",\n".join(f"    .param .u64 {name}_{place}" for place in range(count))


def _numbered(letter: str, first: int = 0) -> list[str]:
    """Registers of the axes."""
    return [f"{letter}{axis}" for axis in range(first, AXES)]


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
