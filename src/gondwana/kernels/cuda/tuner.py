"""Which shape a launch has."""

from __future__ import annotations

from gondwana.errors import UsageError
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.variant import Variant


def shape_for(variant: Variant, extents: tuple[int, ...]) -> Shape:
    """Return the shape of the launches of a kernel over boxes of about these extents, in the order of loops. Local."""
    columns = extents[-1]
    x = 32
    while x > 1 and x // 2 >= columns:
        x //= 2
    return Shape(x=x, y=max(1, 256 // x) if len(extents) > 2 else 1)


def pair_shape_for(variant: Variant, extents: tuple[int, ...]) -> Shape:
    """Return the shape of the launches of a fused pair over a box of these extents, in the order of loops. Local.

    Raises:
        UsageError: no tile fits the box.
    """
    for x, y in ((32, 16), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4)):
        if extents[-1] >= x - 2 and extents[-2] >= y - 2:
            return Shape(x=x, y=y)
    raise UsageError(f"fused kernels need a box of at least 2 x 2 points across the slowest axis, not {extents[1:]}")
