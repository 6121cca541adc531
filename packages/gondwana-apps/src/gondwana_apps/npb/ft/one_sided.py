"""One-sided transposes: finished data go to their places at once, while the next are computed; then comes a barrier.

No rank may send again before all have read their data: the sum in each checksum of the solver ensures that.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana_apps.npb.ft.fftw import aligned
from gondwana_apps.npb.ft.kernels import GAP, Factors, Part, transform_and_put
from gondwana_apps.npb.ft.transposes import Stacked, Transpose


class Pencils(Transpose):
    """Each row goes to the ranks that need it as soon as it is done, by puts of compiled code.

    On a node a put is a store, which is not waited for; between nodes it is waited for, and `Slabs` are the better way.
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
        """The part of each plane that a rank needs, and its target."""
        source = self.source
        landing = self.target.block(rank).restrict(source.domain).permute(source.order)
        (_, first, left), (_, last, right) = landing.domain.lo - source.owned.lo, landing.domain.hi - source.owned.lo
        plane, line, element = landing.strides
        return Part(landing.pointer, first, last, left, right, plane // element, line // element)


class Slabs(Stacked):
    """The parts of some planes that a rank needs go to it by one copy that is not waited for."""

    def _prepare(self) -> None:
        super()._prepare()
        blocks = [self.target.block(rank) for rank in self.target.meeting(self.source)]
        # The intersections of planes and blocks are known beforehand: the calculus of boxes need not be in the loop.
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
