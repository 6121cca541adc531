"""From two kernels, of which the second reads what the first leaves, to PTX. Imports numba-cuda; needs no device."""

from __future__ import annotations

import types as pytypes
from typing import Any

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.types.arguments import array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import Footprint, recorder
from gondwana.compiler.types.unpack import Typing
from gondwana.kernels.arguments import refuse_records
from gondwana.kernels.cuda import pairs, shapes
from gondwana.kernels.cuda.accumulate import folding
from gondwana.kernels.cuda.arguments import loader
from gondwana.kernels.cuda.build import accesses_of, compiled, survey
from gondwana.kernels.cuda.compiler import Capability, cuda, device_function
from gondwana.kernels.cuda.intermediates import Tile, keeper, middles_in
from gondwana.kernels.cuda.parts import Accesses, inner_lanes, lanes, point_maker, walker
from gondwana.kernels.cuda.shapes import HEADER_WORDS, Shape
from gondwana.kernels.folding import check_no_value
from gondwana.kernels.intermediate import intermediates
from gondwana.kernels.variant import Variant, alike_among

Footprints = dict[int, Footprint]
Functions = tuple[pytypes.FunctionType, pytypes.FunctionType]


def build_pair(functions: Functions, count: int, variant: Variant, shape: Shape, capability: Capability) -> ObjectCode:
    """Compile two kernels into one sweep. Local.

    Args:
        functions: the kernels.
        count: how many of the arguments that `variant` describes are those of the first.
        variant: arguments of both, first and second; intermediates numbered from 0.
        shape: of the launches.
        capability: to compile for.

    Raises:
        KernelError: a kernel does not type; the message says where and for which arguments.
    """
    refuse_records(" and ".join(function.__qualname__ for function in functions), variant.specs)
    tile = Tile(shape, variant.ndim, variant.order)
    number = recorder.new_kernel()
    typing = Typing(working_precision(variant.specs), len(array_specs(variant.specs)), number)
    kinds = tuple(
        middles_in(typing.type_of(spec), spec, tile, writes=i < count) for i, spec in enumerate(variant.specs)
    )
    footprints = _surveyed(functions, kinds, count, variant.ndim, capability, number)
    march = shapes.march(variant.ndim, variant.order)
    assert march is not None
    arrays = len(array_specs(variant.specs[:count]))
    # The second kernel does not march: it holds intermediates only.
    parted: tuple[Footprints, Footprints] = {}, {}
    for slot, footprint in footprints.items():
        parted[slot >= arrays][slot] = footprint
    accesses = accesses_of(variant, shape, parted[0], march if shape.held else None)
    accesses |= accesses_of(variant, shape, parted[1], None)
    parts = _parts(functions, count, variant, kinds, accesses, tile)
    return compiled(pairs.sweep(cuda, shape, parts), functions[1], variant, shape, capability, footprints)


def _surveyed(
    functions: Functions, kinds: tuple[Any, ...], count: int, ndim: int, capability: Capability, number: int
) -> Footprints:
    """What each kernel reads and writes; that of the first counts from the points of the second."""
    parts = kinds[:count], kinds[count:]
    found: Footprints = {}
    for function, arguments in zip(functions, parts, strict=True):
        seen, result = survey(function, ndim, arguments, number, capability)
        check_no_value(function.__qualname__, result)
        found |= seen
        recorder.kernels[number] = {}
    recorder.finish(number)
    return found


def _parts(
    functions: Functions, count: int, variant: Variant, kinds: tuple[Any, ...], accesses: Accesses, tile: Tile
) -> pairs.PairParts:
    shape, ndim, order = tile.shape, variant.ndim, variant.order
    first, second = (_runner(function, shape) for function in functions)
    enter, advance, at = walker(accesses, shapes.march(ndim, order) or ())
    make, leave, seen = keeper({n: dtype for n, (dtype, _) in intermediates(variant.specs).items()}, tile)
    cut = HEADER_WORDS + sum(map(spec_words, variant.specs[:count]))
    arrays = len(array_specs(variant.specs[:count]))
    alike = alike_among(variant.alike[:arrays]), alike_among(variant.alike[arrays:])
    return pairs.PairParts(
        load_first=loader(variant.specs[:count], kinds[:count], HEADER_WORDS, alike[0]),
        load_second=loader(variant.specs[count:], kinds[count:], cut, alike[1]),
        point=point_maker(ndim, order),
        enter=enter,
        advance=advance,
        at=at,
        make=make,
        leave=leave,
        seen=seen,
        first=lanes(first, ndim, order, shape.lanes, shape.x),
        second=inner_lanes(second, ndim, order, shape, shape.lanes),
    )


def _runner(function: pytypes.FunctionType, shape: Shape) -> Any:
    return folding(function.__qualname__, None, device_function(function), None, shape).step
