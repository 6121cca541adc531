"""Compilation to machine code: types that compiled code knows, the compiler, its cache, threads and atomics.

Importing this package loads neither Numba nor LLVM: code that was compiled before is found and run without Numba.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.compiler.externs import Extern as Extern, extern as extern
    from gondwana.compiler.function import jit as jit
    from gondwana.compiler.linker import Compilation as Compilation, compilation as compilation
    from gondwana.compiler.multithreading.pool import set_threads as set_threads, threads as threads
    from gondwana.compiler.multithreading.team import ThreadTeam as ThreadTeam, parallel as parallel
    from gondwana.compiler.timing import clock as clock

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.compiler.externs": "Extern extern",
        "gondwana.compiler.function": "jit",
        "gondwana.compiler.linker": "Compilation compilation",
        "gondwana.compiler.multithreading.pool": "set_threads threads",
        "gondwana.compiler.multithreading.team": "ThreadTeam parallel",
        "gondwana.compiler.timing": "clock",
    },
)
