"""The table of settings in the Gray-Scott guide says what the program does."""

from __future__ import annotations

import json
from pathlib import Path

from gondwana_apps.grayscott import settings
from gondwana_apps.settings_files import legal_values

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "gray-scott.md"


def test_the_table_has_every_key_with_its_default_and_its_legal_values() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Settings")[1].split("## Output")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")][:3] for line in section.splitlines() if "| `" in line]
    defaults = settings.Settings()
    expected = [
        [f"`{key}`", f"`{json.dumps(getattr(defaults, key))}`", legal_values(settings._HINTS[key])]
        for key in settings._KEYS
    ]
    assert rows == expected
