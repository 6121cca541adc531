"""Segments: memory of each rank that the ranks of its node map as well.

A segment is an anonymous file in memory (Linux `memfd`): it has no name in any folder, so a job that is killed leaves
nothing behind. A rank publishes the file once; a peer maps it when it first looks at it. Freeing is local: the memory
lives as long as anybody maps it.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gondwana.errors import LaunchError, UsageError
from gondwana.world import Team

_HUGE = 2 * 1024 * 1024
_PAGE = 4096
_STAGGER = 17 * 64
"""Distance within a page from where one segment starts to where the next one does. Were all arrays to start alike, the
processor would take a load from one for the store to another with the same 12 low bits: that cost Gray-Scott 15 %."""

_starts = itertools.cycle(range(0, _STAGGER * _PAGE // math.gcd(_STAGGER, _PAGE), _STAGGER))


@dataclass(frozen=True)
class _Published:
    """Where the peers find the file of one rank."""

    rank: int
    process: int
    descriptor: int
    inode: int
    offset: int
    nbytes: int


class Segment:
    """Memory of this rank, mapped by the ranks of its node on demand.

    Collective over team to make; `view` and `close` are local.

    Args:
        team: the ranks that make the segment together.
        nbytes: bytes of this rank; may differ from rank to rank and may be 0. The memory is zero and starts on a cache
            line.

    Raises:
        UsageError: `nbytes` is negative.
        LaunchError: this system gives no shared memory (raised by every rank).

    Example:
        >>> import gondwana as gw
        >>> segment = Segment(gw.world, 16)
        >>> segment.view(gw.world.rank).size
        16
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        if nbytes < 0:
            raise UsageError(f"a segment of {nbytes} bytes: give 0 or more")
        self.team = team
        self.nbytes = nbytes
        self._maps: dict[int, npt.NDArray[np.uint8]] = {}
        self._close: weakref.finalize[..., Segment] | None = None
        own, problem = None, None
        try:
            own = self._create()
        except OSError as error:
            problem = LaunchError(f"no shared memory of {nbytes} bytes: {error}")
        team.agree(problem)
        self._published = {entry.rank: entry for entry in team.node.allgather(own) if entry is not None}

    def _create(self) -> _Published:
        offset = next(_starts) % _PAGE
        descriptor = inode = -1  # alone on the node: private memory, for which huge pages are more often to be had
        if self.team.node.size > 1:
            descriptor = os.memfd_create("gondwana", os.MFD_CLOEXEC)
            self._close = weakref.finalize(self, os.close, descriptor)
            inode = os.fstat(descriptor).st_ino
            os.ftruncate(descriptor, offset + max(self.nbytes, 1))
        self._maps[self.team.rank] = _map(descriptor, offset, self.nbytes)
        return _Published(self.team.rank, os.getpid(), descriptor, inode, offset, self.nbytes)

    @property
    def peers(self) -> tuple[int, ...]:
        """The ranks of the team whose memory can be viewed: those of this node."""
        return tuple(self._published)

    def view(self, rank: int) -> npt.NDArray[np.uint8]:
        """Return the memory of a rank of this node as bytes, writable, without a copy. Local.

        Stores of one rank become visible to the others in order on x86; ordering across ranks is the caller's, by flags
        or a barrier.

        Raises:
            UsageError: `rank` is on another node, or not in the team.
        """
        if rank not in self._maps:
            if rank not in self._published:
                raise UsageError(
                    f"rank {rank} of {self.team!r} shares no memory with rank {self.team.rank}: "
                    f"only the ranks {sorted(self._published)} do"
                )
            self._maps[rank] = self._open(self._published[rank])
        return self._maps[rank]

    def _open(self, entry: _Published) -> npt.NDArray[np.uint8]:
        path = f"/proc/{entry.process}/fd/{entry.descriptor}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise LaunchError(
                f"rank {self.team.rank} cannot map the memory of rank {entry.rank} ({path}: {error.strerror}): "
                "ranks of one node must see each other's processes; run them in one container, or set "
                "GONDWANA_RANKS_PER_NODE=1 to exchange by messages"
            ) from error
        try:
            if os.fstat(descriptor).st_ino != entry.inode:
                raise LaunchError(f"{path} is not the memory of rank {entry.rank}: set GONDWANA_RANKS_PER_NODE=1")
            return _map(descriptor, entry.offset, entry.nbytes)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Give up the memory. Local; views that exist stay valid, peers that have not looked yet can no longer."""
        self._maps.clear()
        if self._close is not None:
            self._close()


def _map(descriptor: int, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """Map a file, or private memory where `descriptor` is -1.

    On huge pages if the system gives them, which spares the stencils misses of the TLB.
    """
    flags = mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(descriptor, offset + max(nbytes, 1), flags=flags)
    if nbytes >= _HUGE:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8, nbytes, offset)
