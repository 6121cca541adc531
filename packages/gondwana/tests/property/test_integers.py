"""Integers in compiled code have the types and values that NumPy gives, for all types, operators and edges."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
TYPES = SIGNED + UNSIGNED

# Each is an expression of x and y, for compiled code, and what gives the value, if not the expression itself.
OPERATIONS: dict[str, Callable[[Any, Any], Any] | None] = {
    "x + y": None,
    "x - y": None,
    "x * y": None,
    "x // y": None,
    "x % y": None,
    "x & y": None,
    "x | y": None,
    "x ^ y": None,
    "x << y": np.left_shift,
    "x >> y": np.right_shift,
    "np.add(x, y)": None,
    "np.subtract(x, y)": None,
    "np.multiply(x, y)": None,
    "np.floor_divide(x, y)": None,
    "np.remainder(x, y)": None,
    "np.mod(x, y)": None,
    "np.fmod(x, y)": None,
    "divmod(x, y)[0]": np.floor_divide,
    "divmod(x, y)[1]": np.remainder,
    "np.divmod(x, y)[1]": np.remainder,
    "np.bitwise_xor(x, y)": None,
    "np.left_shift(x, y)": None,
    "np.right_shift(x, y)": None,
    "x ** (y & 7)": lambda x, y: np.power(x, y & type(y)(7)),
    "-x": lambda x, y: np.negative(x),
    "~x": lambda x, y: np.invert(x),
    "abs(x)": lambda x, y: np.absolute(x),
    "np.abs(x)": lambda x, y: np.absolute(x),
}
EXACT: dict[str, Callable[[int, int], int]] = {
    "x < y": operator.lt,
    "x <= y": operator.le,
    "x > y": operator.gt,
    "x >= y": operator.ge,
    "x == y": operator.eq,
    "x != y": operator.ne,
    "np.less(x, y)": operator.lt,
    "np.equal(x, y)": operator.eq,
    "min(x, y)": min,
    "max(x, y)": max,
    "np.minimum(x, y)": min,
    "np.maximum(x, y)": max,
}


def compiled(name: str, text: str, **constants: Any) -> types.FunctionType:
    """A function made of text."""
    space: dict[str, Any] = {"np": np, **constants}
    exec(text, space)
    function: types.FunctionType = space[name]
    return function


def edges(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers at which types differ, those that a type holds."""
    wanted = {
        sign * 2**bits + near
        for bits in (0, 3, 6, 7, 8, 15, 16, 31, 32, 53, 63, 64)
        for sign in (-1, 1)
        for near in (-1, 0, 1)
    }
    limits = np.iinfo(dtype)
    return np.array(sorted(n for n in wanted | {0, 2, 3, 10, -3} if limits.min <= n <= limits.max), dtype)


def word(value: Any) -> int:
    """The 64 bits of a number as a signed integer."""
    return (int(value) + 2**63) % 2**64 - 2**63


def expected(text: str, x: Any, y: Any) -> int:
    """What NumPy gives; of uint64 and a signed integer what it gives for two uint64."""
    if text in EXACT:
        return word(EXACT[text](int(x), int(y)))
    if "y" not in text:
        with np.errstate(all="ignore"):
            return word(OPERATIONS[text](x, y))  # type: ignore[misc]
    if np.result_type(x, y).kind == "f":
        x, y = (np.uint64(int(n) % 2**64) for n in (x, y))
    else:
        x, y = (np.result_type(x, y).type(n) for n in (x, y))
    known = OPERATIONS[text]
    with np.errstate(all="ignore"):
        return word(eval(text, {"np": np, "x": x, "y": y}) if known is None else known(x, y))


def calculator(texts: list[str]) -> Any:
    """A function of two arrays that fills a table with all operations on all pairs."""
    lines = [f"            out[{k}, i, j] = {text}" for k, text in enumerate(texts)]
    source = ["def table(xs, ys, out):", "    for i in range(len(xs)):", "        x = xs[i]"]
    source += ["        for j in range(len(ys)):", "            y = ys[j]", *lines]
    return gw.jit(compiled("table", "\n".join(source)))


PAIRS = [(name, name) for name in TYPES]
PAIRS += [
    ("int8", "uint8"),
    ("uint32", "int16"),
    ("int32", "uint32"),
    ("int64", "uint64"),
    ("uint64", "int8"),
    ("uint8", "int64"),
]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_all_operators(left: str, right: str) -> None:
    """Arithmetic, comparisons and NumPy's functions of two elements."""
    texts = [*OPERATIONS, *EXACT]
    xs, ys = edges(left), edges(right)
    out = np.zeros((len(texts), len(xs), len(ys)), np.int64)
    calculator(texts)(xs, ys, out)
    wrong = [
        f"{text} of {x!r} and {y!r} is {out[k, i, j]}, not {wanted}"
        for k, text in enumerate(texts)
        for i, x in enumerate(xs)
        for j, y in enumerate(ys)
        if out[k, i, j] != (wanted := expected(text, x, y))
    ]
    assert not wrong, wrong[:10]


SEVEN = 7
LARGE = np.uint8(200)
TABLE = np.array([1, 72], np.int8)


def weak(xs, k, f, out):  # type: ignore[no-untyped-def]
    """Python's numbers of all origins beside elements: a literal, an argument, a global, variables, a counter."""
    start = 3
    while start < 5:
        start += 1
    for i in range(len(xs)):
        x = xs[i]
        out[0, i] = x // 3
        out[1, i] = x % 10
        out[2, i] = x + 100
        out[3, i] = 100 - x
        out[4, i] = x * SEVEN
        out[5, i] = x**2
        out[6, i] = x >> 1
        out[7, i] = x << 3
        out[8, i] = 100 // x
        out[9, i] = x // k
        out[10, i] = x % k
        out[11, i] = k - x
        out[12, i] = x + start
        out[13, i] = x * len(out.shape)
        out[14, i] = (x > k) + 2 * (x >= 2**63) + 4 * (x < -1)
        out[15, i] = min(x, k)
        out[16, i] = max(3, x)
        out[17, i] = np.minimum(x, 5)
        out[18, i] = np.maximum(k, x)
        out[19, i] = np.floor_divide(x, 3)
        out[20, i] = np.remainder(x, k)
        out[21, i] = x + True
        out[22, i] = x * (k > 2)
        out[23, i] = x + np.uint8(3)
        out[24, i] = LARGE + k
        out[25, i] = divmod(x, 10)[1]
        out[26, i] = x | 5
        out[27, i] = abs(x) * 2
        out[28, i] = x - 1 if x % 2 else x + 100
        out[29, i] = pow(x, 3)
        y = x
        y //= 3
        y += 100
        y *= k
        y <<= 1
        out[30, i] = y
        for j in range(3, 5):
            out[28 + j, i] = x * j
        z = x
        for _ in range(2):
            z = z * 31 + k
        out[33, i] = z
        out[34, i] = x / 2 > 3.5
        out[35, i] = x * f > 1.0
        out[36, i] = np.left_shift(x, 2)
        out[37, i] = -x + 1
        out[38, i] = x % 1
        out[39, i] = (x if x > 2 else 3) // 3


@pytest.mark.parametrize("name", TYPES)
def test_python_numbers_are_weak(name: str) -> None:
    """What compiled code gives is what the function gives in Python, with NumPy's scalars."""
    xs = edges(name)
    found, wanted = np.zeros((2, 40, len(xs)), np.int64)
    gw.jit(weak)(xs, 5, 0.5, found)
    with np.errstate(all="ignore"):
        weak(xs, 5, 0.5, Words(wanted))
    rows, columns = np.nonzero(found != wanted)
    assert not len(rows), [(row, xs[i], found[row, i], wanted[row, i]) for row, i in zip(rows, columns, strict=True)][
        :10
    ]


class Words:
    """A table that takes numbers of any type by their bits."""

    def __init__(self, table: np.ndarray[Any, Any]) -> None:
        self._table = table
        self.shape = table.shape

    def __setitem__(self, place: tuple[int, int], value: Any) -> None:
        self._table[place] = word(value)


def test_python_numbers_of_64_bits_without_sign() -> None:
    """Arguments from 2**63 on, and variables that begin as Python's."""

    @gw.jit
    def remainders(xs, m):  # type: ignore[no-untyped-def]
        total = 0
        for i in range(len(xs)):
            total += xs[i] % m
        return total

    modulus = 2**64 - 59
    xs = np.array([2**64 - 1, 2**63, 2**63 + 11, 7, 0], "u8")
    assert remainders(xs, modulus) == sum(int(x) % modulus for x in xs) % 2**64


@gw.jit
def combined(x, k, n):  # type: ignore[no-untyped-def]
    """What helpers get is weak, too: a constant, an argument, a counter."""
    return x * k + n


def test_helpers_and_kernels_and_reductions() -> None:
    """All that compiles what users write has the same rules."""

    @gw.foreach
    def fill(p, out, x, k):  # type: ignore[no-untyped-def]
        for n in range(2):
            out[p[0], n] = combined(x[p], 3, n) // 2 + combined(x[p], k, 1) + x[p] * p[0]

    @gw.reduce
    def total(p, x, k):  # type: ignore[no-untyped-def]
        return x[p] // 3 + k

    for name in ("int8", "uint64"):
        xs = edges(name)[:100]
        box = gw.RectDomain(0, len(xs))
        out = gw.Array.zeros(gw.RectDomain((0, 0), (len(xs), 2)), "int64")
        fill(box, out, gw.Array(xs), 7)
        with np.errstate(all="ignore"):
            for i, x in enumerate(xs):
                for n in range(2):
                    assert out[i, n] == word((x * 3 + n) // 2 + (x * 7 + 1) + x * i)
            assert word(total(box, gw.Array(xs), 5)) == word(sum(int(x // 3 + 5) for x in xs))


def test_whole_arrays() -> None:
    """Expressions of NumPy arrays in compiled code, with Python's numbers and the smallest integer."""

    @gw.jit
    def whole(a, b, u, k, out):  # type: ignore[no-untyped-def]
        out[0] = (u // 3)[0]
        out[1] = (u % k + 1)[0]
        out[2] = np.remainder(a, b)[0]
        out[3] = (a // b)[0]
        out[4] = np.fmod(a, b)[0]
        out[5] = (10 - u)[1]
        out[6] = np.left_shift(a, b + 100)[1]
        return out[0]

    least, one = np.array([-(2**63), 1]), np.array([-1, -1])
    unsigned = np.array([2**64 - 1, 3], np.uint64)
    out = np.zeros(7, np.uint64)
    assert whole(least, one, unsigned, 10, out) == (2**64 - 1) // 3
    assert out.tolist() == [(2**64 - 1) // 3, 6, 0, 2**63, 0, 7, 0]


@pytest.mark.parametrize(("name", "text"), [("int8", "x + 300"), ("uint64", "x * -1"), ("uint8", "np.minimum(x, -1)")])
def test_literals_that_do_not_fit_are_refused(name: str, text: str) -> None:
    """NumPy refuses them when it calculates, compiled code before."""
    function = gw.jit(compiled("f", f"def f(x):\n    return {text}\n"))
    with pytest.raises(
        KernelError, match=rf"Python's -?\d+ takes the type of the {name} .* does not fit {name}: convert"
    ):
        function(np.dtype(name).type(1))
    with pytest.raises(OverflowError):
        function.py_func(np.dtype(name).type(1))


def test_functions_that_are_named_before_branches() -> None:
    """Numba keeps such a function in a variable until it is called."""

    @gw.jit
    def least(x, y, f, c):  # type: ignore[no-untyped-def]
        return min(x if c else 3, y), max(f, 2.0 if c else f), abs(x if c else y) // 3, TABLE[1] * TABLE.size

    expected = 2**63 + 1, 2.0, (2**63 + 1) // 3, -112
    assert least(np.uint64(2**63 + 1), np.uint64(2**64 - 1), 1.5, True) == expected
