"""One-sided transposes: what is done goes into its place at once, while the next is computed; a signal counts arrivals.

No rank may send again before all have read what they got: the sum in each checksum of the solver sees to that.
"""

from __future__ import annotations

from collections import deque

import gondwana as gw
from gondwana.apps.npb.ft.kernels import GAP, Factors, Part, transform_and_put
from gondwana.apps.npb.ft.transposes import Stacked, Transpose
from gondwana.jit.fftw import aligned


class Pencils(Transpose):
    """Each row goes to those who need it as soon as it is done, by puts of compiled code.

    On a node a put is a store, which nobody waits for; between nodes it is waited for, and `Slabs` are the better way.
    """

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors, and put their rows; return when this rank's block is complete."""
        with self._sections("fftlow"):
            transform_and_put(self.source.planes, self._plane, self.lines, factors, self._parts)
        with self._sections(self._section):
            self._finish()

    def _finish(self) -> None:
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
