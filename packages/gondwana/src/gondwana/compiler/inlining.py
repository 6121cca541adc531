"""Functions that only other compiled code calls: intermediate code until an entry is compiled, arrays as in Python.

Numba optimises every function and turns it into machine code, with all its callees, before a caller may link it: code
that is nested n deep is compiled n times. But of our functions only the entries run, with the others inlined.

Arrays whose address is taken live until the function returns, as in Python. Numba frees an array after the last
statement that names it. That is too early if something else has its address: a C function that keeps it for later
calls, the integer `a.ctypes.data`, a record, which is a pointer to an element. A pass names such arrays once more where
the function returns. A variable that gets another array releases the previous one.

Loops that gather, and those around them, are compiled as written: LLVM would unroll eight entries of a sparse row, each
with loads of its own. Processors prefetch what one load reads in even steps, but not eight loads that take turns, with
the rests of rows between them; rows would take up to twice the time.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numba
from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import get_definition, guard
from numba.core.untyped_passes import IRProcessing


class _NoMemory:
    """Stand-in for the memory of machine code where Numba wants to set a variable in it."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: the environment is for calls of the interpreter, which no entry makes."""


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The intermediate code of one function with its callees, for other libraries to link.

    Attributes:
        gathering: the loops of the function that gather.
    """

    gathering: tuple[Any, ...] = ()

    def add_ir_module(self, module: Any) -> None:
        """Add lowered code of Numba, with its loops marked."""
        for loop in self.gathering:
            _keep_rolled(module, loop)
        super().add_ir_module(module)

    def _optimize_final_module(self) -> None:
        """Leave it to the entry, into which everything is inlined."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> _NoMemory:
        """The object that Numba asks for after it has lowered a function."""
        return _NoMemory()

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: this library has no machine code."""
        self._ensure_finalized()
        return 0


class Optimised(Part):
    """The optimised code of an entry, before machine code is made of it: that step changes its input."""

    def _optimize_final_module(self) -> None:
        JITCodeLibrary._optimize_final_module(self)


class Pass(FunctionPass):  # type: ignore[misc]
    """A step of the compilation of a function."""

    def __init__(self) -> None:
        super().__init__()


@register_pass(mutates_CFG=False, analysis_only=True)
class KeepAsPart(Pass):
    """Have the function that is being compiled lowered into a `Part`."""

    _name = "gondwana_keep_as_part"
    _kind = Part

    def run_pass(self, state: Any) -> bool:
        """Choose the library."""
        state.library = self._kind(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class KeepOptimised(KeepAsPart):
    """Have the entry that is being compiled lowered and optimised, but not turned into machine code."""

    _name = "gondwana_keep_optimised"
    _kind = Optimised


class Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for functions that only compiled code calls."""

    keeping = KeepAsPart

    def define_pipelines(self) -> list[Any]:
        """Return the passes, in order."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(self.keeping, IRProcessing)
        self.add_passes(manager)
        manager.finalize()
        return [manager]

    def add_passes(self, manager: Any) -> None:
        """Add passes of a derived compiler."""


class ListingCompiler(Compiler):
    """Numba's compiler for entries that are read, not run."""

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
"""Python functions that take addresses of their arguments, or call such functions."""


def takes_addresses(function: Any) -> Any:
    """Declare that a function for compiled code may keep the addresses of the arrays that it is given. Local."""
    _takers.add(function)
    return function


@register_pass(mutates_CFG=False, analysis_only=False)
class KeepAddressed(Pass):
    """Name the arrays whose address is taken before each return; it runs before the ends of lifetimes are entered."""

    _name = "gondwana_keep_addressed"

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


@register_pass(mutates_CFG=False, analysis_only=False)
class PrepareLoops(Pass):
    """Find the innermost loops that gather: they load by loaded indices, and store nothing.

    Loops of a constant length are left out: LLVM unrolls them, and may then vectorise the code around them.

    Where sums may be reordered, an innermost loop loads last what the iteration before has stored, such as a[i, j - 1]
    for a[i, j]: LLVM adds up first what is loaded first, and does not know that this value is still being computed.
    """

    _name = "gondwana_prepare_loops"

    def run_pass(self, state: Any) -> bool:
        """Tell the library of the function, and change the order of statements in its Numba IR."""
        blocks = state.func_ir.blocks
        loops = compute_cfg_from_blocks(blocks).loops().values()
        for loop in loops:
            if any(other.header in loop.body for other in loops if other is not loop):
                continue
            statements = [statement for label in sorted(loop.body) for statement in blocks[label].body]
            if _gathers(statements, state.typemap) and not _has_constant_length(
                state.func_ir, state.typemap, blocks[loop.header]
            ):
                state.library.gathering += (loop,)
            if "reassoc" in state.flags.fastmath.flags:
                own = {statement.target.name for statement in statements if isinstance(statement, ir.Assign)}
                for label in loop.body:
                    _load_carried_last(blocks[label], own)
        return True


def _gathers(statements: Iterable[Any], kinds: dict[str, Any]) -> bool:
    loaded, found = set[str](), False
    for statement in statements:
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            return False
        if isinstance(statement, ir.Assign):
            read = getattr(statement.value, "op", None) == "getitem"
            loads = read and not isinstance(kinds[statement.value.value.name], types.BaseTuple)
            found = found or (loads and statement.value.index.name in loaded)
            if loads or any(variable.name in loaded for variable in statement.list_vars()):
                loaded.add(statement.target.name)
    return found


def _load_carried_last(block: Any, own: set[str]) -> None:
    """Reorder the statements of a block before a store, unless they do more than load and calculate.

    Args:
        block: block of the innermost loop.
        own: the variables that change in it.
    """
    head = list(itertools.takewhile(lambda statement: isinstance(statement, ir.Assign), block.body))
    store = block.body[len(head)]
    if not isinstance(store, ir.SetItem):
        return
    made = {one.target.name: one.value for one in head if getattr(one.value, "op", None) == "build_tuple"}
    where = _coordinates(store.index, made)
    touched, late = set[str](), set[str]()
    parts: tuple[list[Any], list[Any]] = [], []
    for statement in head:
        value, name, names = statement.value, statement.target.name, {used.name for used in statement.list_vars()}
        if name in touched or (isinstance(value, ir.Expr) and value.op not in _CALCULATING):
            return
        touched |= names
        if getattr(value, "op", None) == "getitem" and value.value.name == store.target.name:
            pairs = list(zip(_coordinates(value.index, made), where, strict=False))
            if all(one == other or other in own for one, other in pairs) and any(one != other for one, other in pairs):
                late.add(name)
        if not names.isdisjoint(late):
            late.add(name)
        parts[name in late].append(statement)
    block.body[: len(head)] = [*parts[0], *parts[1]]


def _coordinates(index: Any, made: dict[str, Any]) -> list[str]:
    return [item.name for item in made[index.name].items] if index.name in made else [index.name]


_CALCULATING = frozenset(["getitem", "binop", "inplace_binop", "unary", "build_tuple", "cast"])


def _has_constant_length(function: Any, kinds: dict[str, Any], header: Any) -> bool:
    step: Any = next(header.find_exprs("iternext"), None)
    for op in ("iternext", "getiter"):
        if getattr(step, "op", None) != op:
            return False
        step = guard(get_definition, function, step.value)
    return getattr(step, "op", None) == "call" and all(isinstance(kinds[one.name], types.Literal) for one in step.args)


def _keep_rolled(module: Any, loop: Any) -> None:
    """Tell LLVM not to copy the iterations of a loop, nor those of the loops around it, unless it knows how many.

    Vectors of iterations may be copied. An outer loop, perhaps in another function, is recognised by an empty
    instruction that stands before this loop in it.
    """
    own = {f"B{label}" for label in loop.body}
    for block in (block for function in module.functions for block in function.blocks):
        branch = block.terminator
        if not any(getattr(target, "name", None) == f"B{loop.header}" for target in branch.operands):
            continue
        if block.name.partition(".")[0] in own:
            hints = [module.add_metadata([f"llvm.loop.{hint}"]) for hint in _HINTS]
            mark = module.add_metadata([block.name, *hints])
            mark.operands = (mark, *hints)  # LLVM requires that such nodes refer to themselves
            branch.set_metadata("llvm.loop", mark)
        else:
            builder = llvm.IRBuilder()
            builder.position_before(branch)
            builder.asm(llvm.FunctionType(llvm.VoidType(), []), "", "", [], True)


_HINTS = "unroll.runtime.disable", "vectorize.followup_vectorized"


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
