"""What a rank notes beside its records, a line each: disks and hands may have damaged them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from gondwana.runtime.tracing import part

Number = Annotated[int, msgspec.Meta(ge=0)]


class Line(msgspec.Struct):
    """What a rank has noted beside its records."""


class NameLine(Line):
    """A name that records have by its number, and for a plan whether they start its rounds."""

    number: int
    name: Annotated[str, msgspec.Meta(min_length=1)]
    category: Annotated[str, msgspec.Meta(min_length=1)]
    plan: int = -1
    starts: bool = False


class PlanLine(Line):
    """A plan of copies: its key on all ranks, these, and the bytes of a round by the rank that gets them."""

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
    """Where the process runs, its main thread and its command."""

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
