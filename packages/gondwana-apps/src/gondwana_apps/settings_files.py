"""Settings of an application as a TOML file and as `KEY=VALUE` on the command line, strictly."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import shutil
import textwrap
import tomllib
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from gondwana.errors import UsageError
from gondwana.inputs import printable, read_text
from gondwana.results import check_writable
from gondwana_apps.options import Parser

S = TypeVar("S", bound=msgspec.Struct)

_INDENT = "    "
_NOT_TOML = ValueError, RecursionError
"""Errors of `tomllib`: its own, or Python's for numbers of many digits and for many brackets."""


class Given(NamedTuple):
    """Settings as users give them.

    Attributes:
        values: values by key.
        places: source of each key, for messages.
    """

    values: dict[str, Any]
    places: dict[str, str]


def settings_parser(
    kind: type[msgspec.Struct], program: str, description: str, file: str = "in TOML", nargs: str | None = "?"
) -> Parser:
    """Return a command line with settings, and with a file for the result. Local.

    Args:
        kind: type of the settings: its docstring describes each key, as `keys_text` shows them.
        program: name of the application.
        description: purpose of the application.
        file: what the settings file is.
        nargs: "?" if there need not be one, else None.
    """
    made = Parser(program, description)
    made.add_argument("settings", nargs=nargs, metavar="SETTINGS", help=f"settings file, {file}")
    made.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="replace a key of the file; may be repeated"
    )
    made.add_argument("--keys", action=_ShowKeys, kind=kind, help="show all keys of the settings and exit")
    made.add_argument("--json", metavar="FILE", help="write the result as JSON")
    return made


class _ShowKeys(Action):
    """Prints the keys of settings and exits, as `--help` does."""

    def __init__(self, *, kind: type[msgspec.Struct], **given: Any) -> None:
        super().__init__(**given, nargs=0, default=SUPPRESS)
        self._kind = kind

    def __call__(self, parser: ArgumentParser, *given: object) -> None:
        print(keys_text(self._kind, shutil.get_terminal_size().columns))
        parser.exit()


def keys_text(kind: type[msgspec.Struct], width: int = 80) -> str:
    """Return all keys of settings with their default, meaning and legal values, as text. Local.

    Args:
        kind: type of the settings: a Struct with a default for each key, whose docstring has their meaning.
        width: columns.
    """
    listed = (inspect.getdoc(kind) or "").partition("Attributes:")[2]
    meanings = dict(re.findall(r"^    (\w+): ((?:.|\n     +)*)", listed, re.MULTILINE))
    hints, parts = get_type_hints(kind, include_extras=True), []
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    for key, hint in hints.items():
        meaning = " ".join(meanings.get(key, "").split()).rstrip(".")
        text = f"{meaning}; {legal_values(hint)}" if meaning else legal_values(hint)
        parts.append(f"{key} = {one_line(defaults[key], 200)}")
        lines = textwrap.wrap(text, max(width, 40) - len(_INDENT), break_on_hyphens=False)
        parts += [_INDENT + line for line in lines]
    return "\n".join(parts)


def load(kind: type[S], options: Namespace) -> S:
    """Read the settings that a command line names, and check the names of its results. Local.

    Args:
        kind: type of the settings: a Struct with a default for each key.
        options: result of a `settings_parser` with the option `--plot`. Each `--set` has the text KEY=VALUE; the value
            is written as in TOML, and may be bare text where a text is expected.

    Raises:
        UsageError: one line that says where what was given, what is legal and what to change.

    Example:
        >>> class Settings(msgspec.Struct):
        ...     MaxNcent: int = 8
        ...     ClusterFile: str = "cluster.txt"
        >>> parser = settings_parser(Settings, "pwc", "")
        >>> _ = parser.add_argument("--plot")
        >>> load(Settings, parser.parse_args(["--set", "MaxNcent=4", "--set", "ClusterFile=found.txt"]))
        Settings(MaxNcent=4, ClusterFile='found.txt')
        >>> load(Settings, parser.parse_args(["--set", "MaxCent=4"]))
        Traceback (most recent call last):
        gondwana.errors.UsageError: --set: unknown key MaxCent; did you mean MaxNcent?
    """
    for option, file in (("--json", options.json), ("--plot", options.plot)):
        if file is not None:
            check_writable(file, f"{option} {file}")
    return kind(**converted(kind, read(kind, options.settings, options.set)))


def read(kind: type[msgspec.Struct], path: str | None, overrides: Iterable[str]) -> Given:
    """Read a settings file, and the replacements of its keys. Local.

    Args:
        kind: type that has the keys.
        path: name of a TOML file of flat keys; None without one.
        overrides: texts `KEY=VALUE`.

    Raises:
        UsageError: one line that gives the place and the error.
    """
    given, hints = Given({}, {}), get_type_hints(kind)
    if path is not None:
        given.values.update(_parsed(path))
        given.places.update(dict.fromkeys(given.values, file_name(path)))
    for text in overrides:
        key, value = override(text)
        given.values[key], given.places[key] = _value(value, hints.get(key)), "--set"
    return given


def override(text: str) -> tuple[str, str]:
    """Return the two sides of `KEY=VALUE`. Local.

    Raises:
        UsageError: the text has no '='.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {printable(text)}: there is no '='; write --set KEY=VALUE")
    return key.strip(), value.strip()


def converted(kind: type[msgspec.Struct], given: Given, refused: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return settings with the types of their keys. Local.

    Args:
        kind: type that has the keys.
        given: settings as users give them.
        refused: reasons why other keys have no use.

    Raises:
        UsageError: one line: an unknown key or a value that is not legal.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {
        key: _converted(hints, key, value, given.places.get(key, "settings"), refused or {})
        for key, value in given.values.items()
    }


def closest(name: str, legal: Iterable[str]) -> str | None:
    """Return the legal name that a name was probably meant to be, None without one; case does not count. Local.

    Example:
        >>> closest("tmin", ["Tminimum", "Tmin1"])
        'Tmin1'
    """
    folded = {candidate.lower(): candidate for candidate in legal}
    matches = difflib.get_close_matches(name.lower()[:80], folded, n=1)
    return folded[matches[0]] if matches else None


def one_line(value: object, limit: int = 60) -> str:
    """Return `value` in JSON's notation on one printable line of at most `limit` characters. Local.

    Example:
        >>> one_line([1, True, None])
        '[1, true, null]'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
        if not text.isprintable():
            text = json.dumps(value, default=repr)
    except (ValueError, RecursionError):
        return "a value too large to show"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def legal_values(hint: Any) -> str:
    """Return a description of the values that the type of a key admits. Local.

    Example:
        >>> legal_values(int | None), legal_values(Annotated[float, msgspec.Meta(gt=0.0, le=1e9)])
        ('a whole number or null', 'a number above 0 and up to 1e+09')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(json.dumps(value) for value in arguments)
    if origin is UnionType or origin is Union:
        return " or ".join("null" if argument is type(None) else legal_values(argument) for argument in arguments)
    if origin is tuple:
        count = "" if ... in arguments else f"{len(arguments)} "
        return f"a list of {count}numbers, each {legal_values(arguments[0])}"
    if origin is Annotated:
        base, meta = arguments
        return f"{legal_values(base)}{_limits(meta, 'd' if base is int else 'g')}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[hint]


def _limits(meta: Any, form: str) -> str:
    """The limits of a number."""
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge:{form}} to {meta.le:{form}}"
    ends = ("of at least", meta.ge), ("above", meta.gt), ("up to", meta.le), ("below", meta.lt)
    found = " and ".join(f"{words} {end:{form}}" for words, end in ends if end is not None)
    return f" {found}" if found else ""


def file_name(path: str | Path) -> str:
    """Return the name of a file on one printable line. Local."""
    text = str(path)
    return text if text.isprintable() and len(text) <= 300 else one_line(text, 300)


def _parsed(path: str) -> dict[str, Any]:
    name = file_name(path)
    text = read_text(path, name)
    try:
        return tomllib.loads(text)
    except _NOT_TOML as error:
        raise UsageError(f"{name}: not TOML: {error}; write one KEY = VALUE a line, texts in quotes") from None


def _value(text: str, hint: Any) -> Any:
    if hint is str and not text.startswith(('"', "'")):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except _NOT_TOML:
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def _converted(hints: dict[str, Any], key: str, value: Any, place: str, refused: Mapping[str, str]) -> Any:
    if key in refused:
        raise UsageError(f"{place}: {key} has no use here: {refused[key]}; remove it")
    if key not in hints:
        close = closest(key, hints)
        advice = f"did you mean {close}?" if close else f"legal keys are {', '.join(hints)}"
        raise UsageError(printable(f"{place}: unknown key {key}; {advice}"))
    try:
        return msgspec.convert(value, hints[key])
    except (msgspec.ValidationError, OverflowError):
        legal = legal_values(hints[key])
        raise UsageError(printable(f"{place}: {key} is {value!r}; legal is {legal}")) from None
