"""From Python functions to relocatable machine code: the one file that drives Numba's compiler.

An entry is a C function of 64-bit integers. Inside it, errors of compiled code do not unwind: `guarded` turns them into
a status word in the argument block, which the caller turns back into the Python exception. The entry of a `@gw.jit`
function takes the arguments from this block, and writes the result into another.
"""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.datamodel import default_manager
from numba.core.typed_passes import NoPythonSupportedFeatureValidation
from numba.core.untyped_passes import FixupArgs, IRProcessing
from numba.extending import intrinsic, typeof_impl
from numba.np import numpy_support

from gondwana.compiler.cache import ObjectCode, fingerprint
from gondwana.compiler.cpython_native import FUNCTIONS as CPYTHON
from gondwana.compiler.debugging import checks
from gondwana.compiler.debugging.errors import readable_errors
from gondwana.compiler.debugging.printing_overloads import Printing
from gondwana.compiler.externs import PREFIX as EXTERN
from gondwana.compiler.function import HEADER_WORDS, RESULT_WORDS, Compilable, JitFunction
from gondwana.compiler.inlining import INLINED, KeepAddressed, ListingCompiler, PrepareLoops, inlined
from gondwana.compiler.mpi.table import SYMBOL as MPI_TABLE
from gondwana.compiler.types import literals, points, views  # noqa: F401  (their types must be registered before anything compiles)
from gondwana.compiler.types.arguments import WORD, Spec, import_extensions
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.tuples import WriteOutLoops
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.errors import KernelError
from gondwana.runtime.races import reporter

binding.initialize_native_asmparser()  # for the inline assembly of `memory_order.pause`

STATUS = 0
EXCEPTION = 8

_UNRESOLVED = ".numba.unresolved$"
"""Prefix of the variables through which Numba's code calls a function that is compiled later."""
_NUMBA_RUNTIME = ("NRT_", "numba_", "Py", "_Py", "_helper")


def compile_entry(
    entry: Callable[..., int], arguments: int, about: dict[str, object] | None = None, *, helper: bool = False
) -> ObjectCode:
    """Compile a function of `arguments` 64-bit integers that returns one. Local.

    Args:
        entry: the function.
        arguments: number of its arguments.
        about: facts to keep with the code.
        helper: whether it is one of Gondwana's own and calls no function of a user. It may have an error that is not
            caught, which the wrapper that Numba puts around it would report to the interpreter.

    Raises:
        KernelError: the types in a function cannot be inferred; the message says where.
    """
    with readable_errors(entry.__qualname__, ()):
        compiled = numba.cfunc(_signature(arguments), error_model="numpy")(entry)
    library = compiled._library
    if library.has_dynamic_globals:
        raise KernelError("machine code would hold an address of this process: pass what it points to as an argument")
    if any(variable.name.startswith(_UNRESOLVED) for variable in library._final_module.global_variables):
        raise KernelError(
            "functions that call each other in a circle cannot be compiled, only a function that calls itself with "
            "arguments of the types that it has: make them one function, with an argument that says which of them is "
            "meant; in place of a constant, which has a type of its own, pass a number that is computed, such as n - n"
        )
    _, _, (code, _) = library.serialize_using_object_code()
    outside = [f.name for f in library._final_module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if "numba_gil_ensure" in outside and not helper:
        raise KernelError(
            "print in a function of numba.njit, and numba.objmode, do not work in compiled code of Gondwana: decorate "
            "the function with @gw.jit, where print works"
        )
    needs_numba = any(name.startswith(_NUMBA_RUNTIME) for name in outside if name not in CPYTHON)
    variables = [variable.name for variable in library._final_module.global_variables]
    needs_mpi = MPI_TABLE in variables
    externs = sorted(name for name in (*outside, *variables) if name.startswith(EXTERN))
    return ObjectCode(code, compiled._wrapper_name, needs_numba, needs_mpi, externs, about or {})


def compile_call(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> ObjectCode:
    """Machine code for a call of `function` with arguments of these specs. Local.

    Raises:
        KernelError: the types in the function cannot be inferred, or Python cannot represent its result.
    """
    entry, names = call_entry(function, specs, precision, reassociate=reassociate)
    return compile_entry(entry, 1, {"results": names})


def call_entry(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> tuple[Callable[[int], int], str | list[str]]:
    """The entry that calls `function` with the arguments in a block, and the dtypes of the result. Local.

    Arguments and errors as for `compile_call`.
    """
    typing = Typing(precision)
    kinds = tuple(typing.type_of(spec) for spec in specs)
    twin, result = typed(function, kinds, reassociate=reassociate)
    names = result_names(function, result)
    load = loader(specs, kinds, HEADER_WORDS * WORD)
    store = storer(result)

    @inlined
    def run(block: int, args: Any) -> int:
        store(block, twin(*args))
        return 0

    def entry(block: int) -> int:
        return guarded(run, block, (load(block),))  # type: ignore[no-any-return]

    return entry, names


class _Compiler(literals.Compiler):
    """The compiler of functions that users write."""

    def add_passes(self, manager: Any) -> None:
        """Add passes of users' functions."""
        super().add_passes(manager)
        manager.add_pass_after(WriteOutLoops, FixupArgs)
        manager.add_pass_after(Printing, IRProcessing)
        manager.add_pass_after(KeepAddressed, NoPythonSupportedFeatureValidation)
        manager.add_pass_after(PrepareLoops, NoPythonSupportedFeatureValidation)
        if checks.active():
            from gondwana.compiler.debugging.checks_overloads import check_accesses

            check_accesses(manager)
        elif reporter is not None:
            from gondwana.compiler.reports.touching_overloads import report_accesses

            report_accesses(manager)


def inline_njit(function: pytypes.FunctionType, *, contract: bool = False, reassociate: bool = False) -> Any:
    """A function for use inside compiled code: inlined into its caller, with NumPy's arithmetic (1/0 is inf)."""
    import_extensions()
    fastmath = ({"contract"} if contract else set()) | ({"reassoc", "nsz"} if reassociate else set())
    return numba.njit(**{**INLINED, "pipeline_class": _Compiler, "fastmath": fastmath or False})(function)


def typed(
    function: pytypes.FunctionType, kinds: tuple[Any, ...], *, contract: bool = False, reassociate: bool = False
) -> tuple[Any, Any]:
    """Infer the types in a function for use inside compiled code; return it and the type of its result. Local.

    Raises:
        KernelError: the types cannot be inferred; the message says where, and for which arguments.
    """
    twin = inline_njit(_copy(function), contract=contract, reassociate=reassociate)
    with readable_errors(function.__qualname__, kinds):
        twin.compile(kinds)
    return twin, twin.overloads[kinds].signature.return_type


def _copy(function: pytypes.FunctionType) -> pytypes.FunctionType:
    """Return a function with the same code: Numba must tell the two compilations of a recursive function apart."""
    twin = pytypes.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    return twin


@typeof_impl.register(Compilable)
def _typeof_jit_function(value: JitFunction[..., Any], context: Any) -> Any:
    """Let compiled code call `@gw.jit` functions."""
    return types.Dispatcher(_inlined(value))


def _inlined(value: JitFunction[..., Any]) -> Any:
    """The function for compiled code, made anew when a global used in it or in its callees has changed."""
    version = fingerprint(value.py_func)
    if value.inlined is None or value.inlined[0] != version:
        value.inlined = version, inline_njit(value.py_func, reassociate=value.reassociate)
    return value.inlined[1]


class Listing(NamedTuple):
    """An entry as text.

    Attributes:
        llvm: LLVM's intermediate representation, optimised, from which machine code would be made.
        asm: assembly for this processor.
    """

    llvm: str
    asm: str


def listing(entry: Callable[..., int], arguments: int) -> Listing:
    """Compile an entry to text. Local; arguments and errors as for `compile_entry`."""
    with readable_errors(entry.__qualname__, ()):
        compiled = numba.cfunc(_signature(arguments), error_model="numpy", pipeline_class=ListingCompiler)(entry)
    return Listing(compiled._library.get_llvm_str(), compiled._library.get_asm_str())


def _signature(arguments: int) -> Any:
    return types.int64(*[types.int64] * arguments)


@intrinsic
def guarded(typingctx: Any, function: Any, block: Any, args: Any) -> Any:
    """Call `function(block, *args)`, which returns an integer; an exception becomes a status word in the block."""
    kinds = (block, *args.types)
    function.dispatcher.compile(kinds)
    compiled = function.dispatcher.overloads[kinds]

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.active_code_library.add_linking_library(compiled.library)
        unpacked = [builder.extract_value(values[2], index) for index in range(len(args.types))]
        status, result = context.call_internal_no_propagate(
            builder, compiled.fndesc, compiled.signature, [values[1], *unpacked]
        )
        with cgutils.if_unlikely(builder, status.is_error):
            for offset, word in ((STATUS, status.code), (EXCEPTION, status.excinfoptr)):
                is_pointer = isinstance(word.type, ir.PointerType)
                number = builder.ptrtoint(word, INT) if is_pointer else builder.sext(word, INT)
                where = builder.add(values[1], ir.Constant(INT, offset))
                builder.store(number, builder.inttoptr(where, INT.as_pointer()))
        return result

    return types.int64(function, block, args), codegen


def result_names(function: pytypes.FunctionType, result: Any) -> str | list[str]:
    """Return the dtype of a result, a list for a tuple, "none" for None. Local.

    Raises:
        KernelError: Python cannot represent the result.
    """
    if isinstance(result, types.NoneType):
        return "none"
    members = list(result.types) if isinstance(result, types.BaseTuple) else [result]
    plain = all(isinstance(member, types.Number | types.Boolean) for member in members)
    if not plain or len(members) * 2 > RESULT_WORDS:
        raise KernelError(
            f"{function.__qualname__} returns {result}: a compiled function hands a number, up to {RESULT_WORDS // 2} "
            "numbers in a tuple, or None to Python; write larger results into an array argument"
        )
    names = [numpy_support.as_dtype(member).name for member in members]
    return names if isinstance(result, types.BaseTuple) else names[0]


def storer(result: Any) -> Any:
    """Return a compiled function that writes a result to the address in the third word of the block. Local."""

    @intrinsic
    def store(typingctx: Any, block: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if isinstance(result, types.NoneType):
                return context.get_dummy_value()
            where = builder.add(args[0], ir.Constant(INT, 2 * WORD))
            out = builder.load(builder.inttoptr(where, INT.as_pointer()))
            is_tuple = isinstance(result, types.BaseTuple)
            offset = 0
            for index, member in enumerate(result.types if is_tuple else [result]):
                part = builder.extract_value(args[1], index) if is_tuple else args[1]
                data = default_manager[member].as_data(builder, part)
                address = builder.add(out, ir.Constant(INT, offset))
                builder.store(data, builder.inttoptr(address, data.type.as_pointer()))
                offset += max(WORD, numpy_support.as_dtype(member).itemsize)
            return context.get_dummy_value()

        return types.none(types.int64, value), codegen

    return store
