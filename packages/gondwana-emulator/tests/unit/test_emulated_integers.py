"""Integer instructions of the emulated GPU against Python's integers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from support.emulated import evaluate, numpy_type, value_of

_EDGES = (0, 1, 2, 3, 5, 7, 31, 32, 33, 100)


def bits_of(kind: str) -> int:
    return int(kind[1:])


def samples(kind: str) -> list[int]:
    """Values at the edges of a type and some in between."""
    width = bits_of(kind)
    numbers = random.Random(kind)
    half = 1 << (width - 1)
    raw = [*_EDGES, half - 1, half, half + 1, 2 * half - 1, 2 * half - 2]
    return sorted({to_type(value, kind) for value in (*raw, *(numbers.getrandbits(width) for _ in range(6)))})


def to_type(value: int, kind: str) -> int:
    """Wrap a value as a register does."""
    width = bits_of(kind)
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value


def check(code: str, result: str, kinds: tuple[str, ...], oracle: Callable[..., int], extra: int = 0) -> None:
    """Compare an instruction with a function of Python integers for all combinations of samples.

    Args:
        code: with the result %d and the operands %a, %b, ...
        result: type of the result.
        kinds: types of the operands.
        oracle: the function; what it returns is wrapped.
        extra: so many random combinations more.
    """
    pools = [samples(kind) for kind in kinds]
    cases = list(itertools.product(*pools))
    numbers = random.Random(code)
    if len(cases) > 2000:
        cases = numbers.sample(cases, 2000)
    columns = list(zip(*cases, strict=True))
    names = "abcd"[: len(kinds)]
    arrays = {n: np.array(c, numpy_type(k)) for n, c, k in zip(names, columns, kinds, strict=True)}
    found = value_of(code, result, **arrays)
    wanted = np.array([to_type(int(oracle(*case)), result) for case in cases], numpy_type(result))
    bad = np.nonzero(found != wanted)[0]
    assert bad.size == 0, f"{code} of {cases[bad[0]]}: {found[bad[0]]}, not {wanted[bad[0]]}"


def truncated(left: int, right: int) -> tuple[int, int]:
    """Quotient and remainder toward zero; what devices give for zero."""
    if right == 0:
        return -1, left
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient, left - quotient * right


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": lambda a, b: truncated(a, b)[0],
    "rem": lambda a, b: truncated(a, b)[1],
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, kind: str) -> None:
    check(f"{name}.{kind} %d, %a, %b;", kind, (kind, kind), BINARY[name])


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_products(kind: str) -> None:
    width = bits_of(kind)
    check(f"mul.hi.{kind} %d, %a, %b;", kind, (kind, kind), lambda a, b: a * b >> width)
    check(f"mad.lo.{kind} %d, %a, %b, %c;", kind, (kind,) * 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{kind} %d, %a, %b, %c;", kind, (kind,) * 3, lambda a, b, c: (a * b >> width) + c)
    if width < 64:
        both = f"{kind[0]}{2 * width}"
        check(f"mul.wide.{kind} %d, %a, %b;", both, (kind, kind), lambda a, b: a * b)
        check(f"mad.wide.{kind} %d, %a, %b, %c;", both, (kind, kind, both), lambda a, b, c: a * b + c)


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_products_of_24_bits(kind: str) -> None:
    def low(value: int) -> int:
        value &= 0xFFFFFF
        return value - (1 << 24) if kind == "s32" and value >> 23 else value

    check(f"mul24.lo.{kind} %d, %a, %b;", kind, (kind, kind), lambda a, b: low(a) * low(b))
    check(f"mul24.hi.{kind} %d, %a, %b;", kind, (kind, kind), lambda a, b: low(a) * low(b) >> 16)
    check(f"mad24.lo.{kind} %d, %a, %b, %c;", kind, (kind,) * 3, lambda a, b, c: low(a) * low(b) + c)


def test_saturating_sums() -> None:
    def clamp(value: int) -> int:
        return max(-(2**31), min(2**31 - 1, value))

    check("add.sat.s32 %d, %a, %b;", "s32", ("s32", "s32"), lambda a, b: clamp(a + b))
    check("sub.sat.s32 %d, %a, %b;", "s32", ("s32", "s32"), lambda a, b: clamp(a - b))
    check("mad.hi.sat.s32 %d, %a, %b, %c;", "s32", ("s32",) * 3, lambda a, b, c: clamp((a * b >> 32) + c))


def test_carries() -> None:
    """Sums, differences and products of 64 bits by halves."""
    halves = ".reg .u32 %la, %ha, %lb, %hb, %l, %h; mov.b64 {%la, %ha}, %a; mov.b64 {%lb, %hb}, %b;"
    kinds = ("u64", "u64")
    for name in ("add", "sub"):
        code = f"{halves} {name}.cc.u32 %l, %la, %lb; {name}c.u32 %h, %ha, %hb; mov.b64 %d, {{%l, %h}};"
        check(code, "u64", kinds, lambda a, b, name=name: a + b if name == "add" else a - b)
    product = (
        "mul.lo.u32 %l, %la, %lb; mul.hi.u32 %h, %la, %lb;"
        "mad.lo.cc.u32 %h, %la, %hb, %h; mad.lo.u32 %h, %ha, %lb, %h; mov.b64 %d, {%l, %h};"
    )
    check(halves + product, "u64", kinds, lambda a, b: a * b)
    third = ".reg .u32 %lc, %hc; mov.b64 {%lc, %hc}, %c;"
    chain = "mad.lo.cc.u32 %l, %la, %lb, %lc; madc.hi.u32 %h, %la, %lb, %hc; mov.b64 %d, {%l, %h};"
    low = 2**32 - 1
    check(halves + third + chain, "u64", ("u64",) * 3, lambda a, b, c: (a & low) * (b & low) + c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind: str) -> None:
    check(f"abs.{kind} %d, %a;", kind, (kind,), abs)
    check(f"neg.{kind} %d, %a;", kind, (kind,), lambda a: -a)
    check(f"sad.{kind} %d, %a, %b, %c;", kind, (kind,) * 3, lambda a, b, c: abs(a - b) + c)
    check(f"sad.u{kind[1:]} %d, %a, %b, %c;", kind, (f"u{kind[1:]}",) * 3, lambda a, b, c: abs(a - b) + c)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic(width: int) -> None:
    kind = f"u{width}"
    check(f"and.b{width} %d, %a, %b;", kind, (kind, kind), lambda a, b: a & b)
    check(f"or.b{width} %d, %a, %b;", kind, (kind, kind), lambda a, b: a | b)
    check(f"xor.b{width} %d, %a, %b;", kind, (kind, kind), lambda a, b: a ^ b)
    check(f"not.b{width} %d, %a;", kind, (kind,), lambda a: ~a)
    check(f"cnot.b{width} %d, %a;", kind, (kind,), lambda a: a == 0)


@pytest.mark.parametrize("table", [0x00, 0x01, 0x80, 0x96, 0xCA, 0xE8, 0xFF])
def test_logic_of_three(table: int) -> None:
    def oracle(a: int, b: int, c: int) -> int:
        places = range(32)
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in places)

    check(f"lop3.b32 %d, %a, %b, %c, {table};", "u32", ("u32",) * 3, oracle)


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_shifts(kind: str) -> None:
    check(f"shl.b{kind[1:]} %d, %a, %b;", kind, (kind, "u32"), lambda a, b: a << min(b, 64))
    check(f"shr.{kind} %d, %a, %b;", kind, (kind, "u32"), lambda a, b: a >> min(b, 64))


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(mode: str) -> None:
    def count(c: int) -> int:
        return c & 31 if mode == "wrap" else min(c, 32)

    kinds = ("u32", "u32", "u32")
    check(f"shf.l.{mode}.b32 %d, %a, %b, %c;", "u32", kinds, lambda a, b, c: ((b << 32 | a) << count(c)) >> 32)
    check(f"shf.r.{mode}.b32 %d, %a, %b, %c;", "u32", kinds, lambda a, b, c: (b << 32 | a) >> count(c))


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_fields(kind: str) -> None:
    width = bits_of(kind)

    def extract(a: int, b: int, c: int) -> int:
        position, length = b & 255, c & 255
        if length == 0:
            return 0
        sign = kind[0] == "s" and a >> min(position + length - 1, width - 1) & 1
        places = range(width)
        raw = a & ((1 << width) - 1)
        return sum(((raw >> (position + i) & 1) if i < length and position + i < width else sign) << i for i in places)

    def insert(a: int, b: int, c: int, d: int) -> int:
        mask = ((1 << (d & 255)) - 1) << (c & 255)
        return (b & ~mask) | (a << (c & 255) & mask)

    check(f"bfe.{kind} %d, %a, %b, %c;", kind, (kind, "u32", "u32"), extract)
    raw = f"u{width}"
    columns = {"a": raw, "b": raw, "c": "u32", "e": "u32"}
    cases = random.Random(kind).sample(list(itertools.product(*map(samples, columns.values()))), 2000)
    values = zip(*cases, strict=True)
    arrays = {n: np.array(v, numpy_type(k)) for (n, k), v in zip(columns.items(), values, strict=True)}
    found = value_of(f"bfi.b{width} %d, %a, %b, %c, %e;", raw, **arrays)
    np.testing.assert_array_equal(found, np.array([to_type(insert(*case), raw) for case in cases], numpy_type(raw)))


def test_bytes_are_permuted() -> None:
    def oracle(a: int, b: int, c: int) -> int:
        eight = (b << 32 | a).to_bytes(8, "little")
        result = 0
        for place in range(4):
            nibble = c >> 4 * place & 15
            byte = eight[nibble & 7]
            result |= ((0xFF if byte >> 7 else 0) if nibble & 8 else byte) << 8 * place
        return result

    check("prmt.b32 %d, %a, %b, %c;", "u32", ("u32",) * 3, oracle)


@pytest.mark.parametrize("width", [32, 64])
def test_counts(width: int) -> None:
    kind = f"u{width}"
    check(f"popc.b{width} %d, %a;", "u32", (kind,), lambda a: a.bit_count())
    check(f"clz.b{width} %d, %a;", "u32", (kind,), lambda a: width - a.bit_length())
    check(f"brev.b{width} %d, %a;", kind, (kind,), lambda a: int(f"{a:0{width}b}"[::-1], 2))
    check(f"bfind.u{width} %d, %a;", "u32", (kind,), lambda a: a.bit_length() - 1)
    check(f"bfind.shiftamt.u{width} %d, %a;", "u32", (kind,), lambda a: width - a.bit_length() if a else -1)
    check(f"bfind.s{width} %d, %a;", "u32", (f"s{width}",), lambda a: (a if a >= 0 else ~a).bit_length() - 1)


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("how", COMPARISONS)
def test_comparisons(how: str, kind: str) -> None:
    oracle = COMPARISONS[how]
    check(f".reg .pred %p; setp.{how}.{kind} %p, %a, %b; selp.u32 %d, 1, 0, %p;", "u32", (kind, kind), oracle)
    check(f"set.{how}.u32.{kind} %d, %a, %b;", "u32", (kind, kind), lambda a, b: -oracle(a, b))
    if kind[0] == "u":
        other = {"lt": "lo", "le": "ls", "gt": "hi", "ge": "hs"}.get(how, how)
        code = f".reg .pred %p; setp.{other}.{kind} %p, %a, %b; selp.u32 %d, 1, 0, %p;"
        check(code, "u32", (kind, kind), oracle)


@pytest.mark.parametrize("join", ["and", "or", "xor"])
def test_joined_comparisons_have_two_results(join: str) -> None:
    left, right, third = (np.array(c) for c in zip(*itertools.product((1, 2), (1, 2), (False, True)), strict=True))
    operands = {"a": left.astype(np.int32), "b": right.astype(np.int32), "c": third}
    code = f"setp.lt.{join}.s32 %p|%q, %a, %b, %c; setp.lt.{join}.s32 %r, %a, %b, !%c;"
    found = evaluate(code, {"p": "pred", "q": "pred", "r": "pred"}, **operands)
    operator = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[join]
    np.testing.assert_array_equal(found["p"], operator(left < right, third))
    np.testing.assert_array_equal(found["q"], operator(left >= right, third))
    np.testing.assert_array_equal(found["r"], operator(left < right, ~third))


def test_predicates_are_calculated_with() -> None:
    first, second = (np.array(c) for c in zip(*itertools.product((False, True), repeat=2), strict=True))
    code = "and.pred %x, %p, %q; xor.pred %y, %p, %q; not.pred %z, %p;"
    found = evaluate(code, {"x": "pred", "y": "pred", "z": "pred"}, p=first, q=second)
    np.testing.assert_array_equal(found["x"], first & second)
    np.testing.assert_array_equal(found["y"], first ^ second)
    np.testing.assert_array_equal(found["z"], ~first)


def test_choices() -> None:
    check("slct.u32.s32 %d, %a, %b, %c;", "u32", ("u32", "u32", "s32"), lambda a, b, c: a if c >= 0 else b)
    found = value_of("selp.b64 %d, %a, 7, %p;", "u64", a=np.array([1, 2], np.uint64), p=np.array([True, False]))
    np.testing.assert_array_equal(found, [1, 7])


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("target", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_conversions(source: str, target: str) -> None:
    width = bits_of(target)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if target[0] == "s" else (0, (1 << width) - 1)
    check(f"cvt.{target}.{source} %d, %a;", target, (source,), lambda a: a)
    if not (low <= min(samples(source)) and max(samples(source)) <= high):  # else assemblers refuse the modifier
        check(f"cvt.sat.{target}.{source} %d, %a;", target, (source,), lambda a: max(low, min(high, a)))


def test_registers_are_split_and_joined() -> None:
    wide = np.array(samples("u64"), np.uint64)
    code = ".reg .b16 %w<4>; mov.b64 {%w0, %w1, %w2, %w3}, %a; mov.b64 %d, {%w3, %w2, %w1, %w0};"
    found = value_of(code, "u64", a=wide)
    np.testing.assert_array_equal(found.view(np.uint16).reshape(-1, 4), wide.view(np.uint16).reshape(-1, 4)[:, ::-1])
    np.testing.assert_array_equal(value_of("mov.b64 {_, %d}, %a;", "u32", a=wide), wide >> np.uint64(32))
