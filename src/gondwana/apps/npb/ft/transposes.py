"""Transposes: planes of one division are transformed, and each becomes part of the blocks of the next division."""

from __future__ import annotations

from abc import ABC, abstractmethod

import gondwana as gw
from gondwana.apps.npb.common.sections import Sections
from gondwana.apps.npb.ft.blocks import Blocks
from gondwana.apps.npb.ft.kernels import GAP, Factors, Lines, transform_planes
from gondwana.jit.fftw import aligned

STACK_BYTES = 2**21
"""Of the planes that are transformed before they are sent together: they stay in the cache until then."""


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
