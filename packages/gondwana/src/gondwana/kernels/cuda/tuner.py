"""The shape of a launch: a guess, or for sweeps over large domains the best result of a trial on the device.

A trial launches the kernel with the arguments of its first call, again and again: so only kernels are tried whose
results that does not change. The best shape is kept on disk, for the device and for domains of about that size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from gondwana.errors import UsageError
from gondwana.gpu.interface import CudaError, EntryFacts
from gondwana.kernels.cuda.launch import Loaded, toolchain
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.intermediate import bytes_kept
from gondwana.kernels.launch_graphs import is_capturing
from gondwana.kernels.trials import measured, recorded
from gondwana.kernels.variant import Variant

VARIABLE = "GONDWANA_TUNE"
"""Environment variable: 0 restricts launches to the guess."""

LEAST = 1 << 20
"""Points of the smallest domain that is worth a trial."""

MOST_SHARED = 48 << 10
"""Bytes of static shared memory that the assembler allows a block."""

REGISTERS = 1 << 16
"""Registers of a multiprocessor, which gives them to warps in portions of 256."""

Choices = Sequence[dict[str, Any]]

SINGLE: tuple[Choices, ...] = (
    ({"x": 64, "y": 4}, {"x": 32, "y": 4}, {"x": 64, "y": 8}, {"x": 128, "y": 2}, {"x": 32, "y": 16})
    + ({"x": 64, "y": 1}, {"x": 128, "y": 1}, {"x": 256, "y": 1}, {"x": 512, "y": 1}),
    ({"lanes": 1}, {"lanes": 2}, {"lanes": 4}),
    ({"steps": 16}, {"steps": 32}, {"steps": 64}, {"steps": 128}),
    ({"ahead": 1}, {"held": False}),
    ({"resident": 2}, {"resident": 4}, {"resident": 8}),
    ({"streamed": True},),
)
PAIR: tuple[Choices, ...] = (
    ({"x": 32, "y": 16}, {"x": 64, "y": 8}, {"x": 16, "y": 16}, {"x": 32, "y": 8}, {"x": 16, "y": 32}),
    ({"lanes": 1}, {"lanes": 2}),
    ({"ahead": 1},),
    ({"resident": 1}, {"resident": 2}, {"resident": 4}),
    ({"steps": 32}, {"steps": 64}, {"steps": 128}, {"steps": 256}),
    ({"streamed": True},),
)

_FILLED = 512
"""Blocks that keep a device busy."""


def shape_for(variant: Variant, extents: tuple[int, ...]) -> Shape:
    """Guess the shape of the launches of a kernel over boxes of about these extents, in the order of loops. Local.

    A multiprocessor shall hold as many threads as the registers of a kernel allow: see `bindings.assemble`.
    """
    columns, across = extents[-1], len(extents) > 2
    x = 32 if across else 256
    while x > 1 and x // 2 >= columns:
        x //= 2
    y = max(1, 256 // x) if across else 1
    lanes = 2 if columns >= 128 and (variant.operation is None or not across) else 1
    steps = 32 if variant.operation else 64
    while steps > 8 and variant.operation is None and math.prod(extents) < _FILLED * x * y * lanes * steps:
        steps //= 2
    return Shape(x=x, y=y, lanes=lanes, steps=steps, resident=6)


def pair_shape_for(variant: Variant, extents: tuple[int, ...]) -> Shape:
    """Guess the shape of the launches of a fused pair over a box of these extents, in the order of loops. Local.

    Raises:
        UsageError: no tile fits the box.
    """
    kept = bytes_kept(variant.specs)
    for x, y in ((32, 16), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4)):
        if _fits(Shape(x=x, y=y), extents, kept):
            return Shape(x=x, y=y, steps=64, resident=min(16, 1024 // (x * y)))
    raise UsageError(f"fused kernels need a box of at least 2 x 2 points across the slowest axis, not {extents[1:]}")


def tuned(
    loaded: Loaded,
    version: Callable[[Shape], Loaded],
    key: tuple[str, ...],
    box: tuple[bytes, int, int],
    extents: tuple[int, ...],
    data: bytes,
    kept: int | None = None,
) -> Loaded:
    """Return the version of a kernel that is fastest on its device: from a record, or by a trial now. Local; blocks.

    Args:
        loaded: the guessed version.
        version: returns the version of any shape.
        key: name of the kernel and its variant.
        box: the table of boxes, their number and points (see `Loaded.table`).
        extents: extents of the domain, in the order of loops.
        data: the arguments.
        kept: bytes of the intermediates of a fused pair at a point; None: the kernel is no pair.
    """
    device = loaded.device
    if not _worth_a_trial(loaded, box[2]):
        return loaded

    def seconds(shape: Shape) -> float:
        try:
            one = version(shape)
            if not is_sound(shape, device.driver.entry_facts(one.entry), device.driver.entry_facts(loaded.entry).local):
                return math.inf
            table = one.table(*box)
            return measured(device, lambda: one.run(table, data, "", 0))
        except CudaError:  # too large for this device; where the device is lost, the launch that follows says so
            return math.inf

    def search() -> dict[str, Any]:
        return asdict(_best(loaded.shape, SINGLE if kept is None else PAIR, extents, seconds, kept))

    size = tuple(extent.bit_length() for extent in extents)
    found = recorded((device.facts.name, toolchain(), *key, repr(size), str(kept is not None)), search)
    return version(Shape(**found))


def is_sound(shape: Shape, facts: EntryFacts, local: int = 0) -> bool:
    """Whether values of a version found registers, and two of its blocks find room on a multiprocessor. Pure.

    With one block, all its threads wait for the same barriers and loads.

    Args:
        shape: shape of its launches.
        facts: resources of the version.
        local: bytes of local memory that the kernel needs in any shape.
    """
    return facts.local <= local and 2 * shape.threads * 8 * -(-facts.registers // 8) <= REGISTERS


def _worth_a_trial(loaded: Loaded, points: int) -> bool:
    """Whether a trial is possible without a trace, and pays."""
    if points < LEAST or loaded.ordered or is_capturing() or os.environ.get(VARIABLE, "") == "0":
        return False
    repeatable = all(f.bounded and not (f.written and f.read) for f in loaded.footprints.values())
    return repeatable and not loaded.device.emulated


def _best(
    start: Shape,
    axes: Sequence[Choices],
    extents: tuple[int, ...],
    seconds: Callable[[Shape], float],
    kept: int | None,
) -> Shape:
    """Search along one property of shapes after the other."""
    best, least = start, seconds(start)
    for choices in axes:
        for shape in candidates(best, choices, extents, kept):
            taken = seconds(shape)
            if taken < least:
                best, least = shape, taken
    return best


def candidates(best: Shape, choices: Choices, extents: tuple[int, ...], kept: int | None = None) -> Iterator[Shape]:
    """Yield the possible shapes that differ from one by one of the choices. Pure; `extents`, `kept` as of `tuned`."""
    for choice in choices:
        shape = replace(best, **choice)
        shape = replace(shape, resident=min(shape.resident, 2048 // shape.threads))
        whole = (shape.y > 1) == (len(extents) > 2) or shape.y == best.y
        if shape != best and whole and (kept is None or _fits(shape, extents, kept)):
            yield shape


def _fits(shape: Shape, extents: tuple[int, ...], kept: int) -> bool:
    """Whether the tiles of a fused pair fit a box and its border, and two planes of them shared memory."""
    columns = shape.x * shape.lanes
    small = 2 * columns * shape.y * kept <= MOST_SHARED
    return small and extents[-1] >= columns - 2 and extents[-2] >= shape.y - 2
