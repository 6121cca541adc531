"""What applications say of the keys of their settings."""

from __future__ import annotations

import importlib
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from gondwana_apps import davs, grayscott, heat, pwc
from gondwana_apps.options import Parser
from gondwana_apps.settings_files import keys_text, legal_values, settings_parser


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "a whole number"),
        (Annotated[int, Meta(ge=1, le=2**31 - 1)], "a whole number from 1 to 2147483647"),
        (Annotated[float, Meta(gt=0.0, lt=1.0)], "a number above 0 and below 1"),
        (Annotated[float, Meta(ge=0.0)], "a number of at least 0"),
        (Annotated[float, Meta(gt=0.0, le=1e9)] | None, "a number above 0 and up to 1e+09 or null"),
        (Literal[1, 2, "auto"], '1 or 2 or "auto"'),
        (bool, "true or false"),
        (tuple[int, int, int], "a list of 3 numbers, each a whole number"),
        (tuple[float, ...], "a list of numbers, each a number"),
    ],
)
def test_legal_values_are_said_in_words(hint: object, text: str) -> None:
    assert legal_values(hint) == text


class Settings(msgspec.Struct):
    """Settings.

    Attributes:
        steps: number of
            time steps.
        way: "one-sided" or
            "two-sided".
    """

    steps: Annotated[int, Meta(ge=0, le=9)] = 3
    way: Literal["one-sided", "two-sided"] = "one-sided"


def test_keys_are_shown_and_end_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit) as ended:
        settings_parser(Settings, "program", "").parse_args(["--keys"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        "steps = 3\n    number of time steps; a whole number from 0 to 9\n"
        'way = "one-sided"\n    "one-sided" or "two-sided"; "one-sided" or "two-sided"\n'
    )


@pytest.mark.parametrize("application", [davs, grayscott, heat, pwc], ids=lambda package: package.__name__)
def test_every_key_of_every_application_has_a_meaning(application: object) -> None:
    kind = importlib.import_module(f"{application.__name__}.settings").Settings  # type: ignore[attr-defined]
    lines = keys_text(kind).splitlines()
    assert max(map(len, lines)) <= 80
    keys = [place for place, line in enumerate(lines) if not line.startswith(" ")]
    assert [lines[place].partition(" = ")[0] for place in keys] == list(
        msgspec.structs.fields(kind) and kind.__struct_fields__
    )
    texts = ["".join(lines[first + 1 : end]) for first, end in zip(keys, [*keys[1:], len(lines)], strict=True)]
    assert all(";" in text for text in texts), [text for text in texts if ";" not in text]
    assert isinstance(settings_parser(kind, "program", ""), Parser)
