"""Arrays out of reach against arrays in reach: the same views, and copies between any domains, on a fake device."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.testing import strategies as gs

DTYPES = ("int8", "uint16", "float32", "complex128")


@st.composite
def pairs(draw: st.DrawFn, ndim: int, dtype: str) -> tuple[gw.RemoteArray, gw.Array]:
    """A view of an array on a device, and the same view of an array here with the same elements."""
    domain, order = draw(gs.rect_domains(ndim)), draw(st.sampled_from(["C", "F"]))
    here = gw.Array((np.arange(domain.size).reshape(domain.shape) % 97 + 1).astype(dtype), domain)
    segment = gw.Segment(gw.world, here.nbytes + 5 * here.dtype.itemsize, gw.fake_device)
    there = gw.array_at(segment.pointer(dtype=dtype) + 5, domain, order=order)
    assert isinstance(there, gw.RemoteArray)
    there.copy_from(here)
    for change in draw(st.lists(st.sampled_from(["restrict", "translate", "permute", "inject", "slice"]), max_size=3)):
        if change == "restrict":
            arguments = (draw(gs.rect_domains(here.ndim)),)
        elif change == "translate":
            arguments = (draw(gs.points(here.ndim)),)
        elif change == "permute":
            arguments = (draw(st.permutations(range(here.ndim))),)
        elif change == "inject":
            arguments = (draw(gs.points(here.ndim, st.integers(1, 3))),)
        elif ndim > 1 and here.ndim == ndim and not here.domain.is_empty:
            arguments = (0, draw(st.sampled_from(here.domain.axes[0])))
        else:
            continue
        here, there = getattr(here, change)(*arguments), getattr(there, change)(*arguments)
    return there, here


@given(st.data())
def test_views_of_what_is_out_of_reach_are_those_of_what_is_in_reach(data: st.DataObject) -> None:
    there, here = data.draw(pairs(data.draw(gs.dimensions()), data.draw(st.sampled_from(DTYPES))))
    assert (there.domain, there.shape, there.size, there.nbytes) == (here.domain, here.shape, here.size, here.nbytes)
    assert np.array_equal(there.copy().numpy(), here.numpy())


@given(st.data())
def test_copies_move_the_intersection(data: st.DataObject) -> None:
    ndim, dtype = data.draw(gs.dimensions()), data.draw(st.sampled_from(DTYPES))
    there, here = data.draw(pairs(ndim, dtype))
    values = data.draw(gs.rect_domains(here.ndim))
    other = gw.Array((np.arange(values.size).reshape(values.shape) % 50).astype(dtype), values)
    got = other.copy()
    got.copy_from(there)
    expected = other.copy()
    expected.copy_from(here)
    assert np.array_equal(got.numpy(), expected.numpy())
    base = here.copy()
    base.copy_from(other)
    there.copy_from(other)
    assert np.array_equal(there.copy().numpy(), base.numpy())
    elsewhere = gw.array_at(gw.Segment(gw.world, other.nbytes, gw.fake_device).pointer(dtype=dtype), values)
    elsewhere.copy_from(there)
    expected = gw.Array.zeros(values, dtype)
    expected.copy_from(base)
    assert np.array_equal(elsewhere.copy().numpy(), expected.numpy())
