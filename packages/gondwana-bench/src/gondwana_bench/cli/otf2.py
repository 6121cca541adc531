"""``gondwana otf2``: a trace in the format of Score-P, Scalasca and Vampir. The only module that calls OTF2."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from gondwana.errors import UsageError
from gondwana.inputs import printable, read_file
from gondwana.results import LARGEST

_ROLES = {
    "kernel": "KERNEL", "device": "KERNEL", "message": "POINT2POINT", "collective": "COLL_OTHER",
    "exchange": "DATA_TRANSFER", "copy": "DATA_TRANSFER", "io": "FILE_IO", "task": "TASK",
}  # fmt: skip
"""Roles of regions by category; the others are functions."""
_NUMBERS = ("bytes", "cells", "round")
"""Numbers of spans, which become attributes."""

Natural = Annotated[int, msgspec.Meta(ge=0)]
Time = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Event(msgspec.Struct):
    """An event of a trace; the keys are those of the trace event format."""

    ph: str
    pid: Natural
    tid: Natural = 0
    ts: Time = 0.0
    dur: Time = 0.0
    name: str = ""
    cat: str = ""
    id: str = ""
    args: dict[str, Any] = {}


class _File(msgspec.Struct):
    """A trace."""

    gondwana: dict[str, Any]
    events: list[_Event] = msgspec.field(name="traceEvents")


def otf2(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A file of gondwana run --trace.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="The archive.", show_default="TRACE-otf2")
    ] = None,
) -> None:
    """Convert a trace for tools that read OTF2, as Vampir, Scalasca and Score-P's own do."""
    folder = trace.with_name(f"{trace.stem}-otf2") if out is None else out
    try:
        import otf2 as library
        from _otf2 import Error
    except ImportError:
        needed = "gondwana otf2 needs the package otf2, for Python 3.11 on x86-64: pip install 'gondwana[otf2]'"
        raise UsageError(needed) from None
    obstacle = None if os.access(folder.parent, os.W_OK) else f"{folder.parent} is no folder that can be written"
    if obstacle or os.path.lexists(folder):
        raise UsageError(printable(f"--out {folder}: {obstacle or 'this is there already'}; name a new folder"))
    content = read_file(trace, str(trace), LARGEST, "give a file that gondwana run --trace wrote")
    with tempfile.TemporaryDirectory(prefix=".otf2-", dir=folder.parent) as aside:
        draft = os.path.join(aside, "archive")
        try:
            _write(msgspec.json.decode(content, type=_File), draft, library)
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(printable(f"{trace}: not a trace of `gondwana run --trace`: {error!r}")) from None
        except Error as error:
            raise OSError(errno.EIO, error.description, str(folder)) from None
        os.rename(draft, folder)
    typer.echo(folder / "traces.otf2")


def _write(trace: _File, folder: str, otf2: Any) -> None:
    """Write an archive."""
    titles: dict[str, dict[tuple[int, int], str]] = {"process_name": {}, "thread_name": {}, "process_sort_index": {}}
    by_place: dict[tuple[int, int], list[_Event]] = {}
    for event in trace.events:
        if event.ph == "M":
            titles[event.name][event.pid, event.tid] = str(event.args.get("name"))
        else:
            by_place.setdefault((event.pid, event.tid), []).append(event)
    with contextlib.closing(otf2.writer.Writer(folder, timer_resolution=10**9)) as archive:
        archive.creator, archive.description = "Gondwana", " ".join(trace.gondwana["command"])
        known, groups, locations = archive.definitions, {}, {}
        job = known.system_tree_node("job", class_name="machine")
        for (rank, _), title in titles["process_name"].items():
            name, _, host = title.partition(" on ")
            node = known.system_tree_node(host, class_name="node", parent=job)
            groups[rank] = known.location_group(name, system_tree_parent=node)
        for (rank, track), title in titles["thread_name"].items():
            kind = "ACCELERATOR_STREAM" if title.startswith("device, ") else "CPU_THREAD"
            of_kind = getattr(otf2.LocationType, kind)
            locations[rank, track] = known.location(title, type=of_kind, group=groups[rank])
        writing = _Writing(otf2, known, {rank: locations[rank, 0] for rank in sorted(groups)})
        for place, events in by_place.items():
            writing.write(archive.event_writer_from_location(locations[place]), events)
        for category in sorted({category for _, category, _ in writing.regions}):
            members = tuple(region for key, region in writing.regions.items() if key[1] == category)
            known.group(category, otf2.GroupType.REGIONS, members=members)


class _Writing:
    """The events of locations, and the definitions that they refer to.

    Args:
        otf2: the package.
        known: definitions of the archive.
        main: location of the program by rank.

    Attributes:
        regions: regions by name, category and source.
    """

    def __init__(self, otf2: Any, known: Any, main: dict[int, Any]) -> None:
        self._otf2, self._known, self._ranks = otf2, known, list(main)
        self.regions: dict[tuple[str, str, str], Any] = {}
        self._tags: dict[str, int] = {}
        self._numbers = {name: known.attribute(name, name, otf2.Type.UINT64) for name in _NUMBERS}
        counting = {"metric_mode": otf2.MetricMode.ACCUMULATED_POINT, "value_type": otf2.Type.UINT64}
        self._moved = known.metric("bytes moved", unit="B", **counting)
        kinds, paradigm, members = otf2.GroupType, otf2.Paradigm.MPI, tuple(main.values())
        known.group("processes", kinds.COMM_LOCATIONS, paradigm, members=members)
        self._all = known.comm("all ranks", known.group("all ranks", kinds.COMM_GROUP, paradigm, members=members))

    def write(self, to: Any, events: list[_Event]) -> None:
        """Write the events of a location, whose spans lie inside of each other or apart."""
        open_ones: list[tuple[int, Any]] = []
        times = ((round(1000 * event.ts), round(1000 * event.dur), event) for event in events)
        for begin, length, event in sorted(times, key=lambda one: (one[0], -one[1], one[2].ph != "X")):
            while open_ones and open_ones[-1][0] <= begin:
                to.leave(*open_ones.pop())
            if event.ph == "X":
                region = self._region(event.name, event.cat, event.args.get("source", ""))
                numbers = {self._numbers[name]: event.args[name] for name in _NUMBERS if name in event.args}
                to.enter(begin, region, numbers or None)
                end = begin + length
                open_ones.append((min(end, open_ones[-1][0]) if open_ones else end, region))
            elif event.ph == "C":
                to.metric(begin, self._moved, event.args["bytes"])
            else:
                plan, _, source, target = event.id.split(".")
                tag = self._tags.setdefault(plan, len(self._tags))
                send, other = (to.mpi_send, target) if event.ph == "s" else (to.mpi_recv, source)
                send(begin, self._ranks.index(int(other)), self._all, tag, event.args.get("bytes", 0))
        while open_ones:
            to.leave(*open_ones.pop())

    def _region(self, name: str, category: str, source: str) -> Any:
        key = name, category, source
        if key not in self.regions:
            file, _, line = source.partition(" and ")[0].rpartition(":")
            role = getattr(self._otf2.RegionRole, _ROLES.get(category, "FUNCTION"))
            place = {"source_file": file, "begin_line_number": int(line)} if file else {}
            self.regions[key] = self._known.region(name, description=category, region_role=role, **place)
        return self.regions[key]
