"""From Python functions to PTX: the one file that drives numba-cuda's compiler. Needs no device.

Differences of numba-cuda and NVVM from Numba are worked around: exceptions, the places of errors, remainders, and
functions of NumPy that are typed but cannot be compiled.
"""

from __future__ import annotations

import math
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.core.errors import TypingError as NumbaTypingError
from numba.cuda import compiler, dispatcher, types
from numba.cuda.core import ir as numba_ir
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
from numba.cuda.core.errors import TypingError
from numba.cuda.core.typed_passes import NopythonTypeInference
from numba.cuda.core.untyped_passes import FixupArgs, IRProcessing, LiteralPropagationSubPipelinePass
from numba.cuda.cudadrv import nvvm
from numba.cuda.descriptor import cuda_target
from numba.cuda.flags import CUDAFlags
from numba.cuda.mathimpl import get_unary_impl_for_fn_and_ty
from numba.cuda.np import ufunc_db
from numba.cuda.typing.typeof import typeof_impl
from numba.cuda.ufuncs import ufunc_db as functions_of_devices
from numba.cuda.utils import numba_target_override

from gondwana.compiler.cache import fingerprint
from gondwana.compiler.externs import Extern
from gondwana.compiler.function import Compilable, JitFunction
from gondwana.compiler.types import points, views  # noqa: F401  (their types must be registered before anything compiles)
from gondwana.compiler.types.arguments import import_extensions
from gondwana.compiler.types.literals import give_back, weaken
from gondwana.compiler.types.tuples import write_out
from gondwana.errors import KernelError

Capability = tuple[int, int]


@dataclass(frozen=True)
class Arithmetic:
    """Liberties of the compiler with floating-point numbers.

    Args:
        contract: fuse `a * b + c` into one rounding.
        flush: treat subnormal float32 numbers as zero.
    """

    contract: bool = False
    flush: bool = False


class _Pass(FunctionPass):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()


@register_pass(mutates_CFG=False, analysis_only=False)
class _WeakNumbers(_Pass):
    """Python's numbers take the type of the arrays beside them: see `compiler.types.literals`."""

    _name = "gondwana_weak_numbers_cuda"

    def run_pass(self, state: Any) -> bool:
        """Change the IR of one function before its types are inferred."""
        return weaken(state, numba_ir)


@register_pass(mutates_CFG=True, analysis_only=False)
class _WriteOutLoops(_Pass):
    """Write out loops over tuples of arrays or offsets: see `compiler.types.tuples`."""

    _name = "gondwana_write_out_loops_cuda"

    def run_pass(self, state: Any) -> bool:
        """Change the IR of one function before its types are inferred."""
        return write_out(state, numba_ir)


@register_pass(mutates_CFG=False, analysis_only=False)
class _OwnOperators(_Pass):
    """Return operations on other than integers to numba-cuda."""

    _name = "gondwana_own_operators_cuda"

    def run_pass(self, state: Any) -> bool:
        """Change the IR of one function whose types are known."""
        return give_back(state, numba_ir)


@register_pass(mutates_CFG=False, analysis_only=True)
class _NoPrinting(_Pass):
    """Refuse `print`: a device would write lines only when the program waits for it, and to its own output."""

    _name = "gondwana_no_printing_cuda"

    def run_pass(self, state: Any) -> bool:
        """Check the IR of one function."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                value = statement.value
                if isinstance(value, numba_ir.Global | numba_ir.FreeVar) and value.value is print:
                    raise TypingError(
                        "print does not work in kernels on a GPU: run the kernel on host arrays, a.copy(), where it "
                        "does, or with GONDWANA_INTERPRET=1",
                        statement.loc,
                    )
        return False


class _Compiler(compiler.CUDACompiler):  # type: ignore[misc]
    """numba-cuda's compiler with passes of ours before type inference."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes, in order."""
        (manager,) = super().define_pipelines()
        manager.add_pass_after(_WriteOutLoops, FixupArgs)
        manager.add_pass_after(_WeakNumbers, LiteralPropagationSubPipelinePass)
        manager.add_pass_after(_OwnOperators, NopythonTypeInference)
        manager.add_pass_after(_NoPrinting, IRProcessing)
        manager.finalize()
        return [manager]


class _Device:
    """Stand-in for the current device, whose compute capability numba-cuda reads while it compiles."""

    def __init__(self, capability: Capability) -> None:
        self.compute_capability = capability


_compiling = threading.RLock()
_capability: Capability | None = None


@contextmanager
def _compiling_for(capability: Capability) -> Iterator[None]:
    """Have all code that is compiled meanwhile be for one capability."""
    global _capability
    import_extensions()
    with _compiling, own_errors(cuda_target.typing_context):
        before, current = _capability, dispatcher.get_current_device
        _capability = capability
        dispatcher.get_current_device = lambda: _Device(capability)
        try:
            yield
        finally:
            _capability, dispatcher.get_current_device = before, current


class DeviceFunction(dispatcher.CUDADispatcher):  # type: ignore[misc]
    """A function for use inside kernels: inlined into its caller, with NumPy's arithmetic (1/0 is inf)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        options = {"device": True, "debug": False, "opt": True, "forceinline": True}
        super().__init__(function, targetoptions=options)

    def compile_device(self, args: Any, return_type: Any = None) -> Any:
        """Compile for argument types, and return numba-cuda's description of the result."""
        if args not in self.overloads:
            with self._compiling_counter:
                found = _compile(self.py_func, args, return_type)
                self.overloads[args] = found
                cuda_target.target_context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        return self.overloads[args]


_twins: weakref.WeakKeyDictionary[Any, tuple[str, DeviceFunction]] = weakref.WeakKeyDictionary()


@typeof_impl.register(Compilable)
def _typeof_jit_function(value: JitFunction[..., Any], context: Any) -> Any:
    """Let kernels call `@gw.jit` functions, with their present globals."""
    version = fingerprint(value.py_func)
    if value not in _twins or _twins[value][0] != version:
        _twins[value] = version, DeviceFunction(value.py_func)
    return types.Dispatcher(_twins[value][1])


@typeof_impl.register(Extern)
def _typeof_extern(value: Extern, context: Any) -> Any:
    raise KernelError(f"{value!r} runs on processors, not on a GPU: call it from @gw.jit functions or from Python")


def return_type(function: DeviceFunction, kinds: tuple[Any, ...], capability: Capability) -> Any:
    """Compile a function for argument types and return the type of its result. Local."""
    with _compiling_for(capability):
        return function.compile_device(kinds).signature.return_type


def compile_kernel(
    kernel: Callable[..., None],
    words: int,
    capability: Capability,
    arithmetic: Arithmetic,
) -> tuple[bytes, str]:
    """Compile a kernel whose one argument is a tuple of 64-bit integers. Local.

    Args:
        kernel: a Python function in numba-cuda's subset.
        words: number of integers; they become the parameters of the entry, in order.
        capability: compute capability to compile for.
        arithmetic: liberties with floating-point numbers.

    Returns:
        The PTX, and the name of the entry in it.
    """
    with _compiling_for(capability):
        found = _compile(kernel, (types.UniTuple(types.int64, words),), types.void)
        library = found.library
        entry = library.get_function(found.fndesc.llvm_func_name)
        library._entry_name = found.fndesc.llvm_func_name
        compiler.kernel_fixup(entry, False)
        options = {
            "opt": 3,
            "arch": "compute_{}{}".format(*capability),
            "fma": arithmetic.contract,
            "ftz": arithmetic.flush,
            "prec_div": True,
            "prec_sqrt": True,
        }
        ptx = nvvm.compile_ir([*map(with_exact_remainders, library.llvm_strs)], **options)
    return ptx.rstrip(b"\0 \n") + b"\n", found.fndesc.llvm_func_name


def _compile(function: Callable[..., Any], args: Any, return_type: Any) -> Any:
    """Lower a function to LLVM's IR."""
    flags = CUDAFlags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.forceinline = True
    flags.nvvm_options = {"opt": 3}
    flags.compute_capability = _capability
    context = cuda_target.target_context
    with numba_target_override(), users_code():
        found = compiler.compile_extra(
            typingctx=cuda_target.typing_context,
            targetctx=context,
            func=function,
            args=args,
            return_type=return_type,
            flags=flags,
            locals={},
            pipeline_class=_Compiler,
            call_conv=StoppingConvention(context),
            abi_info={},
        )
    found.library.finalize()
    return found


device_function = DeviceFunction
"""Decorator of functions of the library that kernels call."""

__all__ = ["Arithmetic", "Capability", "DeviceFunction", "compile_kernel", "cuda", "device_function", "return_type"]
_REMAINDER = re.compile(r"frem (float|double) ([^,]+), (\S+)")


class StoppingConvention(CUDACallConv):  # type: ignore[misc]
    """Exceptions stop the device: nothing there can raise them, and to continue would be silently wrong.

    numba-cuda ignores them without debug=True: https://github.com/NVIDIA/numba-cuda/issues/388
    """

    def return_user_exc(self, builder: Any, *about: Any, **more: Any) -> None:
        """Stop; the host gets the error from the next call that waits."""
        builder.call(ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "trap;", "", side_effect=True), [])
        super().return_user_exc(builder, *about, **more)


@contextmanager
def own_errors(typing: Any) -> Iterator[None]:
    """Turn errors of Numba's types into those of numba-cuda, which adds the place in the source only to its own.

    Which of the two is raised varies: https://github.com/NVIDIA/numba-cuda/pull/634
    """
    before = {name: getattr(typing, name) for name in ("resolve_function_type", "resolve_setitem")}
    for name, resolve in before.items():
        setattr(typing, name, _with_own_errors(resolve))
    try:
        yield
    finally:
        for name, resolve in before.items():
            setattr(typing, name, resolve)


_depth = 0
"""Nesting depth of the calls being resolved since the start of a user's function."""


def _with_own_errors(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolved(*given: Any) -> Any:
        global _depth
        _depth += 1
        try:
            return resolve(*given)
        except NumbaTypingError as error:
            # Inside alternatives that Numba tries in turn, a translated error would make it try more of them.
            if _depth > 1 or isinstance(error, TypingError):
                raise
            raise TypingError(str(error)) from None
        finally:
            _depth -= 1

    return resolved


@contextmanager
def users_code() -> Iterator[None]:
    """Make errors name their place in a user's function that is compiled meanwhile."""
    global _depth
    before, _depth = _depth, 0
    try:
        yield
    finally:
        _depth = before


def with_exact_remainders(module: str) -> str:
    """Have remainders of floats computed by libdevice, exactly; for NVVM they are x - trunc(x / y) * y.

    LLVM's own expansion for PTX is not accurate: https://github.com/llvm/llvm-project/pull/224141
    """
    names = {"float": "__nv_fmodf", "double": "__nv_fmod"}
    module = _REMAINDER.sub(lambda m: f'call {m[1]} @"{names[m[1]]}"({m[1]} {m[2]}, {m[1]} {m[3]})', module)
    for kind, name in names.items():
        if f'call {kind} @"{name}"' in module and f'declare {kind} @"{name}"' not in module:
            module += f'\ndeclare {kind} @"{name}"({kind}, {kind})\n'
    return module


_OF_MATH: dict[Any, Callable[[float], float]] = {
    np.sqrt: math.sqrt,
    np.exp: math.exp,
    np.expm1: math.expm1,
    np.log1p: math.log1p,
    np.fabs: math.fabs,
}
"""Functions whose code for the host calls the C library, and their replacements."""

_ABSENT = (np.exp2, np.ldexp, np.logaddexp, np.logaddexp2, np.nextafter, np.rint, np.spacing)
"""Functions without a replacement."""


def _by_math(function: Callable[[float], float]) -> Any:
    def implementation(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return get_unary_impl_for_fn_and_ty(function, signature.args[0])(context, builder, signature, args)

    return implementation


class _Absent(dict[str, Any]):
    """The missing code of a function, for all types."""

    def __init__(self, function: Any) -> None:
        self._name = function.__name__

    def get(self, types: str, default: Any = None) -> Any:
        raise NumbaTypingError(f"np.{self._name} is not there on devices: use a function of math, or arithmetic")


def _complete() -> None:
    known = functions_of_devices()
    for function in ufunc_db.get_ufuncs():
        known.setdefault(function, _Absent(function) if function in _ABSENT else ufunc_db.get_ufunc_info(function))
    for function, stand_in in _OF_MATH.items():
        known[function] = dict.fromkeys(("f->f", "d->d"), _by_math(stand_in))


_complete()
