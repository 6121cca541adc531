"""Machine code that CPython calls as built-in functions: arguments, results and errors as those of any function."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gondwana.compiler.native import BYTES_AT, DATA_AT, LENGTH_AT, MOST_ARGUMENTS, TYPE_AT, builtin_at

WORDS = st.integers(-(2**63), 2**63 - 1)


def entry(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


LABS = builtin_at(entry(ctypes.CDLL(None).labs), 1, "labs")


@pytest.mark.parametrize("count", range(1, MOST_ARGUMENTS + 1))
@given(data=st.data())
def test_arguments_arrive_in_order(count: int, data: st.DataObject) -> None:
    seen: list[tuple[int, ...]] = []

    def function(*values: int) -> int:
        seen.append(values)
        return values[-1]

    kept = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(function)
    call = builtin_at(entry(kept), count, "function")
    given_words = data.draw(st.tuples(*[WORDS] * count))
    assert call(*given_words) == given_words[-1]
    assert seen == [given_words]


@pytest.mark.parametrize(("count", "objects"), [(1, 1), (2, 1), (2, 2), (5, 2)])
def test_the_last_arguments_may_be_objects(count: int, objects: int) -> None:
    seen: list[tuple[int, ...]] = []

    def function(*values: int) -> int:
        seen.append(values)
        return 0

    kept = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(function)
    call = builtin_at(entry(kept), count, "function", objects)
    numbers, things = range(-1, count - objects - 1), [object(), "text"][:objects]
    assert call(*numbers, *things) == 0
    assert seen == [(*numbers, *map(id, things))]
    with pytest.raises(TypeError):
        call(*numbers, *things, 1)
    if count > objects:
        with pytest.raises(TypeError):
            call(*things[:1] * count)


def test_the_result_may_be_an_object() -> None:
    made: list[object] = []
    take = ctypes.pythonapi.Py_IncRef
    take.argtypes = [ctypes.py_object]

    def function(number: int) -> int:
        made.append(["new", number])
        take(made[-1])
        return id(made[-1])

    kept = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)
    call = builtin_at(entry(kept), 1, "function", makes_object=True)
    result = call(5)
    references = sys.getrefcount(result)
    others = [["new", 5]]
    other = others[0]
    assert result is made[0]
    assert result == ["new", 5]
    assert references == sys.getrefcount(other)
    with pytest.raises(TypeError):
        call("5")


def test_minus_one_is_a_number() -> None:
    assert LABS(-1) == 1
    assert LABS(True) == 1


@pytest.mark.parametrize("arguments", [(), (1, 2), ("1",), (1.0,), (None,), (b"x",)])
def test_wrong_arguments_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        LABS(*arguments)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    with pytest.raises(OverflowError):
        LABS(number)


def test_functions_may_outlive_all_modules() -> None:
    program = (
        "import ctypes\n"
        "from gondwana.compiler.native import builtin_at\n"
        "function = builtin_at(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value, 1, 'labs')\n"
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object([function]))\n"
    )
    # Memory that is freed is overwritten with bits that CPython's collector takes for those of a method.
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_it_has_its_name() -> None:
    assert LABS.__name__ == "labs"


@pytest.mark.parametrize("thing", [None, 1, 2.5, "text", b"bytes", (), [], len, pytest, object()])
def test_where_the_type_is(thing: object) -> None:
    assert ctypes.c_void_p.from_address(id(thing) + TYPE_AT).value == id(type(thing))


@given(st.binary())
def test_where_bytes_are(data: bytes) -> None:
    assert ctypes.string_at(id(data) + BYTES_AT, len(data)) == data


@given(st.binary())
def test_where_the_length_of_bytes_is(data: bytes) -> None:
    assert ctypes.c_ssize_t.from_address(id(data) + LENGTH_AT).value == len(data)


@pytest.mark.parametrize("array", [np.arange(5), np.zeros((3, 4))[1:, ::2], np.zeros(0), np.arange(9.0)[3:]])
def test_where_the_address_of_elements_is(array: np.ndarray) -> None:
    assert ctypes.c_void_p.from_address(id(array) + DATA_AT).value == array.ctypes.data
