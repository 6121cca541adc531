"""The figures in sentences and cells of the documentation that are filled in from docs/results: `make figures`.

In the Markdown a figure stands between two comments, of which the first names files, a column and what the rows have:

    <!-- figure: npb,npb-ft ratio digits=1 benchmark=FT variant=pencils -->2.0 to 3.5<!-- end -->

Of several rows the smallest and the largest value are shown, of one row its interval as well, where there is one. Said
beside it are fewer than five rounds, more than 0.2 of a processor that other programs kept busy, and a processor other
than the usual one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "studies.md"))]
PAGES += sorted((ROOT / "docs" / "performance").glob("*.md"))
MARK = re.compile(r"(<!-- figure: (.*?) -->)(.*?)(<!-- end -->)")
FEW_ROUNDS, MUCH_LOAD = 5, 0.2
USUAL = "AMD EPYC"


def rows(file: str, wanted: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of results whose entries are among those that are wanted, each with its processor."""
    stored = json.loads((ROOT / "docs" / "results" / f"{file}.json").read_text(encoding="utf-8"))
    for result in stored.get("results", [stored]):
        for panel in result["panels"].values():
            for row in panel:
                if all(key in row and str(row[key]) in values for key, values in wanted.items()):
                    assert row["verified"], f"{file}: a row with {wanted} was wrong"
                    yield {**row, "cpu": result["environment"]["cpu"]}


def figure(mark: str) -> str:
    """Return what stands in a mark: the value or the range, and beside it what makes it less certain."""
    files, column, *settings = shlex.split(mark)
    wanted = {key: re.split(",(?! )", value) for key, value in (setting.split("=", 1) for setting in settings)}
    (digits,) = wanted.pop("digits", ["2"])
    found = []
    for file in files.split(","):
        of_file = list(rows(file, wanted))
        assert of_file, f"{file}.json has no row with {wanted}"
        found += of_file
    values = [row[column] for row in found]
    least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    shown = least if least == most else f"{least} to {most}"
    rounds = sorted(map(rounds_of, found))
    if len(found) == 1 and rounds[0] > 1 and f"{column}_low" in found[0]:
        shown += " ({:.{d}f} to {:.{d}f})".format(*(found[0][f"{column}_{end}"] for end in ("low", "high")), d=digits)
    load = max(row.get("foreign_load") or 0.0 for row in found)
    counts = " to ".join(str(count) for count in dict.fromkeys((rounds[0], rounds[-1])))
    notes = [f"{counts} {'round' if counts == '1' else 'rounds'}"] if rounds[0] < FEW_ROUNDS else []
    notes += [f"foreign load up to {load:.1f}"] if load > MUCH_LOAD else []
    names = {row["cpu"].replace("(R)", "").removesuffix(" Processor") for row in found}
    notes += [name if names == {name} else f"some on {name}" for name in sorted(names - {USUAL})]
    return ", ".join([shown, *notes])


def rounds_of(row: dict[str, Any]) -> int:
    """Return the number of rounds of a row; where it does not say that, as many as need no note."""
    counts = [
        value["n"] + value.get("removed", 0) for value in row.values() if isinstance(value, dict) and "n" in value
    ]
    return int(min([*counts, row.get("jobs", FEW_ROUNDS)]))


def filled(text: str) -> str:
    """Return a page with all its figures as the files have them."""
    return MARK.sub(lambda found: f"{found[1]}{figure(found[2])}{found[4]}", text)


def write() -> None:
    """Fill in the figures of all pages."""
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = filled(old)
        if new != old:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    write()
