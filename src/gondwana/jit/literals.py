"""Float literals take the precision of the arrays, as Python floats do in NumPy 2.

Numba types the literal 6.0 as float64, so that `6.0 * u[p]` on float32 arrays would be calculated in float64: slower,
and not what the user wrote. This pass makes the literals of a function float32 when nothing wider comes in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.untyped_passes import IRProcessing

from gondwana.jit.views import DtypeType, ViewType


@register_pass(mutates_CFG=False, analysis_only=False)
class WeakLiterals(FunctionPass):  # type: ignore[misc]
    """Replace float literals and constants by float32 ones in functions whose arguments are at most float32."""

    _name = "gondwana_weak_literals"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Change the Numba IR of one function before its types are inferred."""
        if _widest_float(state.args) != 32:
            return False
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                constant = statement.value
                named = isinstance(constant, ir.Const | ir.Global | ir.FreeVar)
                if named and type(constant.value) is float:
                    statement.value = ir.Const(np.float32(constant.value), constant.loc)
        return True


class Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with `WeakLiterals` before type inference."""

    def define_pipelines(self) -> list[Any]:
        """The passes, in order."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(WeakLiterals, IRProcessing)
        manager.finalize()
        return [manager]


def _widest_float(args: Any) -> int:
    """Bits of the widest float among the argument types of a function, 0 if there is none."""
    widths = [0]
    for arg in args:
        if isinstance(arg, types.BaseTuple):
            widths.append(_widest_float(arg.types))
            continue
        dtype = arg.dtype if isinstance(arg, types.Array | ViewType | DtypeType) else arg
        if isinstance(dtype, types.Float):
            widths.append(dtype.bitwidth)
        elif isinstance(dtype, types.Complex):
            widths.append(dtype.bitwidth // 2)
    return max(widths)
