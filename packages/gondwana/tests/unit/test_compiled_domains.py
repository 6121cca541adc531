"""What compiled code knows of arrays and domains, points made there, and offsets known at run time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from gondwana.testing.gpu import emulated_gpu
from support.twins import as_interpreted

BOX = gw.RectDomain((-3, 2), (5, 9))
WHOLE = gw.Array(np.arange(56.0).reshape(8, 7), BOX)
ARRAYS = [
    WHOLE,
    gw.Array(np.asfortranarray(np.zeros((8, 7), np.int16)), BOX),
    WHOLE.shrink(1),
    WHOLE.permute((1, 0)),
    WHOLE.restrict(gw.RectDomain((-3, 2), (5, 9), (2, 3))),
    WHOLE.inject((2, 5)),
    WHOLE.inject(3).restrict(gw.RectDomain((-9, 6), (15, 27), (6, 3))),
    WHOLE[0:1, 3:4],
    WHOLE.restrict(gw.RectDomain((20, 20), (21, 21))),
]


@gw.jit
def numbers(a):
    return a.ndim, a.size, len(a), a.nbytes, a.shape[0], a.shape[1], a.strides[0], a.strides[1]


@gw.jit
def corners(domain):
    return domain.lo[0], domain.lo[1], domain.hi[0], domain.hi[1], domain.stride[0], domain.stride[1]


@gw.jit
def extents(domain):
    return domain.ndim, domain.size, len(domain), domain.shape[0], domain.shape[1]


@gw.jit
def of_its_domain(a):
    return corners(a.domain) + extents(a.domain)[:2]


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_arrays_and_domains_say_in_compiled_code_what_they_say_in_python(number: int) -> None:
    a = ARRAYS[number]
    assert numbers(a) == numbers.py_func(a)
    assert corners(a.domain) == corners.py_func(a.domain)
    assert extents(a.domain) == extents.py_func(a.domain)
    assert of_its_domain(a) == (*corners(a.domain), *extents(a.domain)[:2])


@gw.jit
def is_in(domain, i, j):
    return gw.Point(i, j) in domain


def test_points_in_domains() -> None:
    for domain in (BOX, gw.RectDomain((-3, 2), (5, 9), (2, 3)), gw.RectDomain((0, 0), (0, 0))):
        for i, j in itertools.product(range(-5, 7), range(11)):
            assert is_in(domain, i, j) == ((i, j) in domain)


@gw.foreach
def mark_border(p, a, domain):
    if p + gw.X not in domain or p - gw.X not in domain:
        a[p] = p[0] + a.shape[1] + a.domain.hi[0]


@gw.foreach
def transpose(p, a, b, corner):
    a[p] = b[gw.Point(p[1], p[0])] + b[corner]


@gw.foreach
def along(p, a, b, r, s):
    step = r * gw.X if p[1] % 2 else gw.Y * s
    q = p + step
    a[p] = b[q - step + (-gw.X)] + b[p - r * (gw.X - gw.Y)] + b[step + p] + b[p + (s * gw.Y + gw.X)]


@gw.foreach
def zigzag(p, a, b):
    step = gw.X
    for _ in range(2):
        step = step - gw.Y
    a[p] = b[p + step]


SQUARE = gw.RectDomain((-2, -2), (7, 7))
LAUNCHES: list[tuple[Any, gw.RectDomain, tuple[Any, ...]]] = [
    (mark_border, SQUARE, (SQUARE.shrink(1),)),
    (transpose, SQUARE, ("b", gw.Point(0, 3))),
    (along, SQUARE.shrink(2), ("b", 2, -1)),
    (zigzag, SQUARE.shrink(2), ("b",)),
]


def filled(seed: int) -> gw.Array:
    return gw.Array(np.random.default_rng(seed).random(SQUARE.shape), SQUARE)


@pytest.mark.parametrize("number", range(len(LAUNCHES)))
def test_on_the_host_and_on_a_device(number: int) -> None:
    kernel, domain, rest = LAUNCHES[number]
    arguments = [filled(1), *(filled(2) if value == "b" else value for value in rest)]
    expected = [value.copy() if isinstance(value, gw.Array) else value for value in arguments]
    for p in domain:
        kernel.py_func(p, *expected)
    with emulated_gpu():
        as_interpreted(kernel, domain, *[v.copy() if isinstance(v, gw.Array) else v for v in arguments])
    kernel(domain, *arguments)
    assert np.array_equal(arguments[0].numpy(), expected[0].numpy())


@gw.jit
def fractional(a):
    return a[gw.Point(0.5, 1)]


@gw.jit
def beyond(a, r):
    return a[gw.Point(0, 3) + r * gw.Z]


@gw.jit
def walk(domain):
    count = 0
    for _ in domain:
        count += 1
    return count


def test_a_domain_is_not_walked_through() -> None:
    with pytest.raises(KernelError, match=r"for i in range\(d\.lo\[0\], d\.hi\[0\], d\.stride\[0\]\)"):
        walk(BOX)


def test_what_is_no_point_and_no_offset() -> None:
    with pytest.raises(KernelError, match="give whole numbers, one for each axis"):
        fractional(WHOLE)
    with pytest.raises(KernelError, match="no axis 2"):
        beyond(WHOLE, 1)


def test_a_union_of_boxes_is_no_argument() -> None:
    with pytest.raises(KernelError, match="a RectDomain"):
        extents(BOX | gw.RectDomain((20, 20), (21, 21)))
