"""The command ``gondwana poisson-memory``."""

from __future__ import annotations

from typing import Annotated

import typer

from gondwana.cli.numbers import whole

ARRAYS, BYTES = 4, 8
"""What the program holds: arrays of float64."""


def memory(
    cells: Annotated[int, typer.Argument(metavar="CELLS", parser=whole(1), help="Cells a side.")],
    ranks: Annotated[int, typer.Option(metavar="N", parser=whole(1), help="How many ranks.")] = 1,
) -> None:
    """Print how much memory a rank of the program needs."""
    print(f"{ARRAYS * BYTES * (cells + 2) ** 2 / ranks / 2**20:.1f} MiB a rank")
