"""Functions that only other compiled code calls stay intermediate code until an entry is compiled.

Numba optimises every function and turns it into machine code, with all that it calls, before a caller may link it: what
is nested n deep is compiled n times. But of our functions only the entries run, which have the others inlined.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.untyped_passes import IRProcessing


class _NoMemory:
    """Stands in for the memory of machine code where Numba wants to set a variable of it."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: the environment is for calls of the interpreter, which no entry makes."""


class Part(JITCodeLibrary):  # type: ignore[misc]
    """What one function has been lowered to, with what it calls, for other libraries to link."""

    def _optimize_final_module(self) -> None:
        """Leave it to the entry, into which everything is inlined."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> _NoMemory:
        """What Numba asks for after it has lowered a function."""
        return _NoMemory()

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0


class Optimised(Part):
    """What an entry has been optimised to, before machine code is made of it: that step changes what it is made of."""

    def _optimize_final_module(self) -> None:
        JITCodeLibrary._optimize_final_module(self)


@register_pass(mutates_CFG=False, analysis_only=True)
class KeepAsPart(FunctionPass):  # type: ignore[misc]
    """Have the function that is being compiled lowered into a `Part`."""

    _name = "gondwana_keep_as_part"
    _kind = Part

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Choose the library."""
        state.library = self._kind(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class KeepOptimised(KeepAsPart):
    """Have the entry that is being compiled lowered and optimised, and no more."""

    _name = "gondwana_keep_optimised"
    _kind = Optimised


class Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for functions that only compiled code calls."""

    keeping = KeepAsPart

    def define_pipelines(self) -> list[Any]:
        """The passes, in order."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(self.keeping, IRProcessing)
        self.add_passes(manager)
        manager.finalize()
        return [manager]

    def add_passes(self, manager: Any) -> None:
        """Add what a derived compiler does besides."""


class ListingCompiler(Compiler):
    """Numba's compiler for entries that are to be read, not run."""

    keeping = KeepOptimised


CALLED = {
    "error_model": "numpy",
    "pipeline_class": Compiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Options of functions and overloads that only compiled code calls, with NumPy's arithmetic (1/0 is inf)."""
INLINED = {**CALLED, "forceinline": True}
"""The same for those that are inlined: they need no error path, hence nothing of Numba at run time."""
called = numba.njit(**CALLED)
"""Decorator with the options `CALLED`."""
inlined = numba.njit(**INLINED)
"""Decorator with the options `INLINED`."""
