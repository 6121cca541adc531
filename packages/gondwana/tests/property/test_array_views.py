"""Arrays against dictionaries from points to values: views, indexing and copies of any domains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.domains.point import Point
from gondwana.testing import strategies as gs

DTYPES = ("bool", "int8", "int32", "uint16", "float32", "float64", "complex64")


@st.composite
def arrays(draw: st.DrawFn, ndim: int, dtype: str | None = None) -> gw.Array:
    """An array on any domain, its memory C, F or with gaps and negative strides."""
    domain = draw(gs.rect_domains(ndim))
    kind = np.dtype(dtype or draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(["C", "F", "gaps", "backwards"]))
    values = np.arange(domain.size).reshape(domain.shape) % 97 + 1
    if layout in ("C", "F"):
        return gw.Array(np.asarray(values, kind, order=layout), domain)
    step = 2 if layout == "gaps" else -1
    memory = np.zeros([n * abs(step) for n in domain.shape], kind)
    data = memory[(slice(None, None, step),) * ndim]
    data[...] = values
    return gw.Array(data, domain)


def contents(array: gw.Array) -> dict[Point, object]:
    """The oracle: what an array holds where."""
    return dict(zip(array.domain, array.numpy().ravel().tolist(), strict=True))


def same_dimension(count: int) -> st.SearchStrategy[tuple[gw.Array, ...]]:
    return gs.dimensions().flatmap(lambda n: st.tuples(*[arrays(n) for _ in range(count)]))


@given(st.data())
def test_views_hold_what_the_points_say(data: st.DataObject) -> None:
    ndim = data.draw(gs.dimensions())
    array = data.draw(arrays(ndim))
    held = contents(array)
    kept = data.draw(gs.rect_domains(ndim))
    offset = data.draw(gs.points(ndim))
    axes = data.draw(st.permutations(range(ndim)))
    factor = data.draw(gs.points(ndim, st.integers(1, 3)))
    assert contents(array.restrict(kept)) == {p: v for p, v in held.items() if p in kept}
    assert contents(array.translate(offset)) == {p + offset: v for p, v in held.items()}
    assert contents(array.permute(axes)) == {p.permute(axes): v for p, v in held.items()}
    assert contents(array.inject(factor)) == {p * factor: v for p, v in held.items()}
    assert contents(array.inject(factor).project(factor)) == held
    width = data.draw(st.integers(0, 3))
    assert contents(array.shrink(width)) == {p: v for p, v in held.items() if p in array.domain.shrink(width)}
    if ndim > 1:
        axis, at = data.draw(st.integers(0, ndim - 1)), data.draw(gs.coordinates())
        if at in array.domain.axes[axis]:
            sliced = {(*p[:axis], *p[axis + 1 :]): v for p, v in held.items() if p[axis] == at}
            assert contents(array.slice(axis, at)) == sliced


@given(st.data())
def test_indexing_reads_and_writes_one_element(data: st.DataObject) -> None:
    ndim = data.draw(gs.dimensions())
    array, p = data.draw(arrays(ndim)), data.draw(gs.points(ndim))
    held = contents(array)
    if p not in held:
        with pytest.raises(IndexError):
            array[p]
        return
    assert array[p] == held[p]
    array[p] = 0
    assert contents(array) == held | {p: 0}


@given(st.data())
def test_slices_select_by_coordinate(data: st.DataObject) -> None:
    ndim = data.draw(gs.dimensions())
    array = data.draw(arrays(ndim))
    bound = st.none() | gs.coordinates()
    parts = tuple(
        slice(data.draw(bound), data.draw(bound), data.draw(st.none() | st.integers(1, 3))) for _ in range(ndim)
    )
    found = array[parts]
    expected = {p: v for p, v in contents(array).items() if all(map(selects, array.domain.axes, parts, p))}
    assert contents(found) == expected


def selects(axis: range, part: slice, x: int) -> bool:
    low = axis.start if part.start is None else part.start
    high = axis.stop if part.stop is None else part.stop
    return low <= x < high and (x - low) % (part.step or 1) == 0


@given(same_dimension(2))
def test_copy_from_is_the_intersection_of_the_dictionaries(pair: tuple[gw.Array, gw.Array]) -> None:
    target, source = pair
    if not np.can_cast(source.dtype, target.dtype, "same_kind"):
        return
    cast = {p: source.numpy().dtype.type(v).astype(target.dtype).item() for p, v in contents(source).items()}
    expected = {p: cast.get(p, v) for p, v in contents(target).items()}
    target.copy_from(source)
    assert contents(target) == expected


@given(st.data())
def test_copies_within_one_memory_read_before_they_write(data: st.DataObject) -> None:
    ndim = data.draw(gs.dimensions())
    array = data.draw(arrays(ndim, "int32"))
    source = array.translate(data.draw(gs.points(ndim, st.integers(-2, 2))))
    if data.draw(st.booleans()):
        source = source.restrict(data.draw(gs.rect_domains(ndim)))
    expected = contents(array) | {p: v for p, v in contents(source).items() if p in array.domain}
    array.copy_from(source)
    assert contents(array) == expected


@given(st.data())
def test_a_domain_as_index_must_lie_inside(data: st.DataObject) -> None:
    ndim = data.draw(gs.dimensions())
    array, part = data.draw(arrays(ndim)), data.draw(gs.rect_domains(ndim))
    if part <= array.domain:
        assert contents(array[part]) == {p: v for p, v in contents(array).items() if p in part}
    else:
        with pytest.raises(IndexError):
            array[part]
        with pytest.raises(IndexError):
            array[part] = 0


@given(gs.dimensions().flatmap(arrays))
def test_extent_covers_every_element(array: gw.Array) -> None:
    first, end = array.extent
    memory = array.numpy()
    base = memory.__array_interface__["data"][0]
    addresses = [base + sum(i * s for i, s in zip(at, memory.strides, strict=True)) for at in np.ndindex(memory.shape)]
    assert not addresses or (first == min(addresses) and end == max(addresses) + memory.itemsize)
