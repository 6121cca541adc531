"""Gondwana's own compiled helpers: named by module and function, so that a source is imported only to compile it.

Brief ones are built-in functions of CPython, which it calls in some 30 ns, where a call by ctypes takes 200 ns. CPython
hands a built-in function the addresses of its arguments, as objects. One piece of machine code for each number of
arguments converts them to 64-bit integers and calls the function whose address the built-in function is bound to. It
uses the stable C interface of CPython only. The last arguments may stay objects: the function gets their addresses, and
reads fields of them itself, where CPython's and NumPy's ABI have them: to ask an array in Python takes as long as a
short message. The result is an integer, or an object that the function has made.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.runtime.races import reporter

if TYPE_CHECKING:
    from gondwana.compiler.cache import ObjectCode


BYTES_AT = bytes.__basicsize__ - 1
"""Offset of the bytes in a bytes object: `id(data) + BYTES_AT` is their address, in a tenth of the time of ctypes."""
LENGTH_AT = object.__basicsize__
"""Offset of the length in a bytes object: CPython's ABI has it first after the common header of objects."""
TYPE_AT = object.__basicsize__ - 8
"""Offset of the address of the type in an object: CPython's ABI has it last in the common header of objects."""
DATA_AT = object.__basicsize__
"""Offset of the address of the elements in an ndarray: NumPy's ABI has it first after the common header of objects."""

_WORTH_LOADING = 2000
"""Calls after which machine code is loaded, and compiled, even if nothing else needs it: 50 MB, and a tenth of a second
or, if it is not cached, a whole one."""

DATA, RANK, EXTENTS, DESCRIPTOR, FLAGS = DATA_AT, DATA_AT + 8, DATA_AT + 16, DATA_AT + 40, DATA_AT + 48
"""Offsets in an ndarray: address of its elements, number of axes, address of their extents, address of its dtype, and
flags."""
NUMBER, BYTE_ORDER = DATA_AT + 12, DATA_AT + 10
"""Offsets of the number and the byte order in a dtype."""
CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""Flags of an array: contiguous in C's order, aligned, and writable."""
NATIVE_ORDERS = tuple(b"=|")

LARGEST = 2**31 - 1
"""The most elements of an array that machine code takes: MPI counts with 32 bits."""

MOST_ARGUMENTS = 8
MOST_OBJECTS = 2
_FASTCALL = 0x80

_create = ctypes.pythonapi.PyCFunction_NewEx
_create.restype = ctypes.py_object
_create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


class Native:
    """A function of 64-bit integers, compiled once and then loaded. Local, runs without the GIL unless it is brief.

    Args:
        module: dotted name of the module that holds its Python source (imports Numba).
        name: the function in it.
        arguments: number of its integers.
        brief: whether it returns within some microseconds. Then it keeps the GIL, and a call costs a sixth.
        objects: number of its last arguments that are addresses of objects, for which `call` takes the objects; brief.
        makes_object: whether it returns the address of an object, which `call` then returns; brief.
        reports: whether it has other machine code where there is a race detector, which it tells what it does.
    """

    def __init__(
        self,
        module: str,
        name: str,
        arguments: int,
        *,
        brief: bool = False,
        objects: int = 0,
        makes_object: bool = False,
        reports: bool = False,
    ) -> None:
        self.module = module
        self.name = name
        self.arguments = arguments
        self._key = "native", module, name, *(["reported"] if reports and reporter is not None else [])
        self._made_by = f"{__name__}._build", f"{module}.{name}"
        self._brief, self._objects, self._makes_object = brief or objects > 0 or makes_object, objects, makes_object

    @functools.cached_property
    def call(self) -> Any:
        """The C function, compiled or loaded at the first use."""
        # Here, since most starting ranks do without machine code.
        from gondwana.compiler import linker

        address = linker.link(self.code())
        if self._brief:
            return builtin_at(address, self.arguments, self.name, self._objects, makes_object=self._makes_object)
        return linker.callable_at(address, self.arguments)

    def code(self) -> ObjectCode:
        """Return the machine code, from the cache or compiled now. Local."""
        from gondwana.compiler.function import obtain

        build = functools.partial(_build, self.module, self.name, self.arguments)
        return obtain(self._key, build, *self._made_by)

    @functools.cached_property
    def is_kept(self) -> bool:
        """Whether the machine code was in the cache when this was first read."""
        from gondwana.compiler import cache
        from gondwana.compiler.function import name_of

        return cache.has(name_of(self._key, *self._made_by))

    @property
    def address(self) -> int:
        """The address of the machine code of `call`, for compiled code."""
        return ctypes.cast(self.call, ctypes.c_void_p).value or 0


def builtin_at(address: int, arguments: int, name: str, objects: int = 0, *, makes_object: bool = False) -> Any:
    """Return a built-in function that calls the C function at an address, with the GIL. Local.

    Args:
        address: address of a C function that returns soon: other Python threads and signal handlers wait meanwhile.
        arguments: number of its 64-bit integers; it returns one.
        name: name of the function, for messages.
        objects: number of its last arguments that are objects of any type. It takes their addresses, and may only read.
        makes_object: whether it returns the address of an object, with a reference for the caller; 0: it has set an
            exception. Otherwise the result is the integer that it returns.

    Example:
        >>> import ctypes
        >>> absolute = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
        >>> builtin_at(absolute, 1, "labs")(-5)
        5
    """
    from gondwana.compiler import linker

    with linker.preparing:  # of two threads that load the machine code at the same time, the first would lose its own
        entry = _entries().get_function_address(_symbol(arguments, objects, makes_object))
    method = _MethodDef(name.encode(), entry, _FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # for ever: at exit, functions may outlive all modules
    return _create(ctypes.addressof(method), address, None)


def pays_off(calls: int, *functions: Native) -> bool:
    """Return whether it pays to use these functions for an operation done `calls` times without them. Local."""
    return calls > _WORTH_LOADING or (has_machine_code() and all(function.is_kept for function in functions))


def compile_all() -> None:
    """Put the machine code of all of Gondwana's own helpers into the cache. Local."""
    _entries()
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*_native.py")):
        module = ".".join((package.name, *source.relative_to(package).with_suffix("").parts))
        for name, entry in vars(importlib.import_module(module)).items():
            kind = getattr(entry, "__annotations__", {}).get("return")
            if isinstance(entry, FunctionType) and (entry.__module__, kind) == (module, "int"):
                Native(module, name, entry.__code__.co_argcount).code()


def has_machine_code() -> bool:
    """Return whether this process has loaded LLVM, which machine code needs. Local."""
    return "llvmlite.binding" in sys.modules


@functools.cache
def abi_is_known() -> bool:
    """Return whether arrays and dtypes are in memory as this module says. Local."""
    array = np.zeros((2, 3), np.int16)
    transposed = array.T
    at, descriptor = id(array), id(array.dtype)

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    def integer(address: int) -> int:
        return ctypes.c_int32.from_address(address).value

    return (
        (word(at + DATA), integer(at + RANK), word(at + DESCRIPTOR)) == (array.ctypes.data, 2, descriptor)
        and [word(word(at + EXTENTS) + 8 * axis) for axis in range(2)] == [2, 3]
        and integer(at + FLAGS) & (CONTIGUOUS | ALIGNED | WRITABLE) == CONTIGUOUS | ALIGNED | WRITABLE
        and integer(id(transposed) + FLAGS) & CONTIGUOUS == 0
        and integer(descriptor + NUMBER) == array.dtype.num
        and ctypes.c_uint8.from_address(descriptor + BYTE_ORDER).value == NATIVE_ORDERS[0]
    )


def _build(module: str, name: str, arguments: int) -> ObjectCode:
    from gondwana.compiler.codegen import compile_entry

    return compile_entry(getattr(importlib.import_module(module), name), arguments, helper=True)


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@functools.cache
def _entries() -> Any:
    """The linked machine code."""
    from gondwana.compiler import linker
    from gondwana.compiler.function import obtain

    code = obtain(("direct calls",), _build_entries, f"{__name__}.{_build_entries.__name__}").code
    return linker.load(code, _symbol(1))[1]


def _build_entries() -> ObjectCode:
    from llvmlite import ir

    from gondwana.compiler import linker
    from gondwana.compiler.cache import ObjectCode

    module = ir.Module()
    for arguments in range(1, MOST_ARGUMENTS + 1):
        for objects in range(min(arguments, MOST_OBJECTS) + 1):
            for makes_object in (False, True):
                _define(module, arguments, objects, makes_object)
    return ObjectCode(linker.compile_ir(str(module)), _symbol(1), False, False, [], {})


def _symbol(arguments: int, objects: int = 0, makes_object: bool = False) -> str:
    return f"gondwana_call_{arguments}_{objects}{'_object' if makes_object else ''}"


def _define(module: Any, arguments: int, objects: int, makes_object: bool) -> None:
    """Add `PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t count)`, where self is the address to call."""
    from llvmlite import ir

    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(pointer, [pointer, pointer.as_pointer(), word])
    entry = ir.Function(module, kind, _symbol(arguments, objects, makes_object))
    address, given, count = entry.args
    start, convert, check, call, refuse, fail = (
        entry.append_basic_block(name) for name in ("start", "convert", "check", "call", "refuse", "fail")
    )

    def c_api(name: str, result: Any, *parameters: Any) -> Any:
        known = module.globals.get(name)
        return known or ir.Function(module, ir.FunctionType(result, parameters), name)

    builder = ir.IRBuilder(start)
    builder.cbranch(builder.icmp_signed("==", count, word(arguments)), convert, refuse)
    builder.position_at_end(convert)
    as_integer = c_api("PyLong_AsLongLong", word, pointer)
    things = [builder.load(builder.gep(given, [word(index)])) for index in range(arguments)]
    integers = [builder.call(as_integer, [thing]) for thing in things[: arguments - objects]]
    values = integers + [builder.ptrtoint(thing, word) for thing in things[arguments - objects :]]
    suspects = [builder.icmp_signed("==", value, word(-1)) for value in integers]
    suspect = functools.reduce(builder.or_, suspects, ir.IntType(1)(0))
    builder.cbranch(suspect, check, call)  # -1 is a number, or means that an exception is set
    builder.position_at_end(check)
    exception = builder.call(c_api("PyErr_Occurred", pointer), [])
    builder.cbranch(builder.icmp_unsigned("==", exception, pointer(None)), call, fail)
    builder.position_at_end(call)
    found = builder.call(c_api("PyLong_AsVoidPtr", pointer, pointer), [address])
    function = builder.bitcast(found, ir.FunctionType(word, [word] * arguments).as_pointer())
    result = builder.call(function, values)
    if makes_object:
        builder.ret(builder.inttoptr(result, pointer))
    else:
        builder.ret(builder.call(c_api("PyLong_FromLongLong", pointer, word), [result]))
    builder.position_at_end(refuse)
    builder.call(c_api("PyErr_BadArgument", ir.IntType(32)), [])
    builder.branch(fail)
    builder.position_at_end(fail)
    builder.ret(pointer(None))
