"""Arithmetic and reductions of global arrays: each check by all ranks against NumPy on one rank.

Prints one JSON line per check. Kernels have few structures, since each is compiled.
"""

# ruff: noqa: N803, N806 - fields are called A and B, as in mathematics

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from checks import raises, run_checks
from exchange_checks import grids

import gondwana as gw
from gondwana.arrays.expressions.operations import _FORMS
from gondwana.errors import UsageError
from gondwana.teams import world

SHAPE = (11, 7)
EXACT_BUT_FOR_COMPLEX = {np.absolute, np.sqrt, np.multiply, np.square}
ROUNDED = EXACT_BUT_FOR_COMPLEX | {
    *(np.power, np.float_power, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan),
    *(np.arcsin, np.arccos, np.arctan, np.arctan2, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh),
    np.hypot,
}
"""Functions whose last bits depend on the mathematical library."""


def same(found: Any, wanted: Any) -> bool:
    return np.shape(found) == np.shape(wanted) and np.array_equal(found, wanted, equal_nan=True)


def field(dtype: str = "f8", key: int = 0, **options: Any) -> tuple[gw.GlobalArray, np.ndarray]:
    """An array, and all of its cells."""
    whole = np.random.default_rng(key).integers(-9, 10, SHAPE).astype(dtype) / (1 if dtype[0] in "iu" else 4)
    whole = whole.astype(dtype)
    made = gw.from_numpy(whole, gw.RectDomain((-2, 3), (9, 10)), **options)
    return made, whole


def layouts(**options: Any) -> list[tuple[gw.GlobalArray, np.ndarray]]:
    """Arrays with the same cells, of several divisions."""
    return [field(grid=grid, **options) for grid in grids(world.size, 2)]


def check_functions_are_those_of_numpy():
    compare_functions("f8", [0.0, -0.0, 1, -1, 0.5, 3.7, -3.7, 7, -7, 1e10, math.inf, -math.inf, math.nan])


def compare_functions(dtype: str, samples: list[Any]) -> None:
    """Compare all functions of elements of a dtype, each in rows of its own of one array for each dtype of results."""
    a = np.repeat(np.array(samples, dtype), len(samples))
    b = np.tile(np.array(samples, dtype), len(samples))
    one = gw.zeros(1, dtype)
    rows: dict[Any, list[Any]] = {}
    with np.errstate(all="ignore"):
        for function in _FORMS:
            with contextlib.suppress(UsageError):
                function(*(one, one)[: function.nin])
                if dtype[0] not in "iu?" or function is not np.power:  # negative powers, which NumPy refuses
                    wanted = function(*(a, b)[: function.nin])
                    rows.setdefault(wanted.dtype, []).append((function, wanted))
    for kind, of_kind in rows.items():
        A, B = (gw.from_numpy(np.tile(cells, (len(of_kind), 1))) for cells in (a, b))
        row = gw.coordinates(A)[0]
        chosen: Any = kind.type(0)
        for number, (function, _) in enumerate(of_kind):
            chosen = gw.where(row == number, function(*(A, B)[: function.nin]), chosen)
        assert chosen.dtype == kind
        for found, (function, wanted) in zip(gw.array(chosen).to_numpy(), of_kind, strict=True):
            exact = function not in ROUNDED or (function in EXACT_BUT_FOR_COMPLEX and dtype[0] != "c")
            rtol = 0.0 if exact or kind.kind not in "fc" else 4 * np.finfo(kind).eps
            close = np.isclose(found, wanted, rtol=rtol, atol=0.0, equal_nan=True)
            assert close.all(), (function, dtype, found[~close], wanted[~close])


def check_assignments():
    for A, a in layouts(ghost=1):
        B = gw.from_numpy(3 * a, A.domain, grid=A.grid)
        S = gw.zeros_like(A)
        S.fill(5.0)
        S[...] = A + 2 * B - 0.5
        assert same(S.to_numpy(), a + 2 * (3 * a) - 0.5)
        held = S.local.copy()
        held.restrict(S.owned).fill(5.0)
        assert (held.numpy() == 5.0).all()  # ghosts keep their values
        S[...] = S + 2 * S - 0.5  # of the array itself, cell by cell
        wanted = (a + 2 * (3 * a) - 0.5) * 3 - 0.5
        assert same(S.to_numpy(), wanted)
        S[0:5, 3:10:2] = A[0:5, 3:10:2] + 2 * B[0:5, 3:10:2] - 0.5
        S[-2, ...] = A[-2, ...] + 2 * B[-2, ...] - 0.5
        wanted[2:7, ::2] = a[2:7, ::2] * 7 - 0.5
        wanted[0] = a[0] * 7 - 0.5
        assert same(S.to_numpy(), wanted)
        turned = A.permute((1, 0)) + 2 * B.permute((1, 0)) - 0.5
        S.permute((1, 0))[...] = turned
        assert same(S.to_numpy(), a * 7 - 0.5)
        S += 2 * B
        S[1:3, ...] += 2 * B[1:3, ...]
        wanted = a * 7 - 0.5 + 6 * a
        wanted[3:5] += 6 * a[3:5]
        assert same(S.to_numpy(), wanted)
        np.add(A, 2 * B, out=S)
        assert same(S.to_numpy(), a * 7)
        S.values = S.values + 1
        assert same(S.to_numpy(), a * 7 + 1)
        assert S.values.shape == S.owned.shape


def check_new_arrays():
    A, a = field(ghost=2, periodic=True)
    A.exchange().wait()
    same_ghosts = A.copy()
    assert same(same_ghosts.local.numpy(), A.local.numpy())
    assert (same_ghosts.layout, same_ghosts.local is A.local) == (A.layout, False)
    doubled = (A + A).copy()
    assert (doubled.layout, doubled.dtype) == (A.layout, A.dtype)
    assert same(doubled.to_numpy(), 2 * a)
    for part, of in (((slice(0, 5), slice(4, 9)), a[2:7, 1:6]), ((2, slice(4, 10, 3)), a[4, 1::3])):
        view = A[part]
        assert same(gw.array(view).to_numpy(), of)
        assert same(gw.array(view + view).to_numpy(), 2 * of)
    assert gw.array(A[0:5, 4:9] > 0).domain == gw.RectDomain((0, 4), (5, 9))
    x, y = gw.coordinates(A)
    places = gw.array(10 * x + y)
    assert (places.dtype, places.to_numpy()[0, 0]) == (np.int64, -17)
    with_numbers = gw.array((10 * x + y).astype("f4") * 0.5)
    assert (with_numbers.dtype, with_numbers.to_numpy()[1, 1]) == (np.float32, -3.0)


def check_reductions():
    results = []
    for A, a in layouts(order="F"):
        B = gw.array(A * 0.1)
        b = a * 0.1
        e, w = A * B - 0.3, a * b - 0.3
        results.append((e.sum(), e.mean(), e.var(), e.std(ddof=1), e.norm(), A.dot(B), e.min(), e.argmin(), e.max()))
        assert e.sum() == math.fsum(w.ravel())
        assert A.dot(B) == math.fsum((a * b).ravel()) == np.vdot(A, B)
        assert e.norm() == math.sqrt(math.fsum((w * w).ravel()))
        assert (e.min(), e.max()) == (w.min(), w.max())
        for ours, flat in ((e.argmin(), w.argmin()), (np.argmax(e), w.argmax())):
            assert ours - gw.Point(-2, 3) == gw.Point(*(int(i) for i in np.unravel_index(flat, SHAPE)))
        assert math.isclose(e.var(), w.var(), rel_tol=1e-14)
        assert math.isclose(np.std(e, ddof=1), w.std(ddof=1), rel_tol=1e-14)
        assert math.isclose(e.prod(), w.prod(), rel_tol=1e-13)
        for name in ("sum", "prod", "min", "max", "mean", "var", "std"):
            for axis in (0, -1, (0, 1)):
                assert np.allclose(getattr(e, name)(axis), getattr(w, name)(axis), rtol=1e-12), (name, axis)
        for axis in (0, 1):
            assert same((e > 1).any(axis=axis), (w > 1).any(axis))
            assert same(np.all(e > -2, axis=axis), (w > -2).all(axis))
        assert ((e > 1).any(), (e > -2).all()) == ((w > 1).any(), (w > -2).all())
        view, of = A[1:6, 3:8] * B[1:6, 3:8] - 0.3, w[3:8, :5]
        assert (view.sum(), view.max(), view.norm()) == (
            math.fsum(of.ravel()),
            of.max(),
            math.sqrt(math.fsum((of * of).ravel())),
        )
        assert view.argmax() in view.domain
        assert np.allclose(view.sum(0), of.sum(0), rtol=1e-12)
        assert A[1:6, 3:10:2].sum() == a[3:8, ::2].sum()
        assert same(A[2, ...].max(0), a[4].max())
        assert A.allclose(10 * B)
        assert not np.allclose(A, B * 1.0)
        assert np.array_equal(A, A.copy())
    assert len(set(results)) == 1, results


def check_reductions_of_integers():
    I, i = field("i8", key=2)  # noqa: E741
    big, wanted = gw.where(gw.coordinates(I)[0] == 0, 2**62, I), np.where(np.arange(-2, 9)[:, None] == 0, 2**62, i)
    assert big.sum() == int(wanted.astype(object).sum()) > 2**63
    small = I.astype("i1")
    assert small.dot(small) == int((i * i).sum())
    assert (small * 100).sum() == int((i.astype("i1") * np.int8(100)).sum())
    flags = I > 0
    assert (flags.sum(), flags.min(), flags.mean()) == ((i > 0).sum(), False, (i > 0).mean())


def check_arrays_written_since():
    A, a = field()
    T = gw.zeros_like(A)
    total = gw.reduce(op="sum")(read)
    for write in writes(A, T):
        e = A + 1.0
        A.local  # noqa: B018 - a later look at it must be seen, too
        e = A + 1.0
        write()
        message = raises(UsageError, T.__setitem__, ..., e)
        assert "may have been written" in message
        assert "gw.array(e)" in message
    # What does not write to the cells of this array.
    for other in (A.sum, A.to_numpy, lambda: A.exchange().wait(), lambda: T.fill(1.0), lambda: repr(A), A.copy):
        e = A + 1.0
        other()
        T[...] = e
    e = A + 1.0
    T[...] = e
    T[...] = e  # twice
    assert total.all(world, A.owned, A) == total.all(world, T.owned, T) - a.size


def read(p, a):
    return a[p]


@gw.foreach
def set_zero(p, a):
    a[p] = 0.0


def writes(A: gw.GlobalArray, T: gw.GlobalArray) -> list[Callable[[], Any]]:
    return [
        lambda: A.fill(1.0),
        lambda: A.__setitem__(..., 2.0),
        lambda: A[0:2, ...].fill(2.0),
        lambda: A.__setitem__(..., T),
        lambda: A.__setitem__((slice(0, 4), ...), T[0:4, ...] * 2.0),
        lambda: A.__iadd__(1.0),
        lambda: A.values.fill(1.0),
        lambda: A.local.fill(1.0),
        lambda: A.block(world.rank).fill(1.0),
        lambda: set_zero(A.owned, A),
        lambda: gw.copy(T, A).wait(),
    ]


def check_expressions_are_local():
    A, a = field()
    if world.rank == 0:
        e = 2 * A
        A[...] = e + 1
        assert A.values.shape == A.owned.shape
    world.barrier()
    found = A.to_numpy()
    own = tuple(slice(s.start - c, s.stop - c) for s, c in zip(A.layout.owned(0).axes, A.domain.lo, strict=True))
    wanted = a.copy()
    wanted[own] = 2 * a[own] + 1
    assert same(found, wanted)


def check_deep_expressions():
    A, a = field()
    e, w = A, a
    for number in range(100):
        e, w = e * 0.5 + A, w * 0.5 + a
        if number == 50:
            e, w = e + e, w + w  # shared parts are computed once: else their number would double each time
    A[...] = e
    assert same(A.to_numpy(), w)


def check_errors():
    A, _ = field()
    B = gw.zeros(SHAPE)
    I = gw.zeros_like(A, "i4")  # noqa: E741
    Z = gw.zeros_like(A, "c16")
    R = gw.zeros_like(A, np.dtype([("x", "f8")]))
    for wrong, what in (
        (lambda: A + B, "gw.copy(B, C)"),
        (lambda: A[0:4, ...] + A[1:5, ...], "gw.foreach"),
        (lambda: A.__setitem__((slice(0, 4), ...), A[1:5, ...] + 1), "different cells"),
        (lambda: A + A[0:4, ...], "different cells"),
        (lambda: B.__setitem__(..., A + 1), "gw.copy(B, C)"),
        (lambda: I.__iadd__(0.5), "does not fit the int32"),
        (lambda: A.__setitem__(..., Z * 1), ".real"),
        (lambda: np.add(A, 1, out=A + 1), "out="),
        (lambda: np.add(A, 1, out=np.zeros(SHAPE)), "out="),
        (lambda: R + 1, "NumPy has no such operation"),
        (lambda: R.sum(), "@gw.reduce"),
        (lambda: np.sqrt(I.astype("i1")), "float16"),
        (lambda: A.astype("f2"), "float16"),
        (lambda: Z < Z, "complex128"),
        (lambda: Z.max(), "no order"),
        (lambda: A.sum(axis=2), "axes 0 to 1"),
        (lambda: (A + 1)[0, 3], "gw.array(e)"),
        (lambda: gw.array(np.zeros(3)), "gw.from_numpy"),
        (lambda: gw.coordinates(3), "a global array"),
        (lambda: gw.where(True, 1, 2), "numbers alone"),
        (lambda: A.__setitem__((0, 4), A + 1), "one cell"),
        (lambda: A[0:0, ...].max(), "no cells"),
        (lambda: gw.copy(A + 1, A), "two global arrays"),
    ):
        message = raises(UsageError, wrong)
        assert what in message, message
    for name in ("local", "block", "exchange", "values", "fill", "to_numpy"):
        assert "gw.array(e)" in raises(AttributeError, getattr, A + 1, name)
    assert "has no attribute 'nonsense'" in raises(AttributeError, getattr, A + 1, "nonsense")
    assert ".any()" in raises(ValueError, bool, A == A)
    assert "negative integer powers" in raises(ValueError, pow, I, -1)
    raises(OverflowError, lambda: I + 2**40)
    assert (I < 2**40).all()
    for wrong in (
        lambda: A + np.ones(SHAPE),
        lambda: A + A.local,
        lambda: A @ A,
        lambda: np.dot(A, A),
        lambda: np.sin(A, where=True),
        lambda: np.add(A, 1, dtype="f4"),
        lambda: np.modf(A),
        lambda: list(A + 1),
        lambda: np.asarray(A + 1),
        lambda: np.sum(A, keepdims=True),
        lambda: A == "text",
    ):
        assert "T.values" in raises(TypeError, wrong)
    e = A + 1
    e += 1  # another expression: the first has no memory
    A[...] = e
    assert len({A, A[0:2, ...], e}) == 3
    assert sum([A, np.float64(2) * A]).max() == 3 * A.max()
    assert A[0:0, ...].sum() == 0
    assert (A[0:0, ...] > 0).all()
    I.close()
    assert "was closed" in raises(UsageError, A.__setitem__, ..., I + 1.0)


def check_arrays_of_some_ranks():
    team = world.split(0 if world.rank else 1)
    T = gw.full((5, 3), 2.0, team=team)
    T[...] = T * T + gw.coordinates(T)[0]
    assert T.sum() == 5 * 3 * 4 + 3 * 10
    assert gw.array(T + 1).team is team


if __name__ == "__main__":
    run_checks(globals())
