"""All parts of the torture in turns: ``python -m torture --minutes 60 --seed 1``; see the package's docstring."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections import Counter
from pathlib import Path

from support.trials import FAILURES, ONLY

TURN = 2.0
"""Minutes of one turn of a part, at most."""


def names() -> list[str]:
    """The parts: all modules of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def run(parts: list[str], minutes: float, seed: int) -> dict[str, Counter[str]]:
    """Run the parts in turns, each turn with a seed of its own, and return their counts."""
    rounds = 1 if ONLY in os.environ else max(1, round(minutes / (TURN * len(parts))))
    turn = minutes / (rounds * len(parts))
    counts: dict[str, Counter[str]] = {name: Counter() for name in parts}
    for number in range(rounds):
        for name in parts:
            print(f"{name}: {turn:.1f} min with seed {seed + number}", flush=True)
            try:
                counts[name].update(importlib.import_module(f"torture.{name}").main(turn, seed + number))
            except Exception:
                # The trials of the other parts go on: the fault is in this part itself.
                counts[name]["broken"] += 1
                traceback.print_exc()
    return counts


def table(counts: dict[str, Counter[str]]) -> str:
    """One line for each part: its tries, its outcomes, and then its failures, if any."""
    lines = []
    for name, found in counts.items():
        others = sorted(outcome for outcome in found if outcome not in ("tries", "broken", *FAILURES))
        bad = [outcome for outcome in ("broken", *FAILURES) if found[outcome]]
        shown = [f"{found[outcome]} {outcome}" for outcome in others]
        shown.append(", ".join(f"{found[outcome]} {outcome.upper()}" for outcome in bad) or "no failure")
        lines.append(f"{name:<12} {found['tries']:>7} tries: {', '.join(shown)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names())}; all of them")
    parser.add_argument("--minutes", type=float, default=10, help="all parts together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="TRY", help="the number of the one try to make, of one part")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(names()))
    if unknown or (options.only is not None and len(options.parts) != 1):
        parser.error(f"no such part: {', '.join(unknown)}" if unknown else "--only: name one part")
    if options.only is not None:
        os.environ[ONLY] = str(options.only)
    counts = run(options.parts or names(), options.minutes, options.seed)
    print(table(counts))
    return 1 if any(found[outcome] for found in counts.values() for outcome in ("broken", *FAILURES)) else 0


if __name__ == "__main__":
    sys.exit(main())
