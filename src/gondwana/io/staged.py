"""From staged blocks to a dataset: what is where, and the loop that writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gondwana.io.adios import AttributeValue, BPWriter
from gondwana.io.layout import Block
from gondwana.io.staging import open_bytes, window

#: Blocks start at multiples of this, in bytes: a cache line.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Placed:
    """One block of one variable in staging memory.

    Attributes:
        variable: its name.
        rank: whose block it is.
        block: its place in the variable.
        file: the index of the staging file.
        offset: where it begins in the file, in bytes.
    """

    variable: str
    rank: int
    block: Block
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a writer needs to know before the first step; the same for every step.

    Attributes:
        path: the dataset.
        keep: how many steps that are there to keep; None starts a new dataset.
        operator: a compression operator, or None.
        attributes: the dataset's attributes.
        variables: of each variable, its global shape on disk (cells) and its element type.
        blocks: where each rank's part is staged; empty parts are left out.
        buffers: for each buffer, the paths of its staging files.
    """

    path: str
    keep: int | None
    operator: str | None
    attributes: Mapping[str, AttributeValue]
    variables: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]
    blocks: tuple[Placed, ...]
    buffers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step to write: the buffer that holds its blocks, and its numbers."""

    buffer: int
    step: int
    scalars: Mapping[str, int | float]


class StagedWriter:
    """Writes the steps of a plan in this process, each before ``submit`` returns. Local."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._buffers = [[open_bytes(path) for path in paths] for paths in plan.buffers]
        self._out = BPWriter(Path(plan.path), keep=plan.keep, operator=plan.operator)
        for name, value in plan.attributes.items():
            self._out.attribute(name, value)

    def wait(self, pending: int) -> None:
        """Return at once: nothing is ever pending here."""

    def submit(self, step: Step) -> None:
        """Write one step, straight from staging memory."""
        memory = self._buffers[step.buffer]
        self._out.begin_step()
        for placed in self._plan.blocks:
            shape, dtype = self._plan.variables[placed.variable]
            cells = window(memory[placed.file], placed.offset, placed.block.count, dtype)
            self._out.put(placed.variable, cells, placed.block.start, shape)
        self._out.put_scalar("step", step.step, np.int32)
        for name, value in step.scalars.items():
            self._out.put_scalar(name, value)
        self._out.end_step()

    def close(self) -> None:
        """Close the dataset."""
        self._out.close()

    def abandon(self) -> None:
        """Close the dataset after an error elsewhere; the steps so far are complete."""
        self._out.close()
