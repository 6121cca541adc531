"""A strict reader of the trace event format: raises where a viewer would have to guess."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

KEYS = {
    "X": ({"ph", "pid", "tid", "ts", "dur", "name", "cat"}, {"args"}),
    "M": ({"ph", "pid", "name", "args"}, {"tid"}),
    "C": ({"ph", "pid", "tid", "ts", "name", "args"}, set()),
    "s": ({"ph", "pid", "tid", "ts", "name", "cat", "id"}, {"args"}),
    "f": ({"ph", "pid", "tid", "ts", "name", "cat", "id", "bp"}, set()),
}
"""Keys that an event of each phase has, and that it may have."""


def read(path: Path) -> dict[str, Any]:
    """Return a trace after all checks."""
    trace: dict[str, Any] = json.loads(path.read_text(), object_pairs_hook=_unique, parse_constant=_refuse)
    assert trace.keys() == {"displayTimeUnit", "gondwana", "traceEvents"}
    for event in trace["traceEvents"]:
        _check(event)
    _check_nesting(trace["traceEvents"])
    _check_arrows(trace["traceEvents"])
    return trace


def spans(trace: dict[str, Any], rank: int | None = None, name: str | None = None) -> list[dict[str, Any]]:
    """Return the spans of a rank, or of a name."""
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X" and rank in (None, event["pid"]) and name in (None, event["name"])
    ]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a key twice: {pairs}"
    return found


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _check(event: dict[str, Any]) -> None:
    needed, allowed = KEYS[event["ph"]]
    assert needed <= event.keys() <= needed | allowed, event
    for key, value in event.items():
        if key in ("pid", "tid"):
            assert isinstance(value, int)
            assert value >= 0, event
        elif key in ("ts", "dur"):
            assert isinstance(value, int | float)
            assert value >= 0, event
        elif key == "args":
            assert isinstance(value, dict)
            assert value, event
        else:
            assert isinstance(value, str)
            assert value, event
    if event["ph"] == "M":
        assert event["name"] in ("process_name", "process_sort_index", "thread_name")
    if event["ph"] == "C":
        assert all(isinstance(value, int) for value in event["args"].values())


def _check_nesting(events: list[dict[str, Any]]) -> None:
    """Spans of one track lie inside of each other, or apart."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    for track, found in tracks.items():
        open_ones: list[int] = []
        for event in sorted(found, key=lambda one: (_ns(one["ts"]), -_ns(one["dur"]))):
            begin, end = _ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"])
            while open_ones and open_ones[-1] <= begin:
                open_ones.pop()
            assert not open_ones or end <= open_ones[-1], (track, event)
            open_ones.append(end)


def _check_arrows(events: list[dict[str, Any]]) -> None:
    """Each arrow has two ends, in spans, and points forward."""
    ends: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            assert event["ph"] not in ends[event["id"]], event
            ends[event["id"]][event["ph"]] = event
    exchanges = [event for event in events if event["ph"] == "X" and event["cat"] in ("exchange", "wait")]
    for arrow in ends.values():
        assert arrow.keys() == {"s", "f"}, arrow
        assert arrow["s"]["ts"] <= arrow["f"]["ts"], arrow
        assert arrow["s"]["pid"] != arrow["f"]["pid"], arrow
        for end in arrow.values():
            assert any(_holds(event, end) for event in exchanges), end


def _holds(span: dict[str, Any], end: dict[str, Any]) -> bool:
    same = (span["pid"], span["tid"]) == (end["pid"], end["tid"])
    return same and _ns(span["ts"]) <= _ns(end["ts"]) <= _ns(span["ts"]) + _ns(span["dur"])


def _ns(microseconds: float) -> int:
    return round(1000 * microseconds)
