"""Machine code on disk: compiled once a node, found by every later process under a digest of what it is compiled from.

A process that misses takes the lock of that entry, looks again, and only then compiles; the others wait for it and
load. If the folder cannot be used, nothing is cached; that is never an error. A file whose contents belong to another
name is refused: the digest in it covers the name, too.

Equal names mean equal machine code. The name of a function (`fingerprint`) covers its byte code and that of every
function that it reaches, the constants that it takes from globals and closures, and what compiled code may take from
the library (`gondwana.compiler.sources`). An edit in another file therefore invalidates the cache, which Numba's own
cache misses. Docstrings, comments and lines do not count, except where errors name the lines.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import enum
import functools
import hashlib
import json
import os
import platform
import sys
import time
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.compiler import numba_imports, sources
from gondwana.compiler.debugging import checks
from gondwana.compiler.externs import Extern
from gondwana.errors import KernelError
from gondwana.runtime import launcher
from gondwana.runtime.cache_folder import cache_folder, exists, keep, locked, read
from gondwana.runtime.races import reporter

MAGIC = b"gondwana object 5\n"

ROOMS = (
    "domains", "compiler", "simd", "memory", "sync", "calls", "transfer", "kernels", "arrays", "tasks", "io", "races",
)  # fmt: skip
"""Packages of Gondwana whose functions are named by their sources: all that have parts of compiled code."""

HEAD_START = 0.1
"""Seconds that the first rank, and each that has compiled before, has before the others: few ranks import Numba."""

LARGEST_CONSTANT = 1_000_000
"""The most bytes of a global array that becomes part of machine code; of larger ones Numba would keep the address."""

_WITHOUT_EFFECT = ("NUMBA_NUM_THREADS", "NUMBA_CACHE_", "NUMBA_DUMP_", "NUMBA_THREADING_LAYER", "NUMBA_COLOR_")
"""Prefixes of variables that do not change what Numba compiles."""

_Taken = tuple[Callable[[], Any], Any]
"""A function that reads a name, and the value that it read."""


@dataclass(frozen=True)
class ObjectCode:
    """A relocatable object and the facts needed to use it.

    Attributes:
        code: the object file.
        symbol: name of the entry in it.
        needs_numba: whether it refers to functions of Numba's run-time library.
        needs_mpi: whether it refers to the table of MPI's functions (`mpi_table`).
        externs: names of the C functions that it calls (`gondwana.compiler.externs`).
        about: facts that the compiler found, as JSON values (for instance the footprints of a kernel).
    """

    code: bytes
    symbol: str
    needs_numba: bool
    needs_mpi: bool
    externs: list[str]
    about: dict[str, object]

    def to_bytes(self, key: str) -> bytes:
        """The content of the cache file named `key`: a digest of the key and the rest, a line of JSON, the object."""
        head = asdict(self)
        head.pop("code")
        content = json.dumps(head).encode() + b"\n" + self.code
        return MAGIC + _digest(key, content) + content

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> ObjectCode | None:
        """Read the cache file named `key`; None if it belongs to another key, or is damaged."""
        digest, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
        if not data.startswith(MAGIC) or _digest(key, content) != digest:
            return None
        head, _, code = content.partition(b"\n")
        return cls(code=code, **json.loads(head))


def get(key: str, build: Callable[[], ObjectCode], kind: str = "objects") -> tuple[ObjectCode, bool]:
    """Return the entry named `key` and whether it had to be built. Local; blocks while another process builds it.

    Args:
        key: name of the entry, a digest of all that the code depends on.
        build: compiles the entry.
        kind: name of the folder.
    """
    path = folder(kind)
    if path is None:
        return build(), True
    file = path / f"{key}.o"
    found = _read(file, key)
    if found is not None:
        return found, False
    if "numba" not in sys.modules and not launcher.is_first():
        time.sleep(HEAD_START)
    with locked(file):
        found = _read(file, key)
        if found is not None:
            return found, False
        built = build()
        keep(file, built.to_bytes(key))
        return built, True


def has(key: str, kind: str = "objects") -> bool:
    """Return whether an entry named `key` exists. Local."""
    path = folder(kind)
    return path is not None and exists(path / f"{key}.o")


@functools.cache
def folder(kind: str = "objects") -> Path | None:
    """Return the folder of the cache, None if none can be used. Local.

    See `cache_folder` for its place.
    """
    return cache_folder(kind)


def fingerprint(function: types.FunctionType) -> str:
    """Return a digest of the function, of what it calls and of the constants it uses. Local.

    Raises:
        KernelError: a global or closure value cannot be a constant of compiled code.
    """
    walk = _Walk()
    _add_function(walk, function)
    return f"{walk.digest.hexdigest()} {sources.digest(sources.OVERLOADS, *sorted(walk.library))}"


@functools.cache
def toolchain() -> str:
    """Return a digest of the versions of Python, Numba and LLVM, of settings and the processor. Local.

    Raises:
        UsageError: Numba's compiler is switched off.
    """
    numba_imports.check_settings()
    from importlib.metadata import version  # not at the start of every rank: it imports 40 modules

    from llvmlite import binding as llvm

    digest = hashlib.sha256()
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(version(package).encode())
    digest.update(f"{sys.version} {platform.machine()} {llvm.get_host_cpu_name()}".encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    digest.update(repr(settings()).encode())
    return digest.hexdigest()


def settings() -> list[str]:
    """Return the variables of the environment that may change what Numba compiles. Local."""
    names = (name for name in os.environ if name.startswith("NUMBA_") and not name.startswith(_WITHOUT_EFFECT))
    return [f"{name}={os.environ[name]}" for name in sorted(names)]


def watch(function: types.FunctionType) -> Watch | None:
    """Return a watch on the globals of a function, None outside of interactive sessions. Local.

    In a notebook cells define constants and helpers again, and mean the new ones. In programs, which would pay for the
    check at each call, constants keep the values of the first call.
    """
    interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    return Watch(function) if interactive and function.__module__ == "__main__" else None


class Watch:
    """Notices new values of the constants of a compiled function: see `watch`."""

    def __init__(self, function: types.FunctionType) -> None:
        self._function = function
        self._taken: list[_Taken] | None = None

    def is_stale(self) -> bool:
        """Return whether a constant has changed since the last call, True at the first. Local."""
        if self._taken is not None and all(read() is value for read, value in self._taken):
            return False
        walk = _Walk()
        _add_function(walk, self._function)
        self._taken = walk.taken
        return True


def _read(file: Path, key: str) -> ObjectCode | None:
    data = read(file)
    return None if data is None else ObjectCode.from_bytes(data, key)


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


@dataclass
class _Walk:
    """A walk through a function and all that it reaches.

    Attributes:
        digest: digest of the values found so far.
        seen: identities of the functions and modules visited.
        taken: the globals found.
        library: dotted names of the library's definitions found.
    """

    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    seen: set[int] = field(default_factory=set)
    taken: list[_Taken] = field(default_factory=list)
    library: set[str] = field(default_factory=set)

    def take(self, read: Callable[[], Any]) -> Any:
        """Read a name; keep the way to read it and the value."""
        value = read()
        self.taken.append((read, value))
        return value

    def note(self, value: Any) -> str:
        """Return the dotted name of a function or a class; for one of the library, that of its definition."""
        home, name = str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", repr(value)))
        if home.partition(".")[0] == "gondwana":
            self.library.add(f"{home}.{name.partition('.')[0]}")
        return f"{home}.{name}"


def _add_function(walk: _Walk, function: types.FunctionType) -> None:
    if id(function) in walk.seen:
        return
    walk.seen.add(id(function))
    walk.digest.update(f"{walk.note(function)}{function.__defaults__!r}".encode())
    names = _add_code(walk.digest, function.__code__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    places = function.__globals__
    known = {name: walk.take(partial(getattr, cell, "cell_contents")) for name, cell in cells}
    known |= {name: walk.take(partial(places.get, name)) for name in names.globals if name in places}
    for name, value in sorted(known.items(), key=lambda item: item[0]):
        try:
            _add_value(walk, name, value, names.attributes)
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
    """The names that code refers to: globals, with the first line of use, and attributes of anything."""

    globals: dict[str, int] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)


def _add_code(digest: Any, code: types.CodeType) -> _Names:
    """Add one code object and those nested in it; return all names that they refer to."""
    digest.update(repr((code.co_varnames, code.co_argcount, code.co_exceptiontable)).encode())
    if reporter is not None:
        digest.update(b"reported")
    if checks.active() or reporter is not None:  # then the machine code names the lines, so it differs
        digest.update(f"{code.co_filename}:{code.co_firstlineno}".encode() + code.co_linetable)
    names = _Names()
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = getattr(instruction.positions, "lineno", None) or line
        value = "" if isinstance(instruction.argval, types.CodeType) else repr(instruction.argval)
        # Constants by their values: in a function with a docstring they have other numbers.
        number = "" if instruction.opcode in dis.hasconst else instruction.arg
        digest.update(f"{instruction.opname} {number} {value}\n".encode())
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.globals.setdefault(instruction.argval, line)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names.attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _add_code(digest, constant)
            names.globals = inner.globals | names.globals
            names.attributes |= inner.attributes
    return names


def _add_value(walk: _Walk, name: str, value: Any, attributes: set[str]) -> None:
    """Add the present value of a name of the function."""
    digest = walk.digest
    digest.update(name.encode())
    inner = getattr(value, "py_func", value)
    if isinstance(inner, types.FunctionType):
        if not _is_fixed(inner.__module__ or "") or _has_own_values(value):
            _add_function(walk, inner)
        digest.update(f"{walk.note(inner)} {getattr(value, 'reassociate', False)}".encode())
    elif isinstance(value, types.ModuleType):
        digest.update(value.__name__.encode())
        if id(value) not in walk.seen:
            walk.seen.add(id(value))
            fixed = _is_fixed(value.__name__)
            for attribute in sorted(attributes.intersection(dir(value))):  # `vars` lacks what is loaded at first use
                if fixed and not hasattr(getattr(value, attribute, None), "py_func"):
                    continue
                found = walk.take(partial(getattr, value, attribute, None))
                with contextlib.suppress(_NotConstantError):  # more names match than are meant
                    _add_value(walk, attribute, found, attributes)
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
            _add_value(walk, "", item, attributes)
    elif isinstance(value, Extern):
        digest.update(repr(value).encode())
    elif isinstance(value, type) or callable(value):
        digest.update(walk.note(value).encode())
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


def _has_own_values(value: Any) -> bool:
    """Whether sources do not say all about a function of `gw.jit`: it has a closure, or errors name its lines."""
    return hasattr(value, "reassociate") and (
        checks.active() or reporter is not None or value.py_func.__closure__ is not None
    )


def _is_fixed(module: str) -> bool:
    """Whether versions or sources stand for a module: of Python, NumPy, Numba or one of `ROOMS`."""
    top, _, rest = module.partition(".")
    if top == "gondwana":
        return not rest or rest.partition(".")[0] in ROOMS
    return top in sys.stdlib_module_names or top in ("numpy", "numba", "llvmlite")
