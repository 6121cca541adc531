"""The events of one rank in the trace event format, and their totals.

Each instant of a rank counts for one kind of span.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from gondwana.runtime.tracing import part
from gondwana.runtime.tracing.part import Part
from gondwana.runtime.watching.rollcall import name_ranks

COMPILED = {
    number: {"number": number, "name": name, "category": category}
    for number, (name, category) in part.COMPILED_SPANS.items()
}
"""Names of the records of compiled code, by the number that they have in all processes."""
MOST_POINTS = 2000
"""Points of the curve of bytes: more would not be visible."""

Interval: TypeAlias = tuple[int, int, Any]
"""Begin and end [ns], and the kind: a category, or name and category."""

PYTHON = "python"
"""The category of time outside of all spans: the program itself."""
SUSPENDED = "suspended"
"""The category of the waits of a task, in which others run: it takes no time of the rank."""


class End(NamedTuple):
    """One end of an arrow.

    Attributes:
        name: name of the arrow, the same at both ends.
        rank: rank of this end.
        track: track of its span.
        time: time since the start of the trace [ns].
        nbytes: bytes that this rank writes itself to the memory of the other, 0 at its end.
    """

    name: str
    rank: int
    track: int
    time: int
    nbytes: int


@dataclass
class RankEvents:
    """A rank in a trace. Pure.

    Args:
        rank: number of the rank.
        found: its records.
        origin: start of the trace, by the clock of rank 0 [ns].

    Attributes:
        seconds: nanoseconds by category.
        operations: nanoseconds by name and category.
        leaving: ends of arrows at this rank that start here.
        arriving: ends of arrows at this rank that end here.
    """

    rank: int
    found: Part
    origin: int
    seconds: dict[str, int] = field(init=False, default_factory=dict)
    operations: dict[tuple[str, str], int] = field(init=False)
    leaving: list[End] = field(init=False, default_factory=list)
    arriving: list[End] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        about = self.found.about
        self._names = {line["number"]: line | {"name": plain(line["name"])} for line in about if "number" in line}
        self._plans = {line["plan"]: line for line in about if "plan" in line and "key" in line}
        self._tracks: dict[int, dict[str, Any]] = {line["track"]: line for line in about if "track" in line}
        self._main = next((line["main"] for line in about if "host" in line), 0)
        self.host = str(next((line["host"] for line in about if "host" in line), "?"))
        self._shift = int(self.found.head[part.OFFSET]) - self.origin
        self.begin, self.end = self.found.begin + self._shift, self.found.end + self._shift
        self._records = self._read()
        self.operations = by_category(self.begin, self.end, self._of_program(), ("program", PYTHON))
        for (_, category), length in self.operations.items():
            self.seconds[category] = self.seconds.get(category, 0) + length
        for begin, length, name, track, value in self._records:
            plan = self._plans.get(name.get("plan", -1))
            if plan is not None and name.get("starts"):
                self.leaving += [self._end(plan, value, (self.rank, to), track, begin) for to in plan["to"]]
            elif plan is not None:
                last = begin + max(0, length - 1)
                self.arriving += [self._end(plan, value, (of, self.rank), track, last) for of in plan["of"]]

    def _read(self) -> list[tuple[int, int, dict[str, Any], int, int]]:
        """Begin, length, name, track and value of all records whose name is known."""
        records = []
        for begin, length, number, track, value in self.found.records.tolist():
            name = self._names.get(number) or COMPILED.get(number)
            if name is not None:
                records.append((begin + self._shift, max(0, length), name, self._track(track), value))
        return records

    def _track(self, track: int) -> int:
        """The track of a record; compiled code knows only the identifier of its thread."""
        if track == self._main:
            return 0
        if track not in self._tracks:
            if track < 1 << 20:
                return track
            known = next((number for number, line in self._tracks.items() if line.get("thread") == track), None)
            if known is None:
                known = 1 + max(self._tracks, default=0)
                self._tracks[known] = {"track": known, "name": "compiled thread", "thread": track}
            return known
        return track

    def _of_program(self) -> Iterator[Interval]:
        """The intervals that take time of the program's own thread."""
        own = {0, *(number for number, line in self._tracks.items() if line.get("main"))}
        for begin, length, name, track, _ in self._records:
            if track in own and name["category"] != SUSPENDED:
                yield begin, begin + length, (name["name"], name["category"])

    def _end(self, plan: dict[str, Any], number: int, ranks: tuple[int, int], track: int, time: int) -> End:
        """The end at this rank of the arrow of a round, from one rank to another."""
        name = f"{plan['key']:x}.{number}.{ranks[0]}.{ranks[1]}"
        return End(name, self.rank, track, time, plan["stored"].get(str(ranks[1]), 0))

    def traffic(self, size: int) -> tuple[list[list[int]], list[list[int]]]:
        """Return bytes and messages from this rank to each, and those that it fetched from each. Pure.

        Args:
            size: number of ranks of the job.
        """
        peers = [[*row] for row in self.found.peers.tolist()[:size]]
        peers += [[0] * part.PEER] * (size - len(peers))
        sent = [[row[part.SENT_BYTES], row[part.SENT]] for row in peers]
        fetched = [[row[part.FETCHED_BYTES], row[part.FETCHED]] for row in peers]
        for number, plan in self._plans.items():
            for rank, nbytes in plan["stored"].items():
                if int(rank) >= size:
                    continue
                rounds = int(self.found.rounds[number])
                sent[int(rank)][0] += rounds * nbytes
                sent[int(rank)][1] += rounds
        return sent, fetched

    def lines(self) -> Iterator[str]:
        """Return the events as JSON texts, one an event."""
        yield _named("process_name", self.rank, 0, f"rank {self.rank} on {self.host}")
        yield json.dumps({"ph": "M", "name": "process_sort_index", "pid": self.rank, "args": {"sort_index": self.rank}})
        equal = {"program": [0]}
        for number, line in self._tracks.items():
            equal.setdefault(line["name"], []).append(number)
        for title, tracks in equal.items():
            for place, number in enumerate(tracks, 1):
                yield _named("thread_name", self.rank, number, f"{title} {place}" if len(tracks) > 1 else title)
        whole = {"name": "rank", "category": PYTHON}
        for begin, length, name, track, value in (
            (self.begin, self.end - self.begin, whole, 0, -1),
            *sorted(self._records, key=lambda record: (record[3], record[0], -record[1])),
        ):
            yield (
                f'{{"ph":"X","pid":{self.rank},"tid":{track},"ts":{microseconds(begin)},"dur":{microseconds(length)},'
                f"{_titled(name['name'], name['category'])}{self._arguments(name, value)}}}"
            )
        yield from self._curve()

    def _curve(self) -> Iterator[str]:
        """The bytes moved so far, as a curve of few points."""
        moved = sorted(
            (begin + length, nbytes)
            for begin, length, name, _, value in self._records
            if name["category"] not in ("io", "kernel") and (nbytes := self._bytes(name, value)) > 0
        )
        total = 0
        every = -(-len(moved) // MOST_POINTS)
        for count, (moment, nbytes) in enumerate(moved, 1):
            total += nbytes
            if count % every == 0 or count == len(moved):
                yield (
                    f'{{"ph":"C","pid":{self.rank},"tid":0,"ts":{microseconds(moment)},"name":"bytes moved",'
                    f'"args":{{"bytes":{total}}}}}'
                )

    def _bytes(self, name: dict[str, Any], value: int) -> int:
        """The bytes that a record has moved: of a plan, those that this rank writes in a round."""
        if "plan" not in name:
            return value
        return sum(self._plans.get(name["plan"], _NO_PLAN)["stored"].values()) if name.get("starts") else 0

    def _arguments(self, name: dict[str, Any], value: int) -> str:
        """What a viewer shows of a span, beside its name."""
        found: dict[str, Any] = {key: name[key] for key in ("source", "threads") if key in name}
        plan = self._plans.get(name.get("plan", -1))
        if value >= 0:
            found["round" if "plan" in name else "cells" if name["category"] == "kernel" else "bytes"] = value
        if plan is not None:
            found |= {"to": _listed(plan["to"]), "from": _listed(plan["of"])}
            found |= {"bytes": self._bytes(name, value)} if name.get("starts") else {}
        return f',"args":{json.dumps(found)}' if found else ""


_NO_PLAN: dict[str, Any] = {"stored": {}}


def _listed(ranks: Sequence[int]) -> str:
    return name_ranks(sorted(set(ranks))) if ranks else "nobody"


def plain(name: str) -> str:
    """Return the name of a span without the functions in which its function was defined, and without brackets. Pure.

    Example:
        >>> plain("prepare main.<locals>.step"), plain("wait for <Task step>")
        ('prepare step', 'wait for Task step')
    """
    return re.sub(r"<(\w[^<>]*)>", r"\1", re.sub(r"\S*<locals>\.(?=\S)", "", name))


def microseconds(ns: int) -> str:
    """Return a time in nanoseconds as the text of the number of microseconds. Pure.

    Example:
        >>> microseconds(1_234_567)
        '1234.567'
    """
    return f"{ns // 1000}.{ns % 1000:03d}"


@functools.lru_cache(maxsize=1 << 16)
def _titled(name: str, category: str) -> str:
    return f'"name":{json.dumps(name)},"cat":{json.dumps(category)}'


def _named(what: str, rank: int, track: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": rank, "tid": track, "args": {"name": name}})


def by_category(begin: int, end: int, intervals: Iterable[Interval], outside: Any = PYTHON) -> dict[Any, int]:
    """Return the nanoseconds of each kind of span between two moments; their sum is the time between these. Pure.

    An instant counts for the span that began last of those that are open then, and for the program itself without any.
    Spans that are not nested, as those of tasks, may come in any order.

    Example:
        >>> by_category(0, 10, [(2, 8, "kernel"), (3, 5, "wait")])
        {'python': 4, 'kernel': 4, 'wait': 2}
    """
    total = {outside: 0}
    open_ones: list[Interval] = [(begin, end, outside)]
    now = begin
    for interval in sorted(intervals, key=lambda one: (one[0], -one[1])):
        if interval[1] <= now or interval[0] >= end:
            continue
        now = _advance(total, open_ones, now, max(now, interval[0]))
        open_ones.append((interval[0], min(interval[1], end), interval[2]))
    _advance(total, open_ones, now, end)
    return total


def _advance(total: dict[Any, int], open_ones: list[Interval], now: int, until: int) -> int:
    """Give the time from `now` to `until` to the open spans, the last one first; return `until`."""
    while now < until:
        while open_ones[-1][1] <= now:
            open_ones.pop()
        _, end, category = open_ones[-1]
        following = min(end, until)
        total[category] = total.get(category, 0) + following - now
        now = following
    return until


def operations(each: Sequence[dict[tuple[str, str], int]]) -> list[dict[str, Any]]:
    """Return the seconds of each operation on each rank, the one with the most time first. Pure."""
    kinds = {kind for one in each for kind in one}
    rows = [(kind, [one.get(kind, 0) / 1e9 for one in each]) for kind in kinds]
    rows.sort(key=lambda row: (-sum(row[1]), row[0]))
    return [{"name": name, "category": category, "seconds": seconds} for (name, category), seconds in rows]


def per_rank(each: Sequence[dict[str, int]]) -> dict[str, list[float]]:
    """Return the seconds of each category on each rank, the category with the most time first. Pure."""
    names = sorted({name for one in each for name in one}, key=lambda name: -sum(one.get(name, 0) for one in each))
    return {name: [one.get(name, 0) / 1e9 for one in each] for name in names}
