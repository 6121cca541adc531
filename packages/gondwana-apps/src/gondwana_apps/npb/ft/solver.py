"""The timed region of FT (NAS-91-002): u(t) = F^-1( exp(-4 alpha pi^2 |k|^2 t) F(u(0)) ), for t = 1, 2, ...

NPB's programs multiply the transform of u(0) in place, once a step. Here it stays unchanged, and step t reads it times
the t-th power of the factor, as in the definition.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gondwana.fft.fftw import BACKWARD, FORWARD
from gondwana_apps.npb.common import stream
from gondwana_apps.npb.common.benchmark import Echo
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft.blocks import Blocks
from gondwana_apps.npb.ft.kernels import Factors, fill_planes
from gondwana_apps.npb.ft.problem import ALPHA, Problem
from gondwana_apps.npb.ft.transform import Transform

CHECKED = 1024
"""Number of points that a checksum adds."""


class Solver:
    """All data of a run. Collective over team to make.

    Args:
        problem: the class.
        stages: the divisions of the box, from space to wave numbers.
        variant: one of the transposes.
        sections: timers.
    """

    def __init__(self, problem: Problem, stages: tuple[Blocks, ...], variant: str, sections: Sections) -> None:
        self._problem, self._sections = problem, sections
        self._space, self._waves = stages[0], stages[-1]
        self._forward = Transform(stages, FORWARD, variant, sections)
        self._inverse = Transform(stages, BACKWARD, variant, sections)

    def start(self) -> None:
        """Set up and transform u(0). Collective over team."""
        with self._sections("setup"):
            self._forward.plan()
            self._inverse.plan()
            self._checked = self._own_points()
            self._fill()
        with self._sections("fft"):
            self._forward()

    def warm_up(self) -> None:
        """Do the timed work once, so that it is compiled and memory is there. Collective over team."""
        self.start()
        self._inverse(self._decay(1))
        self._own_checksum()

    def solve(self, echo: Echo) -> list[complex]:
        """Do all time steps, and return their checksums. Collective over team."""
        self.start()
        checksums = []
        for step in range(1, self._problem.iterations + 1):
            with self._sections("evolve"):
                decay = self._decay(step)
            with self._sections("fft"):
                self._inverse(decay)
            with self._sections("checksum"):
                # No rank leaves this sum before all have reached it, so none sends to a block that is still in use.
                checksums.append(self._space.team.allreduce(self._own_checksum()))
            echo(f" T = {step:4d}     Checksum = {checksums[-1].real:22.12E} {checksums[-1].imag:22.12E}")
        return checksums

    def _fill(self) -> None:
        """Set u(0): its real and imaginary parts are one stream of random numbers over the whole box."""
        plane, row, _ = self._space.owned.lo
        _, ny, nx = self._problem.shape
        before, between = 2 * nx * (row + ny * plane), 2 * nx * ny
        fill_planes(self._space.planes, np.uint64(stream.state_after(before)), np.uint64(stream.power(between)))

    def _decay(self, step: int) -> Factors:
        """The factors exp(-4 alpha pi^2 k^2 t) of the wave numbers of each axis; a mode has the product of three."""

        def along(axis: int, own: range) -> npt.NDArray[np.float64]:
            points = self._problem.shape[axis]
            k = (np.array(own) + points // 2) % points - points // 2
            decay: npt.NDArray[np.float64] = np.exp(-4.0 * ALPHA * math.pi**2 * step * k**2)
            return decay

        return Factors(*map(along, self._waves.order, self._waves.owned.axes))

    def _own_points(self) -> tuple[npt.NDArray[np.int64], ...]:
        """The places in this rank's planes of those points (j, 3 j, 5 j) that it has."""
        j = np.arange(1, CHECKED + 1)
        box, low = self._problem.shape, self._space.owned.lo
        points = [step * j % count - first for step, count, first in zip((5, 3, 1), box, low, strict=True)]
        inside = [(p >= 0) & (p < count) for p, count in zip(points, self._space.planes.shape, strict=True)]
        own = np.logical_and.reduce(inside)
        return tuple(p[own] for p in points)

    def _own_checksum(self) -> complex:
        """This rank's part of the sum over the checked points, divided by the number of all points."""
        return complex(self._space.planes[self._checked].sum()) / self._problem.points
