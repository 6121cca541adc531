"""Staging memory: shared files in which blocks wait to be written, their places, and the loop that writes them."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.io.adios import AttributeValue, BPWriter
from gondwana.io.paths import DatasetError, in_units
from gondwana.runtime import exits

#: Blocks start at multiples of this, in bytes: a cache line.
ALIGNMENT = 64


class StagingFile:
    """A file in memory that any process of this user on this node can map by its ``path``. Local.

    It needs no space in /dev/shm, has no name to remove, and ends with the last process that maps it. All of it is
    allocated now, by the rank that will fill it, so that a lack of memory is an error here and not a crash later.

    Args:
        nbytes: the size in bytes, 0 or more.

    Raises:
        DatasetError: the node has not enough memory.
    """

    def __init__(self, nbytes: int) -> None:
        self._descriptor = os.memfd_create("gondwana-staging", os.MFD_CLOEXEC)
        try:
            if nbytes:
                os.posix_fallocate(self._descriptor, 0, nbytes)
        except OSError as error:
            os.close(self._descriptor)
            raise DatasetError(f"no memory to stage {in_units(nbytes)} of output: {error.strerror}") from None
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self.bytes = map_bytes(self._descriptor, nbytes)

    def close(self) -> None:
        """Close the file; its memory is freed when no process maps it any more. Local."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self.bytes = np.empty(0, np.uint8)


def map_bytes(descriptor: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """Map a file as an array of bytes. Local."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    # The pages are entered in the table of the process now, not one by one while the first steps are copied.
    return np.frombuffer(mmap.mmap(descriptor, nbytes, mmap.MAP_SHARED | mmap.MAP_POPULATE), np.uint8)


def open_bytes(path: str) -> npt.NDArray[np.uint8]:
    """Map the memory of a ``StagingFile`` of another process on this node. Local.

    Raises:
        DatasetError: that process has ended.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        time.sleep(exits.PATIENCE + exits.GRACE)  # the loss of a rank ends the job: let that be reported, not this
        raise DatasetError("a rank ended before its output was written") from None
    try:
        return map_bytes(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def window(
    memory: npt.NDArray[np.uint8], offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return part of the memory as an array, without a copy. Local."""
    return np.ndarray(shape, dtype, memory, offset)


@dataclass(frozen=True, slots=True)
class Block:
    """One rank's part of a variable on disk: its start and its number of cells per axis."""

    start: tuple[int, ...]
    count: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(self.count)


@dataclass(frozen=True, slots=True)
class Placed:
    """One block of one variable in staging memory.

    Attributes:
        variable: name of the variable.
        rank: the owner of the block.
        block: its place in the variable.
        file: the index of the staging file.
        offset: begin of the block in the file, in bytes.
    """

    variable: str
    rank: int
    block: Block
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The description of a dataset and its staging memory, which is the same for every step.

    Attributes:
        path: the dataset.
        keep: number of existing steps to keep; None starts a new dataset.
        operator: a compression operator, or None.
        attributes: the dataset's attributes.
        variables: global shape on disk (cells) and element type of each variable.
        blocks: staging place of each rank's part; empty parts are left out.
        buffers: paths of the staging files of each buffer, by their index.
        lock: the descriptor of the dataset's lock, which the writing process inherits.
    """

    path: str
    keep: int | None
    operator: str | None
    attributes: Mapping[str, AttributeValue]
    variables: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]
    blocks: tuple[Placed, ...]
    buffers: tuple[Mapping[int, str], ...]
    lock: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step to write: the buffer that holds its blocks, and its numbers."""

    buffer: int
    step: int
    scalars: Mapping[str, int | float]


class StagedWriter:
    """A writer of the steps of a plan in this process; each is written before ``submit`` returns. Local."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._buffers = [{file: open_bytes(path) for file, path in paths.items()} for paths in plan.buffers]
        self._out = BPWriter(Path(plan.path), keep=plan.keep, operator=plan.operator, lock=plan.lock)
        for name, value in plan.attributes.items():
            self._out.attribute(name, value)

    def wait(self, pending: int) -> None:
        """Wait for the checksums of the steps, if none may be pending; the steps themselves are written."""
        if pending == 0:
            self._out.flush()

    def submit(self, step: Step) -> None:
        """Write one step directly from staging memory."""
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
