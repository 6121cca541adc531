"""C functions of any library: called from Python, and from compiled code without the interpreter.

Machine code refers to them by library and symbol, so an object in the cache is valid in every process; their addresses
are found when it is linked. Importing this module loads neither Numba nor LLVM.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from gondwana.errors import UsageError

PREFIX = "gondwana extern "
"""Prefix of the names by which machine code refers to these functions."""

_SCALARS: dict[str, Any] = {
    "i1": ctypes.c_int8,
    "i2": ctypes.c_int16,
    "i4": ctypes.c_int32,
    "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u2": ctypes.c_uint16,
    "u4": ctypes.c_uint32,
    "u8": ctypes.c_uint64,
    "f4": ctypes.c_float,
    "f8": ctypes.c_double,
}
_ELEMENTS = (*_SCALARS, "c8", "c16", "void")
_SIGNATURE = re.compile(r"\s*([\w*]+)\s*\(([\w*,\s]*)\)\s*")


_PROVIDERS = {
    "print": "gondwana.compiler.debugging.printing",
    "refuse": "gondwana.compiler.debugging.checks",
    "locate": "gondwana.compiler.debugging.checks",
    "report": "gondwana.compiler.reports.orders",
    "post": "gondwana.compiler.reports.orders",
    "take": "gondwana.compiler.reports.orders",
    "message": "gondwana.calls.active_messages.handlers",
    "atomic": "gondwana.sync.atomic_paths",
    "touch": "gondwana.compiler.reports.touching",
    "enter": "gondwana.compiler.reports.touching",
    "watched": "gondwana.compiler.reports.touching",
}
"""Modules that provide functions of this library, by the names of the functions."""

_provided: dict[str, Any] = {}


@dataclass(frozen=True)
class Value:
    """The type of an argument or a result.

    Attributes:
        code: dtype of a number as in NumPy ("f8"), or of the elements behind a pointer, or "void".
        pointer: whether it is a pointer.
    """

    code: str
    pointer: bool

    @classmethod
    def parse(cls, text: str) -> Value | None:
        """Read a type such as f8, f8* or void*; None if the text is not one."""
        code, star = text.removesuffix("*"), text.endswith("*")
        return cls(code, star) if code in (_ELEMENTS if star else (*_SCALARS, "void")) else None

    def __str__(self) -> str:
        return self.code + "*" * self.pointer

    @property
    def dtype(self) -> str | None:
        """Name of the dtype of a number or of the elements behind a pointer, None for void."""
        return None if self.code == "void" else np.dtype(self.code).name

    @property
    def ctype(self) -> Any:
        """The type for ctypes."""
        return ctypes.c_void_p if self.pointer else _SCALARS.get(self.code)

    def convert(self, value: Any) -> Any:
        """Convert an argument for ctypes.

        Raises:
            TypeError: the argument has the wrong type.
        """
        if not self.pointer:
            return float(value) if self.code[0] == "f" else int(operator.index(value))
        if not isinstance(value, np.ndarray):
            return operator.index(value)
        if self.dtype not in (None, value.dtype.name) or not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise TypeError(f"{value.dtype} {value.shape} with strides {value.strides} is no {self} without gaps")
        return value.ctypes.data


class Extern:
    """A C function: see `extern`, which makes it.

    Attributes:
        library: the library that contains it.
        symbol: its name there.
        result: the type of its result.
        parameters: the types of its arguments.
    """

    def __init__(self, library: str, symbol: str, result: Value, parameters: tuple[Value, ...]) -> None:
        self.library, self.symbol, self.result, self.parameters = library, symbol, result, parameters
        self.twin: Any = None
        self._call = ctypes.CFUNCTYPE(result.ctype, *[kind.ctype for kind in parameters])(address(library, symbol))

    @property
    def name(self) -> str:
        """The name by which machine code refers to it."""
        return f"{PREFIX}{self.library}:{self.symbol}"

    def __call__(self, *args: Any) -> Any:
        """Call it. Local; blocks while the function runs, without the GIL."""
        if len(args) != len(self.parameters):
            raise TypeError(f"{self!r} takes {len(self.parameters)} arguments, not {len(args)}")
        try:
            converted = [kind.convert(value) for kind, value in zip(self.parameters, args, strict=True)]
        except TypeError as error:
            raise TypeError(f"{self!r}: {error}") from None
        found = self._call(*converted)
        return found or 0 if self.result.pointer else found  # ctypes has None for NULL

    def __repr__(self) -> str:
        return f"{self.result} {self.symbol}({', '.join(map(str, self.parameters))}) of {self.library}"


def extern(library: str, symbol: str, signature: str) -> Extern:
    """Find a C function that Python and compiled code can call. Local.

    It is a global of the functions with `@gw.jit` and the kernels on processors that call it, not an argument. There
    the call costs what it costs in C; a function that raises errors returns them in the manner of C. Numbers convert as
    in C, but a float is no integer; an array stands for the address of its first element, and so does an integer. An
    array of compiled code that is passed, or whose `ctypes` is used, lives until the function that does so returns, or
    its variable gets another array. The machine code is kept on disk, and finds the function by the names of library
    and symbol in every process.

    Args:
        library: path of a shared library, its file name ("libm.so.6"), or its short name ("m").
        symbol: name of the function.
        signature: types, as NumPy's codes: "f8(f8, i4)" takes a float64 and an int32 and returns a float64. i1 to i8,
            u1 to u8, f4 and f8 are numbers; f8*, c16* and the like are pointers to them, and arrays of that dtype
            without gaps; void* is a pointer to anything; void before the bracket means no result.

    Returns:
        A callable with these arguments.

    Raises:
        UsageError: the library or the symbol in it does not exist, or the signature cannot be read.

    Example:
        >>> import numpy as np
        >>> import gondwana as gw
        >>> hypot = gw.extern("libm.so.6", "hypot", "f8(f8, f8)")
        >>> hypot(3.0, 4.0)
        5.0
        >>> @gw.jit
        ... def total_length(x, y):
        ...     total = 0.0
        ...     for i in range(len(x)):
        ...         total += hypot(x[i], y[i])
        ...     return total
        >>> total_length(np.array([3.0, 5.0]), np.array([4.0, 12.0]))
        18.0
    """
    result, parameters = _parse(signature)
    return Extern(library, symbol, result, parameters)


def _parse(signature: str) -> tuple[Value, tuple[Value, ...]]:
    match = _SIGNATURE.fullmatch(signature)
    texts = [text.strip() for text in match[2].split(",")] if match and match[2].strip() else []
    result = Value.parse(match[1]) if match else None
    parameters = [Value.parse(text) for text in texts]
    known = [kind for kind in parameters if kind is not None and (kind.pointer or kind.code != "void")]
    if result is None or len(known) != len(parameters):
        raise UsageError(
            f"the signature {signature!r} cannot be read: give types such as 'f8(f8, i4)' or 'void(c16*, i8)', of "
            f"{', '.join(_SCALARS)}, pointers to those, to c8, c16 and to void"
        )
    return result, tuple(known)


@functools.cache
def _library(name: str) -> ctypes.CDLL:
    """A loaded library.

    Raises:
        UsageError: it cannot be loaded.
    """
    path: str | None = name
    if "/" not in name and ".so" not in name:
        from ctypes.util import find_library

        path = find_library(name)
    if path is None:
        raise UsageError(f"there is no library {name!r}: give the path of its file, or install it")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise UsageError(f"the library {name!r} cannot be loaded: {error}") from None


@functools.cache
def address(library: str, symbol: str) -> int:
    """Return the address of a function in this process. Local.

    Raises:
        UsageError: no function has this name.
    """
    try:
        function = getattr(_library(library), symbol)
    except AttributeError:
        raise UsageError(f"the library {library!r} has no function {symbol!r}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def provide(symbol: str, function: Any) -> str:
    """Let machine code call a function of this library, given as ctypes has it; return its name there. Local."""
    name = f"{PREFIX}:{symbol}"
    _provided[name] = function
    return name


@functools.cache
def register(name: str) -> None:
    """Register with LLVM's linker the address of the function that machine code calls by this name. Local."""
    from llvmlite import binding

    library, _, symbol = name.removeprefix(PREFIX).rpartition(":")
    if not library:
        importlib.import_module(_PROVIDERS[symbol])
    provided = _provided.get(name)
    where = address(library, symbol) if provided is None else ctypes.cast(provided, ctypes.c_void_p).value
    binding.add_symbol(name, where)
