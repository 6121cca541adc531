"""The box over the ranks, divided so that an axis is whole on each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import gondwana as gw
from gondwana_apps.npb.ft.layout import Layout
from gondwana_apps.npb.ft.problem import Problem

ZYX, YZX = (0, 1, 2), (1, 0, 2)
"""Orders of the axes in memory, the contiguous one last. Each is its own inverse."""


class Blocks:
    """A complex number for each point of a box, a block a rank. Collective over team to make.

    In memory a block is a stack of planes, a plane a stack of rows: the order of the axes is its own. Its coordinates
    are (z, y, x) in any order, so that a copy between blocks of two divisions is the intersection of both.

    Args:
        problem: problem, which gives the box.
        order: order of the axes in memory.
        grid: numbers of parts along these axes.
        whole: whether columns and rows are transformed here.
        team: ranks that share the box.

    Attributes:
        array: the blocks, with the axes in the order of memory.
        box: the same in coordinates (z, y, x).
        planes: this rank's block as it lies in memory.
        owned: this rank's part of the box in the order of memory: planes, columns, rows.
    """

    def __init__(
        self, problem: Problem, order: Sequence[int], grid: Sequence[int], whole: tuple[bool, bool], team: gw.Team
    ) -> None:
        self.order, self.whole, self.team = order, whole, team
        self.array = gw.empty(gw.RectDomain.from_shape(problem.shape).permute(order), complex, grid=grid, team=team)
        self.box = self.array.permute(order)
        self.planes, self.owned = self.array.values, self.array.owned

    @functools.cached_property
    def finished(self) -> gw.GlobalArray:
        """Blocks of the same division for planes that are transformed. Collective over team at first."""
        return gw.empty_like(self.array)

    def domain_of(self, rank: int) -> gw.RectDomain:
        """Return the part of the box of any rank, in coordinates (z, y, x). Local."""
        return self.array.owned_of(rank).permute(self.order)

    def block(self, rank: int) -> Any:
        """Return the block of any rank, in coordinates (z, y, x). Local."""
        return self.array.block(rank).permute(self.order)

    def meeting(self, other: Blocks) -> list[int]:
        """Return the ranks whose blocks of this division have points of this rank's block of another one. Local."""
        own = other.domain_of(self.team.rank)
        return [rank for rank in range(self.team.size) if not (self.domain_of(rank) & own).is_empty]


def stages(problem: Problem, layout: Layout, team: gw.Team) -> tuple[Blocks, ...]:
    """Make the divisions that a transform goes through, from space to wave numbers. Collective over team.

    With slabs (1D) x and y are whole in the same blocks.
    """
    np1, np2 = layout.np1, layout.np2
    last = Blocks(problem, YZX, (np2, 1, np1), (True, False), team)
    if np1 == 1:
        return Blocks(problem, ZYX, (np2, 1, 1), (True, True), team), last
    first = Blocks(problem, ZYX, (np2, np1, 1), (False, True), team)
    return first, Blocks(problem, ZYX, (np2, 1, np1), (True, False), team), last
