"""The division of the box over ranks: balanced blocks, or those of the original program."""

from __future__ import annotations

import math

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.heat.settings import Settings


def layout(settings: Settings, ranks: int, fuse_steps: int = 1) -> gw.Layout:
    """Return the division of the box, with a ghost around each block for every step of a sweep. Local.

    Args:
        settings: settings of the run.
        ranks: number of ranks that share the box.
        fuse_steps: time steps in one sweep.

    Raises:
        UsageError: a rank would have no cells, or too few for its neighbours' ghosts.

    Example:
        >>> layout(Settings(X=8, Y=8, Z=8), 4).owned(3).shape
        (2, 8, 8)
    """
    compatible = settings.blocks == "ceil"
    grid = grid_of(ranks) if compatible else None
    divided = gw.Layout.divide(settings.shape, ranks, ghost=fuse_steps, grid=grid, division=settings.blocks)
    box = f"a box of {'x'.join(map(str, settings.shape))}, divided as {'x'.join(map(str, divided.grid))}"
    empty = [rank for rank in range(ranks) if divided.owned(rank).is_empty]
    if empty:
        other = "set blocks = balanced, or " if compatible else ""
        raise UsageError(
            f"heat: {gw.name_ranks(empty)} of {ranks} would have no cells of {box}; {other}start fewer ranks, or "
            "enlarge the box"
        )
    if thinnest(divided) < fuse_steps:
        raise UsageError(
            f"heat: fuse_steps is {fuse_steps}, and a block of {box}, has {thinnest(divided)} cells along a divided "
            "axis; set fuse_steps = 1, start fewer ranks, or enlarge the box"
        )
    return divided


def thinnest(divided: gw.Layout) -> float:
    """Return the fewest cells of a block along a divided axis; infinity without one. Local.

    Example:
        >>> thinnest(gw.Layout.divide((9, 8, 7), 2, ghost=1))
        4
    """
    blocks = [divided.owned(rank).shape for rank in range(math.prod(divided.grid))]
    return min(
        (shape[axis] for axis, count in enumerate(divided.grid) if count > 1 for shape in blocks), default=math.inf
    )


def grid_of(ranks: int) -> tuple[int, int, int]:
    """Return the grid of ranks that the original program makes: blocks along x, y and z. Local.

    Example:
        >>> grid_of(12), grid_of(768)
        ((2, 2, 3), (12, 8, 8))
    """
    x = _divisor_from(int(ranks ** (1 / 3)), ranks)  # a root just below a whole number is no divisor, or as good
    y = _divisor_from(math.isqrt(ranks // x), ranks // x)
    return x, y, ranks // x // y


def _divisor_from(first: int, number: int) -> int:
    """The smallest divisor of a number from `first` on."""
    return next(n for n in range(max(first, 1), number + 1) if number % n == 0)
