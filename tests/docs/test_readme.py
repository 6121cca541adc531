"""The README shows what `make demo` runs, and the program that the guide explains."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_PROGRAM = (ROOT / "docs" / "guide" / "first-program.md").read_text(encoding="utf-8")


PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8").split("\n## ")[part]
    for name, part in (("README.md", 2), ("docs/index.md", 1))
}
"""Those that have the table of ratios, in this section."""
MEASURED: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "7-point sweep": [("stencil", "stencil", {"kernel": "sweep7"})],
    "27-point sweep": [("stencil", "stencil", {"kernel": "sweep27"})],
    "Gray-Scott step": [("stencil", "stencil", {"kernel": "gray_scott"})],
    "initialisation of 50 MB, one thread": [("init", "init", {"threads": 1, "variant": ("foreach", "parallel")})],
    "recursive calls, fib(0) to fib(25)": [("fib", "fib", {"rival": "C"})],
    "ghost exchange, two ranks of a node": [("exchange", "exchange", {})],
    "put of 8 bytes and a signal, compiled code": [("rma", "rma", {"operation": "compiled put + signal"})],
    "sum over two ranks of a node, 8 bytes to 8 KiB, compiled code": [
        (file, "collectives", {"operation": "compiled allreduce", "size": (8, 64, 512, 1024, 8192)})
        for file in ("collectives", "collectives-distant-cores")
    ],
    "put of 8 bytes and a signal between two hosts, compiled code": [
        ("ping-pong-two-hosts", "ping-pong", {"operation": "compiled put + signal", "size": 8})
    ],
    "put; atomic addition of 8 bytes, Python": [
        ("rma", "rma", {"operation": name}) for name in ("Python put", "Python fetch_add")
    ],
    "remote call and its result, Python": [("rma", "rma", {"operation": "Python rpc round trip"})],
    "NAS MG, classes A and B": [("npb", "time", {"benchmark": "MG", "variant": "6msg"})],
    "NAS FT, classes A and B": [
        (file, "time", {"benchmark": "FT", "variant": "pencils"}) for file in ("npb", "npb-ft")
    ],
    "NAS CG, classes A and B": [("npb", "time", {"benchmark": "CG", "variant": "flags"})],
    "HPCG, 16³ to 104³ points a rank": [(file, "rating", {}) for file in ("hpcg", "hpcg-avx512")],
}
"""Which rows of which recorded results each line of the table is about: file, panel, and what the rows have."""


def ratios(file: str, panel: str, wanted: dict[str, Any]) -> Iterator[float]:
    """The ratios of some rows; of one operation at one size, where the page says nothing else, the first."""
    stored = json.loads((ROOT / "docs" / "results" / f"{file}.json").read_text(encoding="utf-8"))
    rows = [row for one in stored.get("results", [stored]) for row in one["panels"][panel]]
    chosen = [
        row["ratio"]
        for row in rows
        if all(row[key] in (value if isinstance(value, tuple) else (value,)) for key, value in wanted.items())
    ]
    assert chosen, (file, panel, wanted)
    yield from chosen[:1] if panel == "rma" else chosen


@pytest.mark.parametrize("page", PAGES)
def test_ratios_are_those_of_the_recorded_results(page: str) -> None:
    """Each figure of the table is what its results have, to the digits that it is given with."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGES[page].splitlines()
        if line.startswith("|") and "`gondwana bench" in line
    ]
    assert len(rows) >= 10
    for name, _, _, shown in rows:
        found = [list(ratios(*one)) for one in MEASURED[name]]
        if "; " in shown:
            pairs = list(zip(shown.split("; "), [values[0] for values in found], strict=True))
        elif " to " in shown:
            everything = [value for values in found for value in values]
            pairs = list(zip(shown.split(" to "), (min(everything), max(everything)), strict=True))
        else:
            pairs = [(shown, found[0][0])]
            assert sum(map(len, found)) == 1, name
        for text, value in pairs:
            half = 0.5 * 10.0 ** -len(text.partition(".")[2])
            assert abs(float(text) - value) <= 1.01 * half, f"{name}: {text}, but {value:.3f} was recorded"


def test_the_commands_of_make_demo_are_printed() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndemo:")[1].split("\n\n")[0]
    commands = re.findall(r"^\t(gondwana .*)$", recipe, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert f"$ {command}\n" in README
        assert f"$ {command}\n" in FIRST_PROGRAM


def program(page: str) -> str:
    """The first program of a page."""
    return page.split("```python\n")[1].split("```")[0]


def test_the_guide_explains_the_program_of_the_readme() -> None:
    """It has more lines, which set, print and draw something."""
    lines = iter(program(FIRST_PROGRAM).splitlines())
    assert [line for line in program(README).splitlines() if line not in lines] == []


def test_the_program_of_the_guide_prints_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = program(FIRST_PROGRAM)
    for old, new in (("256", "16"), ("96:160", "6:10"), ("128", "8")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "heat.py").write_text(text, encoding="utf-8")
    printed = subprocess.run([sys.executable, "heat.py"], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"heat: 256\.000000 before, 256\.000000 after 100 steps; at most 0\.\d+\n", printed)
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
