"""The loops around two kernels of which the second reads what the first leaves, on the host. Imports Numba.

The rows and columns of a box are divided into tiles, of which three planes fit the cache of a core. A thread walks
along the planes of a tile: it runs the first kernel on a plane, one point wider on each side than the tile, and the
second one on the plane before, row by row in turns, so that loads and stores of memory are spread evenly. So the first
kernel runs again on the points that two tiles share, and its results stay in the cache. Where planes are many, threads
divide them too.
"""

from __future__ import annotations

from typing import Any

from gondwana.compiler.memory_order import load_word
from gondwana.compiler.vector_width import prefer_widest_vectors
from gondwana.kernels.cpu.launch import LEAD, TILING
from gondwana.kernels.cpu.sweeps import BOXES, box_reader

_LEAST = 16
"""Planes of a thread; with fewer, the two that it computes besides cost too much."""

_SCRATCH, _BYTES, _ACROSS, _BESIDE, _WIDTH, _PLANE = range(TILING, TILING + 48, 8)
"""Where the words of a tiling are, behind the boxes: see `launch.TiledBox`."""


def sweep(loads: tuple[Any, Any], places: tuple[Any, Any], rows: tuple[Any, Any], start: Any, store: Any) -> Any:
    """Return the function `(block, thread, threads)` that runs one thread's share of a launch.

    Args:
        loads: for each kernel, from the block to its arguments.
        places: for each kernel, what puts the rings of the thread into them; see `intermediates.placer`.
        rows: for each kernel, what runs it along a row; see `prefetching.row`.
        start: `start(block, thread)`, what the values of the second kernel are folded into.
        store: `store(block, thread, total)`, called once at the end.
    """
    read_box = box_reader(3)
    load_first, load_second = loads
    place_first, place_second = places
    first_row, second_row = rows

    def run(block: int, thread: int, threads: int) -> int:
        prefer_widest_vectors()
        ahead, behind = load_first(block), load_second(block)
        i0, j0, k0, n0, n1, n2, _, _, _ = read_box(block, 0)
        interior = read_box(block, 1)
        tiling = load_word(block + BOXES)
        across, beside = load_word(tiling + _ACROSS), load_word(tiling + _BESIDE)
        width, plane = load_word(tiling + _WIDTH), load_word(tiling + _PLANE)
        scratch = load_word(tiling + _SCRATCH) + thread * load_word(tiling + _BYTES)
        tiles = across * beside
        total = start(block, thread)
        slabs = max(1, min(threads, n0 // _LEAST))
        units = slabs * tiles
        for unit in range(units * thread // threads, units * (thread + 1) // threads):
            slab, tile = unit // tiles, unit % tiles
            a, b = tile // beside, tile % beside
            j, j_end = j0 + n1 * a // across, j0 + n1 * (a + 1) // across
            k, k_end = k0 + n2 * b // beside, k0 + n2 * (b + 1) // beside
            i, i_end = i0 + n0 * slab // slabs, i0 + n0 * (slab + 1) // slabs
            origin = (j - 1) * width + k - LEAD
            for m in range(i - 1, i_end + 1):
                args = place_first(ahead, scratch, plane, width, origin, m - i + 1)
                others = place_second(behind, scratch, plane, width, origin, m - i)
                for row in range(j - 1, j_end + 1):
                    first_row(0, m, row, k - 1, k_end - k + 2, args, interior)
                    if m > i and j <= row < j_end:
                        total = second_row(total, m - 1, row, k, k_end - k, others, interior)
        store(block, thread, total)
        return 0

    return run
