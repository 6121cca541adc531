"""Sets of points given by arrays of booleans, against Python sets and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from gondwana.domains import Point, RectDomain
from gondwana.kernels.runs import Runs
from gondwana.testing import strategies as gs


@st.composite
def runs(draw: st.DrawFn) -> tuple[Runs, set[tuple[int, ...]]]:
    """Give a set, and its points."""
    box = draw(gs.boxes(draw(gs.dimensions())))
    seed, share = draw(st.integers(0, 1000)), draw(st.sampled_from([0.0, 0.2, 0.7, 1.0]))
    cells = np.random.default_rng(seed).random(box.shape) < share
    points = {tuple(Point(*place) + box.lo) for place in np.argwhere(cells).tolist()}
    return Runs(cells, box, box), points


@given(runs(), st.data())
def test_runs_are_sets_of_points(given: tuple[Runs, set[tuple[int, ...]]], data: Any) -> None:
    found, points = given
    assert found.size == len(points) == len({tuple(p) for p in found})
    assert {tuple(p) for p in found} == {tuple(p) for rect in found.rects for p in rect} == points
    assert sum(rect.size for rect in found.rects) == found.size
    assert bool(found) == bool(points) == (not found.is_empty)
    shadows = [RectDomain(p, Point(p) + 1).axes for p in points]
    if shadows:
        low, high = (
            tuple(edge(axis.start for axis in axes) for axes in zip(*shadows, strict=True)) for edge in (min, max)
        )
        assert found.bounding_box == RectDomain(low, Point(high) + 1)
    offset = data.draw(gs.points(found.ndim))
    assert {tuple(p) for p in found + offset} == {tuple(Point(p) + offset) for p in points}
    order = data.draw(st.permutations(range(found.ndim)))
    assert {tuple(p) for p in found.permute(order)} == {tuple(p[axis] for axis in order) for p in points}
    box = data.draw(gs.rect_domains(found.ndim))
    assert {tuple(p) for p in found & box} == points & {tuple(p) for p in box}
    assert (found | box).size == len(points | {tuple(p) for p in box})


@given(runs(), st.sampled_from("CF"))
def test_tables_have_all_points_in_the_order_of_the_loops(given: tuple[Runs, set[tuple[int, ...]]], order: Any) -> None:
    found, points = given
    table = found.table(order)
    walked = []
    for (begin, *head, first), (end, *_) in zip(table[:-1].tolist(), table[1:].tolist(), strict=True):
        walked += [(*head, first + step) for step in range(end - begin)]
    assert walked == sorted(p if order == "C" else p[::-1] for p in points)
    assert table[-1, 0] == len(points)
