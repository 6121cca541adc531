"""From a kernel and the specs of its arguments to PTX. Imports numba-cuda; needs no device."""

from __future__ import annotations

import itertools
import types as pytypes
from dataclasses import replace
from typing import Any

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.errors import readable_errors
from gondwana.compiler.types.arguments import array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import Footprint, recorder
from gondwana.compiler.types.points import PointType
from gondwana.compiler.types.unpack import Typing
from gondwana.errors import KernelError
from gondwana.kernels.arguments import refuse_records
from gondwana.kernels.cuda import shapes
from gondwana.kernels.cuda.accumulate import Folding, folding
from gondwana.kernels.cuda.arguments import loader
from gondwana.kernels.cuda.compiler import Arithmetic, Capability, compile_kernel, cuda, device_function, return_type
from gondwana.kernels.cuda.parts import Accesses, lanes, point_maker, seen_as, walker
from gondwana.kernels.cuda.shapes import HEADER_WORDS, Offset, Shape
from gondwana.kernels.cuda.sweeps import Body, Parts, sweep
from gondwana.kernels.cuda.views import Access
from gondwana.kernels.folding import check_no_value
from gondwana.kernels.variant import Variant


def build(function: pytypes.FunctionType, variant: Variant, shape: Shape, capability: Capability) -> ObjectCode:
    """Compile a kernel for one combination of argument specs and one shape of launches. Local.

    Raises:
        KernelError: the kernel does not type, or is to take records; the message says where and for which arguments.
    """
    refuse_records(function.__qualname__, variant.specs)
    number = recorder.new_kernel()
    scopes = len(array_specs(variant.specs)) if variant.disjoint else 0
    typing = Typing(working_precision(variant.specs), scopes, number)
    kinds = tuple(typing.type_of(spec) for spec in variant.specs)
    footprints, result = survey(function, variant.ndim, kinds, number, capability)
    if variant.operation is None:
        check_no_value(function.__qualname__, result)
    march = shapes.march(variant.ndim, variant.order)
    marching = march is not None and variant.dense and variant.disjoint and shape.held
    kernel = device_function(function)
    fold = folding(function.__qualname__, variant.operation, kernel, result, shape)

    def body_of(lanes: int) -> Body:
        accesses = accesses_of(variant, replace(shape, lanes=lanes), footprints, march if marching else None)
        return _body(variant, shape, accesses, fold, lanes)

    load = loader(variant.specs, kinds, HEADER_WORDS, variant.alike)
    point = point_maker(variant.ndim, variant.order)
    parts = Parts(load, point, body_of(shape.lanes), body_of(1), fold.start, fold.finish)
    body = sweep(cuda, device_function, shape, parts, marching=marching)
    return compiled(body, function, variant, shape, capability, footprints, fold.result)


def survey(
    function: pytypes.FunctionType, ndim: int, kinds: tuple[Any, ...], number: int, capability: Capability
) -> tuple[dict[int, Footprint], Any]:
    """Compile the kernel once for nothing but what it reads and writes, and the type of its result."""
    seen = tuple(seen_as(kind, {}) for kind in kinds)
    point = PointType(ndim, (0,) * ndim)
    try:
        with readable_errors(function.__qualname__, (point, *kinds)):
            result = return_type(device_function(function), (point, *seen), capability)
    except KernelError:
        recorder.finish(number)
        raise
    return recorder.finish(number), result


def compiled(
    body: Any,
    function: pytypes.FunctionType,
    variant: Variant,
    shape: Shape,
    capability: Capability,
    footprints: dict[int, Footprint],
    result: str = "",
) -> ObjectCode:
    """Compile a sweep; profilers and errors then show the name of the function that its author gave it."""
    body.__module__, body.__qualname__ = function.__module__, function.__qualname__
    words = HEADER_WORDS + sum(map(spec_words, variant.specs))
    arithmetic = Arithmetic(variant.contract, variant.flush)
    ptx, name = compile_kernel(body, words, capability, arithmetic, (shape.threads, shape.resident or 1))
    about: dict[str, object] = {
        "footprints": {str(slot): footprint.about() for slot, footprint in footprints.items()},
        "result": result,
    }
    return ObjectCode(ptx, name, False, False, [], about)


def accesses_of(variant: Variant, shape: Shape, footprints: dict[int, Footprint], march: Offset | None) -> Accesses:
    """How each array is reached."""
    streamed = shape.streamed and variant.disjoint
    row = shapes.row(variant.ndim, variant.order)
    found = {}
    for slot, footprint in footprints.items():
        if footprint.written:
            found[slot] = Access(streamed=streamed and not footprint.reads)
            continue
        held: tuple[Offset, ...] = ()
        if march is not None and not array_specs(variant.specs)[slot].scaled:
            held = _held(footprint.reads, march, row, shape)
        found[slot] = Access(held, shape.ahead if held else 0, constant=variant.disjoint)
    return found


def _held(reads: set[Offset], march: Offset, row: Offset, shape: Shape) -> tuple[Offset, ...]:
    """The offsets to hold, for all lanes: of each column along the march that is read in several planes."""
    axis = march.index(1)
    columns: dict[Offset, list[int]] = {}
    for offset in reads:
        foot = tuple(0 if i == axis else x for i, x in enumerate(offset))
        columns.setdefault(foot, []).append(offset[axis])
    held = set()
    for foot, planes in columns.items():
        if len(planes) < 2:
            continue
        for lane, plane in itertools.product(range(shape.lanes), range(min(planes), max(planes) + shape.ahead + 1)):
            moved = [f + lane * shape.x * r for f, r in zip(foot, row, strict=True)]
            moved[axis] = plane
            held.add(tuple(moved))
    return tuple(sorted(held))


def _body(variant: Variant, shape: Shape, accesses: Accesses, fold: Folding, count: int) -> Body:
    enter, advance, at = walker(accesses, shapes.march(variant.ndim, variant.order) or ())
    return Body(enter, advance, at, lanes(fold.step, variant.ndim, variant.order, count, shape.x))
