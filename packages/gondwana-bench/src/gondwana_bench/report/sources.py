"""The contents of a report: results of benchmarks, applications and models, and the head of traces."""

from __future__ import annotations

import statistics
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gondwana import results
from gondwana.errors import UsageError
from gondwana.inputs import printable, read_file
from gondwana_bench.report.quantities import digits
from gondwana_bench.report.rows import Panel, Row, figure

Kind = results.Kind | Literal["trace"]
Amount = Annotated[float, Meta(ge=0)]

_HIDDEN = frozenset({"schema", "app", "command", "environment", "units", "config"})
"""Keys of the result of an application that are not in its table."""

QUIET = 0.1
"""Processors that other programs may keep busy without being mentioned."""


class Matrix(msgspec.Struct, frozen=True):
    """Bytes from every rank (the row) to every rank (the column)."""

    bytes: list[list[Amount]]
    messages: list[list[Amount]]


class Trace(msgspec.Struct, frozen=True):
    """The description of a run in a trace file, under the key `gondwana`, beside its events.

    Attributes:
        schema: version.
        trace: the program.
        command: command line that repeats the run.
        environment: the machine.
        verified: whether the program's results were right; None: not known.
        ranks: number of ranks of the run.
        seconds: seconds of each rank.
        matrix: bytes and messages from rank to rank.
        spans: seconds of each rank by category.
        complete: whether all ranks wrote their events to their end.
        notes: notes on missing data, with the reason.
    """

    schema: Literal[1]
    trace: str
    command: list[str]
    environment: dict[str, Any]
    verified: bool | None
    ranks: Annotated[int, Meta(ge=1)]
    seconds: list[Amount]
    matrix: Matrix
    spans: dict[str, list[Amount]]
    complete: bool = True
    notes: list[str] = []


class _File(msgspec.Struct):
    """A trace without its events, of which there may be very many; other files lack the key."""

    gondwana: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class Source:
    """A result and the file that has it.

    Attributes:
        file: name of the file, without the folder.
        kind: key of the name.
        name: name of the benchmark, the application, the modelled machine or the traced program.
        content: content of the result.
    """

    file: str
    kind: Kind
    name: str
    content: Mapping[str, Any]

    @property
    def environment(self) -> Mapping[str, Any]:
        """The machine and the software."""
        found: Mapping[str, Any] = self.content["environment"]
        return found

    @property
    def machine(self) -> str:
        """The processor and its cores, or the machine that is modelled."""
        if self.kind == "model":
            return f"model of {self.name}"
        cores = self.environment.get("cores")
        return f"{self.environment.get('cpu', 'unknown processor')}, {cores} core{'' if cores == 1 else 's'}"

    @property
    def panels(self) -> list[Panel]:
        """The tables: of an application one with one row, of a trace one with a row for each rank."""
        if self.kind in ("benchmark", "model"):
            panels: Mapping[str, list[Row]] = self.content["panels"]
            benchmark = self.name if self.kind == "benchmark" else "model"
            return [Panel(benchmark, name, rows, self.content["units"]) for name, rows in panels.items()]
        if self.kind == "app":
            row = {key: value for key, value in self.content.items() if key not in _HIDDEN}
            return [Panel("", self.name, [row], self.content["units"])]
        rows = [
            {"rank": str(rank), "seconds": seconds, **{name: of[rank] for name, of in self.content["spans"].items()}}
            for rank, seconds in enumerate(self.content["seconds"])
        ]
        return [Panel("", self.name, rows, dict.fromkeys(rows[0], "s"))]

    @property
    def load(self) -> str:
        """The load of other programs during the measurement, in words."""
        if self.kind == "model":
            return "not measured"
        rows = [row for panel in self.panels for row in panel.rows]
        return load_in_words(rows, self.environment)


def read(paths: Iterable[str | Path]) -> list[Source]:
    """Read results and traces. Local.

    Args:
        paths: files, and folders, of which all files `*.json` are read.

    Returns:
        The results of all files, in their order; a collection has several.

    Raises:
        UsageError: a file cannot be read, or is neither a result nor a trace.
    """
    files = (sorted(path.glob("*.json")) or [path] for path in map(Path, paths))
    return [source for of in files for file in of for source in _read(file)]


def together(sources: Sequence[Source]) -> Panel:
    """Return the runs of an application as the rows of one table; missing entries are None. Local.

    Args:
        sources: results of one application.
    """
    several = len({source.file for source in sources}) > 1
    configs = [source.content.get("config") for source in sources]
    settings = [config if isinstance(config, dict) else {} for config in configs]
    rows = [
        {
            "run": f"run {number}",
            **source.panels[0].rows[0],
            **{key: f"{key} {own[key]}" for key in _varied(settings) if key in own and key not in source.content},
            **({"file": source.file} if several else {}),
        }
        for number, (source, own) in enumerate(zip(sources, settings, strict=True), 1)
    ]
    keys = dict.fromkeys(key for row in rows for key in row)
    units = {key: unit for source in sources for key, unit in source.content["units"].items()}
    return Panel("", sources[0].name, [{key: row.get(key) for key in keys} for row in rows], units)


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ between runs."""
    keys = dict.fromkeys(key for own in settings for key in own)
    return [key for key in keys if len({str(own.get(key)) for own in settings}) > 1]


def load_in_words(rows: Iterable[Mapping[str, Any]], environment: Mapping[str, Any]) -> str:
    """Return under which load of other programs rows were measured. Local.

    Args:
        rows: rows with `foreign_load`, or without.
        environment: environment of the result; its load average is used if no row has a load.

    Example:
        >>> load_in_words([{"foreign_load": 0.02}], {}), load_in_words([], {"load_average": [1.5]})
        ('quiet', 'load average 1.5 at the start')
    """
    loads = [load for row in rows if (load := figure(row.get("foreign_load"))) is not None]
    if loads:
        if max(loads) < QUIET:
            return "quiet"
        middle = statistics.median(loads)
        return f"other programs kept up to {digits(max(loads))} processors busy, {digits(middle)} at the median"
    averages = environment.get("load_average")
    average = figure(averages[0]) if isinstance(averages, list) and averages else None
    if average is None:
        return "load not known"
    return f"load average {digits(average)} at the start"


def _read(path: Path) -> list[Source]:
    content = read_file(path, str(path), results.LARGEST, "give files that --json or --trace wrote")
    content = content.removeprefix(BOM_UTF8)
    trace = _trace(path, content)
    if trace is not None:
        return [Source(path.name, "trace", trace.trace, msgspec.to_builtins(trace))]
    return [
        Source(path.name, kind, result[kind], result)
        for result in results.read_content(content, path)
        for kind in (results.kind_of(result),)
    ]


def _trace(path: Path, content: bytes) -> Trace | None:
    """The head of a trace; None for other files, also for damaged ones, which `results.read_content` reports."""
    try:
        head = msgspec.json.decode(content, type=_File).gondwana
    except (ValueError, RecursionError):
        return None
    if head is msgspec.UNSET:
        return None
    try:
        trace = msgspec.json.decode(head, type=Trace)
    except (ValueError, RecursionError) as error:
        raise UsageError(_refused(path, str(error))) from None
    square = all(
        len(matrix) == trace.ranks and all(len(row) == trace.ranks for row in matrix)
        for matrix in (trace.matrix.bytes, trace.matrix.messages)
    )
    if not square or any(len(values) != trace.ranks for values in (trace.seconds, *trace.spans.values())):
        raise UsageError(_refused(path, f"its figures are not those of {trace.ranks} ranks"))
    return trace


def _refused(path: Path, reason: str) -> str:
    return printable(
        f"{path}: not a trace of `gondwana run --trace`: {reason}; give files that --json or --trace wrote"
    )
