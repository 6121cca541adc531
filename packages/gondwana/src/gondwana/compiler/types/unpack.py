"""From the argument block of a call to the typed values that compiled code works on: the other half of `arguments`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import default_manager
from numba.core.typing.typeof import typeof
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from gondwana.compiler.types.arguments import (
    WORD,
    ArraySpec,
    ConstantSpec,
    HandleSpec,
    NdarraySpec,
    PointSpec,
    ScalarSpec,
    Spec,
    TupleSpec,
    spec_words,
)
from gondwana.compiler.types.handle_types import build, family_type
from gondwana.compiler.types.integers import LARGE_WEAK, WEAK, plain
from gondwana.compiler.types.points import INT, PointType, make
from gondwana.compiler.types.records import is_record, named_dtype
from gondwana.compiler.types.records_overloads import element_type
from gondwana.compiler.types.views import FIELDS, RecordType, ViewType

_SINGLE = {"float64": "float32", "complex128": "complex64"}
_WEAK = {"int64": WEAK, "uint64": LARGE_WEAK}


@dataclass
class Typing:
    """The way in which the specs of one compilation become Numba types.

    Args:
        precision: type of weak Python floats, from `arguments.working_precision`.
        scopes: number of array slots that are known not to overlap, 0 if they may.
        kernel: number of the compilation, 0 outside of kernels.
    """

    precision: str = "float64"
    scopes: int = 0
    kernel: int = 0
    slots: int = 0

    def type_of(self, spec: Spec) -> Any:
        """The Numba type of the next argument; array slots are numbered in the order of the calls."""
        match spec:
            case ScalarSpec(dtype) if is_record(named_dtype(dtype)):
                return RecordType(scalar_type(dtype), None, None, readonly=True)
            case ScalarSpec(dtype, weak):
                if weak and dtype in _WEAK:
                    return _WEAK[dtype]
                return scalar_type(_SINGLE[dtype] if weak and self.precision == "float32" else dtype)
            case ArraySpec(dtype, ndim, unit, scaled, readonly):
                slot = self.slots
                self.slots += 1
                return ViewType(scalar_type(dtype), ndim, unit, scaled, readonly, (slot,), self.scopes, self.kernel)
            case NdarraySpec(dtype, ndim, layout, readonly):
                return types.Array(scalar_type(dtype), ndim, layout, readonly=readonly)
            case PointSpec(ndim):
                return PointType(ndim, None)
            case ConstantSpec(value):
                return types.literal(value) if isinstance(value, str) else typeof(value)
            case HandleSpec():
                return family_type(spec.family)(spec)
            case TupleSpec(items, cls):
                members = [plain(self.type_of(item)) for item in items]
                if cls is not None:
                    return types.NamedTuple(members, cls)
                return types.Tuple(members)


def scalar_type(dtype: str) -> Any:
    """The Numba type of an element of the dtype with this name."""
    return element_type(named_dtype(dtype))


@dataclass
class Reader:
    """Reads consecutive words of the argument block; `alike` as in `loader`."""

    context: Any
    builder: Any
    base: Any
    offset: int
    alike: tuple[int, ...]
    views: list[list[Any]] = field(default_factory=list)

    def read(self, kind: Any, words: int = 1) -> Any:
        """The next words as a value of an LLVM type."""
        return self.builder.load(self._place(kind, words))

    def _place(self, kind: Any, words: int) -> Any:
        """The pointer to the next words, which contain a value of an LLVM type."""
        address = self.builder.add(self.base, ir.Constant(INT, self.offset))
        self.offset += words * WORD
        return self.builder.inttoptr(address, kind.as_pointer())

    def integers(self, count: int) -> list[Any]:
        """The next words as integers."""
        return [self.read(INT) for _ in range(count)]

    def value(self, spec: Spec, kind: Any) -> Any:
        """The next argument."""
        match spec:
            case ScalarSpec():
                return self._scalar(spec, kind)
            case ArraySpec():
                return self._view(kind)
            case NdarraySpec():
                return self._ndarray(kind)
            case PointSpec(ndim):
                return make(self.context, self.builder, kind, self.integers(ndim))
            case ConstantSpec(value):
                return self.context.get_constant_generic(self.builder, kind, value)
            case HandleSpec(words=words):
                return build(self.context, self.builder, kind, self.integers(words))
            case TupleSpec(items):
                values = [self.value(item, member) for item, member in zip(items, kind.types, strict=True)]
                return self.context.make_tuple(self.builder, kind, values)

    def _scalar(self, spec: ScalarSpec, kind: Any) -> Any:
        stored, words = scalar_type(spec.dtype), spec_words(spec)
        data = self.context.get_data_type(stored)
        if isinstance(kind, RecordType):
            return self._place(data, words)
        value = default_manager[stored].from_data(self.builder, self.read(data, words))
        # A weak float travels as float64 and is rounded here, once a call.
        return self.context.cast(self.builder, value, stored, kind)

    def _view(self, kind: ViewType) -> Any:
        value = cgutils.get_null_value(self.context.get_value_type(kind))
        origin = self.read(self.context.get_data_type(kind.dtype).as_pointer())
        value = self.builder.insert_value(value, origin, 0)
        words = self.integers(len(FIELDS) * kind.ndim)
        self.views.append(words)
        if self.alike:
            words = [*self.views[self.alike[len(self.views) - 1]][: kind.ndim], *words[kind.ndim :]]
        for index, word in enumerate(words):
            value = self.builder.insert_value(value, word, 1 + index)
        return value

    def _ndarray(self, kind: Any) -> Any:
        array = arrayobj.make_array(kind)(self.context, self.builder)
        data = self.read(self.context.get_data_type(kind.dtype).as_pointer())
        arrayobj.populate_array(
            array,
            data=data,
            shape=cgutils.pack_array(self.builder, self.integers(kind.ndim)),
            strides=cgutils.pack_array(self.builder, self.integers(kind.ndim)),
            itemsize=self.context.get_constant(types.intp, numpy_support.as_dtype(kind.dtype).itemsize),
            meminfo=None,
        )
        return array._getvalue()


def loader(specs: tuple[Spec, ...], kinds: tuple[Any, ...], offset: int, alike: tuple[int, ...] = ()) -> Any:
    """A compiled function from the address of an argument block to the tuple of its arguments.

    Args:
        specs: specs of the arguments.
        kinds: their Numba types.
        offset: bytes of the block before the arguments.
        alike: for each array the first one that has the same strides. Using its strides lets the compiler share the
            index arithmetic of all arrays, which matters in short rows. Empty: each array has its own.
    """
    packed = types.Tuple(kinds)

    @intrinsic
    def load(typingctx: Any, block: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            reader = Reader(context, builder, args[0], offset, alike)
            values = [reader.value(spec, kind) for spec, kind in zip(specs, kinds, strict=True)]
            return context.make_tuple(builder, packed, values)

        return packed(types.int64), codegen

    return load
