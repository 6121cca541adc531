"""The wire format of calls and results, and the names of functions: everything arrives as what it was."""

from __future__ import annotations

import collections
import enum
import math
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.calls import names, wire
from gondwana.errors import UsageError

Pair = collections.namedtuple("Pair", "first second")


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


BUILTIN = [
    None, True, 0, -1, 2**31, -(2**63), 2**100, 0.0, -0.0, 1e308, math.inf, 1j, "", "Größe", "\ud800", "x" * 10000, b"",
    b"\0\xff", (), (1, "two", 3.0, None), (1, ("two", (3, (4,)))),
]  # fmt: skip
OTHERS = [
    np.float64(1.5), np.int64(3), np.bool_(True), np.complex128(1j), Colour.RED, Text("text"), Pair(1, 2), [1], {1: 2},
    {3}, bytearray(b"ab"), (np.float64(1.5),), (1, (2, Colour.RED)), ((), [()]), Ellipsis, range(3),
]  # fmt: skip


@pytest.mark.parametrize("value", [*BUILTIN, *OTHERS], ids=repr)
def test_values_arrive_as_what_they_were(value: Any) -> None:
    for args, kwargs in (((value,), {}), ((1, value, "x"), {}), ((), {"value": value})):
        tag, parts = wire.encode_call("module:function", args, kwargs)
        data = memoryview(b"".join(parts) + b"what a longer message has left")
        sent = "module:function", args, None if tag == wire.BUILTIN else kwargs
        assert describe(wire.decode(tag, data)) == describe(sent)
    tag, parts = wire.encode_result(value)
    assert describe(wire.decode(tag, memoryview(parts[0]))) == describe(value)


def describe(value: Any) -> Any:
    """A value with its types, so that 1, 1.0, True and NumPy's 1 differ, and 0.0 from -0.0."""
    if isinstance(value, tuple):
        return type(value), [describe(one) for one in value]
    return type(value), repr(value)


@pytest.mark.parametrize("value", BUILTIN[:-1], ids=repr)
def test_simple_values_are_not_pickled(value: Any) -> None:
    assert wire.encode_call("module:function", (value,), {})[0] == wire.BUILTIN
    assert wire.encode_result(value)[0] == wire.BUILTIN


def test_arrays_are_copied_beside_the_pickle() -> None:
    array = np.arange(5000.0)
    tag, parts = wire.encode_call("module:function", (array,), {})
    assert tag == wire.PARTS
    found = wire.decode(tag, np.frombuffer(b"".join(map(bytes, parts)), np.uint8).data)
    assert (found[1][0] == array).all()


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    found = types.ModuleType("a_module_of_a_test")
    sys.modules[found.__name__] = found
    yield found
    del sys.modules[found.__name__]
    names.remember_main()


def define(module: types.ModuleType, result: int) -> Any:
    exec(f"def function(): return {result}", vars(module))
    return module.function


def test_a_function_that_is_defined_again(module: types.ModuleType) -> None:
    first = define(module, 1)
    for _ in range(2):
        assert names.reference(first) == "a_module_of_a_test:function"
        assert names.referent("a_module_of_a_test:function") is first
        assert gw.rpc(0, first).result() == 1
    second = define(module, 2)
    assert names.reference(first) is first  # its name leads to another one now
    assert names.reference(second) == "a_module_of_a_test:function"
    assert names.referent("a_module_of_a_test:function") is second
    assert gw.rpc(0, second).result() == 2
    assert gw.rpc(0, first).result() == 1
    del module.function
    assert names.reference(second) is second
    with pytest.raises(UsageError, match="has no 'function'"):
        names.referent("a_module_of_a_test:function")


def test_what_is_called_need_not_have_a_name() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: int) -> int:
            return x + 1

    for function in (Unhashable(), lambda x: x + 1, (1).__add__, operator.methodcaller("__add__", 1)):
        assert gw.rpc(0, function, 2).result() == 3
    assert gw.rpc(0, max, 3, 4).result() == 4
    assert gw.rpc(0, dict, a=(1,)).result() == {"a": (1,)}
    assert gw.rpc(0, math.sqrt, np.float64(4.0)).result() == 2.0
