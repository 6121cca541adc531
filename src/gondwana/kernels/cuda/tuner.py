"""Which shape a launch has."""

from __future__ import annotations

from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.variant import Variant


def shape_for(variant: Variant, extents: tuple[int, ...]) -> Shape:
    """Return the shape of the launches of a kernel over boxes of about these extents, in the order of loops. Local."""
    columns = extents[-1]
    x = 32
    while x > 1 and x // 2 >= columns:
        x //= 2
    return Shape(x=x, y=max(1, 256 // x) if len(extents) > 2 else 1)
