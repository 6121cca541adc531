"""From a kernel and the specs of its arguments to machine code for the host. Imports Numba."""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable
from typing import Any, NamedTuple

from gondwana.compiler import checks
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.types.arguments import WORD, array_specs, working_precision
from gondwana.compiler.types.footprint import Footprint, recorder
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.errors import KernelError
from gondwana.kernels.cpu.accumulate import folding
from gondwana.kernels.cpu.launch import HEADER_WORDS, footprints_about
from gondwana.kernels.cpu.raising import noting
from gondwana.kernels.cpu.sweeps import sweep
from gondwana.kernels.variant import Variant


class Sweep(NamedTuple):
    """A kernel with the loops around it, ready to be compiled.

    Attributes:
        entry: the function `(block, thread, threads)`.
        footprints: on each array slot that it uses.
        result: dtype of the numbers that a reduction leaves, "" if there are none.
    """

    entry: Callable[[int, int, int], int]
    footprints: dict[int, Footprint]
    result: str


def build(function: pytypes.FunctionType, variant: Variant) -> ObjectCode:
    """Compile a kernel for one combination of argument specs. Local.

    Raises:
        KernelError: the kernel does not type; the message says where and for which arguments.
    """
    swept = sweep_of(function, variant)
    code = compile_entry(swept.entry, 3)
    code.about.update(footprints=footprints_about(swept.footprints), result=swept.result)
    return code


def sweep_of(function: pytypes.FunctionType, variant: Variant, mixed: frozenset[int] = frozenset()) -> Sweep:
    """Infer the types in a kernel and put the loops around it. Local; errors as for `build`.

    Args:
        function: the kernel.
        variant: for what it is compiled.
        mixed: the arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.
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
        return sweep_of(function, variant, found)
    fold = folding(function.__qualname__, variant.operation, noting(kernel), value)
    arguments = loader(variant.specs, kinds, HEADER_WORDS * WORD, variant.alike)

    @inlined
    def load(block: int) -> Any:
        return (block, *arguments(block))

    body = sweep(variant.ndim, variant.order, variant.dense, fold.step, load, fold.start, fold.store)
    run = called(body)

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    return Sweep(entry, recorder.finish(number), fold.result)


def _scopes(variant: Variant) -> int:
    return len(array_specs(variant.specs)) if variant.disjoint else 0
