"""The arrays of a run."""

from __future__ import annotations

from typing import NamedTuple

import gondwana as gw
from gondwana_apps.grayscott.settings import Settings


class Fields(NamedTuple):
    """The arrays of a run, as the kernel takes them: outputs, then inputs."""

    u_next: gw.GlobalArray
    v_next: gw.GlobalArray
    u: gw.GlobalArray
    v: gw.GlobalArray

    def swapped(self) -> Fields:
        """The same arrays once the next time has become the present."""
        return Fields(self.u, self.v, self.u_next, self.v_next)


def make_fields(settings: Settings, team: gw.Team, kind: gw.MemoryKind, *, ghost: int) -> Fields:
    """Return the arrays of a run, with undefined contents. Collective over team; blocks.

    Args:
        settings: settings of the run.
        team: the ranks that share the cube.
        kind: memory kind of this rank's blocks.
        ghost: width of the ghost layer.
    """
    layout, dtype = layout_of(settings, team.size, ghost), settings.precision.lower()
    return Fields(*(gw.empty(layout, dtype, kind=kind, team=team) for _ in Fields._fields))


def layout_of(settings: Settings, ranks: int, ghost: int) -> gw.Layout:
    """Return the division of the cube over ranks. Local; arguments as for `make_fields`."""
    shape, periodic = (settings.L,) * 3, settings.boundary == "periodic"
    # x is contiguous in memory, and fastest on disk.
    return gw.Layout.divide(shape, ranks, ghost=ghost, periodic=periodic, grid=settings.dims, order="F")
