"""Making one trace from the parts that the ranks of a job have left.

The notes of a rank beside its records are a line each: disks and hands may have damaged them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gondwana.errors import UsageError
from gondwana.inputs import printable
from gondwana.results import environment
from gondwana.runtime import files, rank_words
from gondwana.runtime.tracing import PARTS, part
from gondwana.runtime.tracing.part import Part
from gondwana.traces import rank_events
from gondwana.traces.rank_events import End, RankEvents, microseconds

SCHEMA = 1

Number = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class Trace:
    """Facts of a trace about a job as a whole.

    Attributes:
        file: file of the trace.
        about: the value of its key "gondwana".
    """

    file: Path
    about: dict[str, Any]


def merge(file: Path) -> Trace:
    """Write a trace from the parts in the folder beside it, which are removed. Local; one process at a time.

    Raises:
        UsageError: the folder has no parts.
        OSError: the trace cannot be written; the parts stay.
    """
    folder = Path(f"{file}{PARTS}")
    problem = files.obstacle(file, streams=False)
    if problem is not None:
        raise UsageError(printable(f"{file}: {problem}; name another file"))
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        reason = f"{error.strerror}; a job leaves this folder when it ends before its time"
        raise UsageError(printable(f"{folder}: {reason}")) from None
    try:
        with contextlib.suppress(OSError):  # not all file systems lock folders
            fcntl.flock(lock, fcntl.LOCK_EX)
        parts = _read_all(folder)
        if not parts:
            raise UsageError(f"{folder} has no part of a trace: the job recorded nothing, or was merged before")
        trace = _write(file, parts)
        part.remove(folder)
    finally:
        os.close(lock)
    return trace


def _read_all(folder: Path) -> dict[int, Part]:
    """The parts of a job by rank, without those that a larger job has left there earlier."""
    found = {}
    for path in folder.glob("*.records"):
        one = part.read(folder, int(path.stem)) if path.stem.isdecimal() else None
        if one is not None:
            found[int(path.stem)] = one._replace(about=legal(one.about))
    size = next((line["size"] for line in found[0].about if "size" in line), None) if 0 in found else None
    most = size if size is not None else 1 + max(found, default=0)
    return {rank: found[rank] for rank in sorted(found) if rank < most}


def _write(file: Path, parts: dict[int, Part]) -> Trace:
    origin = min(one.begin + int(one.head[part.OFFSET]) for one in parts.values())
    ranks = [RankEvents(rank, one, origin) for rank, one in parts.items()]
    about = _about(parts, ranks)
    with files.aside(Path(os.path.realpath(file))) as draft, draft.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit":"ms",\n"gondwana":')
        json.dump(about, out, allow_nan=False)
        out.write(',\n"traceEvents":[\n')
        texts = (text for source in (*(one.lines() for one in ranks), _arrows(ranks)) for text in source)
        out.writelines(_separated(texts))
        out.write("\n]}\n")
    return Trace(file, about)


def _separated(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f",\n{text}" if number else text


def _arrows(ranks: list[RankEvents]) -> Iterator[str]:
    """Arrows from rank to rank, of which both ends were recorded."""
    arriving = {end.name: end for one in ranks for end in one.arriving}
    for one in ranks:
        for start in one.leaving:
            end = arriving.get(start.name)
            if end is not None:
                yield _end("s", start, f',"args":{{"bytes":{start.nbytes}}}' if start.nbytes else "")
                yield _end("f", end, ',"bp":"e"')


def _end(kind: str, end: End, more: str) -> str:
    return (
        f'{{"ph":"{kind}","pid":{end.rank},"tid":{end.track},"ts":{microseconds(end.time)},"name":"copies","cat":"exchange",'
        f'"id":"{end.name}"{more}}}'
    )


def _about(parts: dict[int, Part], ranks: list[RankEvents]) -> dict[str, Any]:
    program, command = _program(parts)
    size = 1 + max(parts)
    seconds, events = [0.0] * size, [0] * size
    each: list[dict[str, int]] = [{} for _ in range(size)]
    named: list[dict[tuple[str, str], int]] = [{} for _ in range(size)]
    for one in ranks:
        seconds[one.rank] = (one.end - one.begin) / 1e9
        events[one.rank] = len(one.found.records)
        each[one.rank], named[one.rank] = one.seconds, one.operations
    return {
        "schema": SCHEMA,
        "trace": program,
        "command": command,
        "environment": environment(),
        "verified": None,
        "complete": all(rank in parts and parts[rank].finished and not parts[rank].lost for rank in range(size)),
        "units": {
            "seconds": "s",
            "spans": "s",
            "operations": "s",
            "bytes": "B",
            "messages": "1",
            "events": "1",
            "clock_error": "s",
        },
        "ranks": size,
        "seconds": seconds,
        "spans": rank_events.per_rank(each),
        "operations": rank_events.operations(named),
        "matrix": matrix(ranks, size),
        "events": events,
        "clock_error": [parts[rank].head[part.OFFSET_ERROR] / 1e9 if rank in parts else 0.0 for rank in range(size)],
        "notes": list(_notes(parts, size)),
        "failures": [],
    }


def matrix(ranks: list[RankEvents], size: int) -> dict[str, list[list[int]]]:
    """Return the bytes and messages that went from rank to rank: row r has those from rank r. Pure."""
    nbytes, messages = ([[0] * size for _ in range(size)] for _ in range(2))
    for one in ranks:
        sent, fetched = one.traffic(size)
        for other in range(size):
            nbytes[one.rank][other] += sent[other][0]
            messages[one.rank][other] += sent[other][1]
            nbytes[other][one.rank] += fetched[other][0]
            messages[other][one.rank] += fetched[other][1]
    return {"bytes": nbytes, "messages": messages}


def _notes(parts: dict[int, Part], size: int) -> Iterator[str]:
    for rank in range(size):
        if rank not in parts:
            yield f"rank {rank} has left no part"
            continue
        if not parts[rank].finished:
            yield f"rank {rank} ended before its time: its trace ends with what it recorded last"
        if parts[rank].lost:
            yield (
                f"rank {rank} had no room for {parts[rank].lost} records: their time counts for what is around them; "
                f"set {part.CAPACITY} to more than {int(parts[rank].head[part.ROOM])}"
            )


def _program(parts: dict[int, Part]) -> tuple[str, list[str]]:
    """The name of the program, and the command that runs it."""
    first = parts[min(parts)]
    words: list[str] = next((line["command"] for line in first.about if "command" in line), [])
    if rank_words.RANK in words:
        given = words[words.index(rank_words.RANK) + 1 :]
        name = next((word for word in given if word != "-m"), "?")
        return os.path.basename(name), ["gondwana", "run", "-n", str(1 + max(parts)), *given]
    name = next((word for word in words[1:] if not word.startswith("-")), "?")
    return os.path.basename(name), words


class Line(msgspec.Struct):
    """A note of a rank beside its records."""


class NameLine(Line):
    """A name that records have by its number; for a plan whether they start its rounds, for a kernel where it is."""

    number: int
    name: Annotated[str, msgspec.Meta(min_length=1)]
    category: Annotated[str, msgspec.Meta(min_length=1)]
    plan: int = -1
    starts: bool = False
    source: str = ""
    threads: Number = 0


class PlanLine(Line):
    """A plan of copies: its key, the same on all ranks, the ranks, and the bytes of a round by receiving rank."""

    plan: Annotated[int, msgspec.Meta(ge=0, lt=part.PLANS)]
    key: int
    to: list[Number]
    of: list[Number]
    stored: dict[Number, Number]


class TrackLine(Line):
    """A track: of a thread, or of a strand of tasks."""

    track: Number
    name: Annotated[str, msgspec.Meta(min_length=1)]
    main: bool
    thread: int


class ProcessLine(Line):
    """The host of the process, its main thread and its command."""

    host: str
    main: int | None
    command: list[str]


class SizeLine(Line):
    """The number of ranks."""

    size: Annotated[int, msgspec.Meta(ge=1)]


_LINES = {"number": NameLine, "key": PlanLine, "track": TrackLine, "host": ProcessLine, "size": SizeLine}
"""The kinds of lines, by a key that only they have."""


def legal(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that a rank can have written. Pure."""
    return [line for line in lines if _is_legal(line)]


def _is_legal(line: dict[str, Any]) -> bool:
    try:
        msgspec.convert(line, next((kind for key, kind in _LINES.items() if key in line), Line), str_keys=True)
    except (ValueError, OverflowError):
        return False
    return True
