"""A name for what a function would compile to: equal names mean equal machine code.

The name covers the byte code of the function, of every function that it reaches, the constants that it takes from
globals and closures, and the versions of everything that turns them into machine code. An edit in another file
therefore invalidates the cache, which Numba's own cache misses.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import enum
import functools
import hashlib
import platform
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.compiler.externs import Extern
from gondwana.errors import KernelError

ROOMS = ("domains", "compiler", "simd", "memory", "sync", "calls", "transfer", "kernels", "arrays")
"""Packages of Gondwana whose sources the digest of the toolchain covers: all that have parts of compiled code."""

LARGEST_CONSTANT = 1_000_000
"""Bytes of a global array that becomes part of machine code; of larger ones Numba would keep the address only."""


def fingerprint(function: types.FunctionType) -> str:
    """Return a digest of the function, of what it calls and of the constants it uses. Local.

    Raises:
        KernelError: a global or closure value cannot be a constant of compiled code.
    """
    digest = hashlib.sha256()
    _add_function(digest, function, set())
    return digest.hexdigest()


@functools.cache
def toolchain() -> str:
    """Return a digest of Gondwana's own sources, Python, Numba, LLVM and the processor. Local."""
    from importlib.metadata import version  # not at the start of every rank: it imports 40 modules

    from llvmlite import binding as llvm

    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(file.read_bytes())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(version(package).encode())
    digest.update(f"{sys.version} {platform.machine()} {llvm.get_host_cpu_name()}".encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def _add_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    digest.update(f"{function.__module__}.{function.__qualname__}{function.__defaults__!r}".encode())
    names = _add_code(digest, function.__code__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {name: cell.cell_contents for name, cell in cells}
    known |= {name: function.__globals__[name] for name in names.globals if name in function.__globals__}
    for name, value in sorted(known.items(), key=lambda item: item[0]):
        try:
            _add_value(digest, name, value, names.attributes, seen)
        except _NotConstantError as error:
            raise _refusal(function, names, name, str(error)) from None
    for name in names.globals.keys() - known.keys():
        if not hasattr(builtins, name):
            raise _refusal(function, names, name, "is not defined")


class _NotConstantError(Exception):
    """A value that cannot be part of machine code."""


def _refusal(function: types.FunctionType, names: _Names, name: str, reason: str) -> KernelError:
    line = names.globals.get(name, function.__code__.co_firstlineno)
    return KernelError(
        f"{function.__qualname__} cannot be compiled: the name {name!r} {reason} "
        f"({function.__code__.co_filename}, line {line})"
    )


@dataclass
class _Names:
    """What code refers to: globals, with the first line that does, and attributes of anything."""

    globals: dict[str, int] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)


def _add_code(digest: Any, code: types.CodeType) -> _Names:
    """Add one code object and those nested in it; return all names that they refer to."""
    digest.update(code.co_code)
    digest.update(repr((code.co_varnames, code.co_names, code.co_argcount, code.co_exceptiontable)).encode())
    names = _Names()
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = getattr(instruction.positions, "lineno", None) or line
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.globals.setdefault(instruction.argval, line)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names.attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _add_code(digest, constant)
            names.globals = inner.globals | names.globals
            names.attributes |= inner.attributes
        else:
            digest.update(repr(constant).encode())
    return names


def _add_value(digest: Any, name: str, value: Any, attributes: set[str], seen: set[int]) -> None:
    """Add what a name of the function stands for at this moment."""
    digest.update(name.encode())
    inner = getattr(value, "py_func", value)
    if isinstance(inner, types.FunctionType):
        if not _is_fixed(inner.__module__ or ""):
            _add_function(digest, inner, seen)
        digest.update(f"{inner.__module__}.{inner.__qualname__}".encode())
    elif isinstance(value, types.ModuleType):
        digest.update(value.__name__.encode())
        if not _is_fixed(value.__name__) and id(value) not in seen:
            seen.add(id(value))
            for attribute in sorted(attributes & vars(value).keys()):
                with contextlib.suppress(_NotConstantError):  # more names match than are meant
                    _add_value(digest, attribute, vars(value)[attribute], attributes, seen)
    elif isinstance(value, np.ndarray):
        if value.nbytes > LARGEST_CONSTANT:
            raise _NotConstantError(
                f"is an array of {value.nbytes} bytes, too large for a constant: pass it as an argument"
            )
        digest.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, enum.EnumMeta):
        digest.update(f"{value.__qualname__}{list(value.__members__.items())}".encode())
    elif isinstance(value, tuple):
        digest.update(f"{type(value).__qualname__}{getattr(value, '_fields', '')}".encode())
        for item in value:
            _add_value(digest, "", item, attributes, seen)
    elif isinstance(value, Extern):
        digest.update(repr(value).encode())
    elif isinstance(value, type) or callable(value):
        digest.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}".encode())
        digest.update(repr(getattr(value, "_fields", "")).encode())
    elif _is_plain(value):
        digest.update(f"{type(value).__qualname__}{value!r}".encode())
    else:
        raise _NotConstantError(
            f"stands for a {type(value).__name__}, which cannot be a constant of compiled code: "
            "pass it as an argument, or make it a number, a string, a tuple, a NumPy array, a point or an offset"
        )


def _is_plain(value: Any) -> bool:
    """Whether the representation of a value says all about it."""
    module = type(value).__module__
    return value is None or module in ("builtins", "numpy") or module.startswith("gondwana.domains")


def _is_fixed(module: str) -> bool:
    """Whether the digest of the toolchain stands for a module: of Python, NumPy, Numba or one of `ROOMS`."""
    top, _, rest = module.partition(".")
    if top == "gondwana":
        return not rest or rest.partition(".")[0] in ROOMS
    return top in sys.stdlib_module_names or top in ("numpy", "numba", "llvmlite")
