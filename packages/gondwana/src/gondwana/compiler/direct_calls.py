"""Machine code as built-in functions of CPython, which it calls in some 30 ns, where a call by ctypes takes 200 ns.

CPython hands a built-in function the addresses of its arguments, as objects. One piece of machine code for each number
of arguments makes 64-bit integers of them and calls the function whose address the built-in function is bound to. It
uses the stable C interface of CPython only. The last arguments may stay objects: the function gets their addresses, and
reads what it needs from them itself. The result is an integer, or an object that the function has made.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from gondwana.compiler import linker
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.function import obtain

MOST_ARGUMENTS = 8
MOST_OBJECTS = 2
_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_create = ctypes.pythonapi.PyCFunction_NewEx
_create.restype = ctypes.py_object
_create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def builtin_at(address: int, arguments: int, name: str, objects: int = 0, *, makes_object: bool = False) -> Any:
    """Return a built-in function that calls the C function at an address, with the GIL. Local.

    Args:
        address: of a C function that returns soon: other threads of Python and signal handlers wait meanwhile.
        arguments: how many 64-bit integers it takes; it returns one.
        name: of the function, for messages.
        objects: how many of the last arguments are objects of any type. It takes their addresses, and may only read.
        makes_object: whether it returns the address of an object, with a reference for the caller; 0: it has set an
            exception. Else the integer that it returns is the result.

    Example:
        >>> import ctypes
        >>> absolute = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
        >>> builtin_at(absolute, 1, "labs")(-5)
        5
    """
    with linker.preparing:  # of two threads that load the machine code at the same time, the first would lose its own
        entry = _entries().get_function_address(_symbol(arguments, objects, makes_object))
    method = _MethodDef(name.encode(), entry, _FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # for ever: at exit, functions may outlive all modules
    return _create(ctypes.addressof(method), address, None)


@functools.cache
def _entries() -> Any:
    """The linked machine code."""
    return linker.load(obtain(("direct calls",), _build, f"{__name__}.{_build.__name__}").code, _symbol(1))[1]


def _build() -> ObjectCode:
    from llvmlite import ir

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
    builder.cbranch(suspect, check, call)  # -1 is a number, or says that there is an exception
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
