"""Transposes: planes of one division are transformed, and each becomes part of the blocks of the next division.

The one-sided ones send finished data to their places at once, while the next are computed. No rank may put rows again
before all have read their data: the sum in each checksum of the solver ensures that. Plans ensure it by themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.fft.fftw import aligned
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft.blocks import Blocks
from gondwana_apps.npb.ft.kernels import GAP, Factors, Lines, Part, transform_planes

STACK_BYTES = 2**22
"""Bytes of the planes that are transformed before they are sent together: they stay in the cache until then."""


class Transpose(ABC):
    """Transforms the planes of one division and passes them to the next one. Collective over team to make and to call.

    Args:
        source: blocks that have the planes, and keep them.
        target: blocks that get them.
        sections: timers; `fftlow` counts the transforms.
        section: name of the timer of the communication.

    Attributes:
        lines: transforms of the lines; must be set before the first call.
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
        """Find out which rank needs which data. Collective."""


class Pencils(Transpose):
    """Each row goes to the ranks that need it as soon as it is done, by puts of compiled code.

    On a node a put is a store, which is not waited for; between nodes it is waited for, and `Slabs` are the better way.
    """

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors, and put their rows; return when this rank's block is complete."""
        with self._sections("fftlow"):
            transform_planes(self.source.planes, self._plane, self.lines, factors, self._parts)
        with self._sections(self._section):
            self.finish()

    def finish(self) -> None:
        """Return when the rows of all ranks are in their places. Collective."""
        self.source.team.barrier()

    def _prepare(self) -> None:
        _, height, width = self.source.planes.shape
        self._plane = aligned((1, height, width + GAP))
        self._parts = tuple(map(self._part, self.target.meeting(self.source)))

    def _part(self, rank: int) -> Part:
        """The part of each plane that a rank needs, and its target."""
        source = self.source
        own = source.domain_of(source.team.rank)
        landing = self.target.block(rank).restrict(own).permute(source.order)
        (_, first, left), (_, last, right) = landing.domain.lo - source.owned.lo, landing.domain.hi - source.owned.lo
        plane, line, element = landing.strides
        return Part(landing.pointer, first, last, left, right, plane // element, line // element)


class Stack(NamedTuple):
    """Some planes that are transformed and then sent together.

    Attributes:
        which: planes of the block.
        room: memory of the finished planes.
        plan: plan of the copies of their parts to the ranks that need them.
    """

    which: slice
    room: npt.NDArray[np.complex128]
    plan: gw.Plan


class Slabs(Transpose):
    """Planes leave in stacks, which stay in the cache until then: some are under way while the next are computed."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""
        planes = self.source.planes
        for number, (which, room, _) in enumerate(self._stacks):
            with self._sections("fftlow"):
                transform_planes(planes[which], room, self.lines, factors._replace(plane=factors.plane[which]), None)
            with self._sections(self._section):
                self._send(number)
        with self._sections(self._section):
            self._stacks[-1].plan.wait()

    def _send(self, number: int) -> None:
        """Send a finished stack. It stays unchanged until the next call but one. Collective."""
        if number > 0:
            self._stacks[number - 1].plan.wait()  # the memory of these planes comes next
        self._stacks[number].plan.start()

    def _prepare(self) -> None:
        source, team = self.source, self.source.team
        count, height, width = source.planes.shape
        most = max(1, min(count, STACK_BYTES // (16 * height * width)))
        rooms = aligned((2, most, height, width + GAP))  # they take turns
        axis, *others = source.owned.axes
        blocks = [self.target.block(rank) for rank in self.target.meeting(source)]
        self._stacks: list[Stack] = []
        for number in range(team.allreduce(-(-count // most), gw.MAX)):  # others may have more planes
            which = slice(number * most, (number + 1) * most)
            room = rooms[number % 2, : len(axis[which])]
            planes = gw.Array(room[:, :, :width], gw.RectDomain.from_axes([axis[which], *others])).permute(source.order)
            pairs = [_common(planes, block) for block in blocks if len(room)]
            self._stacks.append(Stack(which, room, gw.plan(pairs, team)))


class BlockingSlabs(Slabs):
    """The same, but each stack is waited for at once."""

    def _send(self, number: int) -> None:
        self._stacks[number].plan.start().wait()


class AllToAll(Transpose):
    """All planes are transformed into blocks like the source, which one `gw.copy` moves to the other division."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""
        with self._sections("fftlow"):
            transform_planes(self.source.planes, self._finished.values, self.lines, factors, None)
        with self._sections(self._section):
            gw.copy(self._finished.permute(self.source.order), self.target.box).wait()

    def _prepare(self) -> None:
        self._finished = self.source.finished


def _common(planes: gw.Array, block: Any) -> tuple[gw.Array, Any]:
    """The views of two arrays on the points that both have."""
    common = planes.domain & block.domain
    return planes.restrict(common), block.restrict(common)
