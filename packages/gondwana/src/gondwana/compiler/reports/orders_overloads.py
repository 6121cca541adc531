"""Reports of compiled code to the race detector. Imports Numba.

If this process has no detector, `report` is an empty function, which leaves nothing in the machine code. If it has one,
handles have a specification of their own, so that the cache keeps both apart.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gondwana.compiler.externs import register
from gondwana.compiler.inlining import inlined
from gondwana.compiler.reports.orders import POST, REPORT, TAKE
from gondwana.compiler.types.points import INT
from gondwana.runtime.races import Kind, records, reporter

ALL, FROM = records.ALL, records.FROM
READ, WRITE, ADD, WAIT, ENTER, LEAVE, SEND, EXPECT, RECEIVE, START, FINISH, INTEND = map(
    int,
    (
        Kind.READ, Kind.WRITE, Kind.ADD, Kind.WAIT, Kind.ENTER, Kind.LEAVE,
        Kind.SEND, Kind.EXPECT, Kind.RECEIVE, Kind.START, Kind.FINISH, Kind.INTEND,
    ),
)  # fmt: skip
"""Kinds of records, as compiled code takes them."""


@intrinsic
def _report(typingctx: Any, kind: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        register(REPORT)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [INT] * 5), REPORT)
        builder.call(function, args)
        return context.get_dummy_value()

    return types.none(*[types.int64] * 5), codegen


@inlined
def _nothing(kind: int, first: int, second: int, third: int, fourth: int) -> None:
    pass


@inlined
def _call(kind: int, first: int, second: int, third: int, fourth: int) -> None:
    _report(kind, first, second, third, fourth)


report = _nothing if reporter is None else _call
"""Append a record: see `gondwana.compiler.reports.orders`."""


@intrinsic
def post(typingctx: Any) -> Any:
    """Let others take what was done so far by a name, and return it: see `gondwana.compiler.reports.orders`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        register(POST)
        return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(INT, []), POST), ())

    return types.int64(), codegen


@intrinsic
def take(typingctx: Any, name: Any) -> Any:
    """Go on behind what was posted by a name."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        register(TAKE)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [INT]), TAKE)
        builder.call(function, args)
        return context.get_dummy_value()

    return types.none(types.int64), codegen
