"""Functions of `@gw.jit` that call themselves give what the interpreter gives, and some levels are inlined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler.recursion import MOST_LEVELS, MOST_LINES, _fitting, with_levels_inlined


@gw.jit
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@gw.jit
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@gw.jit
def hanoi(discs, start, end, moves, done):
    if discs == 0:
        return done
    done = hanoi(discs - 1, start, 3 - start - end, moves, done)
    moves[done] = 10 * start + end
    return hanoi(discs - 1, 3 - start - end, end, moves, done + 1)


@gw.jit
def integral(a, b, f_a, f_b, tolerance):
    middle = 0.5 * (a + b)
    f_middle = 1.0 / (1.0 + middle * middle)
    coarse, fine = (f_a + f_b) * 0.5 * (b - a), (f_a + 2.0 * f_middle + f_b) * 0.25 * (b - a)
    if abs(fine - coarse) < tolerance:
        return fine
    left = integral(a, middle, f_a, f_middle, 0.5 * tolerance)
    return left + integral(middle, b, f_middle, f_b, 0.5 * tolerance)


@gw.jit
def add_up(x, levels):
    if levels == 0:
        return x
    if levels == 7:
        raise ValueError("not from 7 up")
    return x + add_up(x, levels - 1)


@gw.jit
def through_another(n):
    return fibonacci(n) + add_up(1, 3)


@gw.jit
def shares(team, out):
    first, last = team.share(0, len(out))
    for i in range(first, last):
        out[i] = fibonacci(i)


@gw.foreach
def fill_with_fibonacci(p, out):
    out[p] = fibonacci(p[0])


@gw.jit
def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


@gw.jit
def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


@gw.jit
def hofstadter_f(n):
    if n == 0:
        return 1
    return n - hofstadter_m(hofstadter_f(n - 1))


@gw.jit
def hofstadter_m(n):
    if n == 0:
        return 0
    return n - hofstadter_f(hofstadter_m(n - 1))


def plain(function: Any) -> Callable[..., Any]:
    """The function for the interpreter, which calls itself and not what is compiled."""
    names = {**function.py_func.__globals__}
    twin = type(function.py_func)(function.py_func.__code__, names)
    names[function.__name__] = twin
    return twin


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (fibonacci, [(n,) for n in range(17)]),
        (fibonacci, [(8.0,), (1,)]),
        (ackermann, [(m, n) for m in range(3) for n in range(6)]),
        (integral, [(0.0, 1.0, 1.0, 0.5, 1e-7), (-3.0, 2.0, 0.1, 0.2, 1e-4)]),
        (add_up, [(0.5, levels) for levels in range(7)]),
    ],
)
def test_results_are_those_of_the_interpreter(function: Any, arguments: list[tuple[Any, ...]]) -> None:
    expected = plain(function)
    assert [function(*given) for given in arguments] == [expected(*given) for given in arguments]


def test_the_order_of_what_is_written_is_kept() -> None:
    moves, expected = np.zeros(63, np.int64), np.zeros(63, np.int64)
    assert hanoi(6, 0, 2, moves, 0) == plain(hanoi)(6, 0, 2, expected, 0) == 63
    assert moves.tolist() == expected.tolist()


def test_an_error_comes_from_any_level() -> None:
    for levels in (7, 8, 12, 20):
        with pytest.raises(ValueError, match="not from 7 up"):
            add_up(1.0, levels)


def test_functions_kernels_and_threads_call_them() -> None:
    numbers = [plain(fibonacci)(n) for n in range(12)]
    assert [through_another(n) - 4 for n in range(12)] == numbers
    for run in (
        lambda out: fill_with_fibonacci(gw.RectDomain((0,), (12,)), gw.Array(out)),
        lambda out: gw.parallel(shares, out, threads=2),
    ):
        out = np.zeros(12, np.int64)
        run(out)
        assert out.tolist() == numbers


def test_a_deep_recursion_has_small_frames() -> None:
    assert add_up(1, 6) == 7
    assert [ackermann(2, n) for n in (10, 100)] == [23, 203]


def test_functions_call_each_other_in_a_circle() -> None:
    for n in range(8):
        assert (is_even(n), is_odd(n)) == (n % 2 == 0, n % 2 == 1)
    assert [hofstadter_f(n) for n in range(12)] == [1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7]
    assert [hofstadter_m(n) for n in range(12)] == [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7]


MODULE = """
declare i32 @other(i32)

define i32 @twice(i32 %n) #0 {
  %a = call i32 @twice(i32 %n)
  %b = call i32 @twice.more(i32 %a)
  %c = call i32 @twice(i32 %b)
  ret i32 %c
}

define i32 @twice.more(i32 %n) #0 {
  %a = call i32 @other(i32 %n)
  ret i32 %a
}
"""


def test_a_function_calls_copies_and_the_last_copy_the_function() -> None:
    code = with_levels_inlined(MODULE)
    calls = [line.split("@")[1].split("(")[0] for line in code.splitlines() if " call " in line]
    copies = [f"twice_level{level}" for level in range(1, MOST_LEVELS + 1)]
    following = [name for name in (*copies, "twice") for name in (name, "twice.more", name)]
    assert calls == [*following, "other"]
    heads = [line for line in code.splitlines() if line.startswith("define")]
    assert heads[0] == "define i32 @twice(i32 %n) noinline {"
    assert heads[1:-1] == [f"define i32 @{copy}(i32 %n) alwaysinline {{" for copy in copies]
    assert heads[-1] == "define i32 @twice.more(i32 %n) #0 {"


def test_other_code_stays() -> None:
    code = MODULE.replace("@twice(i32 %", "@once(i32 %", 1)
    assert with_levels_inlined(code) == code


@pytest.mark.parametrize(
    ("calls", "lines", "levels"), [(1, 10, MOST_LEVELS), (2, 30, 4), (2, 60, 3), (2, 400, 0), (5, 10, 2), (9, 200, 0)]
)
def test_large_bodies_are_copied_less(calls: int, lines: int, levels: int) -> None:
    assert _fitting(calls, lines) == levels
    assert lines * sum(calls**level for level in range(levels + 1)) <= MOST_LINES
