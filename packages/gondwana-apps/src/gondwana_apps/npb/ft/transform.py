"""The three-dimensional Fourier transform: transforms along axes that are whole, and transposes between them."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from gondwana.fft.fftw import FORWARD, Plan, aligned
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft.blocks import Blocks
from gondwana_apps.npb.ft.kernels import GAP, Factors, Lines, transform_planes
from gondwana_apps.npb.ft.transposes import AllToAll, BlockingSlabs, Pencils, Slabs, Transpose

BATCH = 32
"""The most columns that are transformed together: of 256 points they take 128 KiB. Blocks are multiples of it wide."""

VARIANTS: dict[str, type[Transpose]] = {
    "pencils": Pencils,
    "slabs": Slabs,
    "blocking-slabs": BlockingSlabs,
    "alltoall": AllToAll,
}
"""The transposes by their names; the first is the default."""


class Transform:
    """Transforms the box in one direction, without a factor of normalisation. Collective over team to make and to call.

    Args:
        stages: the divisions of the box.
        sign: FORWARD: from space, the first stage, to wave numbers, the last; BACKWARD: the opposite.
        variant: one of `VARIANTS`.
        sections: timers.
    """

    def __init__(self, stages: tuple[Blocks, ...], sign: int, variant: str, sections: Sections) -> None:
        self._sign, self._sections = sign, sections
        way = stages if sign == FORWARD else stages[::-1]
        self._last = way[-1]
        self._transposes = [
            VARIANTS[variant](source, target, sections, f"transpose{number}_glo")
            for number, (source, target) in enumerate(itertools.pairwise(way), 1)
        ]

    def plan(self) -> None:
        """Have FFTW plan. Local. It remembers the fastest algorithm: later calls only compute roots of unity."""
        self._plans: list[Plan] = []  # the lines have their addresses only
        for transpose in self._transposes:
            transpose.lines = self._lines(transpose.source)
        self._last_lines = self._lines(self._last)

    def _lines(self, blocks: Blocks) -> Lines:
        _, height, width = blocks.planes.shape
        batch = next(count for count in range(min(BATCH, width), 0, -1) if width % count == 0)
        buffer = aligned((height, batch + GAP))
        buffer.fill(0.0)
        columns, rows = blocks.whole
        return Lines(
            self._plan(buffer[:, :batch]) if columns else None,
            self._plan(aligned((width,))) if rows else None,
            buffer,
        )

    def _plan(self, lines: npt.NDArray[np.complex128]) -> int:
        """The address of a plan along the first axis that lives until the next call of `plan`."""
        self._plans.append(Plan(lines, lines, (0,), self._sign))
        return self._plans[-1].address

    def __call__(self, factors: Factors | None = None) -> None:
        """Transform the blocks of the first stage, times factors, into those of the last one. Collective over team."""
        for transpose in self._transposes:
            transpose(factors or ones(transpose.source))
            factors = None
        with self._sections("fftlow"):
            planes = self._last.planes
            transform_planes(planes, planes, self._last_lines, ones(self._last), None)


def ones(blocks: Blocks) -> Factors:
    """Return factors that change nothing. Local."""
    return Factors(*map(np.ones, blocks.planes.shape))
