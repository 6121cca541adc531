"""From a kernel and the specs of its arguments to machine code for the host. Imports Numba."""

from __future__ import annotations

import types as pytypes
from typing import Any

from gondwana.compiler import checks
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.types.arguments import WORD, array_specs, working_precision
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.errors import KernelError
from gondwana.kernels.cpu.accumulate import Folding, fold, no_start, no_store
from gondwana.kernels.cpu.launch import HEADER_WORDS, footprints_about
from gondwana.kernels.cpu.raising import noting
from gondwana.kernels.cpu.sweeps import sweep
from gondwana.kernels.folding import check_no_value
from gondwana.kernels.variant import Variant


def build(function: pytypes.FunctionType, variant: Variant, mixed: frozenset[int] = frozenset()) -> ObjectCode:
    """Compile a kernel for one combination of argument specs. Local.

    Args:
        function: the kernel.
        variant: for what it is compiled.
        mixed: the arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.

    Raises:
        KernelError: the kernel does not type; the message says where and for which arguments.
    """
    number = recorder.new_kernel(mixed)
    typing = Typing(working_precision(variant.specs), _scopes(variant), number)
    kinds = tuple(typing.type_of(spec) for spec in variant.specs)
    point = PointType(variant.ndim, (0,) * variant.ndim)
    try:
        kernel, value = typed(function, (point, *kinds), contract=variant.contract, reassociate=variant.reassociate)
    except KernelError:
        recorder.finish(number)
        raise
    found = recorder.mixed_slots(number)
    if checks.active() and found != mixed:
        recorder.finish(number)
        return build(function, variant, found)
    folding = _folding(function, noting(kernel), value, variant)
    arguments = loader(variant.specs, kinds, HEADER_WORDS * WORD, variant.alike)

    @inlined
    def load(block: int) -> Any:
        return (block, *arguments(block))

    body = sweep(variant.ndim, variant.order, variant.dense, folding.step, load, folding.start, folding.store)
    run = called(body)

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    code = compile_entry(entry, 3)
    code.about.update(footprints=footprints_about(recorder.finish(number)), result=folding.result)
    return code


def _scopes(variant: Variant) -> int:
    return len(array_specs(variant.specs)) if variant.disjoint else 0


def _folding(function: pytypes.FunctionType, kernel: Any, value: Any, variant: Variant) -> Folding:
    if variant.operation is None:
        check_no_value(function.__qualname__, value)

        @inlined
        def step(total: Any, p: Any, args: Any) -> Any:
            kernel(p, *args)
            return total

        return Folding(step, no_start, no_store, "")
    return fold(function.__qualname__, variant.operation, kernel, value)
