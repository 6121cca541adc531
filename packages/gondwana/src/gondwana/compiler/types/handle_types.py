"""How compiled code sees handles: structures of 64-bit words, with a type for each family and its parameters."""

from __future__ import annotations

import functools
import types as pytypes
from typing import Any

from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

from gondwana.compiler.types.arguments import HandleSpec
from gondwana.compiler.types.points import PlainType
from gondwana.compiler.types.records import DTYPES


class HandleType(PlainType):
    """A handle of a family; its instances are those of `family_type(family)`.

    Args:
        spec: its family, parameters and number of words.
    """

    def __init__(self, spec: HandleSpec) -> None:
        self.family = spec.family
        self.parameters = spec.parameters
        self.words = spec.words
        dtypes = [str(parameter) for parameter in spec.parameters if parameter in DTYPES]
        name = "".join(map(str.capitalize, spec.family.rpartition(".")[2].split("_")))
        super().__init__(f"{name}({', '.join(dtypes)})" if dtypes else name, spec)


class _HandleModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: HandleType) -> None:
        super().__init__(manager, kind, [(f"word{index}", types.int64) for index in range(kind.words)])


@functools.cache
def family_type(family: str) -> type[HandleType]:
    """Return the class of the types of one family. Local.

    `overload_attribute` and `overload_method` take it, so that handles of other families may have attributes and
    methods of the same name.
    """
    created = pytypes.new_class(f"{family}_handle", (HandleType,))
    register_model(created)(_HandleModel)
    return created


_advice: dict[str, dict[str, str]] = {}


def advise(family: str, **instead: str) -> None:
    """State what compiled code writes instead of methods that objects of a family have in Python only. Local."""
    _advice.setdefault(family, {}).update(instead)


@infer_getattr
class _Missing(AttributeTemplate):  # type: ignore[misc]
    key = HandleType

    def generic_resolve(self, kind: HandleType, attribute: str) -> None:
        """Refuse what is in Python only; other attributes are looked for elsewhere."""
        instead = _advice.get(kind.family, {}).get(attribute)
        if instead is not None:
            raise TypingError(f"{kind}.{attribute}() is for Python: in compiled code write {instead}")


def is_handle(kind: Any, family: str) -> bool:
    """Tell whether a Numba type is a handle of a family. Local."""
    return isinstance(kind, HandleType) and kind.family == family


def build(context: Any, builder: Any, kind: HandleType, words: list[Any]) -> Any:
    """The LLVM value of a handle with these words."""
    value = cgutils.get_null_value(context.get_value_type(kind))
    for index, word in enumerate(words):
        value = builder.insert_value(value, word, index)
    return value


@intrinsic(prefer_literal=True)
def handle_word(typingctx: Any, handle: Any, index: Any) -> Any:
    """Return one word of a handle; `index` is a literal."""
    place = index.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_value(args[0], place)

    return types.int64(handle, index), codegen


@intrinsic(prefer_literal=True)
def with_word(typingctx: Any, handle: Any, index: Any, word: Any) -> Any:
    """Return a handle with another value of one word; `index` is a literal."""
    place = index.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.insert_value(args[0], context.cast(builder, args[2], word, types.int64), place)

    return handle(handle, index, word), codegen
