"""Reports of compiled code to the race detector. Imports Numba.

If this process has no detector, `report` is an empty function, which leaves nothing in the machine code. If it has one,
handles have a specification of their own, so that the cache keeps both apart.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.externs_overloads import calling
from gondwana.compiler.inlining import inlined
from gondwana.compiler.reports.orders import OVER as OVER, POST, REPORT, TAKE
from gondwana.runtime.races import Kind, records, reporter

ALL, FROM, BARRIER = records.ALL, records.FROM, records.BARRIER
READ, WRITE, ADD, WAIT, ENTER, LEAVE, SEND, EXPECT, RECEIVE, START, FINISH, INTEND, SET, REACH = map(
    int,
    (
        Kind.READ, Kind.WRITE, Kind.ADD, Kind.WAIT, Kind.ENTER, Kind.LEAVE,
        Kind.SEND, Kind.EXPECT, Kind.RECEIVE, Kind.START, Kind.FINISH, Kind.INTEND,
        Kind.SET, Kind.REACH,
    ),
)  # fmt: skip
"""Kinds of records, as compiled code takes them."""


@intrinsic
def _report(typingctx: Any, kind: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    return types.none(*[types.int64] * 5), calling(REPORT)


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
    return types.int64(), calling(POST)


@intrinsic
def take(typingctx: Any, name: Any) -> Any:
    """Go on behind what was posted by a name."""
    return types.none(types.int64), calling(TAKE)
