"""`print` in compiled code: what the interpreter would print, in whole lines, from any thread."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from support import jobs

SETTING = "coarse"


@gw.jit
def all_kinds(p, x, y, n, z, flag, small, pair, wide):
    print()
    print("a line with ü and\ttab")
    print(x, y, n, z, flag, small)
    print("at", p, "the pair is", pair, None, gw.X - 2 * gw.Y, SETTING)
    print(f"x = {x}, n + 1 = {n + 1}" + "; p = " + str(p))
    print(f"{flag}", -0.0, 1e300 * 1e10, wide)
    text = "in a variable"
    print(text, x + y)


def test_it_prints_what_the_interpreter_prints(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (gw.Point(3, -4), 0.1, 0.25, -7, 1 + 2j, True, np.int8(-5), (1, 2.5), np.uint64(2**64 - 1))
    all_kinds(*arguments)
    compiled = capsys.readouterr().out
    all_kinds.py_func(*arguments)
    interpreted = capsys.readouterr().out
    assert compiled == interpreted
    assert "x = 0.1, n + 1 = -6; p = Point(3, -4)\n" in compiled


@gw.foreach
def tell(p, a):
    if a[p] > 0.0:
        print("cell", p, "holds", a[p])


@gw.reduce
def told(p, a):
    print("value", a[p])
    return a[p]


def test_in_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    a = gw.Array.zeros(gw.RectDomain((-1, 0), (2, 3)), "float32")
    a[-1, 2] = 0.3
    tell(a.domain, a)
    assert capsys.readouterr().out == "cell Point(-1, 2) holds 0.3\n"
    told(gw.RectDomain((-1, 1), (0, 3)), a)
    assert capsys.readouterr().out == "value 0.0\nvalue 0.3\n"


@gw.foreach
def tell_all(p, a):
    print("cell", p[0], "of", len(a))


def test_lines_of_several_threads_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    a = gw.Array.zeros(gw.RectDomain(0, 5000))
    before = gw.threads()
    gw.set_threads(4)
    try:
        tell_all(a.domain, a)
    finally:
        gw.set_threads(before)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"cell {i} of 5000" for i in range(5000))


LOADED = """
import sys
import gondwana as gw

@gw.jit
def hello(n):
    print("hello", n)

hello(3)
print("numba" in sys.modules)
"""


def test_machine_code_from_the_cache_prints() -> None:
    for _ in range(2):
        outcome = jobs.run_command([sys.executable, "-c", LOADED])
        assert outcome.status == 0, str(outcome)
    assert outcome.stdout == "hello 3\nFalse\n"


@gw.jit
def unseparated(x):
    print(x, sep="")


@gw.jit
def array_as_a_whole(x):
    print(x)


@gw.jit
def formatted(x):
    print(f"{x:.3f}")


@pytest.mark.parametrize(
    ("function", "argument", "said"),
    [
        (unseparated, 1.0, "no sep=, end= or file="),
        (array_as_a_whole, np.zeros(3), r"cannot show array\(float64, 1d, C\)"),
        (array_as_a_whole, gw.Array.zeros(gw.RectDomain(0, 3)), r"cannot show array\(float64, 1d\)"),
        (formatted, 1.0, "ormat"),
    ],
)
def test_what_cannot_be_printed(function: Any, argument: Any, said: str) -> None:
    with pytest.raises(KernelError, match=said) as caught:
        function(argument)
    assert "GONDWANA_INTERPRET=1" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6, str(caught.value)
