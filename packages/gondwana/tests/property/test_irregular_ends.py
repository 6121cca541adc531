"""Chunks, pieces, strided memory and Fortran order as ends of one copy or plan, against NumPy's assignments."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.errors import UsageError

DTYPES = [np.dtype(name) for name in ("u1", "f8", "S3")] + [np.dtype([("a", "i4"), ("b", "f8")])]
KINDS = (None, gw.host, gw.fake_device)
ROOM = 300
"""Elements of the memory in which an end lies."""


@functools.cache
def segment(kind: gw.MemoryKind, role: int) -> gw.Segment:
    return gw.Segment(gw.world, ROOM * 16, kind)


class End(NamedTuple):
    """One end of a copy.

    Attributes:
        end: as the verbs take it.
        form: of the end: "row", "Fortran", "chunks" or "pieces".
        places: where its elements are among those of its memory.
    """

    end: Any
    form: str
    places: np.ndarray[Any, Any]

    def fits(self, other: End) -> bool:
        """Whether a copy between both is legal; they have as many elements."""
        gapless = [bool((np.diff(one.places) == 1).all()) for one in (self, other)]
        alike = (self.form in ("row", "pieces")) == (other.form in ("row", "pieces"))
        listed = [one.form in ("chunks", "pieces") for one in (self, other)]
        return alike or all(listed) or (listed[0] and gapless[1]) or (listed[1] and gapless[0])


@st.composite
def ends(draw: st.DrawFn, count: int, length: int, base: Any) -> End:
    """An end of `count` times `length` elements of an ndarray, or of what a pointer leads to."""
    total, step = count * length, draw(st.sampled_from((1, 2, 3, -2)))
    form = draw(st.sampled_from(("row", "Fortran", "chunks", "pieces")))
    if form == "Fortran":
        places = np.arange(total).reshape(length, count).T
        return End(strided(base, 0, places.shape, (1, count)), form, places.ravel())
    if form == "row":
        first = 0 if step > 0 else 2 * total
        return End(strided(base, first, (total,), (step,)), form, first + step * np.arange(total))
    lengths = np.full(count, length)
    if form == "pieces":
        lengths = np.diff([0, *sorted(draw(st.lists(st.integers(0, total), max_size=6))), total])
    order = draw(st.permutations(range(len(lengths))))
    starts = np.zeros(len(lengths), int)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    places = np.concatenate([first + np.arange(n) for first, n in zip(starts, lengths, strict=True)])
    if isinstance(base, np.ndarray):
        base, places = base[::step], np.arange(ROOM)[::step][places]
    return End(gw.indexed(base, starts, lengths if form == "pieces" else length), form, places)


def strided(base: Any, first: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """Elements of an ndarray, or behind a pointer; the first one and the strides count in elements."""
    strides = tuple(step * base.dtype.itemsize for step in steps)
    if isinstance(base, np.ndarray):
        return np.ndarray(shape, base.dtype, base.data, first * base.dtype.itemsize, strides)
    return gw.strided(base + first, shape, strides)


@given(st.data())
def test_ends_of_any_form(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    count, length = data.draw(st.integers(1, 12)), data.draw(st.sampled_from((1, 2, 5)))
    kinds = [data.draw(st.sampled_from(KINDS)) for _ in range(2)]
    before = [np.random.default_rng(role).integers(0, 100, ROOM * dtype.itemsize, np.uint8) for role in range(2)]
    bases: list[Any] = [memory.copy().view(dtype) for memory in before]
    for role, kind in enumerate(kinds):
        if kind is not None:
            bases[role] = segment(kind, role).pointer(dtype=dtype)
            gw.put(before[role].view(dtype), bases[role]).wait()
    source, target = (data.draw(ends(count, length, base)) for base in bases)
    values, wanted = (memory.view(dtype) for memory in before)
    if not source.fits(target):
        with pytest.raises(UsageError, match="make them equal"):
            gw.copy(source.end, target.end)
        return
    if data.draw(st.booleans()):
        gw.copy(source.end, target.end).wait()
    else:
        gw.plan([(source.end, target.end)]).start().wait()
    wanted[target.places] = values[source.places]
    found = bases[1] if kinds[1] is None else gw.get(bases[1], ROOM).result()
    assert found.tobytes() == wanted.tobytes()
