"""Compilation to machine code: types that compiled code knows, the compiler, its cache, threads and atomics.

Importing this package loads neither Numba nor LLVM: code that was compiled before is found and run without Numba.
"""

from gondwana.jit.function import jit as jit
from gondwana.jit.machine import Statistics as Statistics
from gondwana.jit.machine import statistics as statistics
from gondwana.jit.threads import set_threads as set_threads
from gondwana.jit.threads import threads as threads
