"""Compilation to machine code: types that compiled code knows, the compiler, its cache, threads and atomics.

Importing this package loads neither Numba nor LLVM: code that was compiled before is found and run without Numba.
"""

from gondwana.compiler import printing as _printing  # noqa: F401  (machine code finds there what prints)
from gondwana.compiler.externs import Extern as Extern
from gondwana.compiler.externs import extern as extern
from gondwana.compiler.function import jit as jit
from gondwana.compiler.linker import Compilation as Compilation
from gondwana.compiler.linker import compilation as compilation
from gondwana.compiler.mpi import team as _team  # noqa: F401  (teams become arguments of compiled code)
from gondwana.compiler.multithreading import ThreadTeam as ThreadTeam
from gondwana.compiler.multithreading import parallel as parallel
from gondwana.compiler.multithreading import set_threads as set_threads
from gondwana.compiler.multithreading import threads as threads
from gondwana.compiler.timing import clock as clock
