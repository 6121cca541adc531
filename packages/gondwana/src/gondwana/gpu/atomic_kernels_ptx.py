"""The kernels that perform atomic operations on words in the memory of a device, as PTX: on one word, or on many.

They are atomic for all processors and devices that reach the memory (scope `sys`). An operation without an instruction
of its own is a loop of compare-and-swap; so is the addition of float32, whose instruction loses subnormal numbers.
"""

from __future__ import annotations

THREADS = 128
"""Threads of a block; each has one word."""

_KERNEL = """\
.version 7.0
.target sm_70
.address_size 64

.visible .entry {name}(
    .param .u64 base, .param .u64 count, .param .u64 table, .param .u64 operand, .param .u64 expected, .param .u64 olds
)
{{
    .reg .pred %p; .reg .b32 %thread, %first;
    .reg .b64 %i, %count, %table, %place, %index, %at, %word, %wanted, %olds;
    .reg .b{bits} %value, %expected, %old, %seen, %new;

    mov.u32 %thread, %tid.x; mov.u32 %first, %ctaid.x;
    mad.lo.u32 %thread, %first, {threads}, %thread; cvt.u64.u32 %i, %thread;
    ld.param.u64 %count, [count]; setp.ge.u64 %p, %i, %count; @%p bra $ready;
    ld.param.u64 %at, [base]; ld.param.u64 %table, [table]; ld.param.u64 %olds, [olds];
    ld.param.u64 %word, [operand]; ld.param.u64 %wanted, [expected];
    setp.eq.u64 %p, %table, 0; @%p bra $found;
    mad.lo.u64 %place, %i, 8, %table; ld.global.u64 %index, [%place];
    mad.lo.u64 %place, %count, 8, %place; ld.global.u64 %word, [%place];
    mad.lo.s64 %at, %index, {size}, %at;
$found:
    cvt.u{bits}.u64 %value, %word; cvt.u{bits}.u64 %expected, %wanted;
{body}
    setp.eq.u64 %p, %olds, 0; @%p bra $ready;
    cvt.{wide}.{narrow} %word, %old; mad.lo.u64 %place, %i, 8, %olds; st.global.u64 [%place], %word;
$ready:
    ret;
}}
"""

_LOOP = """\
    ld.relaxed.sys.global.b{bits} %old, [%at];
$again:
    mov.b{bits} %seen, %old; {change}
    atom.relaxed.sys.global.cas.b{bits} %old, [%at], %seen, %new;
    setp.ne.b{bits} %p, %old, %seen; @%p bra $again;"""

_EITHER = "setp.{how}.{kind} %p, %value, %seen; selp.b{bits} %new, %value, %seen, %p;"
_BITS = {"store": "exch", "exchange": "exch", "bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


def name(operation: str, dtype: str) -> str:
    """Return the name of the kernel of an operation (see `sync.atomic_paths.OPERATIONS`) on words of a dtype. Local.

    Parameters, a word each: address from which indices count, number of words, address of their indices and, behind
    them, the operands, all of 64 bits; if that is 0, the operand of the one word at the address; the value with which
    `compare_exchange` compares; address for the old values as 64-bit integers with their bits, 0 for none.
    """
    return f"{operation}_{dtype}"


def text(operation: str, dtype: str) -> bytes:
    """Return the kernel as PTX that every GPU since Volta runs. Local."""
    bits = dtype[-2:]
    kind = {"i": "s", "u": "u", "f": "f"}[dtype[0]] + bits
    wide, narrow = ("s64", kind) if kind[0] == "s" else ("u64", f"u{bits}")
    return _KERNEL.format(
        name=name(operation, dtype), bits=bits, size=int(bits) // 8, threads=THREADS, body=_body(operation, kind, bits),
        wide=wide, narrow=narrow,
    ).encode()  # fmt: skip


def _body(operation: str, kind: str, bits: str) -> str:
    """Set %old to the word at %at, which then becomes what the operation makes of it and of %value."""
    whole = kind[0] != "f"
    if operation == "load":
        return f"    ld.relaxed.sys.global.b{bits} %old, [%at];"
    if operation == "compare_exchange":
        return f"    atom.relaxed.sys.global.cas.b{bits} %old, [%at], %expected, %value;"
    if operation in _BITS:
        return f"    atom.relaxed.sys.global.{_BITS[operation]}.b{bits} %old, [%at], %value;"
    if whole and operation == "sub":
        return f"    neg.s{bits} %value, %value;\n{_body('add', kind, bits)}"
    if operation == "add" and kind != "f32":
        return f"    atom.relaxed.sys.global.add.{kind.replace('s', 'u')} %old, [%at], %value;"
    if whole and operation != "mul":
        return f"    atom.relaxed.sys.global.{operation}.{kind} %old, [%at], %value;"
    if operation in ("min", "max"):
        change = _EITHER.format(how="lt" if operation == "min" else "gt", kind=kind, bits=bits)
    else:
        change = f"{operation}.{'lo' if whole else 'rn'}.{kind} %new, %seen, %value;"
    return _LOOP.format(bits=bits, change=change)
