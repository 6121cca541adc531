"""`simd` in compiled code: vectors of LLVM. Imports Numba."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, overload_method, register_model

from gondwana.compiler.debugging import checks
from gondwana.compiler.debugging.checks_overloads import check_element, check_item
from gondwana.compiler.inlining import INLINED
from gondwana.compiler.types import views
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.views import ViewType
from gondwana.simd import vectors

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_DTYPES = {getattr(types, name) for name in vectors.DTYPES}
_FLOATS = {types.float64, types.float32}


class VectorType(types.Type):  # type: ignore[misc]
    """The type of a `Vector` of this width and Numba type of an element."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(f"Vector({dtype}, {width})")

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return isinstance(self.dtype, types.Float)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.width))


def _vector_type(dtype: Any, width: Any) -> VectorType:
    """The type of vectors of elements of a type, `width` being the type of a literal."""
    dtype = types.unliteral(dtype)
    if dtype not in _DTYPES:
        raise TypingError(f"vectors have no elements of {dtype}: only of {', '.join(vectors.DTYPES)}")
    count = getattr(width, "literal_value", None)
    if count not in vectors.WIDTHS:
        raise TypingError("a vector has a width of 2, 4, 8 or 16, a constant: write it out, or make it a global")
    return VectorType(dtype, count)


def _check_array(name: str, array: Any, start: Any) -> None:
    """Refuse arrays whose neighbours are not adjacent in memory, or an index that they do not have."""
    if isinstance(array, ViewType):
        if array.unit != array.ndim - 1 or array.scaled:
            raise TypingError(f"{name} takes an array whose last axis is contiguous, not {array}")
        if not views.is_index(array, start):
            raise TypingError(f"{name} starts at {start}: give an index of an array of {array.ndim} axes")
        return
    _check_row(name, array)
    if not isinstance(start, types.Integer):
        raise TypingError(f"{name} starts at {start}: give an integer")


def _check_row(name: str, array: Any) -> None:
    if not (isinstance(array, types.Array) and (array.ndim, array.layout) == (1, "C")):
        raise TypingError(f"{name} takes a contiguous one-dimensional array, not {array}")


def _check_written(name: str, array: Any, vector: Any) -> None:
    """Refuse to write elements of another dtype into an array."""
    if not isinstance(vector, VectorType):
        raise TypingError(f"{name} takes a vector, not {vector}")
    if array.readonly if isinstance(array, ViewType) else not array.mutable:
        raise TypingError(f"{name} takes an array that may be written, not {array}")
    if array.dtype != vector.dtype:
        raise TypingError(f"{name} takes a vector of {array.dtype}, as the array has, not {vector}")


def _check_indices(name: str, indices: Any) -> None:
    if not isinstance(indices, VectorType) or indices.is_float:
        raise TypingError(f"{name} takes a vector of integers as indices, not {indices}")


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any, start: Any, *, written: bool) -> Any:
    """The pointer to an element."""
    if isinstance(kind, ViewType):
        recorder.record(kind, types.int64, written=written)  # more than one element: no constant offset
        return views.address(context, builder, kind, array, index, start)
    first = context.make_array(kind)(context, builder, array).data
    return builder.gep(first, [context.cast(builder, start, index, types.int64)])


def _check_row_at(context: Any, builder: Any, kind: Any, array: Any, index: Any, start: Any, count: int) -> None:
    """Emit the check that `count` elements from an index on are inside an array, if accesses are checked."""
    if not checks.active():
        return
    access = checks.Description("", count=count)
    if isinstance(kind, ViewType):
        coordinates = views.index_values(context, builder, index, start)
        check_element(context, builder, kind, array, coordinates, access)
    else:
        check_item(
            context, builder, kind, array, [(0, context.cast(builder, start, index, types.int64), False)], access
        )


def _as_vector(context: Any, builder: Any, place: Any, kind: VectorType) -> Any:
    return builder.bitcast(place, context.get_value_type(kind).as_pointer())


def _lanes(kind: VectorType) -> list[Any]:
    return [ir.Constant(_INT32, lane) for lane in range(kind.width)]


def _spread(context: Any, builder: Any, kind: VectorType, value: Any) -> Any:
    """A vector with a value in each element."""
    vector = ir.Constant(context.get_value_type(kind), ir.Undefined)
    for lane in _lanes(kind):
        vector = builder.insert_element(vector, value, lane)
    return vector


def _itemsize(kind: Any) -> int:
    return int(kind.dtype.bitwidth) // 8


@intrinsic(prefer_literal=True)
def _fill(typingctx: Any, value: Any, width: Any) -> Any:
    kind = _vector_type(value, width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(context, builder, kind, args[0])

    return kind(kind.dtype, width), codegen


@intrinsic(prefer_literal=True)
def _load(typingctx: Any, array: Any, start: Any, width: Any) -> Any:
    kind = _vector_type(array.dtype, width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _check_row_at(context, builder, array, args[0], start, args[1], kind.width)
        place = _place(context, builder, array, args[0], start, args[1], written=False)
        loaded = builder.load(_as_vector(context, builder, place, kind), align=_itemsize(kind))
        if isinstance(array, ViewType):
            views.mark(builder, loaded, array)
        return loaded

    return kind(array, start, width), codegen


@intrinsic
def _store(typingctx: Any, array: Any, start: Any, vector: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _check_row_at(context, builder, array, args[0], start, args[1], vector.width)
        place = _place(context, builder, array, args[0], start, args[1], written=True)
        stored = builder.store(args[2], _as_vector(context, builder, place, vector), align=_itemsize(vector))
        if isinstance(array, ViewType):
            views.mark(builder, stored, array)
        return context.get_dummy_value()

    return types.none(array, start, vector), codegen


def _at_indices(context: Any, builder: Any, array: Any, indices: VectorType, args: Any) -> list[Any]:
    """The pointers to the elements of an array at the indices in a vector."""
    data = context.make_array(array)(context, builder, args[0]).data
    wide = _INT if indices.dtype.bitwidth < 64 else None
    places = []
    for lane in _lanes(indices):
        index = builder.extract_element(args[1], lane)
        if wide:
            index = (builder.sext if indices.dtype.signed else builder.zext)(index, wide)
        if checks.active():
            check_item(context, builder, array, args[0], [(0, index, False)], checks.Description(""))
        places.append(builder.gep(data, [index]))
    return places


@intrinsic
def _gather(typingctx: Any, array: Any, indices: Any) -> Any:
    kind = VectorType(array.dtype, indices.width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.Constant(context.get_value_type(kind), ir.Undefined)
        for lane, place in zip(_lanes(kind), _at_indices(context, builder, array, indices, args), strict=True):
            vector = builder.insert_element(vector, builder.load(place), lane)
        return vector

    return kind(array, indices), codegen


@intrinsic
def _scatter(typingctx: Any, array: Any, indices: Any, vector: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for lane, place in zip(_lanes(vector), _at_indices(context, builder, array, indices, args), strict=True):
            builder.store(builder.extract_element(args[2], lane), place)
        return context.get_dummy_value()

    return types.none(array, indices, vector), codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, start: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, array, args[0], start, args[1], written=False)
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, near, data = ir.Constant(_INT32, 0), ir.Constant(_INT32, 3), ir.Constant(_INT32, 1)
        builder.call(function, [builder.bitcast(place, byte), read, near, data])
        return context.get_dummy_value()

    return types.none(array, start), codegen


@overload(vectors.fill, jit_options=INLINED, prefer_literal=True)
def _overload_fill(value: Any, width: Any) -> Any:
    _vector_type(value, width)

    def fill(value: Any, width: Any) -> Any:
        return _fill(value, width)

    return fill


@overload(vectors.load, jit_options=INLINED, prefer_literal=True)
def _overload_load(array: Any, start: Any, width: Any) -> Any:
    _check_array("load", array, start)
    _vector_type(array.dtype, width)

    def load(array: Any, start: Any, width: Any) -> Any:
        return _load(array, start, width)

    return load


@overload(vectors.store, jit_options=INLINED)
def _overload_store(array: Any, start: Any, vector: Any) -> Any:
    _check_array("store", array, start)
    _check_written("store", array, vector)

    def store(array: Any, start: Any, vector: Any) -> Any:
        return _store(array, start, vector)

    return store


@overload(vectors.gather, jit_options=INLINED)
def _overload_gather(array: Any, indices: Any) -> Any:
    _check_row("gather", array)
    _check_indices("gather", indices)
    if array.dtype not in _DTYPES:
        raise TypingError(f"gather takes an array of {', '.join(vectors.DTYPES)}, not {array}")

    def gather(array: Any, indices: Any) -> Any:
        return _gather(array, indices)

    return gather


@overload(vectors.scatter, jit_options=INLINED)
def _overload_scatter(array: Any, indices: Any, vector: Any) -> Any:
    _check_row("scatter", array)
    _check_indices("scatter", indices)
    _check_written("scatter", array, vector)
    if indices.width != vector.width:
        raise TypingError(f"scatter takes as many indices as elements, not {indices.width} for {vector}")

    def scatter(array: Any, indices: Any, vector: Any) -> Any:
        return _scatter(array, indices, vector)

    return scatter


@overload(vectors.prefetch, jit_options=INLINED)
def _overload_prefetch(array: Any, start: Any) -> Any:
    _check_array("prefetch", array, start)

    def prefetch(array: Any, start: Any) -> None:
        _prefetch(array, start)

    return prefetch


_Emit = Callable[..., Any]
"""A function of a builder, the type of a vector and operands: two LLVM values of its type or of its elements."""


def _common(name: str, kinds: tuple[Any, ...]) -> Any:
    """The type of vector that an operation works on; None if no operand is one."""
    found = {kind for kind in kinds if isinstance(kind, VectorType)}
    if not found:
        return None
    if len(found) > 1:
        raise TypingError(f"{name} takes vectors of one width and dtype, not {' and '.join(map(str, kinds))}")
    common = found.pop()
    for kind in kinds:
        number = isinstance(kind, types.Integer) or (isinstance(kind, types.Float) and common.is_float)
        if not number and kind != common:
            raise TypingError(f"{name} takes {common} and numbers of its kind, not {kind}")
    return common


def _operands(context: Any, builder: Any, common: VectorType, kinds: Any, values: Any) -> list[Any]:
    """The operands as vectors."""
    return [
        value if kind == common else _spread(context, builder, common, context.cast(builder, value, kind, common.dtype))
        for kind, value in zip(kinds, values, strict=True)
    ]


def _define_operator(symbol: Callable[..., Any], name: str, emit: _Emit, *, floats: bool = False) -> None:
    """Let an operator of Python work on vectors, and on a vector and a number."""

    @infer_global(symbol)
    class _Operator(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            common = _common(name, args)
            if common is None:
                return None
            if floats and not common.is_float:
                raise TypingError(f"{name} is for vectors of floats, not {common}")
            return signature(common, *map(types.unliteral, args))

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        common = sig.return_type
        return emit(builder, common, *_operands(context, builder, common, sig.args, args))

    for kinds in (VectorType, VectorType), (VectorType, types.Number), (types.Number, VectorType), (VectorType,):
        lower_builtin(symbol, *kinds)(lower)


def _instruction(name: str) -> _Emit:
    """The instruction of this name; for floats that with f before it."""

    def emit(builder: Any, kind: VectorType, *operands: Any) -> Any:
        return getattr(builder, f"f{name}" if kind.is_float else name)(*operands)

    return emit


def _least(builder: Any, kind: VectorType, left: Any, right: Any) -> Any:
    return builder.select(_compare(builder, kind, "<", right, left), right, left)


def _greatest(builder: Any, kind: VectorType, left: Any, right: Any) -> Any:
    return builder.select(_compare(builder, kind, ">", right, left), right, left)


def _compare(builder: Any, kind: VectorType, symbol: str, left: Any, right: Any) -> Any:
    if kind.is_float:
        return builder.fcmp_ordered(symbol, left, right)
    return (builder.icmp_signed if kind.dtype.signed else builder.icmp_unsigned)(symbol, left, right)


def _fused(builder: Any, kind: VectorType, *operands: Any) -> Any:
    vector = operands[0].type
    name = f"llvm.fma.v{kind.width}f{kind.dtype.bitwidth}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
    return builder.call(function, operands)


for _name in "add", "sub", "mul":
    for _symbol in getattr(operator, _name), getattr(operator, f"i{_name}"):
        _define_operator(_symbol, _name, _instruction(_name))
for _symbol in operator.truediv, operator.itruediv:
    _define_operator(_symbol, "division", _instruction("div"), floats=True)
_define_operator(operator.neg, "minus", _instruction("neg"))


def _define_function(function: Any, name: str, emit: _Emit) -> None:
    """Let a function of two operands work on vectors, and on a vector and a number."""

    @intrinsic
    def apply(typingctx: Any, left: Any, right: Any) -> Any:
        common = _common(name, (left, right))

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, common, *_operands(context, builder, common, (left, right), args))

        return common(left, right), codegen

    @overload(function, jit_options=INLINED)
    def _overload_function(left: Any, right: Any) -> Any:
        if _common(name, (left, right)) is None:
            raise TypingError(f"{name} takes vectors, not {left} and {right}")

        def both(left: Any, right: Any) -> Any:
            return apply(left, right)

        return both


_define_function(vectors.minimum, "minimum", _least)
_define_function(vectors.maximum, "maximum", _greatest)


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    kinds = (a, b, c)
    common = _common("fma", kinds)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _fused(builder, common, *_operands(context, builder, common, kinds, args))

    return common(*kinds), codegen


@overload(vectors.fma, jit_options=INLINED)
def _overload_fma(a: Any, b: Any, c: Any) -> Any:
    common = _common("fma", (a, b, c))
    if common is None or not common.is_float:
        raise TypingError(f"fma takes vectors of floats, not {a}, {b} and {c}")

    def fma(a: Any, b: Any, c: Any) -> Any:
        return _fma(a, b, c)

    return fma


@intrinsic
def _astype(typingctx: Any, vector: Any, dtype: Any) -> Any:
    kind = VectorType(dtype.dtype, vector.width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = context.get_value_type(kind)
        if not vector.is_float:
            return (builder.sitofp if vector.dtype.signed else builder.uitofp)(args[0], target)
        if vector.dtype == kind.dtype:
            return args[0]
        return (builder.fptrunc if kind.dtype == types.float32 else builder.fpext)(args[0], target)

    return kind(vector, dtype), codegen


@overload_method(VectorType, "astype", jit_options=INLINED)
def _overload_astype(vector: Any, dtype: Any) -> Any:
    if getattr(dtype, "dtype", None) not in _FLOATS:
        raise TypingError(f"astype takes np.float64 or np.float32, not {dtype}")

    def astype(vector: Any, dtype: Any) -> Any:
        return _astype(vector, dtype)

    return astype


def _define_method(name: str, emit: _Emit) -> None:
    """Let a method combine the elements of a vector: the two halves, each combined in the same way."""

    @intrinsic
    def combine(typingctx: Any, vector: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def of(lanes: list[Any]) -> Any:
                if len(lanes) == 1:
                    return builder.extract_element(args[0], lanes[0])
                half = len(lanes) // 2
                return emit(builder, vector, of(lanes[:half]), of(lanes[half:]))

            return of(_lanes(vector))

        return vector.dtype(vector), codegen

    @overload_method(VectorType, name, jit_options=INLINED)
    def _overload_method(vector: Any) -> Any:
        def method(vector: Any) -> Any:
            return combine(vector)

        return method


_define_method("sum", _instruction("add"))
_define_method("min", _least)
_define_method("max", _greatest)
