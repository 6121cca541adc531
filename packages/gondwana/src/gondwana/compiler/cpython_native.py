"""CPython's C interface for machine code that CPython calls: functions that take and return addresses of objects.

The thread holds the GIL. Numba knows nothing of these objects: who gets a new reference gives it back by `decref`. An
address of 0 means that there is an exception, which the machine code clears or returns to the interpreter. All of these
are functions of the public interface, which every CPython from 3.11 on exports. What it wants to know of an ndarray it
reads where NumPy's ABI has it. Imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import declare, load_word
from gondwana.compiler.native import (
    ALIGNED,
    BYTE_ORDER,
    CONTIGUOUS,
    DATA,
    DESCRIPTOR,
    EXTENTS,
    FLAGS,
    LARGEST,
    NATIVE_ORDERS,
    NUMBER,
    RANK,
    WRITABLE,
)
from gondwana.compiler.types.buffers import load_like

FUNCTIONS = frozenset(
    (
        "PyBool_FromLong",
        "PyComplex_FromDoubles",
        "PyDict_GetItemWithError",
        "PyErr_BadArgument",
        "PyErr_Clear",
        "PyErr_Occurred",
        "PyFloat_FromDouble",
        "PyList_GetItem",
        "PyLong_AsLongLong",
        "PyLong_FromLongLong",
        "PyLong_FromUnsignedLongLong",
        "PyMarshal_ReadObjectFromString",
        "PyMarshal_WriteObjectToString",
        "PyObject_CallNoArgs",
        "PyObject_CallObject",
        "PyTuple_GetItem",
        "PyTuple_New",
        "PyTuple_SetItem",
        "PyTuple_Size",
        "Py_DecRef",
        "Py_IncRef",
    )
)
"""What this module calls: the interpreter has it, where other names that begin so are of Numba's run-time library."""

_WORD, _INT32 = ir.IntType(64), ir.IntType(32)
_MARSHAL_VERSION = ir.Constant(_INT32, 2)
"""The newest format without a table of the objects that occur twice, which takes half of the time."""

_INT, _BYTE = np.int32(0), np.uint8(0)


def _calling(name: str, *constants: Any) -> Any:
    """Return what generates a call with integers and some constants; the result is an integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [*args, *constants]
        kind = ir.FunctionType(_WORD, [value.type for value in values])
        return builder.call(declare(builder, name, kind), values)

    return codegen


@intrinsic
def dict_item(typingctx: Any, mapping: Any, key: Any) -> Any:
    """Return the value of a key in a dict, borrowed; 0 without an exception if there is none."""
    return types.int64(types.int64, types.int64), _calling("PyDict_GetItemWithError")


@intrinsic
def list_item(typingctx: Any, items: Any, index: Any) -> Any:
    """Return an item of a list, borrowed."""
    return types.int64(types.int64, types.int64), _calling("PyList_GetItem")


@intrinsic
def tuple_item(typingctx: Any, items: Any, index: Any) -> Any:
    """Return an item of a tuple, borrowed."""
    return types.int64(types.int64, types.int64), _calling("PyTuple_GetItem")


@intrinsic
def tuple_size(typingctx: Any, items: Any) -> Any:
    """Return how many items a tuple has, -1 with an exception if it is none."""
    return types.int64(types.int64), _calling("PyTuple_Size")


@intrinsic
def new_tuple(typingctx: Any, size: Any) -> Any:
    """Return a new tuple, whose items are to be set."""
    return types.int64(types.int64), _calling("PyTuple_New")


@intrinsic
def set_tuple_item(typingctx: Any, items: Any, index: Any, value: Any) -> Any:
    """Set an item of a new tuple, which takes the reference."""
    return types.none(types.int64, types.int64, types.int64), _procedure("PyTuple_SetItem", _INT32)


@intrinsic
def as_integer(typingctx: Any, number: Any) -> Any:
    """Return an integer object's value, -1 with an exception if it is none or too large."""
    return types.int64(types.int64), _calling("PyLong_AsLongLong")


@intrinsic
def integer_object(typingctx: Any, value: Any) -> Any:
    """Return a new integer object."""
    return types.int64(types.int64), _calling("PyLong_FromLongLong")


@intrinsic
def unsigned_object(typingctx: Any, value: Any) -> Any:
    """Return a new integer object of the bits of an integer, taken for one without a sign."""
    return types.int64(types.int64), _calling("PyLong_FromUnsignedLongLong")


@intrinsic
def bool_object(typingctx: Any, value: Any) -> Any:
    """Return True or False."""
    return types.int64(types.int64), _calling("PyBool_FromLong")


@intrinsic
def float_object(typingctx: Any, value: Any) -> Any:
    """Return a new float object."""
    return types.int64(types.float64), _calling("PyFloat_FromDouble")


@intrinsic
def complex_object(typingctx: Any, real: Any, imaginary: Any) -> Any:
    """Return a new complex object."""
    return types.int64(types.float64, types.float64), _calling("PyComplex_FromDoubles")


@intrinsic
def unmarshalled(typingctx: Any, data: Any, nbytes: Any) -> Any:
    """Return the new object that marshalled bytes at an address describe."""
    return types.int64(types.int64, types.int64), _calling("PyMarshal_ReadObjectFromString")


@intrinsic
def marshalled(typingctx: Any, value: Any) -> Any:
    """Return a new bytes object that describes an object."""
    return types.int64(types.int64), _calling("PyMarshal_WriteObjectToString", _MARSHAL_VERSION)


@intrinsic
def called_with(typingctx: Any, function: Any, arguments: Any) -> Any:
    """Return the new result of a call with a tuple of arguments."""
    return types.int64(types.int64, types.int64), _calling("PyObject_CallObject")


@intrinsic
def called_alone(typingctx: Any, function: Any) -> Any:
    """Return the new result of a call without arguments."""
    return types.int64(types.int64), _calling("PyObject_CallNoArgs")


@intrinsic
def exception(typingctx: Any) -> Any:
    """Return the type of the exception that there is, borrowed; 0: there is none."""
    return types.int64(), _calling("PyErr_Occurred")


@intrinsic
def incref(typingctx: Any, value: Any) -> Any:
    """Take a reference to an object."""
    return types.none(types.int64), _procedure("Py_IncRef")


@intrinsic
def decref(typingctx: Any, value: Any) -> Any:
    """Give a reference to an object back."""
    return types.none(types.int64), _procedure("Py_DecRef")


@intrinsic
def raise_bad_argument(typingctx: Any) -> Any:
    """Raise TypeError: an argument is not what the machine code takes."""
    return types.none(), _procedure("PyErr_BadArgument", _INT32)


@intrinsic
def clear_exception(typingctx: Any) -> Any:
    """Forget the exception that there is."""
    return types.none(), _procedure("PyErr_Clear")


def _procedure(name: str, returned: Any = ir.VoidType()) -> Any:  # noqa: B008 - types of LLVM do not change
    """Return what generates a call with integers whose result is of no interest."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(declare(builder, name, ir.FunctionType(returned, [_WORD] * len(args))), args)
        return context.get_dummy_value()

    return codegen


@inlined
def data_of(array: int) -> int:
    """Return the address of the elements."""
    return load_word(array + DATA)  # type: ignore[no-any-return]


@inlined
def count_of(array: int, written: Any) -> int:
    """Return the number of elements, -1 if they are not contiguous, too many, or to be written and read-only.

    Contiguous in C's order: see `teams.buffers`.
    """
    flags, needed = load_like(array + FLAGS, _INT), WRITABLE | ALIGNED
    if flags & CONTIGUOUS == 0 or (written and flags & needed != needed):
        return -1
    count, extents = 1, load_word(array + EXTENTS)
    for axis in range(load_like(array + RANK, _INT)):
        count *= load_word(extents + 8 * axis)
    return count if count <= LARGEST else -1


@inlined
def dtype_number_of(array: int) -> int:
    """Return NumPy's number of the dtype, -1 if it is not in the machine's byte order."""
    descriptor = load_word(array + DESCRIPTOR)
    order = load_like(descriptor + BYTE_ORDER, _BYTE)
    if order != NATIVE_ORDERS[0] and order != NATIVE_ORDERS[1]:
        return -1
    return load_like(descriptor + NUMBER, _INT)  # type: ignore[no-any-return]
