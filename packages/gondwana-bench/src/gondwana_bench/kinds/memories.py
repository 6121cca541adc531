"""The memories that `gondwana bench kinds` copies between: of the host and of a device, of this rank and of another.

Between nodes MPI's own one-sided operations are a rival, on the same memory.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

import gondwana as gw
from gondwana import Device, Team
from gondwana.memory.cuda_kind import CudaKind
from gondwana.teams import mpi
from gondwana.transfer import paths
from gondwana_bench.measure import Variant, timed
from gondwana_bench.processes import nodes_for
from gondwana_bench.rma.candidates import absent, pattern

HOST, DEVICE = "host", "device"


class Memory(NamedTuple):
    """A memory from the point of view of rank 0, which starts all copies."""

    rank: int
    kind: str

    @property
    def remote(self) -> bool:
        """Whether the memory belongs to another rank."""
        return self.rank > 0

    def __str__(self) -> str:
        return f"{'remote' if self.remote else 'local'} {self.kind}"


class Memories:
    """Two buffers in each memory of ranks 0 and 1, a source and a target. Collective over team to create.

    Args:
        team: two ranks.
        kind: kind of the device's memory.
        nbytes: bytes of a buffer.

    Attributes:
        node_kind: where the two ranks are: on "one" node, or on two "real" or "pretended" ones.
    """

    def __init__(self, team: Team, kind: gw.MemoryKind, nbytes: int) -> None:
        self.team = team
        self.device = self.device_of(kind)
        self._nbytes = nbytes
        self._segments = {HOST: gw.Segment(team, 2 * nbytes), DEVICE: gw.Segment(team, 2 * nbytes, kind)}
        self.node_kind = nodes_for(team.size, None).kind(team.node_count)
        self._windows: dict[str, Any] = {}
        self._bytes = {HOST: self._segments[HOST].view(team.rank), DEVICE: self._segments[DEVICE].device_bytes}
        if team.node_count > 1:
            for name, memory in self._bytes.items():
                if None not in team.allgather(None if memory is None else 0):
                    self._windows[name] = mpi.module().Win.Create(memory, 1, comm=team.comm)
                    self._windows[name].Lock_all()

    @staticmethod
    def device_of(kind: gw.MemoryKind) -> Device | None:
        """Return the CUDA device of a kind on this rank, None if it is a fake one. Local."""
        return kind.device if isinstance(kind, CudaKind) else None

    def copies(self, source: Memory, target: Memory, nbytes: int, window: int, path: str | None = None) -> Variant:
        """Repeatedly start a window of copies and wait for all of them, on rank 0. Local.

        Every copy of a window has the same source and the same destination.

        Args:
            source: memory of the source.
            target: memory of the target.
            nbytes: bytes of a copy.
            window: copies that are under way together.
            path: forces one, on both ranks; None: the one that is chosen.
        """
        first, second = self._source(source), self._target(target)

        def one() -> None:
            gw.copy(first, second, nbytes).wait()

        def many() -> None:
            for future in [gw.copy(first, second, nbytes) for _ in range(window)]:
                future.wait()

        return _forced(path, timed(one if window == 1 else many) if self.team.rank == 0 else absent)

    def driver_copies(self, source: Memory, target: Memory, nbytes: int, window: int) -> Variant | None:
        """Do the same between memories of rank 0 by the driver alone, as a bound. Local.

        None if the driver alone cannot copy between them.
        """
        if self.device is None or DEVICE not in (source.kind, target.kind):
            return None
        here, stream = self.device, self.device.transfers
        first = self._segments[source.kind].address
        second = self._segments[target.kind].address + self._nbytes

        def copy() -> None:
            for _ in range(window):
                here.driver.copy(second, first, nbytes, stream)
            here.driver.finish(stream)

        return timed(copy) if self.team.rank == 0 else absent

    def mpi_copies(self, source: Memory, target: Memory, nbytes: int, window: int) -> Variant | None:
        """Do the same by MPI's put and flush, or get and flush, from between nodes. Local.

        None within a node or a rank, and if MPI does not take the memory.
        """
        there, here = (target, source) if target.remote else (source, target)
        if not (there.kind in self._windows and here.kind in self._windows) or here.remote or not there.remote:
            return None
        exposed, first = self._windows[there.kind], 0 if here is source else self._nbytes
        memory: Any = self._bytes[here.kind]
        start, at = (exposed.Put, self._nbytes) if there is target else (exposed.Get, 0)

        def copy() -> None:
            for _ in range(window):
                start(memory[first : first + nbytes], 1, at)
            exposed.Flush(1)

        return timed(copy) if self.team.rank == 0 else absent

    def check(self, source: Memory, target: Memory, nbytes: int, run: Variant) -> tuple[bool, str]:
        """Run copies and return whether the bytes are right, and the path taken. Collective over team."""
        found = None
        if self.team.rank == 0:
            sent = pattern(nbytes)
            gw.copy(sent, self._source(source)).wait()
            gw.copy(np.zeros(nbytes, np.uint8), self._target(target)).wait()
            before = paths.counters()
            run(1)
            taken = [name for name, traffic in paths.counters().items() if traffic != before[name]]
            arrived = np.zeros(nbytes, np.uint8)
            gw.copy(self._target(target), arrived).wait()
            found = bool(np.array_equal(sent, arrived)), "+".join(taken)
        return self.team.bcast(found)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Free the memory. Collective over team."""
        self.team.barrier()
        for window in self._windows.values():
            window.Unlock_all()
            window.Free()
        for segment in self._segments.values():
            segment.close()

    def _source(self, memory: Memory) -> gw.GlobalPtr:
        return self._segments[memory.kind].pointer(memory.rank, "u1")

    def _target(self, memory: Memory) -> gw.GlobalPtr:
        return self._source(memory) + self._nbytes


def _forced(path: str | None, run: Variant) -> Variant:
    def variant(calls: int) -> float:
        forcing: AbstractContextManager[None] = nullcontext() if path is None else paths.force(path)
        with forcing:
            return run(calls)

    return variant
