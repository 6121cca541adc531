"""The product of a dense matrix and vectors, with the same bits on any number of threads and for any rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import gondwana as gw
from gondwana import simd

ROWS, WIDTH = 3, 8
"""Rows of the matrix at once, and elements of a vector: sums of three rows and two vectors take 12 registers of four
elements, which leaves four for loaded elements."""
TILE, PITCH = 512, 520
"""Columns that are converted at once, and the distance of two rows of them: rows 4 KiB apart would share cache sets."""
BAND = 16
"""Triples of rows that use the same columns of the vectors, one after the other, before the next columns are loaded."""
PARTS = ROWS * WIDTH
"""Partial sums of the rows with one vector."""


@gw.jit
def multiply(threads: Any, d: Any, x: Any, scale: float, y: Any, tiles: Any, sums: Any) -> None:
    """Let y[k, i] = scale * sum over j of d[i, j] x[k, j].

    The order of the additions depends on neither the rows nor the threads. A tile of three rows is converted in cache
    and multiplied with every vector, two at a time.

    Args:
        threads: the team; each thread takes some of the rows.
        d: any real numbers [n, N].
        x: float64 [K, N rounded up to a multiple of WIDTH], finite.
        scale: scale of the numbers in d.
        y: float64 [K, n].
        tiles: space for float64 [threads, ROWS * PITCH].
        sums: space for float64 [threads, BAND * K * PARTS].
    """
    rows, columns = d.shape
    tile, parts = tiles[threads.index], sums[threads.index]
    vectors, pitch = len(x), len(x) * PARTS
    first, last = threads.share(0, (rows + ROWS - 1) // ROWS)
    for band in range(first, last, BAND):
        triples = min(BAND, last - band)
        parts[: triples * pitch] = 0.0
        for start in range(0, columns, TILE):
            width = min(TILE, columns - start)
            for triple in range(triples):
                at, row = triple * pitch, (band + triple) * ROWS
                for r in range(row, row + ROWS):
                    convert(d[min(r, rows - 1)], d[min(r + ROWS, rows - 1)], start, width, tile, (r - row) * PITCH)
                for k in range(0, vectors - 1, 2):
                    add_two(tile, width, x[k], x[k + 1], start, parts, at + k * PARTS)
                if vectors % 2:
                    add_one(tile, width, x[vectors - 1], start, parts, at + pitch - PARTS)
        for i in range(band * ROWS, min(rows, (band + triples) * ROWS)):
            triple, r = divmod(i - band * ROWS, ROWS)
            for k in range(vectors):
                y[k, i] = scale * simd.load(parts, triple * pitch + k * PARTS + r * WIDTH, WIDTH).sum()


@gw.jit
def convert(row: Any, ahead: Any, start: int, width: int, tile: Any, at: int) -> None:
    """Copy a part of a row to a tile, fill up its last vector with zeros, and prefetch the next row."""
    whole = width - width % WIDTH
    for j in range(0, whole, WIDTH):
        simd.prefetch(ahead, start + j)
        simd.store(tile, at + j, simd.load(row, start + j, WIDTH).astype(np.float64))
    simd.store(tile, at + whole, simd.fill(0.0, WIDTH))
    for j in range(whole, width):
        tile[at + j] = row[start + j]


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
    """Add to the sums of three rows their products with some elements of a vector."""
    return (
        simd.fma(simd.load(tile, j, WIDTH), x, sums[0]),
        simd.fma(simd.load(tile, j + PITCH, WIDTH), x, sums[1]),
        simd.fma(simd.load(tile, j + 2 * PITCH, WIDTH), x, sums[2]),
    )


@gw.jit
def load_parts(parts: Any, at: int) -> Any:
    """Return the partial sums of three rows."""
    return simd.load(parts, at, WIDTH), simd.load(parts, at + WIDTH, WIDTH), simd.load(parts, at + 2 * WIDTH, WIDTH)


@gw.jit
def store_parts(parts: Any, at: int, sums: Any) -> None:
    """Keep the partial sums of three rows."""
    for r in range(ROWS):
        simd.store(parts, at + r * WIDTH, sums[r])
