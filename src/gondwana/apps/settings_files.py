"""Settings of an application as a TOML file and as `KEY=VALUE` on the command line, strictly."""

from __future__ import annotations

import difflib
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from gondwana.apps import text_files
from gondwana.apps.options import Parser
from gondwana.errors import UsageError
from gondwana.inputs import printable
from gondwana.results import check_writable

S = TypeVar("S", bound=msgspec.Struct)


def parser(program: str, description: str) -> Parser:
    """Return a command line with settings, and with files for the result and a picture. Local."""
    made = Parser(program, description)
    made.add_argument("settings", nargs="?", metavar="SETTINGS", help="settings file, in TOML")
    made.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="replace a key of the file; may be repeated"
    )
    made.add_argument("--json", metavar="FILE", help="write the result as JSON")
    made.add_argument("--plot", metavar="FILE", help="draw eigenvalues and clusters over temperature, as PNG")
    return made


def load(kind: type[S], options: Namespace) -> S:
    """Read the settings that a command line names, and check where it lets results be written. Local.

    Args:
        kind: what they are: a Struct with a default for each key.
        options: what `parser` has made of the command line. Each `--set` has the text KEY=VALUE; the value is written
            as in TOML, and may be bare text where a text is expected.

    Raises:
        UsageError: one line that says where what was given, what is legal and what to change.

    Example:
        >>> class Settings(msgspec.Struct):
        ...     MaxNcent: int = 8
        ...     ClusterFile: str = "cluster.txt"
        >>> words = ["--set", "MaxNcent=4", "--set", "ClusterFile=found.txt"]
        >>> load(Settings, parser("pwc", "").parse_args(words))
        Settings(MaxNcent=4, ClusterFile='found.txt')
        >>> load(Settings, parser("pwc", "").parse_args(["--set", "MaxCent=4"]))
        Traceback (most recent call last):
        gondwana.errors.UsageError: --set: unknown key MaxCent; did you mean MaxNcent?
    """
    for option, file in (("--json", options.json), ("--plot", options.plot)):
        if file is not None:
            check_writable(file, f"{option} {file}")
    given = {} if options.settings is None else _read(Path(options.settings))
    place = dict.fromkeys(given, printable(str(options.settings)))
    for text in options.set:
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
