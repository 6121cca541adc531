"""The product of dissimilarities and vectors, the only work that grows with the square of the number of points."""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana import simd

ROWS, WIDTH = 4, 8
"""Rows of the matrix at once, and elements of a vector: sums of four rows and two vectors fill eight registers."""
TILE, PITCH = 256, 264
"""Columns that are converted at once, and the distance of two rows of them: rows 2 KiB apart would share cache sets."""
PARTS = ROWS * WIDTH
"""Partial sums of the rows with one vector."""


@gw.jit
def multiply(threads: Any, d: Any, x: Any, scale: float, y: Any, tiles: Any, sums: Any) -> None:
    """Let y[k, i] = scale * sum over j of d[i, j] x[k, j].

    The order of the additions depends on neither the rows nor the threads. A tile of four rows is converted in cache
    and multiplied with every vector, two at a time.

    Args:
        threads: the team; each thread takes some of the rows.
        d: any real numbers [n, N].
        x: float64 [K, N rounded up to a multiple of WIDTH], finite.
        scale: of the numbers in d.
        y: float64 [K, n].
        tiles: room for float64 [threads, ROWS * PITCH].
        sums: room for float64 [threads, K * PARTS].
    """
    rows, columns = d.shape
    tile, parts = tiles[threads.index], sums[threads.index]
    pairs = len(x) // 2
    first, last = threads.share(0, (rows + ROWS - 1) // ROWS)
    for row in range(first * ROWS, last * ROWS, ROWS):
        for i in range(len(parts)):
            parts[i] = 0.0
        for start in range(0, columns, TILE):
            width = min(TILE, columns - start)
            for r in range(ROWS):
                convert(d[min(row + r, rows - 1), start : start + width], tile[r * PITCH : (r + 1) * PITCH])
            for pair in range(pairs):
                add_two(tile, width, x[2 * pair], x[2 * pair + 1], start, parts, 2 * pair * PARTS)
            if len(x) % 2:
                add_one(tile, width, x[len(x) - 1], start, parts, 2 * pairs * PARTS)
        for k in range(len(x)):
            for r in range(min(ROWS, rows - row)):
                y[k, row + r] = scale * simd.load(parts, k * PARTS + r * WIDTH, WIDTH).sum()


@gw.jit
def convert(source: Any, target: Any) -> None:
    """Copy a row of a tile, and fill up its last vector with zeros."""
    width = len(source)
    for j in range(width):
        target[j] = source[j]
    for j in range(width, width + WIDTH):
        target[j] = 0.0


@gw.jit
def add_two(tile: Any, width: int, x: Any, y: Any, start: int, parts: Any, at: int) -> None:
    """Add to the partial sums of two vectors the products with a tile, which is loaded once for both."""
    of_x, of_y = load_parts(parts, at), load_parts(parts, at + PARTS)
    for j in range(0, width, WIDTH):
        of_x = add(tile, j, simd.load(x, start + j, WIDTH), of_x)
        of_y = add(tile, j, simd.load(y, start + j, WIDTH), of_y)
    store_parts(parts, at, of_x)
    store_parts(parts, at + PARTS, of_y)


@gw.jit
def add_one(tile: Any, width: int, x: Any, start: int, parts: Any, at: int) -> None:
    """Add to the partial sums of one vector the products with a tile."""
    of_x = load_parts(parts, at)
    for j in range(0, width, WIDTH):
        of_x = add(tile, j, simd.load(x, start + j, WIDTH), of_x)
    store_parts(parts, at, of_x)


@gw.jit
def add(tile: Any, j: int, x: Any, sums: Any) -> Any:
    """Add to the sums of four rows their products with some elements of a vector."""
    return (
        simd.fma(simd.load(tile, j, WIDTH), x, sums[0]),
        simd.fma(simd.load(tile, j + PITCH, WIDTH), x, sums[1]),
        simd.fma(simd.load(tile, j + 2 * PITCH, WIDTH), x, sums[2]),
        simd.fma(simd.load(tile, j + 3 * PITCH, WIDTH), x, sums[3]),
    )


@gw.jit
def load_parts(parts: Any, at: int) -> Any:
    """Return the partial sums of four rows."""
    return (
        simd.load(parts, at, WIDTH),
        simd.load(parts, at + WIDTH, WIDTH),
        simd.load(parts, at + 2 * WIDTH, WIDTH),
        simd.load(parts, at + 3 * WIDTH, WIDTH),
    )


@gw.jit
def store_parts(parts: Any, at: int, sums: Any) -> None:
    """Keep the partial sums of four rows."""
    for r in range(ROWS):
        simd.store(parts, at + r * WIDTH, sums[r])
