"""The state of a Gray-Scott run and how it advances: no files, no printing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import gondwana as gw
from gondwana.apps.grayscott.kernels import Noise, Rates, largest, react_and_diffuse, smallest, total
from gondwana.apps.grayscott.settings import Settings
from gondwana.io import checkpoint

BACKGROUND_U, BACKGROUND_V = 1.0, 0.0
SEED_U, SEED_V = 0.25, 0.33
ALTERNATE_U = 0.0
"""What GrayScott.jl's second buffer of U holds outside of the box: zeros, where the first holds ones."""


class Summary(NamedTuple):
    """Extremes and sums of the fields over all cells, the same bits on every number of ranks."""

    u_min: float
    u_max: float
    u_sum: float
    v_min: float
    v_max: float
    v_sum: float


class Simulation:
    """U and V at one time, on all ranks of a team. Collective over team to make.

    Args:
        settings: of the run.
        team: the ranks that share the cube.

    Attributes:
        steps: time steps done so far.

    Example:
        >>> from gondwana.apps.grayscott.settings import resolve
        >>> run = Simulation(resolve({"L": 16, "output": None}), gw.world)
        >>> run.advance()
        >>> run.steps
        1
    """

    def __init__(self, settings: Settings, team: gw.Team) -> None:
        self.settings = settings
        self.team = team
        self.steps = 0
        self._rates = Rates(settings.F, settings.k, settings.Du, settings.Dv, settings.dt)
        self.u, self._u_next, self.v, self._v_next = (self._field() for _ in range(4))
        self._start()

    def _field(self) -> gw.GlobalArray:
        """A field with one ghost layer; x is contiguous in memory, and fastest on disk."""
        s = self.settings
        dtype = np.float64 if s.precision == "Float64" else np.float32
        periodic = s.boundary == "periodic"
        return gw.empty((s.L,) * 3, dtype, ghost=1, periodic=periodic, grid=s.dims, order="F", team=self.team)

    def _start(self) -> None:
        """The background everywhere, ghosts too, and the seed cube in the middle."""
        first, end = self.settings.seed_range
        seed = gw.RectDomain((first,) * 3, (end,) * 3)
        self._fill_outside()
        self.u.local.restrict(seed).fill(SEED_U)
        self.v.local.restrict(seed).fill(SEED_V)

    def _fill_outside(self) -> None:
        """Give all cells the background, so that ghosts outside of a box that is not periodic have it for good."""
        self.u.fill(BACKGROUND_U)
        self._u_next.fill(ALTERNATE_U if self.settings.boundary == "alternating" else BACKGROUND_U)
        self.v.fill(BACKGROUND_V)
        self._v_next.fill(BACKGROUND_V)

    def advance(self) -> None:
        """Do one time step. Collective over team: cells that need no ghosts are computed while these are exchanged."""
        s = self.settings
        noise = Noise(s.noise, s.seed, self.steps + 1) if s.noise > 0 else None
        fields = self._u_next, self._v_next, self.u, self.v
        ghosts = gw.exchange(self.u, self.v)
        react_and_diffuse(self.u.inner, *fields, self._rates, noise)
        ghosts.wait()
        react_and_diffuse(self.u.rim, *fields, self._rates, noise)
        self.u, self._u_next, self.v, self._v_next = self._u_next, self.u, self._v_next, self.v
        self.steps += 1

    def summary(self) -> Summary:
        """Return extremes and exact sums of both fields. Collective over team; blocks."""
        folds = smallest, largest, total
        values = [fold.all(self.team, field.owned, field) for field in (self.u, self.v) for fold in folds]
        return Summary(*map(float, values))

    def save(self) -> None:
        """Write a checkpoint and remove those that are no longer to be kept. Collective over team; blocks."""
        s = self.settings
        fields = {"U": self.u, "V": self.v}
        checkpoint.save(
            s.checkpoint_output, fields, step=self.steps, settings=s.physics(), keep=s.checkpoint_keep, team=self.team
        )

    def restore(self) -> None:
        """Continue from the checkpoint that the settings name, whatever ranks wrote it. Collective over team; blocks.

        Raises:
            UsageError: there is none, or it belongs to other settings.
        """
        fields = {"U": self.u, "V": self.v}
        found = checkpoint.load(self.settings.restart_input, fields, settings=self.settings.physics(), team=self.team)
        self.steps = found.step
        if found.step % 2 and self.settings.boundary == "alternating":
            self._swap_outside()

    def _swap_outside(self) -> None:
        """After an odd number of steps the two buffers of U have changed places, and their ghosts with them."""
        for field, outside in ((self.u, ALTERNATE_U), (self._u_next, BACKGROUND_U)):
            cells = field.local.restrict(field.owned).copy()
            field.fill(outside)
            field.local.copy_from(cells)
