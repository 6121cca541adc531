"""A name for what a function would compile to: equal names mean equal machine code.

The name covers the byte code of the function, of every function that it reaches, the constants that it takes from globals
and closures, and the versions of everything that turns them into machine code. An edit in another file therefore
invalidates the cache, which Numba's own cache misses.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.errors import KernelError


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
    from llvmlite import binding as llvm

    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for layer in ("domains", "jit", "memory", "arrays", "kernels"):
        for file in sorted((root / layer).rglob("*.py")):
            digest.update(file.read_bytes())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(importlib.metadata.version(package).encode())
    digest.update(f"{sys.version} {platform.machine()} {llvm.get_host_cpu_name()}".encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def _add_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    digest.update(f"{function.__module__}.{function.__qualname__}{function.__defaults__!r}".encode())
    names = _add_code(digest, function.__code__)
    for name in function.__code__.co_freevars:
        cell = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))[name]
        _add_value(digest, name, cell.cell_contents, names, seen)
    for name in sorted(names & function.__globals__.keys()):
        _add_value(digest, name, function.__globals__[name], names, seen)


def _add_code(digest: Any, code: types.CodeType) -> set[str]:
    """Add one code object and those nested in it; return all names that they refer to."""
    digest.update(code.co_code)
    digest.update(repr((code.co_varnames, code.co_names, code.co_argcount, code.co_exceptiontable)).encode())
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
    return names


def _add_value(digest: Any, name: str, value: Any, names: set[str], seen: set[int]) -> None:
    """Add what a name of the function stands for at this moment."""
    digest.update(name.encode())
    inner = getattr(value, "py_func", value)
    if isinstance(inner, types.FunctionType):
        if not inner.__module__.startswith(("gondwana.", "numba.", "numpy.")):
            _add_function(digest, inner, seen)
        digest.update(f"{inner.__module__}.{inner.__qualname__}".encode())
    elif isinstance(value, types.ModuleType):
        digest.update(value.__name__.encode())
        if not _is_library(value) and id(value) not in seen:
            seen.add(id(value))
            for attribute in sorted(names & vars(value).keys()):
                _add_value(digest, attribute, vars(value)[attribute], names, seen)
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, tuple):
        digest.update(type(value).__qualname__.encode())
        for item in value:
            _add_value(digest, "", item, names, seen)
    elif isinstance(value, type) or callable(value):
        digest.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}".encode())
    elif _is_plain(value):
        digest.update(f"{type(value).__qualname__}{value!r}".encode())
    else:
        raise KernelError(
            f"the name {name!r} stands for a {type(value).__name__}, which cannot be a constant of compiled code: "
            "pass it as an argument, or make it a number, a string, a tuple, a NumPy array, a point or an offset"
        )


def _is_plain(value: Any) -> bool:
    """Whether the representation of a value says all about it."""
    module = type(value).__module__
    return value is None or module in ("builtins", "numpy") or module.startswith("gondwana.domains")


def _is_library(module: types.ModuleType) -> bool:
    """Whether a module belongs to Python, NumPy, Numba or Gondwana: the toolchain digest stands for those."""
    top = module.__name__.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("gondwana", "numpy", "numba", "llvmlite", "math")
