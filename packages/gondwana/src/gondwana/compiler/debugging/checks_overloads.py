"""Checks of accesses in compiled code with `GONDWANA_CHECK=1`. Imports Numba.

Functions of users are lowered by a `_Lower` that puts a comparison before each read and write of an element. Accesses
that the check of a launch has proven to be inside (constant offsets from the index point of a kernel) have none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.callconv import CPUCallConv, excinfo_ptr_t
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj

from gondwana.compiler.debugging.checks import LOCATE, REFUSE, Description
from gondwana.compiler.externs import register
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.views import ViewType, field, index_values


class _Refusal(CPUCallConv):  # type: ignore[misc]
    """A calling convention: a function of compiled code raises an exception whose description is found when it runs.

    Args:
        context: context of the compilation.
        description: the address of the description, an LLVM integer.
    """

    def __init__(self, context: Any, description: Any) -> None:
        super().__init__(context)
        self._description = description

    def set_static_user_exc(self, builder: Any, *args: Any, **kwargs: Any) -> None:
        """Use the description instead of one that is known when the function is compiled."""
        pointer = builder.inttoptr(self._description, excinfo_ptr_t)
        stored = builder.store(pointer, self._get_excinfo_argument(builder.function))
        stored.set_metadata("numba_exception_output", builder.module.add_metadata([cgutils.true_bit]))


def refuse_unless(context: Any, builder: Any, inside: Any, access: Description, words: list[Any]) -> None:
    """Emit code that raises the error of an access unless `inside` is true. Local.

    Args:
        context: context of the compilation.
        builder: builder of the function.
        inside: an LLVM bit.
        access: further parts of the message.
        words: words that are passed with `access`, LLVM integers: see `Description`.
    """
    register(REFUSE)
    with cgutils.if_unlikely(builder, builder.not_(inside)):
        room = cgutils.alloca_once(builder, llvm.ArrayType(INT, len(words)))
        for position, word in enumerate(words):
            builder.store(word, builder.gep(room, [INT(0), INT(position)]))
        kind = llvm.FunctionType(INT, [INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, kind, REFUSE)
        function.attributes.add("cold")
        description = builder.call(function, [*_constant(context, builder, access.text()), builder.ptrtoint(room, INT)])
        _Refusal(context, description).return_user_exc(builder, IndexError)


def _constant(context: Any, builder: Any, text: bytes) -> tuple[Any, Any]:
    """The address of bytes that are part of the machine code, and their number."""
    return builder.ptrtoint(context.insert_const_bytes(builder.module, text), INT), INT(len(text))


def check_element(
    context: Any, builder: Any, view: ViewType, value: Any, index: list[Any], access: Description
) -> None:
    """Emit the check of an access to an array on a domain. Local.

    Args:
        context: context of the compilation.
        builder: builder of the function.
        view: type of the array.
        value: the array.
        index: its coordinates, LLVM integers.
        access: name and place of the access, and the number of its elements.
    """
    lo, hi, step = (
        [field(builder, view, value, name, axis) for axis in range(view.ndim)] for name in ("lo", "hi", "step")
    )
    distances = [builder.sub(x, low) for x, low in zip(index, lo, strict=True)]
    rooms = [builder.sub(high, low) for high, low in zip(hi, lo, strict=True)]
    # As unsigned integers, distances below the first coordinate are huge.
    parts = [builder.icmp_unsigned("<", *pair) for pair in zip(distances, rooms, strict=True)]
    if access.count > 1:
        last = builder.add(distances[-1], INT(access.count - 1))
        parts.append(builder.icmp_unsigned("<", last, rooms[-1]))
    inside = _all(builder, parts)
    dense = _all(builder, [builder.icmp_signed("==", stride, INT(1)) for stride in step])
    # One branch if all is well, as in loops: the division is needed only if a stride is not one.
    with builder.if_then(builder.not_(builder.and_(inside, dense)), likely=False):
        rests = [builder.urem(*pair) for pair in zip(distances, step, strict=True)]
        hits = _all(builder, [inside, *[builder.icmp_signed("==", rest, INT(0)) for rest in rests]])
        described = replace(access, kind="domain", axes=view.ndim)
        refuse_unless(context, builder, hits, described, [*index, *lo, *hi, *step])


def _all(builder: Any, bits: Iterable[Any]) -> Any:
    found = cgutils.true_bit
    for bit in bits:
        found = builder.and_(found, bit)
    return found


def check_item(
    context: Any, builder: Any, kind: Any, value: Any, index: list[tuple[int, Any, bool]], access: Description
) -> None:
    """Emit the check of an access to a NumPy array. Local.

    Args:
        context: context of the compilation.
        builder: builder of the function.
        kind: type of the array.
        value: the array.
        index: axes, their integers, and whether negative ones count from the end.
        access: name and place of the access, and the number of its elements; its index, if that is not all integers.
    """
    shape = cgutils.unpack_tuple(builder, arrayobj.make_array(kind)(context, builder, value).shape, kind.ndim)
    inside = []
    for axis, coordinate, wraps in index:
        length, first = shape[axis], coordinate
        if wraps:
            negative = builder.icmp_signed("<", coordinate, INT(0))
            first = builder.select(negative, builder.add(coordinate, length), coordinate)
        inside.append(builder.icmp_unsigned("<", first, length))
        if access.count > 1:
            inside.append(builder.icmp_unsigned("<", builder.add(first, INT(access.count - 1)), length))
    written = access.index or ", ".join(["{}"] * len(index))
    described = replace(access, kind="shape", axes=kind.ndim, index=written)
    coordinates = [coordinate for _, coordinate, _ in index]
    refuse_unless(context, builder, _all(builder, inside), described, [*coordinates, *shape])


class _Located(CPUCallConv):  # type: ignore[misc]
    """A calling convention of users' functions: errors of accesses in their callees get the line of the call."""

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        """Pass on an exception."""
        register(LOCATE)
        kind = llvm.FunctionType(llvm.VoidType(), [INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, kind, LOCATE)
        place = _constant(self.context, builder, self.context.lowering.place().encode())
        with cgutils.if_likely(builder, status.is_user_exc):
            builder.call(function, [builder.ptrtoint(status.excinfoptr, INT), *place])
        super().return_status_propagate(builder, status)


class _Context(CPUContext):  # type: ignore[misc]
    """The context of the lowering of one function of a user."""

    lowering: Any

    @property
    def call_conv(self) -> Any:
        """Calling convention of functions."""
        return _Located(self)


_OF_NO_AXIS = (types.EllipsisType, types.NoneType)
"""Parts of an index that take no single axis: `...` takes all axes that the others leave."""


class _Lower(Lower):  # type: ignore[misc]
    """Numba's step from its own intermediate code to LLVM's, with checks before accesses."""

    context: Any

    def init(self) -> None:
        """Copy the attributes of Numba's context, but for the calling convention."""
        super().init()
        context: Any = copy.copy(self.context)
        context.__class__ = _Context
        context.lowering = self
        self.context = context

    def place(self) -> str:
        """Return file and line of what is being lowered."""
        return f"{self.loc.filename}:{self.loc.line}"

    def lower_inst(self, inst: Any) -> None:
        """Check an access, then lower it."""
        if isinstance(inst, ir.SetItem):
            self._check(inst, inst.target, inst.index)
        elif isinstance(inst, ir.StaticSetItem):
            self._check(inst, inst.target, inst.index_var)
        elif isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Expr):
            read = inst.value
            if read.op in ("getitem", "static_getitem"):
                self._check(read, read.value, read.index if read.op == "getitem" else read.index_var)
        super().lower_inst(inst)

    def _check(self, statement: Any, target: Any, index: Any) -> None:
        kind = self.typeof(target.name)
        if index is None or not isinstance(kind, ViewType | types.Array):
            return
        wanted, given = self.fndesc.calltypes[statement].args[1], self.typeof(index.name)
        access = Description("", name=self._spelled(target), place=self.place())
        if isinstance(kind, ViewType):
            if recorder.is_proven(kind, wanted):
                return
            at = self.context.cast(self.builder, self.loadvar(index.name), given, wanted)
            coordinates = index_values(self.context, self.builder, wanted, at)
            check_element(self.context, self.builder, kind, self.loadvar(target.name), coordinates, access)
            return
        items, written = self._items(kind.ndim, given, self.loadvar(index.name))
        if items:
            access = replace(access, index=written)
            check_item(self.context, self.builder, kind, self.loadvar(target.name), items, access)

    def _items(self, ndim: int, kind: Any, value: Any) -> tuple[list[tuple[int, Any, bool]], str]:
        """The integers of an index of a NumPy array (empty if it is of another kind), and its spelling.

        See `check_item`, and `checks.Description`.
        """
        members = list(kind.types) if isinstance(kind, types.BaseTuple) else [kind]
        taken = sum(not isinstance(member, _OF_NO_AXIS) for member in members)
        found: list[tuple[int, Any, bool]] = []
        written = []
        axis = 0
        for position, member in enumerate(members):
            plain = types.unliteral(member)
            if isinstance(plain, types.Integer):
                item = self.builder.extract_value(value, position) if isinstance(kind, types.BaseTuple) else value
                found.append((axis, self.context.cast(self.builder, item, member, types.int64), plain.signed))
                written.append("{}")
            elif isinstance(plain, types.SliceType):
                written.append(":")
            elif isinstance(plain, types.EllipsisType):
                axis += ndim - taken
                written.append("...")
                continue
            elif isinstance(plain, types.NoneType):
                written.append("None")
                continue
            else:
                return [], ""
            axis += 1
        return found, ", ".join(written)

    def _spelled(self, variable: Any) -> str:
        """The spelling of a variable in the program, or of an attribute of one; "" if it has no name."""
        if not variable.name.startswith("$"):
            return str(variable.unversioned_name)
        found = self.func_ir._definitions[variable.name]
        if len(found) == 1 and isinstance(found[0], ir.Expr):
            if found[0].op == "getattr":
                base = self._spelled(found[0].value)
                return f"{base}.{found[0].attr}" if base else ""
            if found[0].op == "static_getitem":
                base = self._spelled(found[0].value)
                return f"{base}[{found[0].index}]" if base else ""
        return ""


@register_pass(mutates_CFG=True, analysis_only=False)
class _CheckedLowering(NativeLowering):  # type: ignore[misc]
    """The pass that lowers a function."""

    _name = "gondwana_checked_lowering"

    @property
    def lowering_class(self) -> Any:
        """The class that lowers functions."""
        return _Lower


def check_accesses(manager: Any) -> None:
    """Have the functions that a pass manager compiles check their accesses. Local."""
    manager.passes = [
        (_CheckedLowering if step is NativeLowering else step, description) for step, description in manager.passes
    ]
