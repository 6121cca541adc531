"""One-sided transposes: what is done goes into its place at once, while the next is computed; then comes a barrier.

No rank may send again before all have read what they got: the sum in each checksum of the solver sees to that.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana_apps.npb.ft.fftw import aligned
from gondwana_apps.npb.ft.kernels import GAP, Factors, Part, transform_and_put
from gondwana_apps.npb.ft.transposes import Stacked, Transpose


class Pencils(Transpose):
    """Each row goes to those who need it as soon as it is done, by puts of compiled code.

    On a node a put is a store, which nobody waits for; between nodes it is waited for, and `Slabs` are the better way.
    """

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors, and put their rows; return when this rank's block is complete."""
        with self._sections("fftlow"):
            transform_and_put(self.source.planes, self._plane, self.lines, factors, self._parts)
        with self._sections(self._section):
            self.finish()

    def finish(self) -> None:
        """Return when the rows of all ranks are in their places. Collective."""
        self.source.team.barrier()

    def _prepare(self) -> None:
        _, height, width = self.source.planes.shape
        self._plane = aligned((height, width + GAP))
        self._parts = tuple(map(self._part, self.target.meeting(self.source)))

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
        blocks = [self.target.block(rank) for rank in self.target.meeting(self.source)]
        # What planes and a block have in common is known beforehand: the calculus of boxes need not be in the loop.
        self._common = [[_common(stack.array, block) for block in blocks] for stack in self._stacks]
        self._sent: list[gw.Transfer] = []

    def _send(self, number: int) -> None:
        before, self._sent = self._sent, [gw.copy(planes, block) for planes, block in self._common[number]]
        for transfer in before:
            transfer.wait()  # the memory of these planes comes next

    def _finish(self) -> None:
        for transfer in self._sent:
            transfer.wait()
        self.source.team.barrier()


class BlockingSlabs(Slabs):
    """The same, but each copy is waited for."""

    def _send(self, number: int) -> None:
        for planes, block in self._common[number]:
            gw.copy(planes, block).wait()


def _common(planes: gw.Array, block: Any) -> tuple[gw.Array, Any]:
    """The views of two arrays on the points that both have."""
    common = planes.domain & block.domain
    return planes.restrict(common), block.restrict(common)
