"""The state of a Gray-Scott run and its advance: no files, no printing."""

from __future__ import annotations

import time
from typing import NamedTuple

import gondwana as gw
from gondwana_apps import run_files
from gondwana_apps.grayscott import devices, fusing
from gondwana_apps.grayscott.fields import make_fields
from gondwana_apps.grayscott.kernels import Rates
from gondwana_apps.grayscott.settings import Settings
from gondwana_apps.grayscott.sweeps import Stepper

BACKGROUND_U, BACKGROUND_V = 1.0, 0.0
SEED_U, SEED_V = 0.25, 0.33
ALTERNATE_U = 0.0
"""The contents of GrayScott.jl's second buffer of U outside of the box: zeros, while the first has ones."""


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
        settings: settings of the run.
        team: the ranks that share the cube.
        kind: memory kind of the fields; None: by the settings.

    Attributes:
        steps: time steps done so far; on GPUs, started.
        device: the GPU of this rank, None on the host.
        fuse_steps: time steps in one sweep.
        seconds_preparing: duration of `prepare` and of measuring which variant is faster.

    Example:
        >>> from gondwana_apps.grayscott.settings import resolve
        >>> run = Simulation(resolve({"L": 16, "output": None}), gw.world)
        >>> run.advance()
        >>> run.steps
        1
    """

    def __init__(self, settings: Settings, team: gw.Team, kind: gw.MemoryKind | None = None) -> None:
        self.settings = settings
        self.team = team
        self.steps = 0
        kind = devices.choose(settings, team) if kind is None else kind
        self.device = kind.device
        rates = Rates(settings.F, settings.k, settings.Du, settings.Dv, settings.dt)
        start = time.perf_counter()
        self.fuse_steps = fusing.choose(settings, rates, team, kind)
        self.seconds_preparing = time.perf_counter() - start
        self._fields = make_fields(settings, team, kind, ghost=self.fuse_steps)
        self._stepper = Stepper(settings, rates, self._fields, self.fuse_steps)
        self._under_way: gw.Event | None = None
        self._start()

    @property
    def u(self) -> gw.GlobalArray:
        """The first species."""
        return self._fields.u

    @property
    def v(self) -> gw.GlobalArray:
        """The second species."""
        return self._fields.v

    @property
    def fields(self) -> dict[str, gw.GlobalArray]:
        """Both species, by their names in files."""
        return {"U": self.u, "V": self.v}

    def _start(self) -> None:
        """Set the background everywhere, ghosts too, and the seed cube at the centre."""
        other = ALTERNATE_U if self.settings.boundary == "alternating" else BACKGROUND_U
        # Ghosts outside of a box that is not periodic keep these values permanently.
        for field, outside in zip(self._fields, (other, BACKGROUND_V, BACKGROUND_U, BACKGROUND_V), strict=True):
            field.fill(outside)
        first, end = self.settings.seed_range
        seed = gw.RectDomain((first,) * 3, (end,) * 3)
        self.u.local.restrict(seed).fill(SEED_U)
        self.v.local.restrict(seed).fill(SEED_V)

    def prepare(self) -> None:
        """Compile the steps, and measure which variant is faster; the state stays. Collective over team; blocks."""
        start = time.perf_counter()
        self._stepper.prepare(self._fields, self.steps)
        self.finish()
        self.seconds_preparing += time.perf_counter() - start

    def advance(self, steps: int = 1) -> None:
        """Do time steps. Collective over team; on GPUs it returns before they are done.

        Args:
            steps: number of steps.
        """
        end = self.steps + steps
        while self.steps < end:
            self._fields, done = self._stepper.advance(self._fields, self.steps, end - self.steps)
            self.steps += done

    def keep_up(self) -> None:
        """Wait for the steps that were started before the last call of this. Local: so the host is not far ahead."""
        if self.device is not None:
            before, self._under_way = self._under_way, self.device.record()
            if before is not None:
                before.wait()

    def finish(self) -> None:
        """Wait for the steps that were started. Local; blocks."""
        gw.synchronize()

    def summary(self) -> Summary:
        """Return extremes and exact sums of both fields. Collective over team; blocks."""
        values = [fold() for field in (self.u, self.v) for fold in (field.min, field.max, field.sum)]
        return Summary(*map(float, values))  # type: ignore[arg-type]  # of real numbers

    def restore(self) -> None:
        """Continue from the checkpoint named by the settings, written by any ranks. Collective over team; blocks.

        Raises:
            UsageError: no checkpoint exists, or it belongs to other settings.
        """
        found = run_files.restore(self.settings, self.fields, self.settings.physics(), self.team)
        self.steps = found.step
        if found.step % 2 and self.settings.boundary == "alternating":
            self._swap_outside()

    def _swap_outside(self) -> None:
        """After an odd number of steps the two buffers of U have changed places, and their ghosts with them."""
        for field, outside in ((self._fields.u, ALTERNATE_U), (self._fields.u_next, BACKGROUND_U)):
            cells = field.local.restrict(field.owned).copy()
            field.fill(outside)
            field.local.copy_from(cells)
