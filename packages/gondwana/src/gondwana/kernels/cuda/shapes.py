"""Shapes of launches: the distribution of the points of a box over blocks and threads."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from gondwana.kernels.variant import Order

Offset = tuple[int, ...]

AXES = 4
"""Loops of a sweep, outermost first: over slabs, along the march, over rows, along rows. Missing ones have one
point."""

HEADER_WORDS = 3 * AXES + 5
"""Parameters before the arguments: first coordinates, numbers of points and strides of a box, tiles along rows, tiles
across rows, pieces of the march, steps of a piece, address of the results."""


@dataclass(frozen=True)
class Shape:
    """One way to run a kernel.

    A block of `x` times `y` threads walks along the march through a tile of `x * lanes` by `y` points.

    Args:
        x: threads along a row.
        y: threads across rows.
        lanes: points of a thread along the row: adjacent ones, in a fused pair `x` apart.
        steps: points of a thread along the march; the next block continues.
        held: whether elements that are needed again in the next plane stay in registers.
        ahead: number of planes that are loaded before their time.
        streamed: whether stores bypass the cache.
        resident: blocks that a multiprocessor must hold at once; 0 leaves it to the compiler.
    """

    x: int = 32
    y: int = 8
    lanes: int = 1
    steps: int = 32
    held: bool = True
    ahead: int = 0
    streamed: bool = False
    resident: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.x * self.y

    def over(self, *, dense: bool) -> Shape:
        """The same for boxes that are dense or not: the points of a thread are a constant distance apart."""
        return self if dense else replace(self, lanes=1)

    def code(self) -> tuple[object, ...]:
        """The parts of a shape that the machine code depends on."""
        return self.x, self.y, self.lanes, self.held, self.ahead, self.streamed, self.resident

    def source(self, *, any_block: bool) -> Shape:
        """The same in what the text depends on that `text_for` makes a version for the shape of.

        Args:
            any_block: whether the code is the same for all sizes of blocks.
        """
        block = (1, 1) if any_block else (self.x, self.y)
        return Shape(*block, self.lanes, held=self.held, ahead=self.ahead)

    def text_for(self, ptx: bytes) -> bytes:
        """Return PTX for launches of this shape, of a text with one entry for any shape.

        So shapes that differ in these parts alone need no compilation.
        """
        bounds = f".maxntid {self.threads}, 1, 1\n.minnctapersm {max(1, self.resident)}\n{{".encode()
        head, rest = ptx.split(b"\n{", 1)
        ptx = head + b"\n" + bounds + rest
        for axis, threads in ((b"x", self.x), (b"y", self.y)):
            ptx = ptx.replace(b"%ntid." + axis, str(threads).encode())
        return ptx.replace(b"st.global.", b"st.global.cs.") if self.streamed else ptx


def padded(row: Offset) -> tuple[Offset, Offset, Offset]:
    """A row of a table (see `variant.box_table`) as `AXES` loops: first coordinates, numbers of points, strides."""
    ndim = len(row) // 3
    return _padded(row[:ndim], 0), _padded(row[ndim : 2 * ndim], 1), _padded(row[2 * ndim :], 1)


def _padded(values: Offset, missing: int) -> Offset:
    if len(values) == 2:  # the march goes across rows
        return missing, values[0], missing, values[1]
    return (missing,) * (AXES - len(values)) + values


def coordinates(ndim: int, order: Order) -> tuple[int, ...]:
    """The number of the loop that gives each coordinate of a point."""
    loops = {1: (3,), 2: (1, 3), 3: (1, 2, 3), 4: (0, 1, 2, 3)}[ndim]
    return loops if order == "C" else loops[::-1]


def march(ndim: int, order: Order) -> Offset | None:
    """The offset of one step of the march, None without an axis for it."""
    return None if ndim == 1 else tuple(int(loop == 1) for loop in coordinates(ndim, order))


def row(ndim: int, order: Order) -> tuple[int, ...]:
    """The offset of one step along a row."""
    return tuple(int(loop == AXES - 1) for loop in coordinates(ndim, order))


@dataclass(frozen=True)
class Geometry:
    """The parameters of a launch over one box, without results, and the number of tiles."""

    words: bytes
    tiles: int


def geometry(box: tuple[int, ...], shape: Shape, border: int = 0) -> Geometry:
    """Deal the points of a box (a row of `variant.box_table`) to tiles. Local.

    Args:
        box: row of the table.
        shape: shape of the launch.
        border: points at each end of a row and of a column of a tile that belong to its neighbours.
    """
    first, counts, strides = padded(box)
    across = -(-counts[3] // (shape.x * shape.lanes - 2 * border))
    rows = -(-counts[2] // (shape.y - 2 * border))
    steps = min(shape.steps, max(counts[1], 1))
    pieces = -(-counts[1] // steps)
    words = (*first, *counts, *strides, across, rows, pieces, steps)
    return Geometry(struct.pack(f"{len(words)}q", *words), counts[0] * pieces * rows * across)
