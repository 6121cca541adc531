"""`@gw.jit`: functions compiled to machine code, callable from Python, from kernels and from each other."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import types as pytypes
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from gondwana.compiler import cache, linker, sources
from gondwana.compiler.cache import fingerprint, toolchain, watch
from gondwana.compiler.debugging.errors import as_seen_by_users, raise_from_block
from gondwana.compiler.debugging.interpreting import called, interprets
from gondwana.compiler.mpi import objects
from gondwana.compiler.reports.touching import flushing
from gondwana.compiler.types.arguments import Spec, array_specs, brief, describe, holds_handle, working_precision
from gondwana.errors import KernelError
from gondwana.runtime import collector, interruptions
from gondwana.runtime.tracing import source, traced

P = ParamSpec("P")
R = TypeVar("R")

HEADER_WORDS = 3
"""Words of the argument block before the arguments: status, exception, address of the result."""
RESULT_WORDS = 16


def described(decorator: str, function: pytypes.FunctionType, compiled: Iterable[tuple[Spec, ...]]) -> str:
    """Return the text of a decorated function: its name, its place, and the arguments that it is compiled for. Local.

    Args:
        decorator: name of the decorator.
        function: the undecorated function.
        compiled: specs of the arguments of each version.
    """
    kinds = list(dict.fromkeys(f"({'; '.join(map(brief, specs))})" for specs in compiled))
    more = f" and {len(kinds) - 1} more" if len(kinds) > 1 else ""
    state = f"compiled for {kinds[-1]}{more}" if kinds else "not compiled yet"
    code = function.__code__
    place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    return f"<{decorator} {function.__qualname__} ({place}), {state}>"


class Compilable:
    """Base of the decorated functions, which compiled code may call.

    Attributes:
        py_func: the undecorated function.
    """

    py_func: Any


class JitFunction(Compilable, Generic[P, R]):
    """A function that runs as machine code, compiled at the first call with arguments of these types.

    Local: a call runs on the calling thread without the GIL and returns when it is done. Several threads may call.
    Arguments may be numbers, NumPy arrays (zero-copy), Gondwana arrays, points, offsets, boxes (`RectDomain`) and
    (named) tuples of those; the result is a number, a tuple of numbers or None. Exceptions raised inside arrive as
    Python exceptions. The machine code is kept on disk.

    Attributes:
        reassociate: whether floating-point operations may be reordered.
    """

    def __init__(self, function: Callable[P, R], *, reassociate: bool = False) -> None:
        if not isinstance(function, pytypes.FunctionType):
            raise TypeError(f"@gw.jit decorates plain Python functions, not {function!r}")
        parameters(function)
        self.py_func = function
        self.reassociate = reassociate
        self.inlined: Any = None
        self._name = function.__qualname__
        self._entries: dict[Any, Any] = {}
        self._interpreted = interprets(function)
        self._watch = watch(function)
        functools.update_wrapper(self, function)

    @traced("compiled", lambda self, *_args, **_kwargs: self._name, about=source)
    @flushing
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the compiled function."""
        positional = bind(self.py_func, args, kwargs)
        if self._interpreted and not any(holds_handle(describe(value)[0]) for value in positional):
            return cast(R, called(self.py_func, positional))
        try:
            described = [describe(value) for value in positional]
            specs = tuple(spec for spec, _ in described)
            entry, results = self.entries().get(specs) or self._compile(specs)
        except KernelError as error:
            raise as_seen_by_users(error) from None
        out = (ctypes.c_int64 * RESULT_WORDS)()
        head = (ctypes.c_int64 * HEADER_WORDS)(0, 0, ctypes.addressof(out))
        block = ctypes.create_string_buffer(bytes(head) + b"".join(data for _, data in described))
        since = objects.period()
        try:
            entry(ctypes.addressof(block))
        finally:
            objects.keep(since, positional)
        raise_from_block(block, self._name)
        return cast(R, unpack_result(bytes(out), results))

    def entries(self) -> dict[Any, Any]:
        """Return the compiled versions that are up to date, to look up and enter versions. Local."""
        if self._watch is not None and self._watch.is_stale():
            self._entries.clear()
        return self._entries

    def fingerprint(self) -> str:
        """Return the name of the function in the cache, whatever its arguments. Local."""
        return f"{fingerprint(self.py_func)} {self.reassociate}"

    def __repr__(self) -> str:
        # Those of threads have another key: see `gw.parallel`.
        return described("gw.jit", self.py_func, [key[1] if key[:1] == ("team",) else key for key in self._entries])

    @traced("compile", lambda self, *_args: f"prepare {self._name}")
    def _compile(self, specs: tuple[Spec, ...]) -> tuple[Any, tuple[str, ...] | str]:
        check_host(self._name, specs)

        def build() -> cache.ObjectCode:
            from gondwana.compiler.codegen import compile_call

            return compile_call(self.py_func, specs, working_precision(specs), reassociate=self.reassociate)

        made_by = "gondwana.compiler.codegen.compile_call", "gondwana.compiler.types.arguments.working_precision"
        code = obtain(("call", self.fingerprint(), repr(specs)), build, *made_by)
        results = cast("str | list[str]", code.about["results"])
        names = results if isinstance(results, str) else tuple(results)
        self._entries[specs] = linker.callable_at(linker.link(code), 1), names
        return cast("tuple[Any, tuple[str, ...] | str]", self._entries[specs])


@overload
def jit(function: Callable[P, R], /) -> JitFunction[P, R]: ...
@overload
def jit(*, reassociate: bool = False) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(function: Callable[..., Any] | None = None, /, *, reassociate: bool = False) -> Any:
    """Compile a function to machine code at its first call. Local.

    Use it for helpers that kernels call, and for whole loops that should run without the interpreter. With
    `GONDWANA_INTERPRET=1` it runs in the interpreter when Python calls it, unless it gets a pointer, a signal, a team
    or the like: communication means other things in Python, and stays compiled.

    Args:
        function: a plain Python function in the subset of Python that Numba compiles.
        reassociate: allow the compiler to reorder the floating-point operations that are written in this function: see
            `foreach`.

    Returns:
        A callable with the same arguments.

    Example:
        >>> import gondwana as gw
        >>> @gw.jit
        ... def hypotenuse(a, b):
        ...     return (a * a + b * b) ** 0.5
        >>> hypotenuse(3.0, 4.0)
        5.0
    """

    def decorate(function: Callable[P, R]) -> JitFunction[P, R]:
        return JitFunction(function, reassociate=reassociate)

    return decorate if function is None else decorate(function)


def parameters(function: pytypes.FunctionType) -> tuple[str, ...]:
    """Return the names of the parameters of a function to be compiled. Local.

    Raises:
        TypeError: it has parameters other than positional ones.
    """
    import inspect

    code = function.__code__
    if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise TypeError(
            f"{function.__qualname__} has keyword-only parameters, *args or **kwargs, which cannot be compiled: "
            "name its parameters, and pass many values as a tuple"
        )
    return code.co_varnames[: code.co_argcount]


def bind(function: pytypes.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of the parameters, defaults filled in."""
    missing = function.__code__.co_argcount - len(args)
    defaults = function.__defaults__ or ()
    if not kwargs and 0 <= missing <= len(defaults):
        return args + defaults[len(defaults) - missing :]
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def check_host(name: str, specs: tuple[Spec, ...]) -> None:
    """Refuse arguments that code for the processor cannot reach. Local.

    Raises:
        KernelError: one of them is an array in the memory of a device.
    """
    if any(spec.place != "host" for spec in array_specs(specs)):
        raise KernelError(
            f"{name} runs on the processor and cannot reach an array in the memory of a GPU: call it from a "
            "kernel (gw.foreach), or pass a.copy()"
        )


_KINDS = {
    "call": "a function", "cuda": "a kernel for a GPU", "kernel": "a kernel", "message": "a handler of messages",
    "pair": "a pair of kernels", "team": "a function for threads",
}  # fmt: skip
"""What traces call compiled code, by the first part of its key."""


def _title(key: tuple[str, ...], *_others: object) -> str:
    what = f"{key[2]} of the library" if key[0] == "native" else _KINDS.get(key[0], key[0])
    return f"compile or load {what}"


@traced("compile", _title)
def obtain(key: tuple[str, ...], build: Callable[[], cache.ObjectCode], *made_by: str) -> cache.ObjectCode:
    """Machine code from the cache, or built now, by one thread at a time; counted in `linker.compilation`.

    Args:
        key: parts of the entry's name besides the sources of the library.
        build: compiles the entry.
        made_by: dotted names of the definitions that compile, and of those that are compiled. No other source of the
            library may influence the code.
    """
    import time

    def build_with_numba() -> cache.ObjectCode:
        linker.import_numba()
        with collector.paused():
            return build()

    interruptions.end_at_second()
    start = time.perf_counter()
    name = name_of(key, *made_by)
    with linker.preparing:
        code, built = cache.get(name, build_with_numba)
        seconds = time.perf_counter() - start
        if built:
            linker.count(compiled=1, seconds_compiling=seconds)
        else:
            linker.count(loaded=1, seconds_loading=seconds)
    return code


def name_of(key: tuple[str, ...], *made_by: str) -> str:
    """Return the name of machine code in the cache. Local; arguments as for `obtain`."""
    of_library = sources.digest("gondwana.compiler.numba_imports.install", *made_by)
    return hashlib.sha256("\0".join((toolchain(), of_library, *key)).encode()).hexdigest()


def unpack_result(words: bytes, results: tuple[str, ...] | str) -> Any:
    """Return the result of a call as Python's numbers, from the words in its result block. Local."""
    if results == "none":
        return None
    values, offset = [], 0
    for name in (results,) if isinstance(results, str) else results:
        dtype = np.dtype(name)
        values.append(np.frombuffer(words, dtype, 1, offset)[0].item())
        offset += max(8, dtype.itemsize)
    return values[0] if isinstance(results, str) else tuple(values)
