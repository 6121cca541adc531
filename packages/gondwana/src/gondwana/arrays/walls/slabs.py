"""The ghosts of a rank outside of the domain, as boxes: which are filled when an exchange starts, and which at its end.

Pure values. With corners, the ghosts at the walls of an axis reach into the ghosts of the axes before it, at walls, and
into all ghosts that are exchanged: the walls of the axes are composed one after the other, as `numpy.pad` composes
them, and what lies beside the ghosts of a neighbour is what the neighbour has there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import Condition, Faces
from gondwana.domains import RectDomain


class Slab(NamedTuple):
    """Ghosts of one rank at one face.

    Attributes:
        condition: the condition there.
        axis: the axis of the face.
        twice: sum of the coordinates of a ghost and of its mirror along the axis.
        early: the ghosts that need nothing from other ranks.
        late: the others, and all that an exchange within the rank may change: boxes, disjoint.
    """

    condition: Condition
    axis: int
    twice: int
    early: RectDomain
    late: tuple[RectDomain, ...]


class _Side(NamedTuple):
    """One side of a block along an axis, as coordinates of ends from the block outwards.

    Attributes:
        own: the end of the cells.
        exchanged: the end of the ghosts that are exchanged.
        held: the end of all ghosts with values: those at a wall, too.
        foreign: whether other ranks own cells of these ghosts.
        early: whether the ghosts at the wall can be filled before the others.
    """

    own: int
    exchanged: int
    held: int
    foreign: bool
    early: bool

    def first(self, *, composed: bool, alone: bool) -> int:
        """The end of what can be had at the start of an exchange.

        Args:
            composed: whether the walls of the axis come before.
            alone: whether ghosts that are exchanged within the rank do not count.
        """
        if self.exchanged != self.own:
            return self.own if self.foreign or alone else self.exchanged
        return self.held if composed and self.early else self.own


def slabs(layout: Layout, faces: Faces, rank: int, *, corners: bool) -> list[Slab]:
    """Return the ghosts of a rank at walls, in the order in which they are to be filled. Local.

    Args:
        layout: layout of the array.
        faces: conditions of its faces.
        rank: rank that has the ghosts.
        corners: whether to fill also those that lie outside along several axes.
    """
    if layout.owned(rank).is_empty:
        return []
    sides = [_sides(layout, faces, rank, axis) for axis in range(len(faces))]
    return [
        _slab(sides, axis, number, condition, layout, corners=corners)
        for axis, pair in enumerate(faces)
        for number, condition in enumerate(pair)
        if condition is not None and sides[axis][number].held != sides[axis][number].exchanged
    ]


def _sides(layout: Layout, faces: Faces, rank: int, axis: int) -> tuple[_Side, _Side]:
    begin, end = (corner[axis] for corner in (layout.owned(rank).lo, layout.owned(rank).hi))
    first, last = layout.domain.lo[axis], layout.domain.hi[axis]
    width, around = layout.ghost[axis], layout.periodic[axis]
    foreign = layout.foreign_sides(rank, axis)
    found = []
    for number, (sign, own, wall) in enumerate(((-1, begin, first), (1, end, last))):
        held = own + sign * width
        exchanged = held if around else sign * max(sign * own, min(sign * held, sign * wall))
        condition = faces[axis][number]
        depth = width - abs(wall - own)  # of the cells that are mirrored
        early = condition is not None and (not condition.mirrors or (wall == own and depth <= end - begin))
        found.append(_Side(own, exchanged, exchanged if condition is None else held, sign in foreign, early))
    return found[0], found[1]


def _slab(
    sides: list[tuple[_Side, _Side]], axis: int, number: int, condition: Condition, layout: Layout, *, corners: bool
) -> Slab:
    side = sides[axis][number]
    wall = (layout.domain.lo, layout.domain.hi)[number][axis]
    outside = sorted((side.exchanged, side.held))

    def box(reach: list[list[int]]) -> RectDomain:
        reach[axis] = outside
        return RectDomain(*zip(*reach, strict=True))

    if not corners:
        whole, early = box([[low.own, high.own] for low, high in sides]), side.early
        return Slab(
            condition, axis, 2 * wall - 1, whole if early else whole.shrink(whole.shape), () if early else (whole,)
        )
    whole = box([[one.held if e < axis else one.exchanged for one in pair] for e, pair in enumerate(sides)])
    if not side.early:
        return Slab(condition, axis, 2 * wall - 1, whole.shrink(whole.shape), (whole,))
    first, settled = (
        box([[one.first(composed=e < axis, alone=alone) for one in pair] for e, pair in enumerate(sides)])
        for alone in (False, True)
    )
    return Slab(condition, axis, 2 * wall - 1, first, tuple(_around(whole, settled)))


def _around(whole: RectDomain, hole: RectDomain) -> Iterator[RectDomain]:
    """The boxes that fill a box around a smaller one inside."""
    axes = list(whole.axes)
    for axis, (outer, inner) in enumerate(zip(whole.axes, hole.axes, strict=True)):
        for part in (range(outer.start, inner.start), range(inner.stop, outer.stop)):
            if part:
                yield RectDomain.from_axes([*axes[:axis], part, *axes[axis + 1 :]])
        axes[axis] = inner
