"""`@gw.jit`: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from support import jobs


@gw.jit
def combine(a, b=2, c=1.5):
    return a * b + c


@gw.jit
def inner(x):
    return x * x


@gw.jit
def outer(x, y):
    """Say what it does."""
    return math.sqrt(inner(x) + inner(y))


def test_numbers() -> None:
    assert combine(3) == 7.5
    assert combine(3, 4) == 13.5
    assert combine(c=0.0, a=2, b=5) == 10.0
    assert combine(1 + 2j, 2, 0.5) == 2.5 + 4j
    assert combine(np.float32(0.1), np.float32(2), np.float32(0)) == np.float32(0.1) * 2
    assert combine(True, 3, 0) == 3
    assert isinstance(combine(2, 3, 4), int)
    assert isinstance(combine(2, 3, 4.0), float)
    assert outer(3.0, 4.0) == 5.0
    assert outer.__doc__ == "Say what it does."
    assert outer.__name__ == "outer"


@gw.jit
def several(n, x, flag):
    return n + 1, x / 2, not flag, x * 1j, n > 2


@gw.jit
def nothing(a):
    a[0] = 1.0


@gw.jit
def maybe(x):
    if x > 0:
        return 1
    raise ValueError("x is not positive")


def test_tuples_and_none() -> None:
    assert several(3, 5.0, True) == (4, 2.5, False, 5j, True)
    a = np.zeros(3)
    assert nothing(a) is None
    assert a[0] == 1.0
    assert maybe(2) == 1
    with pytest.raises(ValueError, match=r"x is not positive.*maybe"):
        maybe(-2)
    assert maybe(3) == 1


@gw.jit
def integers(n):
    return n, -n, n // 7, n % 7, n << 1, n >> 1, n & 255


@gw.jit
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@gw.jit
def add_up(x, levels):
    if levels == 0:
        return x
    if levels == 7:
        raise ValueError("not from 7 up")
    return x + add_up(x, levels - 1)


@gw.jit
def through_another(n):
    return fibonacci(n)


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


def test_a_function_may_call_itself() -> None:
    numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    assert [fibonacci(n) for n in range(11)] == [through_another(n) for n in range(11)] == numbers
    assert fibonacci(10.0) == 55.0
    out = np.zeros(11, np.int64)
    fill_with_fibonacci(gw.RectDomain((0,), (11,)), gw.Array(out))
    assert out.tolist() == numbers
    assert add_up(0.5, 5) == 3.0
    with pytest.raises(ValueError, match="not from 7 up"):
        add_up(1.0, 10)


@gw.jit
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)  # the constant makes it another function, which calls the first
    return ackermann(m - 1, ackermann(m, n - 1))


@gw.jit
def ackermann_without_constants(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann_without_constants(m - 1, n + 1)
    return ackermann_without_constants(m - 1, ackermann_without_constants(m, n - 1))


def test_functions_that_call_each_other_in_a_circle_are_refused() -> None:
    for function, arguments in ((is_even, (3,)), (is_odd, (3,)), (ackermann, (2, 3))):
        with pytest.raises(KernelError, match="call each other in a circle cannot be compiled"):
            function(*arguments)
    assert ackermann_without_constants(2, 3) == 9


def test_integers_are_those_of_64_bits() -> None:
    for n in (0, 1, -1, 1000, -1000, 2**40, -(2**62)):
        assert integers(n) == (n, -n, n // 7, n % 7, n << 1, n >> 1, n & 255)


class State(NamedTuple):
    """Arrays and numbers that go together."""

    u: Any
    rate: float


@gw.jit
def total(array, n, m):
    s = 0.0
    for i in range(n):
        for j in range(m):
            s += array[i, j]
    return s


@gw.jit
def scale(state, p):
    state.u[p] *= state.rate
    return state.u[p + gw.X]


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(order: Any) -> None:
    data = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    assert total(data, 3, 4) == 66.0
    assert total(data[::-1, ::2], 3, 2) == data[:, ::2].sum()
    assert total(gw.Array(data), 3, 4) == 66.0
    moved = gw.Array(data, gw.RectDomain((-1, 5), (2, 9)))
    assert scale(State(moved, 3.0), gw.Point(0, 6)) == data[2, 1]
    assert moved[0, 6] == 15.0


def test_a_global_array_stands_for_its_block() -> None:
    whole = gw.full((3, 4), 2.0)
    assert total(whole, 3, 4) == 24.0


@gw.jit
def read_only(a):
    return a[1]


def test_read_only_arrays() -> None:
    a = np.arange(3.0)
    a.flags.writeable = False
    assert read_only(a) == 1.0
    with pytest.raises(KernelError):
        nothing(a)
    with pytest.raises(KernelError, match="read-only"):
        nothing(gw.Array(a))


def test_float32_stays_float32() -> None:
    x = np.float32(0.1)
    assert combine(x) == float(x * np.float32(2) + np.float32(1.5))
    assert inner(x) == float(x * x)


@gw.jit
def large(a):
    return a, a, a, a, a, a, a, a, a


@gw.jit
def makes_array(n):
    return np.zeros(n)


def test_what_cannot_be_returned() -> None:
    with pytest.raises(KernelError, match="up to 8 numbers in a tuple"):
        large(1.0)
    with pytest.raises(KernelError, match="write larger results into an array argument"):
        makes_array(3)


def test_what_cannot_be_decorated() -> None:
    for thing in (len, 3, np.sin):
        with pytest.raises(TypeError, match="plain Python functions"):
            gw.jit(thing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="keyword-only"):
        gw.jit(lambda a, *, b: a)
    with pytest.raises(TypeError):
        combine()
    with pytest.raises(KernelError, match="compiled code cannot take"):
        combine([1, 2])


@gw.jit
def temporary(n):
    work = np.empty(n)
    for i in range(n):
        work[i] = i
    return work.sum()


def test_memory_of_compiled_code_and_calls_from_threads() -> None:
    results: list[float] = []
    workers = [threading.Thread(target=lambda: results.append(temporary(1000))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [499500.0] * 8


MANY_THREADS = """
import sys, threading
import numpy as np
import gondwana as gw

@gw.jit
def double(n):
    return (np.zeros(n) + 2.0).sum()

@gw.jit
def triple(n):
    return (np.zeros(n) + 3.0).sum()

@gw.jit
def fourfold(n):
    return (np.zeros(n) + 4.0).sum()

functions, found = (double, triple, fourfold), []
sys.setswitchinterval(1e-6)
together = threading.Barrier(6)

def work(number):
    together.wait()
    found.append([functions[(number + turn) % 3](5) for turn in range(3)])

threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(map(sorted, found)) == [[10.0, 15.0, 20.0]] * 6, found
"""


@pytest.mark.parametrize("start", ["compiles", "loads"])
def test_threads_that_need_a_function_first_at_the_same_time(start: str, tmp_path_factory: Any) -> None:
    """Numba's registries serve one thread at a time; the second start takes another way to them than the first."""
    script = tmp_path_factory.getbasetemp() / "many_threads.py"
    script.write_text(MANY_THREADS)
    outcome = jobs.run_command([sys.executable, str(script)], timeout=120)
    assert outcome.status == 0, (start, str(outcome))
