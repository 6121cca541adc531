"""An array on all cells of a level, a block with ghosts on each rank, and the ghost update of the Titanium study.

Coordinates are global, so the ghosts of one block overlap the cells of another, and a block moved by the length of the
domain overlaps those across the periodic boundary. The data that one rank sends to another are the intersection of two
boxes (UCB/EECS-2006-5, 3.1): no face, edge or corner is named anywhere.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

import gondwana as gw
from gondwana_apps.npb.mg.division import AXES, Division

VARIANTS = ("6msg", "26msg")
_ITEM = 8
_CACHE_LINE = 8
"""Numbers in a cache line: each line of a block starts on one, which is up to a tenth faster."""


class Blocks:
    """Numbers on the cells of a level: a block with one layer of ghosts on each rank that has one.

    Collective over team to make. `fill_ghosts` is collective over the ranks that have a block; all else is local.

    Args:
        division: division of the level.
        team: ranks, at least as many as there are blocks.
        variant: "6msg" fills ghosts axis by axis, "26msg" all at once.

    Attributes:
        owned: the cells of this rank, perhaps none.
    """

    def __init__(self, division: Division, team: gw.Team, variant: str) -> None:
        self.division = division
        self.team = team
        self.owned = division.owned(team.rank)
        held = division.held(team.rank)
        planes, lines, line = held.shape
        line = -(-line // _CACHE_LINE) * _CACHE_LINE
        strides = _ITEM * lines * line, _ITEM * line, _ITEM
        segment = gw.Segment(team, planes * strides[0])
        mine = gw.ArrayReference(segment.pointer(dtype=float), held, strides).array() if self.owned else None
        self._blocks = gw.share(mine, team)
        # Ghosts along an axis that is not divided are cells of this block: kernels fill them as they go. Only those of
        # the slowest axis, whole planes, are copied here in any case.
        inside = frozenset(axis for axis in AXES[1:] if division.grid[axis] == 1)
        travelled = [axis for axis in reversed(AXES) if axis not in inside]
        phases = [{axis} for axis in travelled] if variant == "6msg" else [set(travelled)]
        done = [inside.union(*phases[:n]) for n in range(len(phases))]
        self._phases = [gw.plan(self._sent(*both), team) for both in zip(phases, done, strict=True)]

    def block(self, rank: int) -> Any:
        """Return the cells and ghosts of any rank that has some: one-sided access to them."""
        return self._blocks[rank]

    @property
    def local(self) -> gw.Array:
        """This rank's cells and ghosts."""
        return cast(gw.Array, self.block(self.team.rank))

    def fill_ghosts(self) -> None:
        """Copy the neighbours' cells to the ghosts. Collective over the ranks that have a block; blocks."""
        for phase in self._phases:
            phase.start().wait()

    def _sent(self, axes: set[int], done: frozenset[int]) -> list[tuple[gw.Array, Any]]:
        """Return the cells of this rank that are ghosts of others, or its own, and these ghosts. Local.

        Args:
            axes: axes along which neighbours are looked for.
            done: axes whose ghosts are filled already, and are sent along.
        """
        if not self.owned:
            return []
        division, n = self.division, self.division.cells
        wide = gw.Point(int(axis in done) for axis in AXES)
        shifts = [gw.Point(s) for s in itertools.product(*((-n, 0, n) if a in axes else (0,) for a in AXES))]
        cells = self.local.restrict(self.owned.accrete(wide))
        mine = division.place(self.team.rank)
        pairs = []
        for rank in range(division.ranks):
            places = zip(mine, division.place(rank), strict=True)
            if any(a != b for axis, (a, b) in enumerate(places) if axis not in axes):
                continue
            ghosts = self.block(rank)
            for shift in shifts:
                if rank == self.team.rank and not any(shift):
                    continue
                common = (cells.domain + shift) & ghosts.domain
                if not common.is_empty:
                    pairs.append((cells.translate(shift).restrict(common), ghosts.restrict(common)))
        return pairs
