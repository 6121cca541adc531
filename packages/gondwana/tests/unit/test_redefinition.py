"""Constants of compiled code that are defined again, and functions that stay in the interpreter."""

from __future__ import annotations

import sys

from support import jobs

NOTEBOOK = """
import sys
sys.ps1 = ">>> "  # as in an interactive session
import gondwana as gw

box = gw.RectDomain(0, 4)
a = gw.Array.zeros(box)
factor = 2.0

@gw.jit
def scaled(x):
    return factor * x

@gw.jit
def nested(x):
    return scaled(x) + 1.0

def closed(number):
    @gw.jit
    def twice(x):
        return number * x
    def change(value):
        nonlocal number
        number = value
    return twice, change

twice, change = closed(2.0)

@gw.foreach
def fill(p, a):
    a[p] = nested(1.0) + factor

@gw.reduce(op="max")
def largest(p, a):
    return factor * a[p]

@gw.jit
def first_of_threads(team, x):
    return nested(x)

def results():
    fill(box, a)
    return a[1], largest(box, a), nested(1.0), gw.parallel(first_of_threads, 1.0, threads=2), twice(1.0)

assert results() == (5.0, 10.0, 3.0, 3.0, 2.0), results()
before = gw.compilation()
assert results() == (5.0, 10.0, 3.0, 3.0, 2.0), results()
assert gw.compilation() == before
factor = 3.0
change(5.0)
assert results() == (7.0, 21.0, 4.0, 4.0, 5.0), results()

@gw.jit
def scaled(x):
    return 10.0 * x

assert results() == (14.0, 42.0, 11.0, 11.0, 5.0), results()
factor = 2.0
assert results() == (13.0, 26.0, 11.0, 11.0, 5.0), results()
"""


def test_cells_of_a_notebook_define_constants_and_helpers_again() -> None:
    outcome = jobs.run_command([sys.executable, "-c", NOTEBOOK])
    assert outcome.status == 0, str(outcome)


PROGRAM = """
import gondwana as gw

box = gw.RectDomain(0, 4)
a = gw.Array.zeros(box)
factor = 2.0

@gw.jit
def scaled(x):
    return factor * x

@gw.foreach
def first(p, a):
    a[p] = scaled(1.0)

first(box, a)
assert a[0] == 2.0
factor = 3.0
first(box, a)
assert a[0] == 2.0  # constants of a program are what they were at the first call

@gw.foreach
def second(p, a):
    a[p] = scaled(1.0)

second(box, a)
assert a[0] == 3.0, a[0]
"""


def test_a_kernel_compiled_later_takes_the_constants_of_that_moment() -> None:
    """A helper, too: it was compiled before, and its machine code must not be that of the earlier constants."""
    outcome = jobs.run_command([sys.executable, "-c", PROGRAM])
    assert outcome.status == 0, str(outcome)


INTERPRETED = """
import sys
import gondwana as gw, numpy as np

lines = []

@gw.jit
def doubled(x):
    lines.append(x)  # not in compiled code
    return 2 * x

@gw.jit
def add_up(T, pair, p):
    lines.append(isinstance(T, gw.Array))
    return T[p + gw.X] + pair[0][p] + doubled(1.5)

@gw.jit
def fetch(pointers):
    return gw.get(pointers[0]) + 1.0  # a number in compiled code, a future in Python

assert fetch((gw.Segment(gw.world, 8).pointer(dtype=float),)) == 1.0
assert lines == []
T = gw.full((6, 6), 2.0, ghost=1)
assert add_up(T, (T, 1), p=gw.Point(2, 2)) == 7.0
assert lines == [True, 1.5]
assert gw.random(42, gw.Point(0, 0, 0), 1) == -0.0 + gw.random.py_func(42, gw.Point(0, 0, 0), 1)
"""


def test_functions_that_python_calls_run_in_the_interpreter() -> None:
    outcome = jobs.run_command([sys.executable, "-c", INTERPRETED], variables={"GONDWANA_INTERPRET": "1"})
    assert outcome.status == 0, str(outcome)
