"""One writer for many ranks: blocks are gathered in shared memory of rank 0's node, and one process writes them.

A plain adios2 has no MPI, and several writers of one name lose data. So rank 0 has the dataset written: ranks of its
node copy their blocks, without ghosts, into memory that the writing process maps; ranks of other nodes send theirs to
rank 0. Two buffers alternate, so that a step is computed while the previous one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.io.adios import AttributeValue
from gondwana.io.background import BackgroundWriter
from gondwana.io.layout import Arrays, block_of, cells_of, copy_cells, shape_of
from gondwana.io.paths import claim
from gondwana.io.staging import ALIGNMENT, Placed, Plan, StagedWriter, StagingFile, Step, window
from gondwana.teams import Team
from gondwana.teams.team import failing_together

_TAG = 16_201


class Backend(Protocol):
    """Writes staged steps: in this process or in another."""

    def submit(self, step: Step) -> None:
        """Accept a step to write."""

    def wait(self, pending: int) -> None:
        """Wait until at most `pending` steps are still to be written."""

    def close(self) -> None:
        """Write everything and close the dataset."""

    def abandon(self) -> None:
        """Close after an error elsewhere."""


def remote_ranks(team: Team) -> list[int]:
    """Return the ranks that share no memory with rank 0. Collective over team at first use, then local."""
    here = team.node_of(0)
    return [rank for rank in range(team.size) if team.node_of(rank) != here]


class AggregatedSink:
    """Writes steps through rank 0 of the team. Collective over team.

    Args:
        team: the ranks of the arrays.
        path: the dataset.
        arrays: the contents of every step; later steps may have other arrays of the same layout.
        attributes: the dataset's attributes.
        keep: number of existing steps to keep; None starts a new dataset.
        replace: whether a new dataset may replace an existing one.
        operator: a compression operator, or None.
        background: write in another process (two buffers), or before ``write`` returns (one).
    """

    def __init__(
        self,
        team: Team,
        path: str,
        arrays: Arrays,
        attributes: Mapping[str, AttributeValue],
        *,
        keep: int | None,
        replace: bool,
        operator: str | None,
        background: bool,
    ) -> None:
        self._team = team
        self._background = background
        self._count = 0
        self._backend: Backend | None = None
        self._buffers: list[StagingFile] = []
        self._remote, self._messages = remote_ranks(team), team.private
        self._placed, size = self._place(arrays)
        with failing_together(team):
            for _ in range(2 if background else 1):
                self._buffers.append(StagingFile(size))
        # Memory of ranks of other nodes is not there for the writer to open.
        paths = team.gather([] if team.rank in self._remote else [buffer.path for buffer in self._buffers])
        with failing_together(team):
            if paths is not None:
                variables = {name: (shape_of(array), array.dtype) for name, array in arrays.items()}
                blocks = tuple(chain.from_iterable(self._placed.values()))
                near = {rank: names for rank, names in enumerate(paths) if names}
                buffers = tuple(dict(zip(near, names, strict=True)) for names in zip(*near.values(), strict=True))
                lock = claim(Path(path), empty=not keep, replace=replace)
                plan = Plan(path, keep, operator, dict(attributes), variables, blocks, buffers, lock)
                self._backend = BackgroundWriter(plan) if background else StagedWriter(plan)

    def write(self, step: int, arrays: Arrays, scalars: Mapping[str, int | float]) -> None:
        """Stage one step; the arrays may change once it returns. Collective over team."""
        team, index = self._team, self._count % len(self._buffers)
        self._count += 1
        self._on_rank_0(lambda backend: backend.wait(len(self._buffers) - 1), step=int(step))
        for placed in self._placed[team.rank]:
            array = arrays[placed.variable]
            if team.rank in self._remote:
                self._messages.Send(np.ascontiguousarray(cells_of(array)), 0, _TAG)
            else:
                copy_cells(array, self._window(index, placed, array.dtype))
        if team.rank == 0:
            for placed in chain.from_iterable(self._placed[rank] for rank in self._remote):
                self._messages.Recv(self._window(index, placed, arrays[placed.variable].dtype), placed.rank, _TAG)
        team.node.barrier()
        request = Step(index, step, dict(scalars))
        if not self._background:
            self._on_rank_0(lambda backend: backend.submit(request))
        else:
            if self._backend is not None:
                self._backend.submit(request)
            # No rank returns before that: an error of one may end rank 0 at any time after.
            team.barrier()

    def flush(self) -> None:
        """Wait until the steps so far are written. Collective over team."""
        self._on_rank_0(lambda backend: backend.wait(0))

    def close(self) -> None:
        """Wait until everything is written. Collective over team."""
        try:
            self._on_rank_0(lambda backend: backend.close())
        finally:
            self._free_buffers()

    def abandon(self) -> None:
        """Finish the submitted steps, after an error elsewhere. Local."""
        try:
            if self._backend is not None:
                self._backend.abandon()
        finally:
            self._free_buffers()

    def _on_rank_0(self, action: Callable[[Backend], None], **same: object) -> None:
        """Run an action on rank 0, and raise its error on all ranks, or that values differ. Collective over team."""
        with failing_together(self._team, "steps", same):
            if self._backend is not None:
                action(self._backend)

    def _free_buffers(self) -> None:
        for buffer in self._buffers:
            buffer.close()
        self._backend = None

    def _window(self, index: int, placed: Placed, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        return window(self._buffers[index].bytes, placed.offset, placed.block.count, dtype)

    def _place(self, arrays: Arrays) -> tuple[dict[int, list[Placed]], int]:
        """Return the places of blocks (rank 0: all, others: their own), and the size of this rank's file."""
        placed: dict[int, list[Placed]] = {}
        size = 0
        for rank in range(self._team.size) if self._team.rank == 0 else [self._team.rank]:
            file = 0 if rank in self._remote else rank
            offset = size if file == self._team.rank else 0
            placed[rank] = []
            for name, array in arrays.items():
                block = block_of(array, rank)
                if block.size:
                    placed[rank].append(Placed(name, rank, block, file, offset))
                    offset += -(-block.size * array.dtype.itemsize // ALIGNMENT) * ALIGNMENT
            if file == self._team.rank:
                size = offset
        return placed, size
