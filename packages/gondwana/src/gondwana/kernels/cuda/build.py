"""From a kernel and the specs of its arguments, or from a fused pair, to PTX.

Imports numba-cuda; needs no device.
"""

from __future__ import annotations

import functools
import itertools
import math
import types as pytypes
from dataclasses import replace
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.cuda.extending import intrinsic

from gondwana.compiler.cache import ObjectCode, fingerprint
from gondwana.compiler.debugging.errors import readable_errors
from gondwana.compiler.types.arguments import WORD, ScalarSpec, Spec, array_specs, spec_words, working_precision
from gondwana.compiler.types.footprint import Footprint, recorder
from gondwana.compiler.types.points import INT, PointType
from gondwana.compiler.types.records import is_record, named_dtype
from gondwana.compiler.types.unpack import Reader, Typing
from gondwana.errors import KernelError
from gondwana.kernels.cuda import shapes
from gondwana.kernels.cuda.accumulate import Folding, folding
from gondwana.kernels.cuda.compiler import Arithmetic, Capability, compile_kernel, cuda, device_function, return_type
from gondwana.kernels.cuda.intermediates import IntermediateType, Tile, intermediates_in, keeper
from gondwana.kernels.cuda.parts import Accesses, aligner, inner_lanes, lanes, point_maker, seen_as, walker
from gondwana.kernels.cuda.shapes import HEADER_WORDS, Offset, Shape
from gondwana.kernels.cuda.sweeps import Body, PairParts, Parts, sweep, sweep_pair
from gondwana.kernels.cuda.views import Access
from gondwana.kernels.folding import check_no_value
from gondwana.kernels.intermediate import intermediates
from gondwana.kernels.variant import Variant, alike_among

Footprints = dict[int, Footprint]
Functions = tuple[pytypes.FunctionType, pytypes.FunctionType]


def build(function: pytypes.FunctionType, variant: Variant, shape: Shape, capability: Capability) -> ObjectCode:
    """Compile a kernel for one combination of argument specs and one shape of launches. Local.

    Raises:
        KernelError: the types in the kernel cannot be inferred; the message says where and for which arguments.
    """
    source = shape.source(any_block=variant.operation is None)
    built = _built(fingerprint(function), function, variant, source, capability)
    return replace(built, code=shape.text_for(built.code))


@functools.lru_cache(maxsize=8)
def _built(
    version: str, function: pytypes.FunctionType, variant: Variant, shape: Shape, capability: Capability
) -> ObjectCode:
    """The text of a kernel, kept for the next shapes of a trial; the version is that of the function's globals, too."""
    kinds, footprints, result = _surveyed(version, function, variant, capability)
    if variant.operation is None:
        check_no_value(function.__qualname__, result)
    march = shapes.march(variant.ndim, variant.order)
    marching = march is not None and variant.dense and variant.disjoint and shape.held
    kernel = device_function(function)
    fold = folding(function.__qualname__, variant.operation, kernel, result, shape)

    def body_of(lanes: int) -> Body:
        accesses = accesses_of(variant, replace(shape, lanes=lanes), footprints, march if marching else None, 1)
        return _body(variant, accesses, fold, lanes)

    load = loader(variant.specs, kinds, HEADER_WORDS, variant.alike)
    point = point_maker(variant.ndim, variant.order, dense=variant.dense)
    aligned = aligner(accesses_of(variant, shape, footprints, None, 1))
    parts = Parts(load, point, body_of(shape.lanes), body_of(1), aligned, fold.start, fold.finish)
    folds, flat = variant.operation is not None, variant.ndim == 1
    body = sweep(cuda, device_function, shape, parts, marching=marching, folding=folds, flat=flat)
    return compiled(body, function, variant, shape, capability, footprints, fold.result)


@functools.lru_cache(maxsize=8)
def _surveyed(
    version: str, function: pytypes.FunctionType, variant: Variant, capability: Capability
) -> tuple[tuple[Any, ...], Footprints, Any]:
    """The types of a kernel's arguments, its reads and writes, and the type of its result; kept as its texts."""
    number = recorder.new_kernel()
    scopes = len(array_specs(variant.specs)) if variant.disjoint else 0
    typing = Typing(working_precision(variant.specs), scopes, number)
    kinds = tuple(typing.type_of(spec) for spec in variant.specs)
    return kinds, *survey(function, variant.ndim, kinds, number, capability)


def survey(
    function: pytypes.FunctionType, ndim: int, kinds: tuple[Any, ...], number: int, capability: Capability
) -> tuple[dict[int, Footprint], Any]:
    """Compile the kernel once, only to find its reads and writes, and the type of its result."""
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
    """Compile a sweep; profilers and errors then show the name that the author gave the function."""
    body.__module__, body.__qualname__ = function.__module__, function.__qualname__
    words = HEADER_WORDS + sum(map(spec_words, variant.specs))
    arithmetic = Arithmetic(variant.contract, variant.flush)
    ptx, name = compile_kernel(body, words, capability, arithmetic)
    about: dict[str, object] = {
        "footprints": {str(slot): footprint.about() for slot, footprint in footprints.items()},
        "result": result,
    }
    return ObjectCode(ptx, name, False, False, [], about)


def accesses_of(
    variant: Variant, shape: Shape, footprints: dict[int, Footprint], march: Offset | None, distance: int
) -> Accesses:
    """The way to reach each array, where the points of a thread are a distance apart along the row."""
    row = shapes.row(variant.ndim, variant.order)
    found = {}
    for slot, footprint in footprints.items():
        spec = array_specs(variant.specs)[slot]
        packed = _packed(spec, row, shape.lanes) if distance == 1 and variant.dense and variant.disjoint else 0
        if footprint.written:
            found[slot] = Access(packed=packed)
            continue
        held: tuple[Offset, ...] = ()
        if march is not None and not spec.scaled and not is_record(named_dtype(spec.dtype)):
            held = _held(footprint.reads, march, row, shape, distance)
        found[slot] = Access(held, shape.ahead if held else 0, constant=variant.disjoint, packed=packed)
    return found


def _packed(spec: Any, row: Offset, lanes: int) -> int:
    """The number of elements of an array that are joined: 16 bytes, at least one; 0 if they do not lie in a row."""
    dtype = named_dtype(spec.dtype)
    if spec.scaled or spec.unit < 0 or spec.ndim != len(row) or not row[spec.unit] or is_record(dtype):
        return 0
    return math.gcd(lanes, max(1, 16 // dtype.itemsize))


def _held(reads: set[Offset], march: Offset, row: Offset, shape: Shape, distance: int) -> tuple[Offset, ...]:
    """The offsets to hold, for all lanes: of each column along the march that is read in several planes."""
    axis = march.index(1)
    columns: dict[Offset, set[int]] = {}
    for offset, lane in itertools.product(reads, range(shape.lanes)):
        moved = (x + lane * distance * r for x, r in zip(offset, row, strict=True))
        foot = tuple(0 if i == axis else x for i, x in enumerate(moved))
        columns.setdefault(foot, set()).add(offset[axis])
    held = set()
    for foot, planes in columns.items():
        for plane in range(min(planes), max(planes) + shape.ahead + 1) if len(planes) > 1 else ():
            held.add(tuple(plane if i == axis else x for i, x in enumerate(foot)))
    return tuple(sorted(held))


def _body(variant: Variant, accesses: Accesses, fold: Folding, count: int) -> Body:
    enter, advance, at = walker(accesses, shapes.march(variant.ndim, variant.order) or ())
    return Body(enter, advance, at, lanes(fold.step, variant.ndim, variant.order, count, 1))


def build_pair(functions: Functions, count: int, variant: Variant, shape: Shape, capability: Capability) -> ObjectCode:
    """Compile two kernels into one sweep. Local.

    Args:
        functions: the kernels.
        count: number of the arguments in `variant` that belong to the first.
        variant: arguments of both, first and second; intermediates numbered from 0.
        shape: shape of the launches.
        capability: compute capability to compile for.

    Raises:
        KernelError: the types in a kernel cannot be inferred; the message says where and for which arguments.
    """
    versions = fingerprint(functions[0]), fingerprint(functions[1])
    built = _built_pair(versions, functions, count, variant, shape.source(any_block=False), capability)
    return replace(built, code=shape.text_for(built.code))


@functools.lru_cache(maxsize=8)
def _built_pair(
    versions: tuple[str, str],
    functions: Functions,
    count: int,
    variant: Variant,
    shape: Shape,
    capability: Capability,
) -> ObjectCode:
    tile = Tile(shape, variant.ndim, variant.order)
    number = recorder.new_kernel()
    typing = Typing(working_precision(variant.specs), len(array_specs(variant.specs)), number)
    kinds = tuple(
        intermediates_in(typing.type_of(spec), spec, tile, writes=i < count) for i, spec in enumerate(variant.specs)
    )
    footprints = _surveyed_pair(functions, kinds, count, variant.ndim, capability, number)
    march = shapes.march(variant.ndim, variant.order)
    assert march is not None
    arrays = len(array_specs(variant.specs[:count]))
    # The second kernel does not march: it holds intermediates only.
    parted: tuple[Footprints, Footprints] = {}, {}
    for slot, footprint in footprints.items():
        parted[slot >= arrays][slot] = footprint
    accesses = accesses_of(variant, shape, parted[0], march if shape.held else None, shape.x)
    accesses |= accesses_of(variant, shape, parted[1], None, shape.x)
    parts = _parts(functions, count, variant, kinds, accesses, tile)
    body = sweep_pair(cuda, device_function, shape, parts)
    return compiled(body, functions[1], variant, shape, capability, footprints)


def _surveyed_pair(
    functions: Functions, kinds: tuple[Any, ...], count: int, ndim: int, capability: Capability, number: int
) -> Footprints:
    """The reads and writes of each kernel; those of the first count from the points of the second."""
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
) -> PairParts:
    shape, ndim, order = tile.shape, variant.ndim, variant.order
    first, second = (_runner(function, shape) for function in functions)
    enter, advance, at = walker(accesses, shapes.march(ndim, order) or ())
    make, leave, seen = keeper({n: dtype for n, (dtype, _) in intermediates(variant.specs).items()}, tile)
    cut = HEADER_WORDS + sum(map(spec_words, variant.specs[:count]))
    arrays = len(array_specs(variant.specs[:count]))
    alike = alike_among(variant.alike[:arrays]), alike_among(variant.alike[arrays:])
    return PairParts(
        load_first=loader(variant.specs[:count], kinds[:count], HEADER_WORDS, alike[0]),
        load_second=loader(variant.specs[count:], kinds[count:], cut, alike[1]),
        point=point_maker(ndim, order, dense=variant.dense),
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


class _Words(Reader):
    """Reads consecutive parameters, 64-bit words, instead of memory; `base` is the tuple of all."""

    def read(self, kind: Any, words: int = 1) -> Any:
        """The next words as a value of an LLVM type."""
        first = self.offset // WORD
        self.offset += words * WORD
        values = [self.builder.extract_value(self.base, first + i) for i in range(words)]
        if isinstance(kind, ir.LiteralStructType):
            return self._complex(kind, values)
        return _converted(self.builder, values[0], kind)

    def value(self, spec: Spec, kind: Any) -> Any:
        """The next argument; intermediates of fused pairs are filled in later."""
        if isinstance(kind, IntermediateType):
            return ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        return super().value(spec, kind)

    def _scalar(self, spec: ScalarSpec, kind: Any) -> Any:
        """A number; Python's floats come in the precision of the arrays (see `narrowed`)."""
        if spec.weak and kind == types.float32:
            return self.read(self.context.get_data_type(kind))
        return super()._scalar(spec, kind)

    def _place(self, kind: Any, words: int) -> Any:
        """The pointer to a copy of the next words: parameters have no addresses."""
        room = cgutils.alloca_once(self.builder, ir.ArrayType(INT, words))
        for place, word in enumerate(self.integers(words)):
            self.builder.store(word, self.builder.gep(room, [INT(0), INT(place)]))
        return self.builder.bitcast(room, kind.as_pointer())

    def _complex(self, kind: Any, values: list[Any]) -> Any:
        """Two numbers in one word or in two."""
        if len(values) == 1:
            values.append(self.builder.lshr(values[0], ir.Constant(INT, 32)))
        number = ir.Constant(kind, ir.Undefined)
        for i, part in enumerate(kind.elements):
            number = self.builder.insert_value(number, _converted(self.builder, values[i], part), i)
        return number


def _converted(builder: Any, word: Any, kind: Any) -> Any:
    """The low bits of a word as a value of an LLVM type."""
    if isinstance(kind, ir.PointerType):
        return builder.inttoptr(word, kind)
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(word, kind)
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(builder.trunc(word, ir.IntType(32)), kind)
    return word if kind == INT else builder.trunc(word, kind)


def loader(specs: tuple[Spec, ...], kinds: tuple[Any, ...], header: int, alike: tuple[int, ...]) -> Any:
    """A compiled function from the parameters of a kernel to the tuple of its arguments.

    Args:
        specs: specs of the arguments.
        kinds: their Numba types.
        header: number of words before these arguments.
        alike: for each array, the first array with the same strides.
    """
    packed = types.Tuple(kinds)

    @intrinsic
    def load(typingctx: Any, words: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            reader = _Words(context, builder, args[0], header * WORD, alike)
            values = [reader.value(spec, kind) for spec, kind in zip(specs, kinds, strict=True)]
            return context.make_tuple(builder, packed, values)

        return packed(words), codegen

    return load
