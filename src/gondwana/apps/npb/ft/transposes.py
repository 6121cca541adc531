"""Transposes: planes of one division are transformed, and each becomes part of the blocks of the next division.

The variants differ in who moves the elements and when. But for `alltoall`, which is MPI's and the yardstick, they are
one-sided: what is done leaves at once, into its place, while the next planes are computed, and a signal counts what has
arrived. No rank may begin to send again before all have read what they got; the transforms see to that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.apps.npb.common.sections import Sections
from gondwana.apps.npb.ft.blocks import Blocks
from gondwana.apps.npb.ft.kernels import GAP, Factors, Lines, Part, transform_and_put, transform_planes
from gondwana.jit.fftw import aligned

STACK_BYTES = 2**21
"""Of the planes that are transformed before they are sent together: they stay in the cache until then."""

Complexes = npt.NDArray[np.complex128]


class Transpose(ABC):
    """Transforms the planes of one division and hands them to the next one. Collective over team to make and to call.

    Args:
        source: has the planes, and keeps them.
        target: gets them.
        sections: `fftlow` counts the transforms.
        section: counts the communication.

    Attributes:
        lines: how to transform; to be set before the first call.
    """

    def __init__(self, source: Blocks, target: Blocks, sections: Sections, section: str) -> None:
        self.source, self.target = source, target
        self.lines: Lines
        self._sections, self._section = sections, section
        self._prepare()

    @abstractmethod
    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""

    @abstractmethod
    def _prepare(self) -> None:
        """Find out who needs what. Collective."""


class Pencils(Transpose):
    """Each row goes to those who need it when it is done, by puts of compiled code."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors, and put their rows; return when this rank's block is complete."""
        with self._sections("fftlow"):
            transform_and_put(self.source.planes, self._plane, self.lines, factors, self._parts)
        with self._sections(self._section):
            for rank in self._to:
                self._arrived.add(rank)
            self._arrived.wait(len(self._from))

    def _prepare(self) -> None:
        _, height, width = self.source.planes.shape
        self._plane = aligned((height, width + GAP))
        self._to, self._from = self.target.meeting(self.source), self.source.meeting(self.target)
        self._parts = tuple(map(self._part, self._to))
        self._arrived = gw.Signal(self.source.team)

    def _part(self, rank: int) -> Part:
        """What a rank needs of each plane, and where it goes."""
        source = self.source
        landing = self.target.block(rank).restrict(source.domain).permute(source.order)
        (_, first, left), (_, last, right) = landing.domain.lo - source.owned.lo, landing.domain.hi - source.owned.lo
        plane, line, element = landing.strides
        return Part(landing.pointer, first, last, left, right, plane // element, line // element)


class Stacked(Transpose):
    """Planes leave in stacks, which stay in the cache until then: some are on the way while the next are computed."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""
        planes, (axis, *others) = self.source.planes, self.source.owned.axes
        for number in range(self._stacks):
            some = slice(number * self._height, (number + 1) * self._height)
            domain = gw.RectDomain.from_axes([axis[some], *others])
            room = self._rooms[number % 2, : len(planes[some])]
            with self._sections("fftlow"):
                transform_planes(planes[some], room, self.lines, factors._replace(plane=factors.plane[some]))
            with self._sections(self._section):
                self._send(gw.Array(room[:, :, :-GAP], domain).permute(self.source.order))
        with self._sections(self._section):
            self._finish()

    def _prepare(self) -> None:
        planes, height, width = self.source.planes.shape
        self._height = min(planes, max(1, STACK_BYTES // (16 * height * width)))
        self._stacks = -(-planes // self._height)
        self._rooms = aligned((2, self._height, height, width + GAP))

    @abstractmethod
    def _send(self, planes: gw.Array) -> None:
        """Send planes that are done; they stay as they are until the next but one call. Local."""

    @abstractmethod
    def _finish(self) -> None:
        """Return when all that this rank needs is in its block. Collective."""


class Slabs(Stacked):
    """What a rank needs of some planes goes to it by one copy that nobody waits for."""

    def _prepare(self) -> None:
        super()._prepare()
        self._blocks = [self.target.block(rank) for rank in self.target.meeting(self.source)]
        self._arrived = gw.Signal(self.source.team)
        stacks = self.source.team.allgather(self._stacks)
        self._expected = sum(stacks[rank] for rank in self.source.meeting(self.target))
        self._sent: deque[gw.Transfer] = deque()

    def _send(self, planes: gw.Array) -> None:
        self._sent += [block.copy_from_async(planes, notify=self._arrived) for block in self._blocks]
        while len(self._sent) > len(self._blocks):  # of the planes before these, whose memory comes next
            self._sent.popleft().source.wait()

    def _finish(self) -> None:
        gw.when_all(*self._sent).wait()
        self._sent.clear()
        self._arrived.wait(self._expected)


class BlockingSlabs(Slabs):
    """The same, but each copy is waited for."""

    def _send(self, planes: gw.Array) -> None:
        for block in self._blocks:
            block.copy_from_async(planes, notify=self._arrived).remote.wait()


class AllToAll(Stacked):
    """The planes are packed for their ranks; when all are done, all ranks exchange them by MPI."""

    def _prepare(self) -> None:
        super()._prepare()
        source, target = self.source, self.target
        mine, ranks = source.team.rank, range(source.team.size)
        to = [target.domain_of(rank) & source.domain_of(mine) for rank in ranks]
        come = [source.domain_of(rank) & target.domain_of(mine) for rank in ranks]
        self._outgoing, self._packed = _boxes(to)
        self._incoming, self._unpacked = _boxes(come)

    def _send(self, planes: gw.Array) -> None:
        for box in self._packed:
            box.copy_from(planes)

    def _finish(self) -> None:
        self.source.team.Alltoallv(self._outgoing, self._incoming)
        for box in self._unpacked:
            self.target.block(self.target.team.rank).copy_from(box)


def _boxes(domains: list[gw.RectDomain]) -> tuple[tuple[Complexes, list[int]], list[gw.Array]]:
    """A buffer with its counts, as MPI wants it, and the arrays on these domains that lie in it one after the other."""
    counts = [domain.size for domain in domains]
    buffer = np.empty(sum(counts), complex)
    parts = np.split(buffer, np.cumsum(counts)[:-1])
    arrays = [
        gw.Array(part.reshape(domain.shape), domain) for part, domain in zip(parts, domains, strict=True) if domain.size
    ]
    return (buffer, counts), arrays


VARIANTS: dict[str, Callable[[Blocks, Blocks, Sections, str], Transpose]] = {
    "pencils": Pencils,
    "slabs": Slabs,
    "blocking-slabs": BlockingSlabs,
    "alltoall": AllToAll,
}
"""The transposes by their names; the first is the default."""
