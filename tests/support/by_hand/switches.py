"""Time our applications with and without what looks at them: traces, checks of indices, the detector of races.

Each round runs a job without and a job with each switch. All of docs/results/switches.json:

python tests/support/by_hand/switches.py --json docs/results/switches.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import recording

from gondwana_bench.processes import our_command
from gondwana_bench.rows import Row

RANKS, ROUNDS = 2, 5
GRAY_SCOTT = Path(__file__).parents[3] / "examples" / "gray-scott" / "demo.json"
STEPS = f"gray-scott {GRAY_SCOTT} --set L=128 --set steps=60 --set noise=0 --set output=null"
NAS = ("mg", "ft", "cg")
PROGRAMS = {
    "heat, 100³": "heat -X 100 -Y 100 -Z 100 -N 300 -I 100",
    "gray-scott, 128³": STEPS,
    **{f"npb-{name}, class {letter}": f"npb-{name} --class {letter}" for letter in "AW" for name in NAS},
}
TRACE, CHECKS, RACES = "--trace FILE", "GONDWANA_CHECK=1", "GONDWANA_CHECK=races"
SWITCHES = {
    TRACE: [name for name in PROGRAMS if not name.endswith("W")],
    CHECKS: [name for name in PROGRAMS if not name.endswith("W")],
    RACES: [name for name in PROGRAMS if not name.endswith("A")],
}
"""The programs that are run with each switch: those that take longest with the detector have a smaller class."""


def seconds_of(program: str, switch: str | None, right: list[bool]) -> float:
    """Return the seconds that a job of a program says; whether its result was right is added."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*PROGRAMS[program].split(), "--json", f"{folder}/result.json"]
        traced = ["--trace", f"{folder}/trace.json"] if switch == TRACE else []
        name, _, value = (switch or "").partition("=")
        variables = {**os.environ, **({} if traced or switch is None else {name: value})}
        subprocess.run(our_command(RANKS, *traced, *words), env=variables, cwd=folder, capture_output=True, check=True)
        result = json.loads(Path(folder, "result.json").read_text("utf-8"))
    right.append(result["verified"] is not False)  # None: there is nothing to compare with
    return float(result["seconds"])


def measured(program: str, rounds: int) -> Iterator[Row]:
    """Yield a row for each switch, all measured in turns with the program without one."""
    right: list[bool] = []
    switches = [switch for switch, programs in SWITCHES.items() if program in programs]
    for switch in (None, *switches):  # what compiles does not count
        seconds_of(program, switch, right)
    runs = {str(switch): partial(seconds_of, program, switch, right) for switch in (None, *switches)}
    times = recording.in_turns(runs, rounds)
    plain = times.pop(str(None))
    for switch, seconds in times.items():
        case: Mapping[str, object] = {"program": program, "ranks": RANKS, "switch": switch}
        yield recording.row(case, "without", plain, seconds, all(right))


def main() -> None:
    """Measure all programs, or one."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="collection of results to which these are added")
    given = parser.parse_args()
    for program in given.programs:
        recording.record(measured(program, given.rounds), "switches", ("program", "switch", "ranks"), given.json)


if __name__ == "__main__":
    main()
