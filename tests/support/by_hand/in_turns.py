"""Time an example of the library and the same program by hand, with mpi4py and Numba, in turns in the same ranks.

gondwana run -n 2 -t 1 tests/support/by_hand/in_turns.py lattice_boltzmann 512 512 200
"""

from __future__ import annotations

import importlib
import re
import statistics
import sys
import time
from pathlib import Path

import gondwana as gw

EXAMPLES = Path(__file__).parents[3] / "examples"
ROUNDS = 7


def seconds_of(name: str, nx: int, ny: int, steps: int) -> float:
    """Run the example with other numbers of cells and steps, and return how long that took, start included."""
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    constants = re.search(r"^(NX, NY, [A-Z, ]*) = (.*?)(?= {2,}#|$)", source, re.M)
    if constants is None:
        source = source[: source.index("if __name__")] + f"run(({nx}, {ny}), {steps})"
    else:
        names, values = (text.split(", ") for text in constants.groups())
        given = dict(zip(names, values, strict=True)) | {"NX": nx, "NY": ny, "STEPS": steps}
        source = source.replace(constants[0], f"{constants[1]} = {', '.join(map(str, given.values()))}")
        # What follows the steps are results that need all steps of the example.
        source = source[: source.rindex("\n", 0, source.index("if gw.world.rank == 0")) + 1]
    gw.world.barrier()
    start = time.perf_counter()
    exec(compile(source, str(EXAMPLES / f"{name}.py"), "exec"), {"__name__": "example"})
    gw.world.barrier()
    return time.perf_counter() - start


def main(name: str, nx: int, ny: int, steps: int) -> None:
    """Print the milliseconds of a step of both, medians and the least, and the ratio of the medians."""
    by_hand = importlib.import_module(name)
    few = 2
    seconds_of(name, nx, ny, few)
    by_hand.run(nx, ny, few)
    times: dict[str, list[float]] = {"ours": [], "by hand": []}
    for _ in range(ROUNDS):
        start = seconds_of(name, nx, ny, few)
        times["ours"].append((seconds_of(name, nx, ny, few + steps) - start) / steps)
        gw.world.barrier()
        times["by hand"].append(by_hand.run(nx, ny, steps) / steps)
    if gw.world.rank == 0:
        ratios = sorted(ours / theirs for ours, theirs in zip(*times.values(), strict=True))
        text = {key: f"{1e3 * statistics.median(of):.3f} (least {1e3 * min(of):.3f}) ms" for key, of in times.items()}
        middle = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(name, f"{nx} x {ny}, {gw.world.size} ranks:", text, "ours / by hand", middle)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
