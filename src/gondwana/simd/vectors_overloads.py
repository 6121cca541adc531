"""`lanes` in compiled code: vectors of LLVM. Imports Numba."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, overload, register_model

from gondwana.compiler.inlining import INLINED
from gondwana.simd import vectors

_DOUBLE, _INT, _INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, vectors.WIDTH)
_INDICES = ir.VectorType(_INT32, vectors.WIDTH)


class LanesType(types.Type):  # type: ignore[misc]
    """The type of `Lanes`."""

    def __init__(self) -> None:
        super().__init__("Lanes")


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: LanesType) -> None:
        super().__init__(manager, kind, _VECTOR)


LANES = LanesType()


def _check(name: str, array: Any, dtype: Any) -> None:
    if not (isinstance(array, types.Array) and (array.ndim, array.layout, array.dtype) == (1, "C", dtype)):
        raise TypingError(f"{name} takes a contiguous one-dimensional array of {dtype}, not {array}")


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _as_vector(builder: Any, place: Any, vector: Any) -> Any:
    return builder.bitcast(place, vector.as_pointer())


@intrinsic
def _fill(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(vectors.WIDTH):
            vector = builder.insert_element(vector, args[0], ir.Constant(_INT32, lane))
        return vector

    return LANES(types.float64), codegen


@intrinsic
def _load(typingctx: Any, array: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        return builder.load(_as_vector(builder, place, _VECTOR), align=8)

    return LANES(array, types.int64), codegen


@intrinsic
def _gather(typingctx: Any, array: Any, indices: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.gep(_data(context, builder, indices, args[1]), [args[2]])
        columns = builder.load(_as_vector(builder, place, _INDICES), align=4)
        data = _data(context, builder, array, args[0])
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(vectors.WIDTH):
            number = ir.Constant(_INT32, lane)
            column = builder.zext(builder.extract_element(columns, number), _INT)
            vector = builder.insert_element(vector, builder.load(builder.gep(data, [column])), number)
        return vector

    return LANES(array, indices, types.int64), codegen


@intrinsic
def _store(typingctx: Any, array: Any, start: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        builder.store(args[2], _as_vector(builder, place, _VECTOR), align=8)
        return context.get_dummy_value()

    return types.none(array, types.int64, LANES), codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, near, data = ir.Constant(_INT32, 0), ir.Constant(_INT32, 3), ir.Constant(_INT32, 1)
        builder.call(function, [builder.bitcast(place, byte), read, near, data])
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@intrinsic
def _lane(typingctx: Any, value: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return types.float64(LANES, types.int64), codegen


@overload(vectors.fill, jit_options=INLINED)
def _overload_fill(value: Any) -> Any:
    def fill(value: Any) -> Any:
        return _fill(float(value))

    return fill


@overload(vectors.load, jit_options=INLINED)
def _overload_load(array: Any, start: Any) -> Any:
    _check("load", array, types.float64)

    def load(array: Any, start: Any) -> Any:
        return _load(array, start)

    return load


@overload(vectors.gather, jit_options=INLINED)
def _overload_gather(array: Any, indices: Any, start: Any) -> Any:
    _check("gather", array, types.float64)
    _check("gather", indices, types.uint32)

    def gather(array: Any, indices: Any, start: Any) -> Any:
        return _gather(array, indices, start)

    return gather


@overload(vectors.store, jit_options=INLINED)
def _overload_store(array: Any, start: Any, lanes: Any) -> Any:
    _check("store", array, types.float64)

    def store(array: Any, start: Any, lanes: Any) -> Any:
        return _store(array, start, lanes)

    return store


@overload(vectors.prefetch, jit_options=INLINED)
def _overload_prefetch(array: Any, start: Any) -> Any:
    _check("prefetch", array, getattr(array, "dtype", types.float64))

    def prefetch(array: Any, start: Any) -> None:
        _prefetch(array, start)

    return prefetch


@overload(vectors.add_up, jit_options=INLINED)
def _overload_add_up(lanes: Any) -> Any:
    def add_up(lanes: Any) -> Any:
        low = (_lane(lanes, 0) + _lane(lanes, 1)) + (_lane(lanes, 2) + _lane(lanes, 3))
        return low + ((_lane(lanes, 4) + _lane(lanes, 5)) + (_lane(lanes, 6) + _lane(lanes, 7)))

    return add_up


def _define(name: str, instruction: str) -> None:
    """Let an operator of Python be an instruction on lanes."""

    @intrinsic
    def apply(typingctx: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return LANES(LANES, LANES), codegen

    for symbol in getattr(operator, name), getattr(operator, f"i{name}"):

        @overload(symbol, jit_options=INLINED)
        def _overload_operator(left: Any, right: Any) -> Callable[..., Any] | None:
            def both(left: Any, right: Any) -> Any:
                return apply(left, right)

            return both if left is LANES and right is LANES else None


for _name in "add", "sub", "mul":
    _define(_name, f"f{_name}")
