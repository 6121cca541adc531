"""Calls of `touch` before accesses of users' functions that are compiled for the race detector. Imports Numba."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import get_definition, guard
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj, numpy_support

from gondwana.compiler.reports.touching import PLACES, RUN, RUN_BYTES, TABLE
from gondwana.compiler.reports.touching_native import is_watched, table, touch, word
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.views import RecordType, ViewType, address

_READERS = {
    *(np.sum, np.prod, np.mean, np.min, np.max, np.amin, np.amax, np.argmin, np.argmax, np.any, np.all, np.cumsum),
    *(np.dot, np.vdot, np.var, np.std, np.median, np.copy),
}
"""Functions that read all elements of arrays; methods of the same names do, too."""
_METHODS = {f"array.{function.__name__}" for function in _READERS}

_HOLDERS = ViewType, RecordType, types.Array, types.Record
"""Types in which values are stored, not references to arrays."""


class _Lower(Lower):  # type: ignore[misc]
    """Numba's step from its own intermediate code to LLVM's, with reports before accesses."""

    _accesses = 0
    _table: Any = None

    def lower_inst(self, inst: Any) -> None:
        """Report an access, then lower it."""
        if isinstance(inst, ir.SetItem | ir.StaticSetItem):
            if isinstance(inst.index, str):
                self._report_field(inst.target, inst.index, writes=True)
            else:
                index = inst.index_var if isinstance(inst, ir.StaticSetItem) else inst.index
                self._report_items(inst, inst.target, index, writes=True)
            if isinstance(self.typeof(inst.target.name), _HOLDERS):
                self._report_all(inst.value)
        elif isinstance(inst, ir.SetAttr):
            self._report_field(inst.target, inst.attr, writes=True)
        elif isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Expr):
            self._report_reads(inst.value)
        super().lower_inst(inst)

    def _report_reads(self, read: Any) -> None:
        if read.op == "getattr":
            self._report_field(read.value, read.attr, writes=False)
        elif read.op == "static_getitem" and isinstance(read.index, str):
            self._report_field(read.value, read.index, writes=False)
        elif read.op in ("getitem", "static_getitem"):
            self._report_items(read, read.value, read.index if read.op == "getitem" else read.index_var, writes=False)
        elif read.op in ("arrayexpr", "binop", "unary", "inplace_binop"):
            for operand in read.list_vars():
                self._report_all(operand)
            if read.op == "inplace_binop":
                self._report_all(read.lhs, writes=True)
        elif read.op == "call":
            kind = self.typeof(read.func.name)
            if isinstance(kind, types.BoundFunction) and kind.typing_key in _METHODS:
                of = guard(get_definition, self.func_ir, read.func)
                name = self._name(of.value) if isinstance(of, ir.Expr) else "an array"
                self._report_array(kind.this, self.loadvar(read.func.name), name, writes=False)
            elif isinstance(kind, types.Function) and kind.typing_key in _READERS:
                for operand in read.args:
                    self._report_all(operand)

    def _report_items(self, statement: Any, target: Any, index: Any, *, writes: bool) -> None:
        """Report what an index means: an element, or if it is written a part of an array."""
        kind = self.typeof(target.name)
        if index is None or not isinstance(kind, ViewType | types.Array):
            return
        if isinstance(kind.dtype, types.Record) and not writes:
            return  # the address of a record: its fields are read
        given, value, at = self.typeof(index.name), self.loadvar(target.name), self.loadvar(index.name)
        if isinstance(kind, ViewType):
            wanted = self.fndesc.calltypes[statement].args[1]
            if kind.kernel in recorder.kernels and getattr(wanted, "offset", None) is not None:
                return  # launches report it
            index_value = self.context.cast(self.builder, at, given, wanted)
            place, shape, strides = address(self.context, self.builder, kind, value, wanted, index_value), (), ()
        else:
            several = isinstance(given, types.BaseTuple)
            members = given.types if several else (given,)
            if not writes and not (len(members) == kind.ndim and all(isinstance(m, types.Integer) for m in members)):
                return  # a view: what is done with it is seen
            parts = cgutils.unpack_tuple(self.builder, at) if several else [at]
            array = arrayobj.make_array(kind)(self.context, self.builder, value)
            normal = arrayobj.normalize_indices(self.context, self.builder, members, parts)
            try:
                place, shape, strides = arrayobj.basic_indexing(self.context, self.builder, kind, array, *normal)
            except NotImplementedError:  # an array of indices
                return
        self._report_box(place, self._item(kind), shape, strides, self._name(target), writes=writes)

    def _report_all(self, operand: Any, *, writes: bool = False) -> None:
        """Report an access to all elements of an array, or to a record; other operands have no memory."""
        kind, name = self.typeof(operand.name), self._name(operand)
        if isinstance(kind, types.Array):
            self._report_array(kind, self.loadvar(operand.name), name, writes=writes)
        elif isinstance(kind, types.Record | RecordType) and not self._is_known(kind):
            size = (kind.fields if isinstance(kind, RecordType) else kind).size
            self._report_box(self.loadvar(operand.name), size, (), (), name, writes=writes)

    def _report_array(self, kind: Any, value: Any, name: str, *, writes: bool) -> None:
        array = arrayobj.make_array(kind)(self.context, self.builder, value)
        shape, strides = (cgutils.unpack_tuple(self.builder, one, kind.ndim) for one in (array.shape, array.strides))
        self._report_box(array.data, self._item(kind), shape, strides, name, writes=writes)

    def _report_field(self, target: Any, name: str, *, writes: bool) -> None:
        kind = self.typeof(target.name)
        fields = kind.fields if isinstance(kind, RecordType) else kind
        if not isinstance(fields, types.Record) or self._is_known(kind) or name not in fields.fields:
            return
        member = fields.typeof(name)
        if isinstance(member, types.Record | types.NestedArray) and not writes:
            return  # the address of what is in it
        place = self.builder.add(self.builder.ptrtoint(self.loadvar(target.name), INT), INT(fields.offset(name)))
        nbytes = self.context.get_abi_sizeof(self.context.get_data_type(member))
        self._report_box(place, nbytes, (), (), f"{self._name(target)}.{name}", writes=writes)

    def _is_known(self, kind: Any) -> bool:
        """Whether a record is one whose accesses launches report."""
        of = getattr(kind, "view", None)
        return of is not None and kind.offset is not None and of.kernel in recorder.kernels

    def _item(self, kind: Any) -> int:
        dtype = kind.dtype
        return int(dtype.size if isinstance(dtype, types.Record) else numpy_support.as_dtype(dtype).itemsize)

    def _name(self, variable: Any) -> str:
        if not variable.name.startswith("$"):
            return str(variable.unversioned_name)
        made = guard(get_definition, self.func_ir, variable)
        is_item = isinstance(made, ir.Expr) and made.op in ("getitem", "static_getitem")
        return self._name(made.value) if is_item else "an array"

    def _report_box(self, place: Any, item: int, shape: Any, strides: Any, name: str, *, writes: bool) -> None:
        """Emit code that reports elements if the first lies in memory that is watched."""
        self._accesses += 1
        function = f"{self.loc.filename} {self.func_ir.func_id.func_qualname} {self.fndesc.argtypes}"
        number = (zlib.crc32(function.encode()) + self._accesses) % PLACES
        about = {
            "place": number,
            "name": name,
            "file": self.loc.filename,
            "line": self.loc.line,
            "function": self.func_ir.func_id.func_qualname,
            "writes": writes,
        }
        builder, text = self.builder, json.dumps(about).encode()
        where = place if place.type == INT else builder.ptrtoint(place, INT)
        address = builder.ptrtoint(self.context.insert_const_bytes(builder.module, text), INT)
        run = builder.add(self._table_of_thread(), INT(TABLE.runs + number * RUN_BYTES))
        following, known = word(builder, run, RUN.following), word(builder, run, RUN.text)
        with (
            builder.if_then(is_watched(builder, where), likely=False),
            cgutils.loop_nest(builder, shape, INT) as indices,
        ):
            for index, stride in zip(indices, strides, strict=True):
                where = builder.add(where, builder.mul(index, stride))
            expected = builder.load(following)
            is_next = builder.and_(
                builder.icmp_signed("==", expected, where), builder.icmp_signed("==", builder.load(known), address)
            )
            with builder.if_else(is_next, likely=True) as (goes_on, other):
                with goes_on:
                    builder.store(builder.add(expected, builder.load(word(builder, run, RUN.stride))), following)
                with other:
                    words = [INT(number), where, INT(item), address, INT(len(text))]
                    self.context.compile_internal(builder, touch, types.int64(*[types.int64] * 5), words)

    def _table_of_thread(self) -> Any:
        """The address of the thread's table, which is found out where the function begins."""
        if self._table is None:
            with self.builder.goto_entry_block():
                self._table = table(self.builder)
        return self._table


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
