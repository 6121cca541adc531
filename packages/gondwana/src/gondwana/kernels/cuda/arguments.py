"""From the parameters of a kernel on a device to the typed values that it works on. Imports numba-cuda."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.cuda.extending import intrinsic

from gondwana.compiler.types.arguments import WORD, ScalarSpec, Spec
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.unpack import Reader
from gondwana.kernels.cuda.intermediates import MiddleType


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
        if isinstance(kind, MiddleType):
            return ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        return super().value(spec, kind)

    def _scalar(self, spec: ScalarSpec, kind: Any) -> Any:
        """A number; Python's floats come in the precision of the arrays (see `narrowed`)."""
        if spec.weak and kind == types.float32:
            return self.read(self.context.get_data_type(kind))
        return super()._scalar(spec, kind)

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
        specs: of the arguments.
        kinds: their Numba types.
        header: words before these arguments.
        alike: for each array the first one that has the same strides.
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
