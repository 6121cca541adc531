"""Settings of an application as a TOML file and as `KEY=VALUE` on the command line, strictly."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from gondwana.apps import text_files
from gondwana.errors import UsageError
from gondwana.inputs import printable

S = TypeVar("S", bound=msgspec.Struct)


def load(kind: type[S], path: str | Path | None, overrides: Iterable[str] = ()) -> S:
    """Read settings. Local.

    Args:
        kind: what they are: a Struct with a default for each key.
        path: a TOML file of the keys; None: there is none.
        overrides: texts `KEY=VALUE` that replace keys of the file; the value is written as in TOML, and may be bare
            text where a text is expected.

    Raises:
        UsageError: one line that says where what was given, what is legal and what to change.

    Example:
        >>> class Settings(msgspec.Struct):
        ...     MaxNcent: int = 8
        ...     ClusterFile: str = "cluster.txt"
        >>> load(Settings, None, ["MaxNcent=4", "ClusterFile=found.txt"])
        Settings(MaxNcent=4, ClusterFile='found.txt')
        >>> load(Settings, None, ["MaxCent=4"])
        Traceback (most recent call last):
        gondwana.errors.UsageError: --set: unknown key MaxCent; did you mean MaxNcent?
    """
    given = {} if path is None else _read(Path(path))
    place = dict.fromkeys(given, printable(str(path)))
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {printable(text)}: there is no '='; write --set KEY=VALUE")
        given[key.strip()], place[key.strip()] = _value(value.strip()), "--set"
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{key: _converted(hints, key, value, place[key]) for key, value in given.items()})


def _read(path: Path) -> dict[str, Any]:
    name = printable(str(path))
    try:
        return tomllib.loads(text_files.read(path, name))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: not TOML: {error}; write one KEY = VALUE a line, texts in quotes") from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _converted(hints: dict[str, Any], key: str, value: Any, place: str) -> Any:
    if key not in hints:
        folded = {name.lower(): name for name in hints}
        close = difflib.get_close_matches(key.lower()[:80], folded, n=1)
        advice = f"did you mean {folded[close[0]]}?" if close else f"legal keys are {', '.join(hints)}"
        raise UsageError(printable(f"{place}: unknown key {key}; {advice}"))
    try:
        return msgspec.convert(value, hints[key])
    except (msgspec.ValidationError, OverflowError) as error:
        legal = str(error).replace("`", "").removeprefix("Expected ")
        raise UsageError(printable(f"{place}: {key} is {value!r}; legal is: {legal}")) from None
