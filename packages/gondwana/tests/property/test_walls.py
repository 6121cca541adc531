"""The ghosts at walls, for any layout and condition, against an array on one rank that NumPy has padded."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import Faces, divided_faces
from gondwana.arrays.walls.slabs import slabs
from gondwana.errors import UsageError
from gondwana.testing import strategies as gs
from support import walls_oracle
from support.walls_oracle import STALE

CONDITIONS = st.sampled_from([None, gw.Dirichlet(3.0), gw.Neumann(0.5), gw.Reflect(), gw.Reflect(-1), gw.Fixed(2.0)])


@st.composite
def walled_layouts(draw: st.DrawFn) -> tuple[Layout, Faces]:
    """Give a layout and conditions that it can have."""
    layout = draw(gs.layouts())
    faces = []
    for axis, closed in enumerate(layout.periodic):
        pair = [None, None] if closed or layout.ghost[axis] == 0 else [draw(CONDITIONS), draw(CONDITIONS)]
        too_thin = layout.domain.shape[axis] < layout.ghost[axis]
        faces.append(tuple(None if one is None or (one.mirrors and too_thin) else one for one in pair))
    return layout, tuple(faces)


class Block:
    """The cells and ghosts of one rank, indexed in the coordinates of the domain."""

    def __init__(self, layout: Layout, rank: int, whole: np.ndarray) -> None:
        self.layout, self.domain = layout, layout.held(rank)
        self.cells = np.full(self.domain.shape, STALE, whole.dtype)
        self.set(layout.owned(rank), whole, layout.domain)

    def __getitem__(self, box: gw.RectDomain) -> np.ndarray:
        return self.cells[
            tuple(slice(a - low, b - low) for a, b, low in zip(box.lo, box.hi, self.domain.lo, strict=True))
        ]

    def set(self, box: gw.RectDomain, whole: np.ndarray, domain: gw.RectDomain, shift: Any = 0) -> None:
        source = box + shift
        self[box][...] = whole[
            tuple(slice(a - c, b - c) for a, b, c in zip(source.lo, source.hi, domain.lo, strict=True))
        ]

    def fill(self, slab: Any, box: gw.RectDomain) -> None:
        """Fill ghosts one layer at a time."""
        for x in box.axes[slab.axis] if not box.is_empty else ():
            layer = gw.RectDomain.from_axes([range(x, x + 1) if e == slab.axis else r for e, r in enumerate(box.axes)])
            mirror = layer + tuple((slab.twice - 2 * x) * (e == slab.axis) for e in range(box.ndim))
            condition = slab.condition
            value = condition.value
            k = (abs(slab.twice - 2 * x) + 1) // 2
            mirrored = self[mirror].copy() if condition.mirrors else 0
            self[layer][...] = walls_oracle.ghost_of(condition, mirrored, k, value)


@given(walled_layouts(), st.booleans())
def test_ghosts_at_walls_are_those_of_one_rank(walled: tuple[Layout, Faces], corners: bool) -> None:
    layout, faces = walled
    whole = np.arange(1.0, layout.domain.size + 1).reshape(layout.domain.shape)
    for rank in range(math.prod(layout.grid)):
        owned = layout.owned(rank)
        if owned.is_empty:
            assert slabs(layout, faces, rank, corners=corners) == []
            continue
        block = Block(layout, rank, whole)
        found = slabs(layout, faces, rank, corners=corners)
        pieces = layout.pieces(rank, corners=corners)
        for piece in pieces:  # a rank copies what is its own when a round starts
            if piece.owner == rank:
                block.set(piece.target, whole, layout.domain, piece.shift)
        for slab in found:
            block.fill(slab, slab.early)
        at_start = block.cells.copy()
        for piece in pieces:
            block.set(piece.target, whole, layout.domain, piece.shift)
        for slab in found:
            for box in slab.late:
                block.fill(slab, box)
        fields = {"faces": faces, "domain": layout.domain, "ghost": layout.ghost, "periodic": layout.periodic}
        array: Any = SimpleNamespace(**fields, owned=owned, local=block, ndim=layout.domain.ndim)
        expected = walls_oracle.expected(array, whole, corners=corners)
        assert np.array_equal(block.cells, expected)
        inner = layout.inner(rank)
        if not inner.is_empty:  # all that its cells need is there at the start
            about = inner.accrete(layout.ghost)
            start = Block(layout, rank, whole)
            start.cells = at_start
            wanted = Block(layout, rank, whole)
            wanted.cells = expected
            if corners:
                assert np.array_equal(start[about], wanted[about])
            for axis, width in enumerate(layout.ghost):
                along = inner.accrete(tuple(width * (e == axis) for e in range(inner.ndim)))
                assert np.array_equal(start[along], wanted[along])


@pytest.mark.parametrize(
    ("boundary", "periodic", "problem"),
    [
        ({"w": gw.Neumann(0)}, False, "the axes of the array are 'x', 'y'"),
        ({"z-": gw.Neumann(0)}, False, "the axes of the array are 'x', 'y'"),
        ({0: gw.Neumann(0)}, False, "boundary 0: the axes"),
        ({"x": gw.Neumann(0), "x-": gw.Neumann(0)}, False, "axis 0 has a condition there"),
        ({"x": gw.Neumann(0), "0+": gw.Neumann(0)}, False, "axis 0 has a condition there"),
        ({"y-": gw.Neumann(0)}, (False, True), "axis 1 has a condition there, or is periodic"),
        ({"y": gw.periodic}, True, "axis 1 has a condition there, or is periodic"),
        ({"y-": gw.periodic}, False, "give 'y': gw.periodic"),
        ({"x": 3.0}, False, "3.0 is not a condition"),
        (3.0, False, "3.0 is not a condition"),
        ({"x": gw.Neumann}, False, "is not a condition"),
    ],
)
def test_boundaries_that_are_refused(boundary: Any, periodic: Any, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        divided_faces(boundary, periodic, 2)
    assert problem in str(error.value)


def test_names_of_faces() -> None:
    low, high = gw.Neumann(1), gw.Neumann(2)
    for x, last in (("x", "3"), ("0", "3")):
        closed, faces = divided_faces({x: low, "y": gw.periodic, f"{last}-": low, f"{last}+": high}, False, 4)
        assert closed == (False, True, False, False)
        assert faces == ((low, low), (None, None), (None, None), (low, high))
    assert divided_faces(gw.periodic, False, 2) == ((True, True), ((None, None),) * 2)
    assert divided_faces(None, True, 2) == (True, ((None, None),) * 2)
