"""With `GONDWANA_INTERPRET=1` kernels and functions give the values that compiled code gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError

BOX = gw.RectDomain((-1, 2), (5, 8))


class Place(NamedTuple):
    x: float
    y: np.float32


class Star(NamedTuple):
    mass: np.float32
    place: Place
    number: np.uint8


class Fields(NamedTuple):
    stars: Any
    numbers: Any
    scale: float


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a function of a decorator and new arguments twice, compiled and interpreted, and compare what it returns."""

    def run(scene: Callable[[], list[Any]]) -> None:
        found = []
        for interpreted in ("0", "1"):
            monkeypatch.setenv("GONDWANA_INTERPRET", interpreted)
            found.append(scene())
        for compiled, other in zip(*found, strict=True):
            assert type(compiled) is type(other)
            assert repr(np.asarray(compiled).tolist()) == repr(np.asarray(other).tolist())

    return run


def array(dtype: Any, domain: gw.RectDomain = BOX) -> gw.Array:
    """An array of numbers from all of the range of a type."""
    words = np.random.default_rng(1).integers(0, 2**64, domain.shape, np.uint64)
    return gw.Array(words.astype(dtype) if np.dtype(dtype).kind in "iu" else words / 2**60 - 7, domain)


def test_integers_keep_their_types(both: Callable[..., None]) -> None:
    def scene() -> list[Any]:
        @gw.jit
        def helper(x, n):
            return x * n

        @gw.foreach
        def mix(p, out, small, large, narrow, k):
            x = large[p] // 3 + small[p] % 10 - (large[p] >= 2**63)
            out[p] = (x * 31 + k) ^ (large[p] >> 3)
            narrow[p] = p[0] * 1000 + p[1]
            small[p] = helper(small[p], 3) // 2 + k

        out, narrow = gw.Array.zeros(BOX, "uint64"), gw.Array.zeros(BOX, "int8")
        small, large = array("uint8"), array("uint64")
        mix(BOX, out, small, large, narrow, 5)
        return [a.numpy() for a in (out, small, large, narrow)]

    both(scene)


def test_records_tuples_and_views(both: Callable[..., None]) -> None:
    packed = np.dtype([("flag", "?"), ("place", "f8", 3), ("mass", "f4"), ("n", "u8")])

    def scene() -> list[Any]:
        @gw.foreach
        def move(p, fields, rows, unit):
            here = fields.stars[p]
            here.place.x += unit.mass * fields.scale
            here.number -= 1
            if p[1] > 4:
                fields.stars[p] = Star(here.mass * 3, Place(0.1, here.place.y), 7)
            fields.numbers[p] = here.place.x / here.mass
            row = rows[p[1] - 2]
            row.n = row.n // 3 + 2**63
            row.place[1] = row.mass
            rows[p[1] - 2].flag = here.number > 100

        stars = gw.Array.full(BOX, (1.5, (2.0, 3.25), 0), Star)
        numbers = gw.Array.zeros(gw.RectDomain((2, -1), (8, 5)), "float32").permute((1, 0))
        rows, unit = np.zeros(6, packed), np.zeros((), packed)
        rows["n"], rows["mass"], unit["mass"] = 2**64 - 1, 0.1, 0.3
        move(gw.RectDomain((-1, 2), (0, 8)), Fields(stars, numbers, 0.7), rows, unit[()])
        return [stars.numpy(), numbers.numpy(), rows]

    both(scene)


def test_floats_take_the_precision_of_the_arrays(both: Callable[..., None]) -> None:
    def scene() -> list[Any]:
        @gw.foreach
        def scale(p, a, b, k):
            a[p] = (2 * a[p] + k) / (b[p] - b[p]) if p[0] > 3 else k / 3 + a[p] ** 0.5
            b[p] = gw.random(42, p, 3, b.dtype) * k + a[p + gw.X - 1 * gw.X]

        result = []
        for dtype in ("float32", "float64"):
            a, b = array(dtype), array(dtype)
            scale(BOX, a, b, 0.7)
            result += [a.numpy(), b.numpy()]
        return result

    both(scene)


def test_functions_return_what_compiled_ones_return(both: Callable[..., None]) -> None:
    def scene() -> list[Any]:
        @gw.jit
        def several(x, y, f, out):
            out[0] = x * 3
            out[1] = -1
            return x // 3, x > 7, f / 3, y[0] - y[1], f * 3, out[0]

        out = np.zeros(2, np.uint16)
        values = several(np.uint64(2**64 - 1), np.array([3, 5, 7], np.uint32), np.float32(0.1), out)
        assert type(values) is tuple
        return [*values, out]

    both(scene)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "fsum"])
def test_reductions(both: Callable[..., None], op: Any) -> None:
    def scene() -> list[Any]:
        @gw.reduce(op=op)
        def total(p, a):
            return a[p] // 3 + 1

        return [total(BOX, array(dtype)) for dtype in ("int8", "uint64", "int64")]

    both(scene)


def test_sums_of_integers_do_not_depend_on_threads() -> None:
    total = gw.reduce(lambda p, a: a[p])
    long = gw.RectDomain(0, 200_000)
    numbers = array("uint64", long)
    threads = gw.threads()
    try:
        for count in (1, 2):
            gw.set_threads(count)
            assert total(long, numbers) == int(numbers.numpy().sum())
    finally:
        gw.set_threads(threads)


def test_what_a_reduction_returns_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_INTERPRET", "1")
    with pytest.raises(KernelError, match=r"returns None: a kernel of @gw\.reduce returns a real number"):
        gw.reduce(lambda p, a: None)(BOX, array("int8"))


def test_intermediates_in_tuples(both: Callable[..., None]) -> None:
    cube = gw.RectDomain((0, 0, 0), (7, 7, 7))

    def scene() -> list[Any]:
        @gw.foreach
        def spread(p, fields):
            fields[0][p] = fields[1][p - gw.X] + fields[1][p + gw.X]

        a, b, between = array("float64", cube), gw.Array.zeros(cube), gw.Intermediate()
        gw.fused(cube.shrink(2), (spread, (between, a)), (spread, (b, between)))
        return [b.numpy()]

    both(scene)
