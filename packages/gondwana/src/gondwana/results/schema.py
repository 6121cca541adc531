"""The one schema of results (``--json``): of applications, benchmarks and models. Written, read and checked here.

Their files are written whole or not at all, and checked before anything runs.
"""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gondwana.compiler.multithreading.pool import threads
from gondwana.errors import GondwanaError, UsageError
from gondwana.inputs import printable, read_file
from gondwana.results.host import environment
from gondwana.results.units import figures, units_of
from gondwana.runtime import files
from gondwana.teams import world

VERSION = 1
"""Version of the schema; it grows when a present reader could misunderstand a file."""

LARGEST = 1 << 32
"""The most bytes of a file of results, or of a trace."""

_NOT_FIGURES = frozenset({"schema", "config", "environment", "units"})
"""Keys of an application's result that say how, not how fast."""

Kind: TypeAlias = Literal["app", "benchmark", "model"]
"""The key that has the name of a result."""

Count = Annotated[int, Meta(ge=1)]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What `results.environment` says; keys of its own may follow."""

    time: str
    cpu: str
    cores: Count
    caches: dict[str, int] | None
    placement: dict[str, Any] | None
    load_average: list[float] | None
    system: str
    versions: dict[str, str | None]
    commit: str | None
    compiler: str | None
    mpi_library: str | None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every result begins with.

    Attributes:
        schema: version of this schema.
        command: command that repeats it.
        verified: whether the results were right; None without anything to compare with.
        environment: the machine and the software.
        units: unit of each key with figures, "1" for counts and ratios.
    """

    schema: Literal[1]
    command: list[str]
    verified: bool | None
    environment: Environment
    units: dict[str, str]


class ApplicationResult(Head, frozen=True, kw_only=True):
    """The result of an application; keys of its own follow.

    Attributes:
        app: name of the application.
        version: version of Gondwana.
        ranks: ranks of the run.
        threads: threads of each rank.
        device: "host" or "cuda".
        seconds: duration of the run, without preparations.
    """

    app: str
    version: str
    ranks: Count
    threads: Count
    device: str
    seconds: float


class BenchmarkResult(Head, frozen=True, kw_only=True):
    """The result of a benchmark.

    Attributes:
        benchmark: name of the benchmark, as `gondwana bench` takes it.
        complete: whether all was measured.
        device: device that was measured, if it is not the processor.
        panels: rows of figures by the name of the panel; those of one panel have the same keys.
        notes: omissions, and their reasons.
        failures: measurements that failed because of an error.
    """

    benchmark: str
    complete: bool
    device: dict[str, Any]
    panels: dict[str, list[dict[str, Any]]]
    notes: list[str]
    failures: list[str]


class ModelResult(Head, frozen=True, kw_only=True):
    """Predictions of a model of a machine, or their errors: `verified` is None.

    Attributes:
        model: name of the machine.
        panels: rows of figures by the name of the panel; those of one panel have the same keys.
    """

    model: str
    panels: dict[str, list[dict[str, Any]]]


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Several results in one file.

    Attributes:
        schema: version of this schema.
        collection: common property of the results.
        results: results of applications, benchmarks and models.
    """

    schema: Literal[1]
    collection: str
    results: list[dict[str, Any]]


_STRUCTURES: dict[Kind, type[Head]] = {"app": ApplicationResult, "benchmark": BenchmarkResult, "model": ModelResult}


def application(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of an application as its file has it: the head, then its own keys. Local.

    Args:
        content: content of the result, with the keys `app`, `verified` and `seconds` of `ApplicationResult`. Without
            the others, it is that of this version, on all ranks and threads of the job, and on the host.

    Example:
        >>> application(dict(app="heat", verified=None, seconds=0.5))["units"]["seconds"]
        's'
    """
    from gondwana import __version__  # not at the top: the package's root is above this layer

    whole = {"version": __version__, "ranks": world.size, "threads": threads(), "device": "host", **content}
    own = {key: value for key, value in whole.items() if key not in _NOT_FIGURES}
    return {
        "schema": VERSION,
        "app": content["app"],
        "command": list(sys.argv),
        "environment": environment(),
        "units": units_of(content["app"], [own]),
        **whole,
    }


def write_application(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write the result of an application: see `application` and `write_json`. Local.

    Raises:
        ResultError: the file cannot be written.
    """
    write_json(path, application(content))


def write_model(path: str | Path, machine: str, panels: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write the result of a model: see `ModelResult` and `write_json`. Local.

    Args:
        path: path of the file.
        machine: name of the machine.
        panels: rows of figures by the name of the panel.

    Raises:
        ResultError: the file cannot be written.
    """
    head = {"schema": VERSION, "model": machine, "command": list(sys.argv), "verified": None}
    units = units_of("model", (row for rows in panels.values() for row in rows))
    write_json(path, {**head, "environment": environment(), "units": units, "panels": panels})


def kind_of(result: Mapping[str, Any]) -> Kind:
    """Return the key that has the name of a result. Local.

    Raises:
        msgspec.ValidationError: no such key, or two.
    """
    if "app" in result or "benchmark" in result:
        kinds: list[Kind] = [kind for kind in ("app", "benchmark") if kind in result]
    else:
        kinds = ["model"] if "model" in result else []
    if len(kinds) != 1:
        raise msgspec.ValidationError("it has neither `app` nor `benchmark` nor `model`, or two of them")
    return kinds[0]


def read(path: str | Path) -> list[dict[str, Any]]:
    """Read the results in a file, which has one or a collection of them. Local.

    Returns:
        The results as the file has them: with `app`, with `benchmark` or with `model`.

    Raises:
        UsageError: the file cannot be read, or is not a result of this schema.
    """
    return read_content(read_file(path, str(path), LARGEST, "give files that --json wrote"), path)


def read_content(content: bytes, path: str | Path) -> list[dict[str, Any]]:
    """Return the results in the content of a file: see `read`. Local.

    Raises:
        UsageError: the content is not a result of this schema.
    """
    try:
        decoded = msgspec.json.decode(content.removeprefix(BOM_UTF8))
    except (ValueError, RecursionError) as error:
        raise UsageError(printable(f"{path}: not JSON ({error}); give files that --json wrote")) from None
    try:
        return _results(decoded)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            printable(
                f"{path}: not a result of an application, benchmark or model: {error}; give files that --json wrote"
            )
        ) from None


def check(result: Any) -> None:
    """Check that something is the result of an application, a benchmark or a model. Local.

    Raises:
        msgspec.ValidationError: something is missing or wrong; the message names it and its place.
    """
    if not isinstance(result, dict):
        raise msgspec.ValidationError("it is no object")
    kind = kind_of(result)
    msgspec.convert(result, _STRUCTURES[kind])
    if kind == "app":
        _check_units(result, [{key: value for key, value in result.items() if key not in _NOT_FIGURES}])
        return
    for panel, rows in result["panels"].items():
        if any(row.keys() != rows[0].keys() for row in rows):
            raise msgspec.ValidationError(f"the rows of the panel {panel!r} have different keys")
        _check_units(result, rows)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a file of results. Local."""
    kinds, parts = msgspec.json.schema_components(
        (ApplicationResult, BenchmarkResult, ModelResult, Collection), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Results of Gondwana's applications, benchmarks and models",
        "anyOf": list(kinds),
        "$defs": {name: {**part, "description": _first_line(part)} for name, part in parts.items()},
    }


def _results(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, dict) and "collection" in content:
        found = msgspec.convert(content, Collection).results
    else:
        found = [content]
    for result in found:
        check(result)
    return found


def _first_line(part: Mapping[str, Any]) -> str:
    return str(part.get("description", "")).split("\n", 1)[0]


def _check_units(result: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        for key, value in row.items():
            if figures(value) and key not in result["units"]:
                raise msgspec.ValidationError(f"`units` lacks {key!r}")


class ResultError(GondwanaError):
    """A result was computed and printed, but its file could not be written."""


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a result as JSON, after it was printed. Local.

    A regular file is complete or not written at all, a symbolic link is followed, a device or a FIFO is written to.

    Raises:
        ResultError: the file cannot be written.
    """
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n", f"--json {path}")


def write_text(path: str | Path, text: str, name: str | None = None) -> None:
    """Write a result as text in UTF-8, as `write_json` does. Local.

    Args:
        path: the file.
        text: its content.
        name: name of the file in error messages; None: its path.

    Raises:
        ResultError: the file cannot be written.
    """
    write_bytes(path, text.encode(), name)


def write_bytes(path: str | Path, content: bytes, name: str | None = None) -> None:
    """Write a result that is not text, such as a picture, as `write_json` does. Local.

    Args:
        path: the file.
        content: content of the file.
        name: name of the file in error messages; None: its path.

    Raises:
        ResultError: the file cannot be written.
    """
    try:
        files.write(path, content)
    except OSError as error:
        raise ResultError(f"{name or path}: the result cannot be written ({error.strerror})") from None


def check_writable(path: str | Path, name: str | None = None, *, streams: bool = True) -> None:
    """Check a file name before a benchmark runs for minutes and cannot write it. Local.

    Args:
        path: the file.
        name: name of the file in error messages; None: `--json` and the path.
        streams: whether a device or a FIFO is accepted.

    Raises:
        UsageError: the name is empty, a folder or not writable, or its folder is missing or read-only.
    """
    reason = files.obstacle(path, streams=streams)
    if reason is not None:
        raise UsageError(f"{name or f'--json {path}'}: {reason}; name another file")
