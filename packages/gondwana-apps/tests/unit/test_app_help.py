"""The help of applications fits a terminal, and says what each number counts, and what holds without it."""

from __future__ import annotations

import argparse
import re

import pytest

from gondwana.cli.programs import EXTRAS, PROGRAMS, program
from gondwana_apps.options import Parser

NAMES = EXTRAS[PROGRAMS][1]
COUNTED = r"\b(cells|points|ranks|levels|layers|steps?|seconds|temperature|rate|power|number)\b"


class FoundError(Exception):
    """The parser of an application."""


@pytest.fixture(params=NAMES)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Parser:
    def stop(self: Parser, argv: list[str]) -> None:
        raise FoundError(self)

    monkeypatch.setattr(Parser, "parse_args", stop)
    with pytest.raises(FoundError) as found:
        program(request.param).check([], 1)
    made = found.value.args[0]
    assert isinstance(made, Parser)
    return made


def test_the_help_of_an_application(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = parser.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert [option for action in parser._actions if not action.help for option in action.option_strings] == []
    # Files that are not named are neither read nor written, and keys that are not replaced stay.
    others = ("FILE", "FOLDER", "KEY=VALUE")
    given = [action for action in parser._actions if is_option(action) and action.metavar not in others]
    assert [" ".join(action.option_strings) for action in given if not (action.help or "").endswith("]")] == []
    numbers = [action for action in given if action.type is not None or action.metavar == "VALUE"]
    assert [action.dest for action in numbers if not re.search(COUNTED, action.help or "")] == []
    for action in given:
        assert action.default in (None, []) or f"[{action.default}]" in (action.help or ""), action.dest


def is_option(action: argparse.Action) -> bool:
    """Whether an option takes a value."""
    return bool(action.option_strings) and action.nargs != 0


def test_every_application_is_tested() -> None:
    assert len(NAMES) == 8
