"""From two kernels, of which the second reads what the first leaves, to machine code for the host. Imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.compiler import checks
from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.types.arguments import WORD, array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.unpack import Typing, loader
from gondwana.kernels.cpu import pairs, prefetching
from gondwana.kernels.cpu.intermediates import placer, rings_in
from gondwana.kernels.cpu.launch import HEADER_WORDS, Half, footprints_about
from gondwana.kernels.cpu.raising import noting
from gondwana.kernels.cpu.sweeps import point_maker
from gondwana.kernels.folding import check_no_value
from gondwana.kernels.intermediate import as_arrays, intermediates
from gondwana.kernels.variant import Variant, alike_among


def build_pair(
    halves: tuple[Half, Half], count: int, variant: Variant, mixed: frozenset[int] = frozenset()
) -> ObjectCode:
    """Compile two kernels into one sweep. Local.

    Args:
        halves: the kernels.
        count: how many of the arguments that `variant` describes are those of the first.
        variant: arguments of both, first and second; intermediates numbered from 0.
        mixed: the arrays, by slot, all of whose accesses are checked in compiled code; see `Recorder`.

    Raises:
        KernelError: a kernel does not type; the message says where and for which arguments.
    """
    number = recorder.new_kernel(mixed)
    try:
        loads, places, rows = zip(*_parts(halves, count, variant, number), strict=True)
        found = recorder.mixed_slots(number)
    finally:
        footprints = recorder.finish(number)
    if checks.active() and found != mixed:
        return build_pair(halves, count, variant, found)
    run = called(pairs.sweep(loads, places, rows))

    def entry(block: int, thread: int, threads: int) -> int:
        return guarded(run, block, (thread, threads))  # type: ignore[no-any-return]

    code = compile_entry(entry, 3)
    code.about.update(footprints=footprints_about(footprints), result="")
    return code


def _parts(halves: tuple[Half, Half], count: int, variant: Variant, number: int) -> list[tuple[Any, Any, Any]]:
    """For each kernel what loads its arguments, puts the rings into them, and runs it along a row."""
    found = intermediates(variant.specs)
    kinds = {number: dtype for number, (dtype, _) in found.items()}
    arrays = len(array_specs(variant.specs))
    scopes, parts = arrays + len(kinds), []
    point = point_maker(3, variant.order)
    itemsize = max((np.dtype(spec.dtype).itemsize for spec in array_specs(variant.specs)), default=1)
    slots, offset = 0, HEADER_WORDS
    for half, specs in zip(halves, (variant.specs[:count], variant.specs[count:]), strict=True):
        writes = half is halves[0]
        typing = Typing(working_precision(as_arrays(specs)), scopes, number, slots)
        own = tuple(
            rings_in(typing.type_of(spec), spec, variant.order, arrays, scopes, number, writes=writes) for spec in specs
        )
        alike = alike_among(variant.alike[slots : typing.slots])
        load = _loading(loader(specs, own, offset * WORD, alike))
        step = _step(half, own)
        row = prefetching.row(point, step, variant.order, itemsize, recorder.kernels[number])
        parts.append((load, _placing(placer(kinds)), row))
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


def _step(half: Half, kinds: tuple[Any, ...]) -> Any:
    point = PointType(3, (0, 0, 0))
    twin, value = typed(half.function, (point, *kinds), contract=half.contract, reassociate=half.reassociate)
    check_no_value(half.function.__qualname__, value)
    kernel = noting(twin)

    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        kernel(p, *args)
        return total

    return step
