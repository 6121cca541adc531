"""CPython's C interface for machine code that CPython calls: functions that take and return addresses of objects.

The thread holds the GIL. Numba knows nothing of these objects: the receiver of a new reference gives it back by
`decref`. An address of 0 means that an exception is set, which the machine code clears or returns to the interpreter.
All of these are functions of the public interface, which every CPython from 3.11 on exports. Fields of an ndarray are
read where NumPy's ABI has them. Imports Numba.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler import native
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import declare, load_word
from gondwana.compiler.types.buffers import load_like

FUNCTIONS: set[str] = set()
"""Names of the functions that the interpreter exports; other names that begin so are of Numba's run-time library."""

_WORD = ir.IntType(64)
_MARSHAL_VERSION = ir.Constant(ir.IntType(32), 2)
"""The newest format without a table of the objects that occur twice, which takes half of the time."""

_INT, _BYTE = np.int32(0), np.uint8(0)


def _of_c(name: str, result: Any, *kinds: Any, constants: tuple[Any, ...] = ()) -> Any:
    """Return a compiled function that calls one of CPython's; constants may follow its arguments."""
    FUNCTIONS.add(name)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [*args, *constants]
        returned = ir.VoidType() if result == types.none else _WORD
        kind = ir.FunctionType(returned, [value.type for value in values])
        called = builder.call(declare(builder, name, kind), values)
        return context.get_dummy_value() if result == types.none else called

    def call(typingctx: Any, *args: Any) -> Any:
        return result(*kinds), codegen

    # Numba wants a name for each argument.
    names = ["typingctx", *(f"argument{i}" for i in range(len(kinds)))]
    vars(call)["__signature__"] = Signature([Parameter(word, Parameter.POSITIONAL_ONLY) for word in names])
    return intrinsic(call)


dict_item = _of_c("PyDict_GetItemWithError", types.int64, types.int64, types.int64)
"""`dict_item(mapping, key)`: return the value of a key in a dict, borrowed; 0 without an exception if it is missing."""
list_item = _of_c("PyList_GetItem", types.int64, types.int64, types.int64)
"""`list_item(items, index)`: return an item of a list, borrowed."""
tuple_item = _of_c("PyTuple_GetItem", types.int64, types.int64, types.int64)
"""`tuple_item(items, index)`: return an item of a tuple, borrowed."""
tuple_size = _of_c("PyTuple_Size", types.int64, types.int64)
"""`tuple_size(items)`: return the length of a tuple, -1 with an exception if `items` is not a tuple."""
new_bytes = _of_c("PyBytes_FromStringAndSize", types.int64, types.int64, types.int64)
"""`new_bytes(address, size)`: return a new bytes object of those at an address, 0 for bytes that are to be written."""
new_tuple = _of_c("PyTuple_New", types.int64, types.int64)
"""`new_tuple(size)`: return a new tuple, whose items must be set."""
set_tuple_item = _of_c("PyTuple_SetItem", types.none, types.int64, types.int64, types.int64)
"""`set_tuple_item(items, index, value)`: set an item of a new tuple, which takes the reference."""
as_integer = _of_c("PyLong_AsLongLong", types.int64, types.int64)
"""`as_integer(number)`: return the value of an integer object, -1 with an exception if it is not one or too large."""
integer_object = _of_c("PyLong_FromLongLong", types.int64, types.int64)
"""`integer_object(value)`: return a new integer object."""
unsigned_object = _of_c("PyLong_FromUnsignedLongLong", types.int64, types.int64)
"""`unsigned_object(value)`: return a new integer object of the bits of an integer, taken as unsigned."""
bool_object = _of_c("PyBool_FromLong", types.int64, types.int64)
"""`bool_object(value)`: return True or False."""
float_object = _of_c("PyFloat_FromDouble", types.int64, types.float64)
"""`float_object(value)`: return a new float object."""
complex_object = _of_c("PyComplex_FromDoubles", types.int64, types.float64, types.float64)
"""`complex_object(real, imaginary)`: return a new complex object."""
unmarshalled = _of_c("PyMarshal_ReadObjectFromString", types.int64, types.int64, types.int64)
"""`unmarshalled(data, nbytes)`: return the new object that marshalled bytes at an address describe."""
marshalled = _of_c("PyMarshal_WriteObjectToString", types.int64, types.int64, constants=(_MARSHAL_VERSION,))
"""`marshalled(value)`: return a new bytes object that describes an object."""
called_with = _of_c("PyObject_CallObject", types.int64, types.int64, types.int64)
"""`called_with(function, arguments)`: return the new result of a call with a tuple of arguments."""
called_alone = _of_c("PyObject_CallNoArgs", types.int64, types.int64)
"""`called_alone(function)`: return the new result of a call without arguments."""
exception = _of_c("PyErr_Occurred", types.int64)
"""`exception()`: return the type of the exception that is set, borrowed; 0: none is set."""
incref = _of_c("Py_IncRef", types.none, types.int64)
"""`incref(value)`: take a reference to an object."""
decref = _of_c("Py_DecRef", types.none, types.int64)
"""`decref(value)`: give a reference to an object back."""
raise_bad_argument = _of_c("PyErr_BadArgument", types.none)
"""`raise_bad_argument()`: raise TypeError: the machine code does not take this argument."""
allocate = _of_c("PyMem_RawMalloc", types.int64, types.int64)
"""`allocate(nbytes)`: return where so many bytes are, of memory that is not Python's. Needs no GIL."""
release = _of_c("PyMem_RawFree", types.none, types.int64)
"""`release(address)`: give such memory back. Needs no GIL."""
clear_exception = _of_c("PyErr_Clear", types.none)
"""`clear_exception()`: forget the exception that there is."""


@inlined
def data_of(array: int) -> int:
    """Return the address of the elements."""
    return load_word(array + native.DATA)  # type: ignore[no-any-return]


@inlined
def count_of(array: int, written: Any) -> int:
    """Return the number of elements, -1 if they are not contiguous, too many, or read-only and to be written.

    Contiguous in C's order: see `teams.buffers`.
    """
    flags, needed = load_like(array + native.FLAGS, _INT), native.WRITABLE | native.ALIGNED
    if flags & native.CONTIGUOUS == 0 or (written and flags & needed != needed):
        return -1
    count, extents = 1, load_word(array + native.EXTENTS)
    for axis in range(load_like(array + native.RANK, _INT)):
        count *= load_word(extents + 8 * axis)
    return count if count <= native.LARGEST else -1


@inlined
def dtype_number_of(array: int) -> int:
    """Return NumPy's number of the dtype, -1 if it is not in the machine's byte order."""
    descriptor = load_word(array + native.DESCRIPTOR)
    order = load_like(descriptor + native.BYTE_ORDER, _BYTE)
    if order != native.NATIVE_ORDERS[0] and order != native.NATIVE_ORDERS[1]:
        return -1
    return load_like(descriptor + native.NUMBER, _INT)  # type: ignore[no-any-return]
