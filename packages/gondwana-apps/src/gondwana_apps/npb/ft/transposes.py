"""Transposes: planes of one division are transformed, and each becomes part of the blocks of the next division."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.fft.fftw import aligned
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft.blocks import Blocks
from gondwana_apps.npb.ft.kernels import GAP, Factors, Lines, transform_planes

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


class Stack(NamedTuple):
    """Some planes that are transformed and then sent together.

    Attributes:
        which: planes of the block.
        room: memory of the finished planes.
        array: the same memory, in coordinates (z, y, x).
    """

    which: slice
    room: npt.NDArray[np.complex128]
    array: gw.Array


class Stacked(Transpose):
    """Planes leave in stacks, which stay in the cache until then: some are under way while the next are computed."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""
        planes = self.source.planes
        for number, (which, room, _) in enumerate(self._stacks):
            with self._sections("fftlow"):
                transform_planes(planes[which], room, self.lines, factors._replace(plane=factors.plane[which]))
            with self._sections(self._section):
                self._send(number)
        with self._sections(self._section):
            self._finish()

    def _prepare(self) -> None:
        source = self.source
        count, height, width = source.planes.shape
        most = min(count, max(1, STACK_BYTES // (16 * height * width)))
        rooms = aligned((2, most, height, width + GAP))  # they take turns
        axis, *others = source.owned.axes
        self._stacks: list[Stack] = []
        for number, first in enumerate(range(0, count, most)):
            which = slice(first, min(first + most, count))
            room = rooms[number % 2, : which.stop - first]
            domain = gw.RectDomain.from_axes([axis[which], *others])
            self._stacks.append(Stack(which, room, gw.Array(room[:, :, :width], domain).permute(source.order)))

    @abstractmethod
    def _send(self, number: int) -> None:
        """Send a finished stack. It stays unchanged until the next call but one. Local."""

    @abstractmethod
    def _finish(self) -> None:
        """Return when all data that this rank needs are in its block. Collective."""
