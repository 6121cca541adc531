"""How wide the vectors are that the compiler makes of loops. For compiled code only; imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

_ATTRIBUTE = '"prefer-vector-width"="512"'


@intrinsic
def prefer_widest_vectors(typingctx: Any) -> Any:
    """Let the loops of the function that calls this have vectors as wide as the processor's.

    LLVM takes half of that on processors whose clock falls with wide vectors. It pays all the same where loops find
    their data in the cache.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        attributes = builder.function.attributes
        set.add(attributes, _ATTRIBUTE)  # llvmlite's own `add` knows no attributes of targets
        attributes.add("noinline")  # inlined elsewhere, the loops would lose it
        return context.get_dummy_value()

    return types.none(), codegen
