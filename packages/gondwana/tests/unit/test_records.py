"""Records as elements: dtypes of named tuples, what arrays and compiled code take, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler.types.arguments import dtype_name
from gondwana.compiler.types.records import element_dtype, named_dtype, spelled
from gondwana.errors import KernelError, UsageError
from gondwana.testing.gpu import emulated_gpu
from support.twins import SMALL, shaped


class Place(NamedTuple):
    x: float
    y: float


class Star(NamedTuple):
    mass: np.float32
    place: Place
    number: int


STAR = element_dtype(Star)
PACKED = np.dtype([("flag", "?"), ("place", "f8", 3), ("mass", "f4")])


@gw.jit
def first_of(rows):
    return rows[0]


@gw.jit
def masses(n, like):
    """Read records of arrays that are not named again, and whose memory other arrays would take."""
    mine, given = np.zeros(n, like.dtype), np.zeros(n, like.dtype)
    mine[0].mass, given[0].mass = 2.0, 3.0
    row, other = mine[0], first_of(given)
    taken = np.full(4 * n, -1.0), np.full(4 * n, -1.0)
    return row.mass, other.mass, taken[0][0] + taken[1][0]


@pytest.mark.parametrize("n", [10, 1000])
def test_records_keep_the_arrays_of_compiled_code_that_they_are_in(n: int) -> None:
    assert masses(n, np.zeros(1, STAR)) == (2.0, 3.0, -2.0)


def test_named_tuples_are_laid_out_as_c_structures() -> None:
    assert STAR.itemsize == 32
    assert [STAR.fields[name][1] for name in STAR.names] == [0, 8, 24]
    assert element_dtype(STAR) is STAR
    assert spelled(STAR) == "record(mass: float32, place: record(x: float64, y: float64), number: int64)"


@pytest.mark.parametrize("dtype", [STAR, PACKED, np.dtype("f4,f4,c16")])
def test_names_of_records_give_them_back(dtype: np.dtype) -> None:
    assert named_dtype(dtype_name(dtype)) == dtype


@pytest.mark.parametrize(
    ("dtype", "problem"),
    [
        (namedtuple("Bare", "a b"), "field 'a' is annotated with None"),
        (NamedTuple("Empty", []), "without fields"),
        (np.dtype([]), "without fields"),
        (NamedTuple("Text", [("name", str)]), "annotated with <class 'str'>"),
        (np.dtype([("name", "S4")]), r"dtype record\(name: \|S4\) is not possible"),
        (np.dtype([("mass", ">f4")]), "native"),
        (np.dtype([("flags", "?", 3)]), "is not possible"),
        (np.dtype({"names": ["a", "b"], "formats": ["f8", "f4"], "offsets": [0, 4]}), "do not overlap"),
        (np.dtype([("thing", object)]), "is not possible"),
    ],
)
def test_what_records_cannot_have_is_refused(dtype: object, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        gw.zeros(3, dtype)


def test_elements_are_the_memory_of_an_array() -> None:
    a = gw.Array.zeros(gw.RectDomain(5, 8), Star)
    a[6] = (1.5, (2.0, 3.0), 4)
    a[7] = a[6]
    a[7].place.y = 9.0
    assert a[6].place.y == 3.0
    assert a[7]["place"]["y"] == 9.0
    assert gw.Array(np.zeros(2, PACKED))[0].place.tolist() == [0.0, 0.0, 0.0]
    star = Star(np.float32(1), Place(2.0, 3.0), 4)
    assert gw.Array.full(gw.RectDomain(0, 2), star, Star)[1].item() == (1.0, (2.0, 3.0), 4)
    assert gw.full(2, (1, (2.0, 3.0), 4), Star).local[0].number == 4


@gw.foreach
def move(p, a, b, step):
    b[p] = a[p - gw.X]
    b[p].place.x += step.place.x
    if p[0] > 2:
        b[p] = Star(b[p].mass, Place(0.25, 0.5), p[0])


def test_kernels_know_which_array_a_record_belongs_to() -> None:
    a = gw.Array.full(gw.RectDomain(0, 4), (1.5, (2.0, 3.0), 4), Star)
    b = gw.Array.zeros(gw.RectDomain(1, 4), Star)
    step = np.array((0, (0.5, 0), 0), STAR)[()]
    with pytest.raises(UsageError, match="touches b on"):
        move(gw.RectDomain(0, 4), a, b, step)
    move(b.domain, a, b, step)
    assert b.numpy().tolist() == [(1.5, (2.5, 3.0), 4)] * 2 + [(1.5, (0.25, 0.5), 3)]
    data = a.numpy().copy()
    data.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        move(gw.RectDomain(2, 4), b, gw.Array(data, a.domain), step)


@gw.foreach
def set_missing(p, a):
    a[p].colour = 1


@gw.foreach
def set_argument(p, a, step):
    step.mass = 1


@gw.foreach
def set_several(p, a):
    a[p].place = a[p].place


@gw.foreach
def set_short(p, a):
    a[p] = (1.0, 2.0)


@pytest.mark.parametrize(
    ("kernel", "arguments", "problem"),
    [
        (set_missing, (), "has no field 'colour': its fields are flag, place, mass"),
        (set_argument, (np.zeros((), PACKED)[()],), "it is read-only"),
        (set_several, (), "has several items"),
        (set_short, (), "a tuple with a value for each of flag, place, mass"),
    ],
)
def test_errors_of_kernels_name_the_fields(kernel: gw.Foreach, arguments: tuple, problem: str) -> None:
    a = gw.Array(np.zeros(3, PACKED))
    with pytest.raises(KernelError, match=problem):
        kernel(a.domain, a, *arguments)


@gw.jit
def fetch(pointer):
    return gw.get(pointer).mass


def test_a_record_is_got_into_an_array_by_compiled_code() -> None:
    with pytest.raises(KernelError, match="give the array that it goes to"):
        fetch(gw.Segment(gw.world, 64).pointer(dtype=Star))


SEVERAL = np.dtype([("flag", "?"), ("place", "f8", 3), ("mass", "f4"), ("wave", "c16")])
"""Records of 45 bytes, at odd addresses."""


@gw.foreach
def turn(p, a, b, step):
    b[p] = a[p - gw.X]
    b[p].place.x += step.place.x
    if p[0] > 2:
        b[p] = Star(b[p].mass, Place(0.25, 0.5), p[0])
    if p[0] == 5:
        b[p].place = a[p].place


@gw.foreach
def mix(p, a, b):
    b[p].flag = not a[p].flag
    for i in range(3):
        b[p].place[i] = a[p + gw.Y].place[i] + p[0]
    b[p]["mass"] = a[p].mass * 2
    b[p].wave = a[p].wave * 1j
    if p[1] == 3:
        b[p] = (True, (1.0, 2.0, p[0]), 9, 1 + 2j)


def records_in(kind: gw.MemoryKind) -> list[list]:
    """What kernels make of records in memory of a kind."""
    a = gw.full(6, (1.5, (2.0, 3.0), 4), Star, ghost=1, periodic=True, kind=kind)
    b = gw.zeros_like(a)
    a.exchange().wait()
    turn(b.owned, a, b, np.array((0, (0.5, 0), 0), STAR)[()])
    c = gw.full((5, 4), (False, (1, 2, 3), 4, 5), SEVERAL, ghost=1, periodic=True, kind=kind)
    c[2, 2] = (True, (7, 8, 9), 1, 2j)
    c.exchange().wait()
    d = gw.zeros_like(c)
    mix(d.owned, c, d)
    return [str(b.to_numpy()), str(d.to_numpy()), str(c[2, 2])]


def test_records_on_a_gpu_are_those_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = records_in(gw.host)
    with emulated_gpu(), shaped(SMALL):
        assert records_in(gw.cuda()) == expected
    for kernel in turn, mix:
        monkeypatch.setattr(kernel, "interpreted", True)
    assert records_in(gw.host) == expected
