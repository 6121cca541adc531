"""One-sided transposes: finished data go to their places at once, while the next are computed.

No rank may put rows again before all have read their data: the sum in each checksum of the solver ensures that. Plans
ensure it by themselves.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana.fft.fftw import aligned
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
    """The parts of some planes that a rank needs go to it by a plan, which is waited for when the next are computed."""

    def _prepare(self) -> None:
        super()._prepare()
        team = self.source.team
        blocks = [self.target.block(rank) for rank in self.target.meeting(self.source)]
        pairs = [[_common(stack.array, block) for block in blocks] for stack in self._stacks]
        pairs += [[]] * (team.allreduce(len(pairs), "max") - len(pairs))  # others may have more planes
        self._plans = [gw.plan(of_stack, team) for of_stack in pairs]

    def _send(self, number: int) -> None:
        if number > 0:
            self._plans[number - 1].wait()  # the memory of these planes comes next
        self._plans[number].start()

    def _finish(self) -> None:
        sent = len(self._stacks)
        self._plans[sent - 1].wait()
        for plan in self._plans[sent:]:
            plan.start().wait()


class BlockingSlabs(Slabs):
    """The same, but each plan is waited for at once."""

    def _send(self, number: int) -> None:
        self._plans[number].start().wait()


def _common(planes: gw.Array, block: Any) -> tuple[gw.Array, Any]:
    """The views of two arrays on the points that both have."""
    common = planes.domain & block.domain
    return planes.restrict(common), block.restrict(common)
