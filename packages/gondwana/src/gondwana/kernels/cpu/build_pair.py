"""From two kernels, of which the second reads what the first leaves, to machine code for the host. Imports Numba."""

from __future__ import annotations

from typing import Any

from gondwana.compiler import checks
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.types.arguments import WORD, array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.records import named_dtype
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.kernels.cpu import pairs, prefetching
from gondwana.kernels.cpu.accumulate import Folding, folding
from gondwana.kernels.cpu.intermediates import placer, rings_in
from gondwana.kernels.cpu.launch import HEADER_WORDS, Half, footprints_about
from gondwana.kernels.cpu.raising import noting
from gondwana.kernels.cpu.sweeps import point_maker
from gondwana.kernels.intermediate import as_arrays, intermediates
from gondwana.kernels.variant import Variant, alike_among


def build_pair(
    halves: tuple[Half, Half], count: int, variant: Variant, mixed: frozenset[int] = frozenset()
) -> ObjectCode:
    """Compile two kernels into one sweep. Local.

    Args:
        halves: the kernels.
        count: how many of the arguments that `variant` describes are those of the first.
        variant: arguments of both, first and second, with intermediates numbered from 0; and the operation that folds
            the values of the second.
        mixed: the arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.

    Raises:
        KernelError: a kernel does not type; the message says where and for which arguments.
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
    run = called(pairs.sweep(loads, places, rows, fold.start, fold.store))

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    code = compile_entry(entry, 3)
    code.about.update(footprints=footprints_about(footprints), result=fold.result)
    return code


def _parts(halves: tuple[Half, Half], count: int, variant: Variant, number: int) -> list[tuple[Any, Any, Any, Folding]]:
    """For each kernel what loads its arguments, puts the rings into them, runs it along a row, and folds its values."""
    found = intermediates(variant.specs)
    kinds = {number: dtype for number, (dtype, _) in found.items()}
    arrays = len(array_specs(variant.specs))
    scopes, parts = arrays + len(kinds), []
    point = point_maker(3, variant.order)
    itemsize = max((named_dtype(spec.dtype).itemsize for spec in array_specs(variant.specs)), default=1)
    slots, offset = 0, HEADER_WORDS
    for writes, half, specs in zip((True, False), halves, (variant.specs[:count], variant.specs[count:]), strict=True):
        typing = Typing(working_precision(as_arrays(specs)), scopes, number, slots)
        own = tuple(
            rings_in(typing.type_of(spec), spec, variant.order, arrays, scopes, number, writes=writes) for spec in specs
        )
        alike = alike_among(variant.alike[slots : typing.slots])
        load = _loading(loader(specs, own, offset * WORD, alike))
        versions = [half] if half.inside is None else [half, half.inside]
        folds = [_folding(version, own, None if writes else variant.operation) for version in versions]
        # All versions are typed before: now the footprints are known.
        runs = [prefetching.row(point, f.step, variant.order, itemsize, recorder.kernels[number]) for f in folds]
        row = prefetching.split(runs[0], runs[1] if half.inside else None)
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


def _folding(half: Half, kinds: tuple[Any, ...], operation: str | None) -> Folding:
    point = PointType(3, (0, 0, 0))
    twin, value = typed(half.function, (point, *kinds), contract=half.contract, reassociate=half.reassociate)
    return folding(half.function.__qualname__, operation, noting(twin), value)
