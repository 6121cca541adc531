"""Floating-point instructions of the emulated GPU against exact arithmetic of fractions, and NumPy."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.emulated import evaluate, value_of

TYPES = {"f32": np.float32, "f64": np.float64}
Float = np.float32 | np.float64


def samples(kind: str, *, finite: bool = False) -> np.ndarray:
    """Values at the edges of a type and some in between."""
    facts = np.finfo(TYPES[kind])
    numbers = random.Random(kind)
    raw = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1 / 3, 255.0, 1e10, float(facts.max), float(facts.tiny)]
    raw += [float(facts.smallest_subnormal), float(facts.tiny) / 3, 1 + float(facts.eps), 1 - float(facts.epsneg)]
    raw += [numbers.uniform(0, 1) * 2.0 ** numbers.randint(-60, 60) for _ in range(8)]
    values = np.array([*raw, *(-value for value in raw)]).astype(TYPES[kind])
    return values if finite else np.append(values, np.array([np.inf, -np.inf, np.nan], TYPES[kind]))


def combinations(kind: str, count: int, *, finite: bool = False) -> list[np.ndarray]:
    """All combinations of samples, or many."""
    cases = list(itertools.product(samples(kind, finite=finite), repeat=count))
    if len(cases) > 1500:
        cases = random.Random(count).sample(cases, 1500)
    return [np.array(column, TYPES[kind]) for column in zip(*cases, strict=True)]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Bits are equal, but all that is no number is one."""
    assert found.dtype == wanted.dtype
    bits = f"u{found.dtype.itemsize}"
    good = (found.view(bits) == wanted.view(bits)) | (np.isnan(found) & np.isnan(wanted))
    assert good.all(), f"{found[~good][:3]}, not {wanted[~good][:3]}"


def rounded(exact: Fraction, kind: str, mode: str) -> Float:
    """A fraction as the next number of a type in a direction."""
    real = TYPES[kind]
    digits, smallest = (24, -149) if kind == "f32" else (53, -1074)
    size = abs(exact)
    if size == 0:
        return real(0)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    while size >= Fraction(2) ** exponent:
        exponent += 1
    while size < Fraction(2) ** (exponent - 1):
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits, smallest)
    whole, rest = divmod(size, unit)
    up = {"rz": False, "rm": exact < 0, "rp": exact > 0}.get(mode)
    if up is None:
        up = rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1)
    size = (whole + (up and rest > 0)) * unit
    limit = Fraction(float(np.finfo(real).max))
    if size > limit:
        away = mode == "rn" or (mode == "rm" and exact < 0) or (mode == "rp" and exact > 0)
        size_found = math.inf if away else float(limit)
    else:
        size_found = float(size)
    return real(-size_found if exact < 0 else size_found)


OPERATIONS: dict[str, Callable[..., Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_the_four_operations(name: str, kind: str) -> None:
    left, right = combinations(kind, 2)
    with np.errstate(all="ignore"):
        wanted = {**OPERATIONS, "div": operator.truediv}[name](left, right)
    same(value_of(f"{name}.rn.{kind} %d, %a, %b;", kind, a=left, b=right), wanted)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", TYPES)
def test_rounding_of_sums_and_products(kind: str, mode: str) -> None:
    left, right, third = combinations(kind, 3, finite=True)
    code = f"add.{mode}.{kind} %s, %a, %b; mul.{mode}.{kind} %p, %a, %b; fma.{mode}.{kind} %f, %a, %b, %c;"
    found = evaluate(code, {"s": kind, "p": kind, "f": kind}, a=left, b=right, c=third)
    exact = [tuple(Fraction(float(v)) for v in case) for case in zip(left, right, third, strict=True)]
    for name, values in (
        ("s", [a + b for a, b, _ in exact]),
        ("p", [a * b for a, b, _ in exact]),
        ("f", [a * b + c for a, b, c in exact]),
    ):
        wanted = np.array([rounded(value, kind, mode) for value in values], TYPES[kind])
        nonzero = np.array([value != 0 for value in values])  # the sign of zero has rules of its own
        same(found[name][nonzero], wanted[nonzero])
        assert not found[name][~nonzero].any()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", TYPES)
def test_rounding_of_quotients_and_roots(kind: str, mode: str) -> None:
    left, right = combinations(kind, 2, finite=True)
    keep = (right != 0) & (left != 0)
    left, right = left[keep], right[keep]
    code = f"div.{mode}.{kind} %q, %a, %b; rcp.{mode}.{kind} %r, %b; abs.{kind} %s, %a; sqrt.{mode}.{kind} %s, %s;"
    found = evaluate(code, {"q": kind, "r": kind, "s": kind}, a=left, b=right)
    pairs = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(left, right, strict=True)]
    same(found["q"], np.array([rounded(a / b, kind, mode) for a, b in pairs], TYPES[kind]))
    same(found["r"], np.array([rounded(1 / b, kind, mode) for _, b in pairs], TYPES[kind]))
    for (value, _), root in zip(pairs[:300], found["s"][:300], strict=True):
        assert root == rounded(root_of(abs(value)), kind, mode)


def root_of(value: Fraction) -> Fraction:
    """A root to far more digits than any type has, and on the right side of what is not exact."""
    scale = 4 ** (300 + max(0, value.denominator.bit_length()))
    whole = value.numerator * scale // value.denominator
    root = math.isqrt(whole)
    exact = root * root == whole and value.numerator * scale % value.denominator == 0
    return Fraction(2 * root + (not exact), 2 * math.isqrt(scale))


@given(st.lists(st.tuples(*[st.floats(width=64)] * 3), min_size=64, max_size=64))
@settings(max_examples=20, deadline=None)
def test_fused_is_rounded_once(cases: list[tuple[float, float, float]]) -> None:
    columns = [np.array(column) for column in zip(*cases, strict=True)]
    found = value_of("fma.rn.f64 %d, %a, %b, %c;", "f64", **dict(zip("abc", columns, strict=True)))
    for case, result in zip(cases, found, strict=True):
        if all(map(math.isfinite, case)):
            exact = Fraction(case[0]) * Fraction(case[1]) + Fraction(case[2])
            assert result == rounded(exact, "f64", "rn") or (exact == 0 and result == 0)


def test_subnormal_numbers_are_flushed_if_asked() -> None:
    left, right = combinations("f32", 2)

    def flush(values: np.ndarray) -> np.ndarray:
        small = np.abs(values) < np.finfo(np.float32).tiny
        return np.where(small, np.copysign(np.float32(0), values), values).astype(np.float32)

    with np.errstate(all="ignore"):
        for name, function in OPERATIONS.items():
            wanted = flush(function(flush(left), flush(right)))
            same(value_of(f"{name}.ftz.f32 %d, %a, %b;", "f32", a=left, b=right), wanted)
    code = ".reg .pred %p; setp.eq.ftz.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;"
    np.testing.assert_array_equal(value_of(code, "u32", a=left, b=right), flush(left) == flush(right))


@pytest.mark.parametrize("kind", TYPES)
def test_saturation(kind: str) -> None:
    left, right = combinations(kind, 2)
    with np.errstate(all="ignore"):
        total = left + right
    wanted = np.where(total > 0, np.minimum(total, 1), 0).astype(TYPES[kind])
    if kind == "f32":
        same(value_of("add.sat.f32 %d, %a, %b;", kind, a=left, b=right), wanted)
    same(value_of(f"add.{kind} %d, %a, %b; cvt.sat.{kind}.{kind} %d, %d;", kind, a=left, b=right), wanted)


@pytest.mark.parametrize("kind", TYPES)
def test_extremes(kind: str) -> None:
    left, right = combinations(kind, 2)
    found = evaluate(
        f"min.{kind} %l, %a, %b; max.{kind} %h, %a, %b;", {"l": kind, "h": kind}, a=left, b=right,
    )  # fmt: skip
    zeros = (left == 0) & (right == 0)
    same(found["l"][~zeros], np.fmin(left, right)[~zeros])
    same(found["h"][~zeros], np.fmax(left, right)[~zeros])
    np.testing.assert_array_equal(np.signbit(found["l"][zeros]), (np.signbit(left) | np.signbit(right))[zeros])
    np.testing.assert_array_equal(np.signbit(found["h"][zeros]), (np.signbit(left) & np.signbit(right))[zeros])
    if kind == "f32":  # the modifier is not for others
        least = value_of("min.NaN.f32 %d, %a, %b;", kind, a=left, b=right)
        np.testing.assert_array_equal(np.isnan(least), np.isnan(left) | np.isnan(right))


@pytest.mark.parametrize("kind", TYPES)
def test_signs(kind: str) -> None:
    left, right = combinations(kind, 2)
    same(value_of(f"abs.{kind} %d, %a;", kind, a=left), np.abs(left))
    same(value_of(f"neg.{kind} %d, %a;", kind, a=left), -left)
    same(value_of(f"copysign.{kind} %d, %a, %b;", kind, a=left, b=right), np.copysign(right, left))


@pytest.mark.parametrize("kind", TYPES)
def test_classes(kind: str) -> None:
    values, tiny = samples(kind), np.finfo(TYPES[kind]).tiny
    wanted = {
        "finite": np.isfinite(values),
        "infinite": np.isinf(values),
        "number": ~np.isnan(values),
        "notanumber": np.isnan(values),
        "subnormal": (np.abs(values) < tiny) & (values != 0),
        "normal": np.isfinite(values) & ~((np.abs(values) < tiny) & (values != 0)),
    }
    for name, holds in wanted.items():
        found = value_of(f"testp.{name}.{kind} %d, %a;", "pred", a=values)
        np.testing.assert_array_equal(found, holds, name)


@pytest.mark.parametrize("kind", TYPES)
def test_comparisons(kind: str) -> None:
    left, right = combinations(kind, 2)
    apart = np.isnan(left) | np.isnan(right)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        holds = getattr(operator, name)(left, right)
        code = f".reg .pred %p; setp.{name}{{}}.{kind} %p, %a, %b; selp.u32 %d, 1, 0, %p;"
        np.testing.assert_array_equal(value_of(code.format(""), "u32", a=left, b=right), holds & ~apart)
        np.testing.assert_array_equal(value_of(code.format("u"), "u32", a=left, b=right), holds | apart)
    for name, holds in (("num", ~apart), ("nan", apart)):
        code = f".reg .pred %p; setp.{name}.{kind} %p, %a, %b; selp.u32 %d, 1, 0, %p;"
        np.testing.assert_array_equal(value_of(code, "u32", a=left, b=right), holds)
    same(value_of(f"set.lt.f32.{kind} %d, %a, %b;", "f32", a=left, b=right), (left < right).astype(np.float32))
    choice = value_of("slct.u32.f32 %d, 1, 0, %a;", "u32", a=samples("f32"))
    np.testing.assert_array_equal(choice, samples("f32") >= 0)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("target", TYPES)
def test_integers_become_numbers(target: str, source: str, mode: str) -> None:
    numbers, width = random.Random(mode), int(source[1:])
    raw = [0, 1, 2, 3, 100, 2**24 + 1, (1 << width - 1) - 1, *(numbers.getrandbits(width - 1) for _ in range(50))]
    values = [*raw, *(-value for value in raw)] if source[0] == "s" else [*raw, (1 << width) - 1]
    array = np.array(values, f"{'i' if source[0] == 's' else 'u'}{width // 8}")
    found = value_of(f"cvt.{mode}.{target}.{source} %d, %a;", target, a=array)
    same(found, np.array([rounded(Fraction(value), target, mode) for value in values], TYPES[target]))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("source", TYPES)
def test_numbers_become_integers(source: str, mode: str) -> None:
    values = np.append(samples(source), np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.0**31, -(2.0**31)], TYPES[source]))
    to_whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    same(value_of(f"cvt.{mode}.{source}.{source} %d, %a;", source, a=values), to_whole(values))
    for target in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        width, signed = int(target[1:]), target[0] == "s"
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
        kind = np.dtype(f"{'i' if signed else 'u'}{width // 8}")
        wanted = []
        for value in values:
            if np.isnan(value):
                # As documented for devices: zero for narrow types, else the top bit alone.
                wide = source == "f64" or width == 64
                wanted.append((low if signed else 1 << width - 1) if wide else 0)
            else:
                wanted.append(max(low, min(high, int(to_whole(value))))) if np.isfinite(value) else wanted.append(
                    high if value > 0 else low
                )
        found = value_of(f"cvt.{mode}.{target}.{source} %d, %a;", target, a=values)
        np.testing.assert_array_equal(found, np.array(wanted, kind), target)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_double_becomes_float(mode: str) -> None:
    values = samples("f64", finite=True)
    found = value_of(f"cvt.{mode}.f32.f64 %d, %a;", "f32", a=values)
    wanted = [rounded(Fraction(float(value)), "f32", mode) for value in values]
    nonzero = values != 0
    same(found[nonzero], np.array(wanted, np.float32)[nonzero])
    singles = samples("f32")
    same(value_of("cvt.f64.f32 %d, %a;", "f64", a=singles), singles.astype(np.float64))


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "ex2": (np.exp2, -30, 30),
    "lg2": (np.log2, 0.01, 1000),
    "sin": (np.sin, -3, 3),
    "cos": (np.cos, -3, 3),
    "tanh": (np.tanh, -3, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 100),
    "sqrt": (np.sqrt, 0.01, 100),
    "rcp": (lambda x: 1 / x, 0.01, 100),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_approximate_functions(name: str) -> None:
    function, low, high = FUNCTIONS[name]
    values = np.linspace(low, high, 200, dtype=np.float32)
    ftz = "" if name == "tanh" else ".ftz"
    found = value_of(f"{name}.approx{ftz}.f32 %d, %a;", "f32", a=values)
    np.testing.assert_allclose(found, function(values.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("name", ["rcp", "rsqrt"])
def test_approximations_in_double_are_rough(name: str) -> None:
    function, low, high = FUNCTIONS[name]
    values = np.linspace(low, high, 200)
    found = value_of(f"{name}.approx.ftz.f64 %d, %a;", "f64", a=values)
    np.testing.assert_allclose(found, function(values), rtol=1e-6)
    assert not (found.view(np.uint64) & np.uint64(2**32 - 1)).any()


def test_constants() -> None:
    one = np.ones(1, np.float32)
    code = "add.f32 %d, %a, 0f3F000000; add.f32 %d, %d, 1.25; add.f32 %d, %d, 0fBF800000;"
    assert value_of(code, "f32", a=one)[0] == 1.75
    assert value_of("add.f64 %d, %a, 0d3FE0000000000000;", "f64", a=np.ones(1))[0] == 1.5
    assert value_of("mov.b32 %d, 0fBF800000;", "u32", a=one)[0] == 0xBF800000
