"""Reading a settings file: one JSON object, strictly, with one clear line for each kind of error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from gondwana.errors import UsageError
from gondwana.inputs import read_text
from gondwana_apps.settings_files import closest, file_name, one_line

MAX_DIGITS = 400

# Habits of people from other languages, and the JSON that they need instead.
_HABITS = {
    "'": "strings take double quotes",
    "//": "JSON has no comments; remove it",
    "/*": "JSON has no comments; remove it",
    "#": "JSON has no comments; remove it",
    "True": "write true in lower case",
    "False": "write false in lower case",
    "None": "write null",
    "+": "numbers take no leading plus sign",
    ".": "numbers start with a digit, as in 0.5",
}


def read_settings_file(path: str | Path) -> dict[str, Any]:
    """Read the JSON object that the file `path` holds. Local.

    Args:
        path: name of a regular file, ending in `.json`, of at most 1 MiB of UTF-8.

    Returns:
        The object's keys and values; no key twice, no number that is not finite.

    Raises:
        UsageError: the contents are anything else; the message is one line that names the file.

    Example:
        >>> read_settings_file("no-such-file.json")
        Traceback (most recent call last):
        ...
        gondwana.errors.UsageError: no-such-file.json: no such file; check the path
    """
    path, name = Path(path), file_name(path)
    if path.suffix != ".json":
        raise UsageError(f"{name}: the name of a settings file ends in .json; rename it")
    if _is_missing(path):
        raise UsageError(f"{name}: no such file; {_similar(path)}")
    return parse_object(read_text(path, name), name)


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parse one JSON object; `where` starts every message. Local."""
    if not text.strip():
        raise UsageError(f'{where}: the file is empty; write a JSON object, for example {{"L": 64, "steps": 1000}}')
    value = parse_value(text, where)
    if not isinstance(value, dict):
        raise UsageError(f"{where}: the file holds {kind(value)}; legal is one JSON object: {{ ... }}")
    return value


def parse_value(text: str, where: str) -> Any:
    """Parse one JSON value, stricter than the standard library: finite numbers, no key twice. Local."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise UsageError(f"{where}: key {one_line(key)} is given twice; keep one of the two")
            seen[key] = value
        return seen

    def not_finite(name: str) -> NoReturn:
        raise UsageError(f"{where}: {name} is not a number that JSON has; give a finite number")

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise UsageError(f"{where}: a number of {len(digits)} digits is too long; at most {MAX_DIGITS} are read")
        return int(digits)

    def real(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise UsageError(f"{where}: {one_line(digits)[1:-1]} is too large; the largest number is about 1.8e308")
        return number

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=not_finite, parse_int=whole, parse_float=real)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{where}: not JSON at {place}: {_explain(text, error)}") from None
    except RecursionError:
        raise UsageError(f"{where}: the JSON is nested too deeply; a settings file has one level of keys") from None


def kind(value: object) -> str:
    """Name the JSON type of a parsed value that is no object."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null")


def _is_missing(path: Path) -> bool:
    """Return False, too, for a name that the system does not take: reading it gives the reason."""
    try:
        path.stat()  # `exists` gives no reason from Python 3.14 on
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False


def _similar(path: Path) -> str:
    others = [other.name for other in path.parent.glob("*.json")] if path.parent.is_dir() else []
    match = closest(path.name, others)
    return f"did you mean {file_name(path.parent / match)}?" if match else "check the path"


def _explain(text: str, error: json.JSONDecodeError) -> str:
    before = text[: error.pos].rstrip()
    after = text[error.pos :].lstrip()
    # Python 3.13 points at the comma itself, earlier versions at the text after it.
    if after[:1] == "," and after[1:].lstrip()[:1] in {"}", "]"}:
        return "trailing comma; remove it"
    if before.endswith(",") and after[:1] in {"}", "]"}:
        return f"trailing comma before {after[:1]!r}; remove it"
    for habit, advice in _HABITS.items():
        if after.startswith(habit):
            return f"found {habit!r}; {advice}"
    if not after:
        return "the text ends too early; close every brace and quote"
    if error.msg.startswith("Extra data"):
        return "text follows after the object; a settings file holds one object"
    return f"{error.msg[0].lower()}{error.msg[1:]}, found {one_line(after[:12])}"
