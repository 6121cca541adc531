"""Calls of `touch` before accesses of users' functions that are compiled for the race detector. Imports Numba."""

from __future__ import annotations

import json
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj, numpy_support

from gondwana.compiler.reports.touching_native import is_watched, touch
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.views import ViewType, address


class _Lower(Lower):  # type: ignore[misc]
    """Numba's step from its own intermediate code to LLVM's, with reports before accesses to single elements."""

    def lower_inst(self, inst: Any) -> None:
        """Report an access, then lower it."""
        if isinstance(inst, ir.SetItem):
            self._report(inst, inst.target, inst.index, writes=True)
        elif isinstance(inst, ir.StaticSetItem):
            self._report(inst, inst.target, inst.index_var, writes=True)
        elif isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Expr):
            read = inst.value
            if read.op in ("getitem", "static_getitem"):
                self._report(read, read.value, read.index if read.op == "getitem" else read.index_var, writes=False)
        super().lower_inst(inst)

    def _report(self, statement: Any, target: Any, index: Any, *, writes: bool) -> None:
        kind = self.typeof(target.name)
        if index is None or not isinstance(kind, ViewType | types.Array) or isinstance(kind.dtype, types.Record):
            return
        given, value, at = self.typeof(index.name), self.loadvar(target.name), self.loadvar(index.name)
        if isinstance(kind, ViewType):
            wanted = self.fndesc.calltypes[statement].args[1]
            if kind.kernel in recorder.kernels and getattr(wanted, "offset", None) is not None:
                return  # launches report it
            place = address(self.context, self.builder, kind, value, wanted, self._cast(at, given, wanted))
        else:
            members = list(given.types) if isinstance(given, types.BaseTuple) else [given]
            if len(members) != kind.ndim or not all(isinstance(types.unliteral(m), types.Integer) for m in members):
                return
            parts = cgutils.unpack_tuple(self.builder, at) if isinstance(given, types.BaseTuple) else [at]
            indices = [self._cast(part, member, types.int64) for part, member in zip(parts, members, strict=True)]
            array = arrayobj.make_array(kind)(self.context, self.builder, value)
            place = cgutils.get_item_pointer(self.context, self.builder, kind, array, indices, wraparound=True)
        about = {
            "name": str(target.unversioned_name) if not target.name.startswith("$") else "an array",
            "file": self.loc.filename,
            "line": self.loc.line,
            "function": self.func_ir.func_id.func_qualname,
            "writes": writes,
        }
        text = json.dumps(about).encode()
        where = self.builder.ptrtoint(place, INT)
        words = [
            where,
            INT(numpy_support.as_dtype(kind.dtype).itemsize),
            self.builder.ptrtoint(self.context.insert_const_bytes(self.builder.module, text), INT),
            INT(len(text)),
        ]
        with self.builder.if_then(is_watched(self.builder, where), likely=False):
            self.context.compile_internal(self.builder, touch, types.int64(*[types.int64] * 4), words)

    def _cast(self, value: Any, given: Any, wanted: Any) -> Any:
        return self.context.cast(self.builder, value, given, wanted)


@register_pass(mutates_CFG=True, analysis_only=False)
class _ReportingLowering(NativeLowering):  # type: ignore[misc]
    """The pass that lowers a function."""

    _name = "gondwana_reporting_lowering"

    @property
    def lowering_class(self) -> Any:
        """The class that lowers functions."""
        return _Lower


def report_accesses(manager: Any) -> None:
    """Have the functions that a pass manager compiles report their accesses. Local."""
    manager.passes = [
        (_ReportingLowering if step is NativeLowering else step, description) for step, description in manager.passes
    ]
