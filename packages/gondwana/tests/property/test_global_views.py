"""Views of global arrays against NumPy: what they select, and what each of any number of ranks owns of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.arrays.layout import Layout
from gondwana.testing import strategies as gs


class Stand:
    """A global array as views see it, without memory."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.team, self.dtype, self.label = layout, gw.world, np.dtype(float), "a stand"


@st.composite
def selections(draw: Any, lo: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An index in the coordinates of a domain, and the same from 0, with one axis left."""
    ours: list[Any] = []
    theirs: list[Any] = []
    for axis, (first, length) in enumerate(zip(lo, shape, strict=True)):
        if draw(st.booleans()) and (axis < len(shape) - 1 or any(isinstance(part, slice) for part in ours)):
            place = draw(st.integers(0, length - 1))
            ours.append(first + place)
            theirs.append(place)
        else:
            begin = draw(st.integers(0, length - 1))
            end, step = draw(st.integers(begin + 1, length)), draw(st.integers(1, 3))
            ours.append(slice(first + begin, first + end, step))
            theirs.append(slice(begin, end, step))
    return tuple(ours), tuple(theirs)


@given(st.data())
def test_the_parts_of_all_ranks_are_the_selected_cells(data: st.DataObject) -> None:
    layout = data.draw(gs.layouts(ranks=data.draw(st.integers(1, 7))))
    lo, shape = tuple(layout.domain.lo), layout.domain.shape
    ours, theirs = data.draw(selections(lo, shape))
    whole = gw.GlobalView(Stand(layout), layout.domain.axes, tuple(range(len(shape))))  # type: ignore[arg-type]
    view = whole[ours]
    numbers = np.arange(math.prod(shape)).reshape(shape)
    wanted = numbers[theirs]
    axes = tuple(data.draw(st.permutations(range(wanted.ndim))))
    view, wanted = view.permute(axes), wanted.transpose(axes)
    assert (view.shape, view.ndim, view.size, view.nbytes) == (wanted.shape, wanted.ndim, wanted.size, 8 * wanted.size)
    seen = np.zeros(wanted.shape, int)
    for rank in range(math.prod(layout.grid)):
        positions = view.part(rank)
        if positions.is_empty:
            continue
        part = wanted[tuple(slice(span.start, span.stop) for span in positions.axes)]
        seen[tuple(slice(span.start, span.stop) for span in positions.axes)] += 1
        owned = layout.owned(rank)
        mine = numbers[tuple(slice(a - c, b - c) for a, b, c in zip(owned.lo, owned.hi, lo, strict=True))]
        assert np.isin(part, mine).all()
    assert (seen == 1).all()


@given(st.data())
def test_views_of_views(data: st.DataObject) -> None:
    array = gw.from_function(lambda x, y: 100 * x + y, gw.RectDomain((-3, 2), (6, 12)))
    whole = array.to_numpy()
    assert whole is not None
    ours, theirs = data.draw(selections((-3, 2), (9, 10)))
    view = array[ours]
    wanted = whole[theirs]
    assert np.array_equal(view.to_numpy(), wanted)
    step = data.draw(st.integers(1, 3))
    smaller = view[..., view.domain.lo[-1] :: step * view.domain.axes[-1].step]
    assert np.array_equal(smaller.to_numpy(), wanted[..., ::step])
