"""Kernels on the emulated GPU give the bits that they give on the host: domains, layouts, types, points, shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from gondwana.gpu.device import device
from gondwana.kernels.cuda.shapes import Shape
from gondwana.testing.gpu import emulated_gpu
from support.twins import SMALL, Mirror, as_interpreted, compare, same_everywhere, shaped


@pytest.fixture(autouse=True, scope="module")
def _gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


def random(domain: gw.RectDomain, dtype: Any = float, order: Any = "C", seed: int = 0) -> gw.Array:
    """An array of numbers in [0, 1)."""
    values = np.random.default_rng(seed).random(domain.shape)
    return gw.Array(np.asarray(values, dtype, order=order), domain)


def integers(domain: gw.RectDomain, dtype: Any, seed: int = 0) -> gw.Array:
    """An array of small numbers, exact in every dtype."""
    values = np.random.default_rng(seed).integers(0, 2 if np.dtype(dtype) == bool else 50, domain.shape)
    return gw.Array(values.astype(dtype), domain)


@gw.foreach
def add(p, a, b, k):
    a[p] = a[p] + k * b[p]


@gw.foreach
def star(p, a, b):
    a[p] = b[p + gw.X] - 2 * b[p] + b[p - gw.X] + 3 * b[p + gw.Y] - 0.3 * b[p - gw.Y] + b[p + gw.Z] - 0.7 * b[p - gw.Z]


# -- axes, orders, domains -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("axes", "order"), [(1, "C"), (2, "C"), (2, "F"), (3, "F"), (4, "C"), (4, "F")])
def test_all_axes_in_both_orders(axes: int, order: str) -> None:
    domain = gw.RectDomain.from_shape((7, 6, 5, 4)[:axes]) + (-3,) * axes
    as_interpreted(add, domain, random(domain, order=order), random(domain, order=order, seed=1), 0.5)
    as_interpreted(add, domain.shrink(1, +1), random(domain, order=order), random(domain, order=order, seed=1), 0.5)


BOX = gw.RectDomain((-2, -1, 3), (11, 8, 16))
INNER = BOX.shrink(1)
DENSE = [
    INNER,
    INNER - INNER.shrink(2),
    gw.RectDomain((0, 1, 5), (2, 2, 6)),
    gw.Domain.of(gw.RectDomain((0, 1, 5), (1, 7, 15)), gw.RectDomain((4, 3, 4), (10, 4, 5))),
    gw.RectDomain((3, 3, 5), (3, 3, 5)),
    INNER - INNER,
]
STRIDED = [INNER.with_stride((2, 3, 1)), INNER.with_stride((1, 2, 4)) | gw.RectDomain((0, 1, 5), (2, 2, 6))]
SHAPES = [
    SMALL,
    Shape(x=4, y=2, lanes=2, steps=4),
    Shape(x=2, y=3, lanes=3, steps=2, ahead=1, streamed=True),
    Shape(x=5, y=1, lanes=1, steps=4, ahead=3),
    Shape(x=3, y=4, lanes=2, steps=100, held=False),
    Shape(x=4, y=8, lanes=1, steps=1, resident=2),
]


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_a_stencil_in_all_shapes(number: int) -> None:
    shape, order = SHAPES[number], "FC"[number % 2]
    for domain in DENSE:
        same_everywhere(star, domain, random(BOX, order=order), random(BOX, order=order, seed=1), shape=shape)


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_strided_domains(shape: Shape) -> None:
    for domain in STRIDED:
        same_everywhere(star, domain, random(BOX), random(BOX, seed=1), shape=shape)


def _cube() -> Any:
    """The mean of 27 points, all written out."""
    offsets = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]
    terms = [f"{1 + abs(i) + 2 * abs(j) + 3 * k} * b[p + {i} * gw.X + {j} * gw.Y + {k} * gw.Z]" for i, j, k in offsets]
    names: dict[str, Any] = {"gw": gw}
    exec(f"def cube(p, a, b):\n    a[p] = ({' + '.join(terms)}) / 27.0", names)
    return gw.foreach(names["cube"])


@gw.foreach
def wide_star(p, a, b):
    a[p] = (
        b[p - 2 * gw.X] + b[p + 2 * gw.X] + 2 * b[p] + b[p - 2 * gw.Z] - b[p + 2 * gw.Z] + b[p + gw.Z] + b[p - 2 * gw.Y]
    )


@gw.foreach
def upwind(p, a, b, c):
    a[p] = b[p + 2 * gw.X] - b[p + gw.X] + c[p - gw.Z] * c[p - 2 * gw.Z] + c[p + gw.Y - gw.X] - c[p + gw.Y - 2 * gw.X]


def test_27_points() -> None:
    as_interpreted(_cube(), INNER, random(BOX), random(BOX, seed=1), shape=Shape(x=4, y=2, lanes=2, steps=4))


@pytest.mark.parametrize("order", ["C", "F"])
def test_stencils_that_reach_far_or_to_one_side(order: str) -> None:
    b, c = random(BOX, order=order, seed=1), random(BOX, order=order, seed=2)
    domain, shape = BOX.shrink(2), Shape(x=4, y=2, lanes=1 + (order == "C"), steps=4, ahead=2)
    as_interpreted(wide_star, domain, random(BOX, order=order), b, shape=shape)
    # What is loaded ahead must not reach beyond the last plane that has elements.
    exact = b.restrict(gw.RectDomain(domain.lo + (1, 0, 0), domain.hi + (2, 0, 0)))
    as_interpreted(upwind, domain, random(BOX, order=order), exact, c, shape=shape)


@gw.foreach
def some(p, a, b, c):
    if abs(b[p]) > 0.5:
        a[p] = b[p - gw.Z] + b[p + gw.Z] - b[p + gw.X]
    c[p] = 2 * c[p]


@pytest.mark.parametrize(
    ("dtypes", "lanes"), [(("float64", "float32"), 4), (("float32", "int8"), 2), (("complex128",), 2)]
)
def test_adjacent_points_of_a_thread(dtypes: tuple[str, ...], lanes: int) -> None:
    """In rows that begin at multiples of their number, and in others; one element stays over at the end of each row."""
    box = gw.RectDomain((0, 0, 0), (5, 4, 20))
    for first in (4, 3):
        domain, kinds = gw.RectDomain((1, 1, first), (4, 3, 17)), (dtypes[0], dtypes[0], dtypes[-1])
        arrays = [random(box, kind, seed=i) if kind != "int8" else integers(box, kind) for i, kind in enumerate(kinds)]
        as_interpreted(some, domain, *arrays, shape=Shape(x=2, y=2, lanes=lanes, steps=3))


def test_a_launch_like_an_earlier_one() -> None:
    domain = gw.RectDomain((0, 0), (5, 6))
    a, b = random(domain), random(domain, seed=1)

    def several(a: Any, b: Any) -> None:
        for k in (0.5, 2.0, -1.0):
            add(domain, a, b, k)
            add(domain, b, a, k)

    compare(several, a, b)


def test_launches_are_asynchronous_and_in_order() -> None:
    domain = gw.RectDomain(0, 40)
    mirror = Mirror()
    a, ones = random(domain), gw.Array.full(domain, 1.0)
    first, second = mirror.of(a), mirror.of(ones)
    with shaped(SMALL):
        for _ in range(3):
            add(domain, first, second, 1.0)
    assert np.array_equal(first.copy().numpy(), a.numpy() + 1.0 + 1.0 + 1.0)
    add(domain, first, second, 1.0)
    gw.synchronize()
    assert np.array_equal(mirror.pull(a), a.numpy() + 1.0 + 1.0 + 1.0 + 1.0)
    mirror.close()


def test_a_guessed_shape_covers_boxes_of_all_sizes() -> None:
    for shape in ((1, 1, 1), (1, 9, 40), (3, 2, 150), (5, 40, 1)):
        domain = gw.RectDomain.from_shape(shape)
        add._remembered.clear()
        mirror = Mirror()
        a, b = random(domain), random(domain, seed=1)
        add(domain, *map(mirror.of, (a, b)), 0.5)
        add(domain, a, b, 0.5)
        mirror.check()
        mirror.close()


# -- views ---------------------------------------------------------------------------------------------------------

PLANE = gw.RectDomain((-4, -4), (24, 24))
INSIDE = gw.RectDomain((0, 0), (6, 7))
VIEWS = {
    "translated": lambda a: a.translate((3, -2)),
    "permuted": lambda a: a.permute((1, 0)),
    "restricted": lambda a: a.restrict(gw.RectDomain((-3, -2), (11, 13))),
    "compact": lambda a: a.restrict(gw.RectDomain((-4, -4), (24, 24), 2)).project(2),
    "injected": lambda a: a.restrict(gw.RectDomain((-4, -4), (12, 12))).inject(1),
    "reversed": lambda a: gw.Array(a.numpy()[::-1, ::-1], a.domain),
    "sliced": lambda a: gw.Array(np.ones((3, 1, 1)) * a.numpy(), gw.RectDomain((0, -4, -4), (3, 24, 24))).slice(0, 1),
}


@gw.foreach
def flat_star(p, a, b):
    a[p] = b[p + gw.X] - 2 * b[p] + b[p - gw.X] + 3 * b[p + gw.Y] + b[p - 2 * gw.Y]


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    view = VIEWS[name]
    as_interpreted(flat_star, INSIDE, view(random(PLANE)), view(random(PLANE, seed=1)))


def test_arrays_on_strided_domains() -> None:
    grid = gw.RectDomain((2, 3), (20, 24), (2, 3))
    spread = random(gw.RectDomain((0, 0), (24, 24))).restrict(grid)
    compact = gw.Array(np.ones(grid.shape), grid)
    as_interpreted(add, grid, compact, spread, 2.0, shape=SHAPES[1])
    as_interpreted(add, grid, spread, compact, 2.0, shape=SHAPES[1])


def test_a_broadcast_array_is_read() -> None:
    seven = gw.Array(np.broadcast_to(7.0, PLANE.shape), PLANE)
    as_interpreted(add, PLANE, random(PLANE), seven, 2.0)


def test_in_place_and_between_overlapping_arrays() -> None:
    """Elements that two arrays share, or that lie between each other: nothing is held or taken for constant."""
    a = random(BOX)
    as_interpreted(add, BOX, a, a, 0.5)
    flat = gw.Array(np.arange(90.0).reshape(9, 10))
    odd, even = (flat.numpy()[:, start::2] for start in (1, 0))
    domain = gw.RectDomain((0, 0), (9, 5))
    as_interpreted(flat_star, domain.shrink(2), gw.Array(odd, domain), gw.Array(even, domain))
    assert any(not variant.disjoint for variant, _ in flat_star._versions)


# -- types ---------------------------------------------------------------------------------------------------------

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


def _for_all(statement: str) -> Any:
    """A kernel with a statement for each array of a tuple."""
    names: dict[str, Any] = {"gw": gw}
    lines = [f"    {statement.format(to=f'to[{i}]', of=f'of[{i}]')}" for i in range(len(DTYPES))]
    exec("def of_all_types(p, to, of):\n" + "\n".join(lines), names)
    return gw.foreach(names["of_all_types"])


def test_elements_of_each_dtype_arrive_and_are_cast() -> None:
    domain = gw.RectDomain(0, 11)
    given = tuple(integers(domain, dtype, seed=i) for i, dtype in enumerate(DTYPES))
    targets = tuple(gw.Array.zeros(domain, dtype) for dtype in DTYPES)
    same_everywhere(_for_all("{to}[p] = {of}[p]"), domain, targets, given)
    floats = gw.Array(np.linspace(-2.7, 2.7, 11))
    same_everywhere(add, domain, gw.Array.zeros(domain, "int32"), floats, 2)


def test_arithmetic_of_each_dtype() -> None:
    """Neighbours across the march, so that elements of each dtype are held."""
    box = gw.RectDomain((0, 0), (9, 7))
    kinds = ["int8", "uint16", "uint64", "float32", "complex64", "complex128", "bool"]
    given = tuple(integers(box, dtype, seed=i) for i, dtype in enumerate(kinds))
    targets = tuple(gw.Array.zeros(box, dtype if dtype != "bool" else "int64") for dtype in kinds)
    names: dict[str, Any] = {"gw": gw}
    lines = [f"    to[{i}][p] = of[{i}][p + gw.X] + of[{i}][p - gw.X] * of[{i}][p + gw.Y]" for i in range(len(kinds))]
    exec("def arithmetic(p, to, of):\n" + "\n".join(lines), names)
    same_everywhere(gw.foreach(names["arithmetic"]), box.shrink(1), targets, given)


RATE = 0.1
WEIGHTS = (0.25, 0.7)


@gw.jit
def decay(x, rate=0.3):
    return x - rate * x + 2 * x


@gw.foreach
def single(p, a, b, k, n, weights):
    s = 0.0
    for i in range(3):
        s += i * b[p]
    s /= 7
    a[p] = (b[p] * 3 + 1) / 7 + p[0] * b[p] + (p[0] / 3) * b[p] + RATE * b[p] + WEIGHTS[1] - n * b[p]
    a[p] += s + k * b[p] + b[p] ** 2 + decay(b[p]) + weights[0] * weights[1][1]
    a[p] -= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_python_numbers_take_the_precision_of_the_arrays(dtype: str) -> None:
    domain = gw.RectDomain(-20, 30)
    for k in (0.7, -0.1, 1e300, math.inf, math.nan, 1e-300):
        weights = (k, (2, 0.3))
        same_everywhere(single, domain, gw.Array.zeros(domain, dtype), random(domain, dtype), k, 3, weights)


@gw.foreach
def halve(p, a):
    a[p] = a[p] * 0.5


flushing = gw.foreach(flush_subnormals=True)(halve.py_func)


def test_subnormal_numbers_of_float32_are_flushed_only_where_asked_for() -> None:
    """Those of float64 never are: devices calculate with them at full speed."""
    domain = gw.RectDomain(0, 6)
    for dtype in ("float32", "float64"):
        tiny = gw.Array.full(domain, np.finfo(dtype).tiny, dtype)
        same_everywhere(halve, domain, tiny)
        mirror = Mirror()
        with shaped(SMALL):
            flushing(domain, mirror.of(tiny))
        assert mirror.pull(tiny).any() == (dtype == "float64")
        mirror.close()


@gw.foreach
def divide(p, a, q, b, c):
    a[p] = b[p] // c[p] + 100 * (b[p] % c[p])
    q[p] = b[p] / c[p]


@pytest.mark.parametrize("dtype", ["int64", "uint32"])
def test_division_of_integers(dtype: str) -> None:
    """By zero it gives zero, as on the host."""
    domain = gw.RectDomain(0, 200)
    b, c = integers(domain, dtype, 3), integers(domain, dtype, 4)
    if dtype == "int64":
        b.numpy()[::2] *= -1
        c.numpy()[::3] *= -1
    c.numpy()[:3] = 0
    same_everywhere(divide, domain, gw.Array.zeros(domain, int), gw.Array.zeros(domain), b, c)


@gw.foreach
def all_operators(p, out, x, y, k):
    a, b = x[p], y[p]
    out[0][p] = (a + b) * k - (a // b) + a % b
    out[1][p] = (a << b) ^ (a >> b) | (a & 3)
    out[2][p] = (a < b) + 2 * (a == b) + 4 * (a >= k) + 8 * (a > 2**63)
    out[3][p] = min(a, b) + max(a, k) + abs(a) - (-b)
    out[4][p] = np.remainder(a, b) + np.minimum(a, 5) + a // 3 + a % 10
    out[5][p] = a ** (b & 3) + divmod(a, b)[0]


@pytest.mark.parametrize(("left", "right"), [("int8", "int8"), ("int64", "int64"), ("uint64", "int32")])
def test_integers_have_the_types_of_the_host(left: str, right: str) -> None:
    """Whose values are those of NumPy: `property/test_integers.py`."""

    def edges(dtype: str) -> np.ndarray:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.array([low, low + 1, high, high - 1, high // 2 + 1, 0, 1, 2, 7, 64], dtype)

    xs, ys = (grid.ravel() for grid in np.meshgrid(edges(left), [*edges(right), np.array(-1).astype(right)]))
    domain = gw.RectDomain(0, len(xs))
    out = tuple(gw.Array.zeros(domain, "int64") for _ in range(6))
    same_everywhere(all_operators, domain, out, gw.Array(xs.copy()), gw.Array(ys.copy()), 5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_division_of_floats(dtype: str) -> None:
    """By zero it gives infinities and NaN; remainders are exact."""
    values = np.random.default_rng(1).standard_normal((2, 200)).round(1) * [[1e5], [1.0]]
    values[:, :8] = [[1, -1, 0, math.nan, math.inf, 3, -0.0, 1], [0, 0, 0, 1, 2, math.inf, 1, -math.inf]]
    b, c = (gw.Array(row.astype(dtype)) for row in values)
    same_everywhere(divide, b.domain, gw.Array.zeros(b.domain, dtype), gw.Array.zeros(b.domain, dtype), b, c)


@gw.foreach
def by_numpy(p, a, b):
    a[p] = np.sqrt(abs(b[p])) + np.floor(b[p]) - np.sign(b[p]) * np.maximum(b[p], 0.5) + np.fabs(b[p])
    a[p] += math.sqrt(np.absolute(b[p])) + max(b[p], 0.1) - min(b[p], 2.0) + round(b[p]) + int(b[p]) + b[p] ** 3


def test_functions_of_numpy_and_math() -> None:
    for dtype in ("float64", "float32"):
        b = gw.Array(np.array([0.3, -1.7, 2.5, 3.5, 0.0, 1.0, 1e-3, 7.25, -33.3], dtype))
        same_everywhere(by_numpy, b.domain, gw.Array.zeros(b.domain, dtype), b)


# -- arguments -----------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two fields of one model."""

    first: Any
    second: Any


@gw.foreach
def with_scalars(p, a, i, f, z, flag, small, q, step, pair, text, nothing):
    v = i * 1000 + f * 100 + z.imag
    if flag:
        v += small
    v += pair[0] * q[0] + pair[1] + q[1]
    if nothing is None:
        a[p + step - step] = v


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scalars_of_all_kinds(dtype: str) -> None:
    domain = gw.RectDomain((0, 0), (3, 3))
    a = gw.Array.zeros(domain, dtype)
    rest = (gw.Point(5, -6), gw.X + 2 * gw.Y, (11, 0.25), "a constant", None)
    same_everywhere(with_scalars, domain, a, 3, 0.5, 1 + 2j, True, np.int8(-7), *rest)
    numbers = (np.int32(3), np.float32(0.5), np.complex64(1 + 2j), np.bool_(False), np.uint16(7))
    same_everywhere(with_scalars, domain, a, *numbers, *rest)


@gw.foreach
def with_fields(p, out, fields, more):
    fields.first[p] = fields.second[p] + more[0][p + gw.X] + more[1]
    out[p] = fields.first[p]


def test_arrays_inside_of_tuples() -> None:
    domain = gw.RectDomain(0, 10)
    out, first, second, third = (random(domain, seed=i) for i in range(4))
    as_interpreted(with_fields, domain.shrink(1, +1), out, Pair(first, second), (third, 2.5))
    as_interpreted(with_fields, domain.shrink(1, +1), out, Pair(first, first), (third, 2.5))


@gw.jit
def laplacian(u, p):
    return u[p - gw.X] + u[p + gw.X] + u[p - gw.Y] + u[p + gw.Y] - 4.0 * u[p]


@gw.foreach
def points(p, a, b, index, origin):
    q = p
    if p[0] % 2 == 0:
        q = p + gw.X
    for _ in range(2):
        q = q + gw.Y
    total = 0
    for axis in range(p.ndim):
        total += p[axis]
    same = 1 if p == p + gw.X - gw.X else 0
    a[p] = b[q] + laplacian(b, p) + laplacian(b, p + gw.X) + total + p[-1] + len(p) + same
    a[p] += b[origin + p] + b[p[0], p[1] + 1] + b[index[p], index[p + gw.Y] % 3] + a.ndim


def test_points_computed_or_constant() -> None:
    box = gw.RectDomain((0, 0), (9, 9))
    index = integers(box, int)
    index.numpy()[...] %= 9
    domain = gw.RectDomain((1, 1), (6, 7))
    for shape in (SMALL, SHAPES[2]):
        same_everywhere(points, domain, gw.Array.zeros(box), random(box), index, gw.Point(1, -1), shape=shape)


@gw.foreach
def with_tables(p, a, row, plane):
    a[p] = row[p[0]] * a[p] + plane[p[0], p[1]]


def test_arrays_of_fewer_axes_than_the_domain() -> None:
    box = gw.RectDomain((3, 2, 0, 2), (10, 7, 5, 4))
    plane = random(gw.RectDomain((0, 0), (10, 9)))
    as_interpreted(with_tables, box, random(box, order="F"), random(gw.RectDomain(0, 12)), plane)
    spread = gw.Array(np.arange(9.0), gw.RectDomain(0, 27, 3))
    as_interpreted(with_tables, box.with_stride((3, 1, 1, 1)), random(box, order="F"), spread, plane)


@gw.foreach
def shake(p, a, seed, step):
    a[p] += 1e-3 * gw.random(seed, p, step, a.dtype)


@pytest.mark.parametrize(
    ("axes", "dtype", "shape"),
    [(1, "float64", SMALL), (2, "float32", SMALL), (3, "float64", SHAPES[1]), (4, "float32", SMALL)],
)
def test_random_numbers(axes: int, dtype: str, shape: Shape) -> None:
    domain = gw.RectDomain.from_shape((9, 6, 5, 3)[:axes]) + (-3,) * axes
    for seed, step in ((42, 3), (-(2**62) + 7, 2**32 - 1)):
        same_everywhere(shake, domain, random(domain, dtype), seed, step, shape=shape)


# -- devices -------------------------------------------------------------------------------------------------------


def test_kernels_run_on_the_device_of_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_EMULATED_DEVICES", "2")
    kernel = gw.foreach(add.py_func)
    domain = gw.RectDomain((0, 0), (5, 6))
    with emulated_gpu(fresh=True), shaped(SMALL):
        for number in (1, 0, 1):
            mirror = Mirror(number)
            a, b = random(domain), random(domain, seed=1)
            kernel(domain, *map(mirror.of, (a, b)), 0.5)
            kernel(domain, a, b, 0.5)
            mirror.check()
        assert {where.device for _, where in kernel._versions} == {None, 0, 1}
        assert device(1).driver is device(0).driver


@gw.foreach
def returning(p, a):
    a[p] = 1.0
    return a[p]


def test_what_a_kernel_returns_is_not_lost_in_silence() -> None:
    domain = gw.RectDomain(0, 8)
    mirror = Mirror()
    with pytest.raises(KernelError, match="returning returns a value of type float64"):
        returning(domain, mirror.of(random(domain)))
    mirror.close()


# -- what a device does not do -------------------------------------------------------------------------------------


@gw.foreach
def tell(p, a):
    print("cell", p, a[p])


def test_a_device_does_not_print() -> None:
    where = gw.RectDomain(0, 4)
    with pytest.raises(KernelError, match=r"print does not work in kernels on a GPU.*GONDWANA_INTERPRET=1"):
        tell(where, Mirror().of(gw.Array.zeros(where)))
