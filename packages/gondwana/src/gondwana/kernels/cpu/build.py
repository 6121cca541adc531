"""From a kernel and the specs of its arguments, or from a fused pair, to machine code for the host. Imports Numba.

Calls of a kernel note the point at which it raised: of several threads whose points raise, the first one notes its
exception and its point; a launch raises that one.
"""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, imputils
from numba.extending import intrinsic

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.debugging import checks
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.types.arguments import WORD, array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import Footprint, recorder
from gondwana.compiler.types.points import INT, PointType, coordinates
from gondwana.compiler.types.records import named_dtype
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.errors import KernelError
from gondwana.kernels.cpu import sweeps
from gondwana.kernels.cpu.accumulate import Folding, folding
from gondwana.kernels.cpu.intermediates import placer, rings_in
from gondwana.kernels.cpu.launch import HEADER_WORDS, RAISED, Half, footprints_about
from gondwana.kernels.intermediate import as_arrays, intermediates
from gondwana.kernels.variant import Variant, alike_among


class Sweep(NamedTuple):
    """A kernel with the loops around it, ready to be compiled.

    Attributes:
        entry: the function `(block, thread, threads)`.
        footprints: footprint on each array slot that it uses.
        result: dtype of a reduction's numbers, "" for other kernels.
    """

    entry: Callable[[int, int, int], int]
    footprints: dict[int, Footprint]
    result: str


def build(function: pytypes.FunctionType, variant: Variant) -> ObjectCode:
    """Compile a kernel for one combination of argument specs. Local.

    Raises:
        KernelError: the types in the kernel cannot be inferred; the message says where and for which arguments.
    """
    swept = sweep_of(function, variant)
    code = compile_entry(swept.entry, 3)
    code.about.update(footprints=footprints_about(swept.footprints), result=swept.result)
    return code


def sweep_of(function: pytypes.FunctionType, variant: Variant, mixed: frozenset[int] = frozenset()) -> Sweep:
    """Infer the types in a kernel and put the loops around it. Local; errors as for `build`.

    Args:
        function: the kernel.
        variant: variant to compile for.
        mixed: arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.
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
    fold = folding(function.__qualname__, variant.operation, noting(kernel), value, typing.scopes, number)
    arguments = loader(variant.specs, kinds, HEADER_WORDS * WORD, variant.alike)

    @inlined
    def load(block: int) -> Any:
        return (block, *arguments(block))

    point_at, exact = sweeps.point_maker(variant.ndim, variant.order), fold.settle is not None
    if exact:
        ask = sweeps.asker(variant.ndim - 1 if variant.order == "C" else 0, recorder.kernels[number], sweeps.AHEAD)
        row = sweeps.exact_row(point_at, fold, ask, _line(variant), dense=variant.dense)
    else:
        row = sweeps.plain_row(point_at, fold.step, dense=variant.dense)
    nest = sweeps.sweep_runs if variant.runs else sweeps.sweep
    body = nest(variant.ndim, row, load, fold.start, fold.store)
    run = called(sweeps.widest(body) if exact else body)

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    return Sweep(entry, recorder.finish(number), fold.result)


def build_pair(
    halves: tuple[Half, Half], count: int, variant: Variant, mixed: frozenset[int] = frozenset()
) -> ObjectCode:
    """Compile two kernels into one sweep. Local.

    Args:
        halves: the kernels.
        count: number of the arguments in `variant` that belong to the first.
        variant: arguments of both, first and second, with intermediates numbered from 0; and the operation that folds
            the values of the second.
        mixed: arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.

    Raises:
        KernelError: the types in a kernel cannot be inferred; the message says where and for which arguments.
    """
    number = recorder.new_kernel(mixed)
    try:
        loads, places, rows, folds = zip(*_parts(halves, count, variant, number), strict=True)
        found = recorder.mixed_slots(number)
    finally:
        footprints = recorder.finish(number)
    if checks.active() and found != mixed:
        return build_pair(halves, count, variant, found)
    fold = folds[1]
    run = called(sweeps.sweep_pair(loads, places, rows, fold.start, fold.store))

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    code = compile_entry(entry, 3)
    code.about.update(footprints=footprints_about(footprints), result=fold.result)
    return code


def _line(variant: Variant) -> int:
    """The number of the largest array elements in a cache line."""
    return sweeps.LINE // max(
        (min(sweeps.LINE, named_dtype(spec.dtype).itemsize) for spec in array_specs(variant.specs)), default=1
    )


def _scopes(variant: Variant) -> int:
    return len(array_specs(variant.specs)) if variant.disjoint else 0


def _parts(halves: tuple[Half, Half], count: int, variant: Variant, number: int) -> list[tuple[Any, Any, Any, Folding]]:
    """For each kernel the functions that load its arguments, put the rings into them, run it along a row, and fold."""
    found = intermediates(variant.specs)
    kinds = {number: dtype for number, (dtype, _) in found.items()}
    arrays = len(array_specs(variant.specs))
    scopes, parts = arrays + len(kinds), []
    point, line = sweeps.point_maker(3, variant.order), _line(variant)
    march = 0 if variant.order == "C" else 2
    slots, offset = 0, HEADER_WORDS
    for writes, half, specs in zip((True, False), halves, (variant.specs[:count], variant.specs[count:]), strict=True):
        typing = Typing(working_precision(as_arrays(specs)), scopes, number, slots)
        own = tuple(
            rings_in(typing.type_of(spec), spec, variant.order, arrays, scopes, number, writes=writes) for spec in specs
        )
        alike = alike_among(variant.alike[slots : typing.slots])
        load = _loading(loader(specs, own, offset * WORD, alike))
        versions = [half] if half.inside is None else [half, half.inside]
        operation = None if writes else variant.operation
        folds = [_folding(version, own, operation, scopes, number) for version in versions]
        # All versions are typed before: now the footprints are known.
        ask = sweeps.asker(march, recorder.kernels[number])
        runs = [sweeps.prefetching_row(point, fold, ask, line) for fold in folds]
        row = sweeps.split(runs[0], runs[1] if half.inside else None)
        parts.append((load, _placing(placer(kinds)), row, folds[0]))
        slots, offset = typing.slots, offset + sum(map(spec_words, specs))
    return parts


def _loading(arguments: Any) -> Any:
    @inlined
    def load(block: int) -> Any:
        return (block, arguments(block))

    return load


def _placing(place: Any) -> Any:
    @inlined
    def placed(given: Any, scratch: int, plane: int, row: int, first: int, number: int) -> Any:
        return (given[0], *place(given[1], scratch, plane, row, first, number))

    return placed


def _folding(half: Half, kinds: tuple[Any, ...], operation: str | None, scopes: int, number: int) -> Folding:
    point = PointType(3, (0, 0, 0))
    twin, value = typed(half.function, (point, *kinds), contract=half.contract, reassociate=half.reassociate)
    return folding(half.function.__qualname__, operation, noting(twin), value, scopes, number)


def noting(kernel: Any) -> Any:
    """Return a function that calls a kernel as `(p, block, *args)` and notes in the block where it raised."""

    @inlined
    def run(p: Any, block: int, *args: Any) -> Any:
        return _call_noting(kernel, p, block, args)

    return run


@intrinsic
def _call_noting(typingctx: Any, function: Any, p: Any, block: Any, args: Any) -> Any:
    """Call `function(p, *args)`; if it raises, note that in the argument block, then raise it again."""
    kinds = (p, *args.types)
    function.dispatcher.compile(kinds)
    compiled = function.dispatcher.overloads[kinds]

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.active_code_library.add_linking_library(compiled.library)
        unpacked = [builder.extract_value(values[3], index) for index in range(len(args.types))]
        given = [values[1], *unpacked]
        status, result = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, given)
        with cgutils.if_unlikely(builder, status.is_error):
            _note(builder, values[2], builder.ptrtoint(status.excinfoptr, INT), coordinates(builder, p, values[1]))
            context.call_conv.return_status_propagate(builder, status)
        return imputils.fix_returning_optional(context, builder, compiled.signature, status, result)

    return compiled.signature.return_type(function, p, block, args), codegen


def _note(builder: Any, block: Any, exception: Any, point: list[Any]) -> None:
    def word(number: int) -> Any:
        return builder.inttoptr(builder.add(block, ir.Constant(INT, WORD * number)), INT.as_pointer())

    noted = builder.cmpxchg(word(RAISED), ir.Constant(INT, 0), exception, "monotonic")
    with builder.if_then(builder.extract_value(noted, 1)):
        for axis, coordinate in enumerate(point):
            builder.store(coordinate, word(RAISED + 1 + axis))
