"""What compiled code reports to the race detector: it calls the reporter of Python, whose records keep their order."""

from __future__ import annotations

import ctypes

from gondwana.compiler import externs
from gondwana.runtime.races import Kind, reporter

_WORD = 8
_WORLD_RANKS = 3
"""Word of a segment's table with the address of the world ranks of its team, see `memory.segment.TABLE_HEAD`."""
_RANK_SHIFT = 40
OVER = 0
"""What ends a change that no record ends: no kind of record."""
_LETS_OTHERS = (Kind.ADD, Kind.ENTER, Kind.SEND, Kind.START, Kind.INTEND)


def _report(kind: int, first: int, second: int, third: int, fourth: int) -> None:
    """Append a record. Called by compiled code, on any thread.

    What other threads of this rank read is changed between `INTEND`, which may be without a record, and `ATOMIC`, `SET`
    or `OVER`: so one thread at a time does, and changes are reported in the order in which they are made.

    Args:
        kind: kind of the record.
        first: table of a segment, handle of a team, address of a plan or of a request.
        second: rank in the team where the record has one in the world; else as there.
        third: as in the record, likewise the rest.
        fourth: bytes of a box of one axis, for `READ` and `WRITE`.
    """
    assert reporter is not None
    if kind in (Kind.INTEND, Kind.REACH):
        reporter.exclusive.acquire()
        if kind == Kind.INTEND and first == 0:
            return
    if kind in (Kind.READ, Kind.WRITE, Kind.ADD, Kind.WAIT, Kind.INTEND):
        second = world_rank(first, second)
    words = first, second, third, fourth
    try:
        if kind != OVER:
            reporter.add(kind, *words[: _WORDS.get(kind, 4)], site=reporter.site())
    finally:
        if kind in (Kind.SET, Kind.REACH, OVER):
            reporter.exclusive.release()
    if kind in _LETS_OTHERS:
        reporter.flush()


def world_rank(table: int, rank: int) -> int:
    """Return the rank in the world of a rank of the team of a segment, given by its table. Local."""
    ranks = ctypes.c_int64.from_address(table + _WORD * _WORLD_RANKS).value
    return ctypes.c_int64.from_address(ranks + _WORD * rank).value


_WORDS: dict[int, int] = {
    Kind.SEND: 3, Kind.INTEND: 3, Kind.LEAVE: 2, Kind.RECEIVE: 1, Kind.START: 1, Kind.FINISH: 1, Kind.SET: 3,
    Kind.REACH: 2,
}  # fmt: skip
"""Words of records that have fewer than four."""


def post() -> int:
    """Let others take what was done so far by a name that is one word, and return it. Local; sends."""
    assert reporter is not None
    rank, number = name = reporter.new_name()
    reporter.post(name)
    return rank << _RANK_SHIFT | number


def take(name: int) -> None:
    """Report that this stream goes on behind what was posted by a name; others may do so, too. Local."""
    assert reporter is not None
    reporter.take((name >> _RANK_SHIFT, name & (1 << _RANK_SHIFT) - 1), 0, reporter.site())


_called = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(_report)
REPORT = externs.provide("report", _called)
"""The name by which machine code calls `_report`."""
POST = externs.provide("post", ctypes.CFUNCTYPE(ctypes.c_int64)(post))
TAKE = externs.provide("take", ctypes.CFUNCTYPE(None, ctypes.c_int64)(take))
"""Those by which it calls `post` and `take`."""
