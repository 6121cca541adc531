"""Functions that only other compiled code calls: intermediate code until an entry is compiled, arrays as in Python.

Numba optimises every function and turns it into machine code, with all that it calls, before a caller may link it: what
is nested n deep is compiled n times. But of our functions only the entries run, which have the others inlined.

Arrays whose address is taken live until the function returns, as in Python. Numba frees an array behind the last
statement that names it. That is too early where something else has its address: a C function that keeps it for later
calls, the integer `a.ctypes.data`, a record, which is a pointer to an element. A pass names such arrays once more where
the function returns. A variable that gets another array gives up the one before.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numba
from numba.core import ir, types
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
_takers: weakref.WeakSet[Any] = weakref.WeakSet()
"""Python functions that take addresses of what they are given, or call such functions."""


def takes_addresses(function: Any) -> Any:
    """State that a function for compiled code may keep the addresses of the arrays that it is given. Local."""
    _takers.add(function)
    return function


@register_pass(mutates_CFG=False, analysis_only=False)
class KeepAddressed(FunctionPass):  # type: ignore[misc]
    """Name the arrays whose address is taken before each return; it runs before the ends of lifetimes are entered."""

    _name = "gondwana_keep_addressed"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function after its types have been inferred."""
        kept = {
            variable.name: variable
            for block in state.func_ir.blocks.values()
            for statement in block.find_insts(ir.Assign)
            for variable in _addressed(statement, state.typemap)
            if state.targetctx.data_model_manager[state.typemap[variable.name]].contains_nrt_meminfo()
        }
        if not kept:
            return False
        takes_addresses(state.func_id.func)
        kind = types.Tuple([state.typemap[name] for name in kept])
        for label, block in state.func_ir.blocks.items():
            if isinstance(block.terminator, ir.Return):
                name, where = f"$kept.{label}", block.terminator.loc
                state.typemap[name] = kind
                value = ir.Expr.build_tuple(list(kept.values()), where)
                block.insert_before_terminator(ir.Assign(value, ir.Var(block.scope, name, where), where))
        return True


def _addressed(statement: Any, kinds: dict[str, Any]) -> Iterator[Any]:
    """The variables whose addresses a statement takes."""
    value = statement.value
    operation = getattr(value, "op", None)
    if operation == "getattr" and value.attr == "ctypes":
        yield value.value
    elif operation in ("getitem", "static_getitem", "typed_getitem"):
        if isinstance(kinds[statement.target.name], types.Record):
            yield value.value
    elif operation == "getiter":
        if isinstance(getattr(kinds[value.value.name], "dtype", None), types.Record):
            yield value.value
    elif operation == "call":
        called = kinds[value.func.name]
        if isinstance(called, types.Dispatcher) and called.dispatcher.py_func in _takers:
            yield from value.args
            yield from (given for _, given in value.kws)
            if value.vararg is not None:
                yield value.vararg
