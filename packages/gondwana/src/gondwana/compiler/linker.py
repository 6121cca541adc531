"""Machine code in this process: objects are linked and become callable. The one file that drives LLVM's linker."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from dataclasses import dataclass
from typing import Any

from gondwana.compiler import externs, numba_imports
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.mpi import table
from gondwana.runtime import collector, interruptions
from gondwana.runtime.tracing import traced


@dataclass(frozen=True)
class Compilation:
    """The cost of compilation for a process; the difference of two is the cost between them.

    Attributes:
        compiled: functions compiled by this process.
        loaded: functions whose machine code came from the cache.
        seconds_compiling: time spent compiling, or waiting for another process that compiled the same code [s].
        seconds_loading: time spent reading and linking machine code [s].
    """

    compiled: int = 0
    loaded: int = 0
    seconds_compiling: float = 0.0
    seconds_loading: float = 0.0

    @property
    def seconds(self) -> float:
        """The whole time [s]."""
        return self.seconds_compiling + self.seconds_loading

    def __sub__(self, earlier: Compilation) -> Compilation:
        return Compilation(
            self.compiled - earlier.compiled,
            self.loaded - earlier.loaded,
            self.seconds_compiling - earlier.seconds_compiling,
            self.seconds_loading - earlier.seconds_loading,
        )

    def __str__(self) -> str:
        return (
            f"{self.compiled} functions compiled in {self.seconds_compiling:.2f} s, "
            f"{self.loaded} loaded in {self.seconds_loading:.2f} s"
        )


_compilation = Compilation()
preparing = threading.RLock()
"""Held while code is compiled, loaded or linked: parts of Numba serve one thread at a time."""


def compilation() -> Compilation:
    """Return the functions compiled and loaded in this process until now, and the time that it took. Local.

    Example:
        >>> import gondwana as gw
        >>> @gw.jit
        ... def double(x):
        ...     return 2 * x
        >>> before = gw.compilation()
        >>> double(21)
        42
        >>> spent = gw.compilation() - before
        >>> spent.compiled + spent.loaded, spent.seconds > 0
        (1, True)
    """
    return _compilation


def count(*, compiled: int = 0, loaded: int = 0, seconds_compiling: float = 0.0, seconds_loading: float = 0.0) -> None:
    """Add to the figures of this process. Local; the caller holds `preparing`."""
    global _compilation
    _compilation = Compilation(
        _compilation.compiled + compiled,
        _compilation.loaded + loaded,
        _compilation.seconds_compiling + seconds_compiling,
        _compilation.seconds_loading + seconds_loading,
    )


@functools.cache
def _target() -> Any:
    """LLVM's back end for this processor."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def compile_ir(text: str) -> bytes:
    """Return the object file of a module in LLVM's assembly language. Local."""
    from llvmlite import binding as llvm

    code: bytes = _target().create_target_machine(jit=True).emit_object(llvm.parse_assembly(text))
    return code


def load(code: bytes, symbol: str) -> tuple[int, Any]:
    """Link an object file; return the address of a symbol, and the engine, which owns the code. Local.

    Each has its own engine: objects from different processes may have symbols of the same name.
    """
    from llvmlite import binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target().create_target_machine(jit=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine.get_function_address(symbol), engine


@traced("compile", "import Numba")
def import_numba() -> None:
    """Import what makes up most of Numba, where signal handlers do not interrupt it. Local."""
    numba_imports.install()
    with collector.paused():
        interruptions.import_on_thread("numba.core.registry")


@traced("compile", "link")
def link(entry: ObjectCode) -> int:
    """Link an object into this process and return the address of its entry. Local; one thread at a time."""
    with preparing:
        return _link(entry)


def _link(entry: ObjectCode) -> int:
    start = time.perf_counter()
    if entry.needs_numba:
        # The object calls Numba's run-time library: loading Numba makes its functions known to LLVM.
        import_numba()
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()
    if entry.needs_mpi:
        table.register()
    for name in entry.externs:
        externs.register(name)
    address, engine = load(entry.code, entry.symbol)
    engine.detach()  # the code stays as long as the process; disposing at exit, after llvmlite is gone, would fail
    count(seconds_loading=time.perf_counter() - start)
    return address


def callable_at(address: int, arguments: int) -> Any:
    """Return a Python callable for the C function at `address`: 64-bit integers in and out, without the GIL."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(address)
