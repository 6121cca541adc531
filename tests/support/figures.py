"""The figures in sentences and cells of the documentation that are filled in from docs/results: `make figures`.

In the Markdown a figure stands between two comments, of which the first names files, a column and what the rows have:

    <!-- figure: npb ratio digits=1 benchmark=FT variant=pencils -->2.0 to 3.5<!-- end -->

Of several rows the smallest and the largest value are shown, of one row its interval as well, where there is one.
`digits`, `scale` and `unit` say how. Said beside it are fewer than five rounds, more than 0.2 of a processor that other
programs kept busy, and a processor other than the usual one; not where the page says that once, with the command, for
all figures of a file:

    <!-- source: npb -->`docs/results/npb.json`: AMD EPYC, 3 rounds ...<!-- end -->

Two more comments are for figures that have no file: `paper`, with the place in one of the studies, and `not measured`,
with the reason (REASONS). `unsourced` finds what stands in none of these.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "studies.md"))]
PAGES += sorted((ROOT / "docs" / "performance").glob("*.md"))
MARK = re.compile(r"(<!-- (figure|source|paper|not measured): ([^>]*?) -->)(.*?)(<!-- end -->)", re.DOTALL)
FEW_ROUNDS, MUCH_LOAD = 5, 0.2
USUAL = "AMD EPYC"
REASONS = ("goal", "setting", "size", "limit", "definition", "arithmetic")
"""What a number may be that nobody has measured; `arithmetic` follows from others of these."""

NUMBER = r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:ns|µs|us|ms|s|seconds?|minutes?|hours?|[kMGT]?B/s|[KMGT]iB/s|GFLOP/s|[GM]cells?/s|M/s)"
WORDS = "three|four|five|six|seven|eight|nine|ten|twenty"
FIGURE = re.compile(
    rf"{NUMBER}[ -]?(?:{UNIT}\b|%|percent\b)"
    rf"|{NUMBER} times\b|\b(?:{WORDS}) times (?:as|the|that|faster|slower|longer|more)\b|\bratios?(?: of)? \d"
    r"|(?<![\w./-])\d+\.\d+\b(?!\.)"
)
"""A time, a rate, a percentage, a factor, or a number with a fraction."""

VERSION = re.compile(
    r"\b\d+\.\d+\.\d+\b|(?:CUDA|Debian|gcc|g\+\+|gfortran) 1\d(?:\.\d+)?|HPCG 3\.1|Julia 1\.\d+|Kokkos 4\.\d"
    r"|Open MPI [45](?:\.\d+)*|NPB 3\.4|Python 3\.\d+|95 % interval"
)
"""Numbers that name something."""

NO_TEXT = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)


def results(file: str) -> list[dict[str, Any]]:
    """Return the results in a file: one, or a collection."""
    stored = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    return list(stored.get("results", [stored]))


def rows(files: str, wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of files of results that have what is wanted, each with its file, panel, processor and command.

    What is wanted is one value for an entry, or several with commas (and no blanks) between. A file of applications has
    a row for each run.
    """
    one_of = {key: re.split(",(?! )", value) for key, value in wanted.items()}
    for file in files.split(","):
        found = False
        for result in results(file):
            said = {"file": file, "cpu": result["environment"]["cpu"], "command": result["command"]}
            for panel, of_panel in ({"": [result]} if "app" in result else result["panels"]).items():
                for row in ({**row, **said, "panel": panel} for row in of_panel):
                    if all(key in row and str(row[key]) in values for key, values in one_of.items()):
                        assert row.get("verified", True), f"{file}: a row with {wanted} was wrong"
                        found = True
                        yield row
        assert found, f"{file}.json has no row with {wanted}"


def figure(mark: str, said: str = "") -> str:
    """Return what stands in a mark: the value or the range, and beside it what makes it less certain.

    Args:
        mark: The comment, from the files on.
        said: Files of which the page says elsewhere how they were measured.
    """
    files, column, *settings = shlex.split(mark)
    wanted = dict(setting.split("=", 1) for setting in settings)
    digits, scale = int(wanted.pop("digits", "2")), float(wanted.pop("scale", "1"))
    unit = wanted.pop("unit", "")
    found = list(rows(files, wanted))
    ends = [row[column] for row in found]
    least, most = (f"{scale * value:.{digits}f}" for value in (min(ends), max(ends)))
    shown = least if least == most else f"{least} to {most}"
    if len(found) == 1 and rounds_of(found[0]) != 1 and f"{column}_low" in found[0]:
        low, high = (f"{scale * found[0][f'{column}_{end}']:.{digits}f}" for end in ("low", "high"))
        shown += f" ({low} to {high})"
    return ", ".join([f"{shown} {unit}".strip(), *notes(row for row in found if row["file"] not in said.split(","))])


def notes(found: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Yield what makes rows less certain, or less comparable with others."""
    measured = list(found)
    rounds = sorted(known for known in map(rounds_of, measured) if known is not None)
    if rounds and rounds[0] < FEW_ROUNDS:
        yield count(rounds)
    load = max((row.get("foreign_load") or 0.0 for row in measured), default=0.0)
    if load > MUCH_LOAD:
        yield f"foreign load up to {load:.1f}"
    names = set(map(processor, measured))
    for name in sorted(names - {USUAL}):
        yield name if names == {name} else f"some on {name}"


def source(files: str) -> str:
    """Return how the rows of files were measured: processors, rounds, load of other programs, and the commands."""
    return "; ".join(map(_source, files.split(",")))


def _source(file: str) -> str:
    measured = list(rows(file, {}))
    loads = [row["foreign_load"] for row in measured if row.get("foreign_load") is not None]
    rounds = sorted(known for known in map(rounds_of, measured) if known is not None)
    said = [" and ".join(sorted(set(map(processor, measured))))]
    said += [count(rounds)] if rounds else []
    said.append(f"foreign load up to {max(loads):.2f}" if loads else "foreign load not recorded")
    commands = {shlex.join(row["command"]) for row in measured}
    command = re.sub(r"^\S*/(?=gondwana )| --(?:json|plot|csv) \S+", "", commands.pop()) if len(commands) == 1 else ""
    return f"`docs/results/{file}.json` ({', '.join(said)}{f'; `{command}`' if command else ''})"


def processor(row: dict[str, Any]) -> str:
    """Return the short name of the processor of a row."""
    return str(row["cpu"]).replace("(R)", "").removesuffix(" Processor")


def count(rounds: list[int]) -> str:
    """Return how many rounds there were, from the least to the most."""
    ends = dict.fromkeys((rounds[0], rounds[-1]))
    return f"{' to '.join(map(str, ends))} {'round' if list(ends) == [1] else 'rounds'}"


def rounds_of(row: dict[str, Any]) -> int | None:
    """Return the number of rounds of a row, or None where it does not say that."""
    counts = [
        value["n"] + value.get("removed", 0) for value in row.values() if isinstance(value, dict) and "n" in value
    ]
    if counts or "jobs" in row:
        return int(min(counts, default=row.get("jobs")))
    asked = re.search(r" --repeat (\d+)", " ".join(row["command"])) if "ratio" in row else None
    return int(asked[1]) if asked else 1 if "app" in row else None


def filled(text: str) -> str:
    """Return a page with all its figures as the files have them."""
    said = ",".join(found[3] for found in MARK.finditer(text) if found[2] == "source")

    def fill(found: re.Match[str]) -> str:
        mark, kind, what, shown, end = found.groups()
        if kind in ("figure", "source"):
            shown = figure(what, said) if kind == "figure" else source(what)
        return f"{mark}{shown}{end}"

    return MARK.sub(fill, text)


def unsourced(text: str) -> list[str]:
    """Return the figures of a page, of which generated tables are taken out before, that have no source."""
    left = VERSION.sub("", NO_TEXT.sub("", MARK.sub("", text)))
    return [left[max(0, found.start() - 40) : found.end() + 20] for found in FIGURE.finditer(left)]


def write() -> None:
    """Fill in the figures of all pages."""
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = filled(old)
        if new != old:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    write()
