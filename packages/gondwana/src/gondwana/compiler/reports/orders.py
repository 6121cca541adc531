"""What compiled code reports to the race detector: it calls the reporter of Python, whose records keep their order."""

from __future__ import annotations

import ctypes

from gondwana.compiler import externs
from gondwana.runtime.races import Kind, reporter

_WORD = 8
_WORLD_RANKS = 3
"""Word of a segment's table with the address of the world ranks of its team, see `memory.segment.TABLE_HEAD`."""
_LETS_OTHERS = (Kind.ADD, Kind.ENTER, Kind.SEND, Kind.START)


def _report(kind: int, first: int, second: int, third: int, fourth: int) -> None:
    """Append a record. Called by compiled code, on any thread.

    Args:
        kind: kind of the record.
        first: table of a segment, handle of a team, address of a plan or of a request.
        second: rank in the team where the record has one in the world; else as there.
        third: as in the record, likewise the rest.
        fourth: bytes of a box of one axis, for `READ` and `WRITE`.
    """
    assert reporter is not None
    if kind in (Kind.READ, Kind.WRITE, Kind.ADD, Kind.WAIT):
        ranks = ctypes.c_int64.from_address(first + _WORD * _WORLD_RANKS).value
        second = ctypes.c_int64.from_address(ranks + _WORD * second).value
    words = first, second, third, fourth
    reporter.add(kind, *words[: _WORDS.get(kind, 4)], site=reporter.site())
    if kind in _LETS_OTHERS:
        reporter.flush()


_WORDS: dict[int, int] = {Kind.SEND: 3, Kind.LEAVE: 2, Kind.RECEIVE: 1, Kind.START: 1, Kind.FINISH: 1}
"""Words of records that have fewer than four."""

_called = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(_report)
REPORT = externs.provide("report", _called)
"""The name by which machine code calls `_report`."""
