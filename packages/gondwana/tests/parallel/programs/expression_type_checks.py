"""Arithmetic and reductions of global arrays of other types, each check by all ranks against NumPy on one rank.

They compile many kernels, so `make test-more` runs them. Prints one JSON line per check.
"""

# ruff: noqa: N806 - fields are called A and B, as in mathematics

from __future__ import annotations

import math

import numpy as np
from checks import run_checks
from exchange_checks import sums_and_extremes
from expression_checks import compare_functions, field

import gondwana as gw

INTEGERS = [0, 1, 2, 3, 5, 7, 100]


def check_functions_of_single_precision():
    compare_functions("f4", [0.0, 1, -1, 0.5, 3.7, -3.7, 7, -7, 1e10, math.inf, -math.inf, math.nan])


def check_functions_of_complex_numbers():
    compare_functions("c16", [complex(x, y) for x in (0.0, 1, -2.5, 3) for y in (0.0, 1, -0.5)])


def check_functions_of_integers():
    for dtype in ("i1", "i4", "i8", "u1", "u8"):
        limits = np.iinfo(dtype)
        negative = [-1, -2, -7] if dtype[0] == "i" else []
        compare_functions(dtype, [*INTEGERS, *negative, limits.min, limits.max])


def check_functions_of_booleans():
    compare_functions("?", [False, True])


def check_sums_and_extremes_of_whole_arrays_of_other_types():
    types = "float32", "int64", "uint64", "int16", "bool", "complex128", "complex64"
    sums_and_extremes({dtype: [(1,), (13,)] for dtype in types})


def check_reductions_of_other_types():
    I, i = field("i8", key=2)  # noqa: E741
    assert (I.sum(), I.prod(), I.argmax()) == (i.sum(), i.prod(), (I + 0.0).argmax())
    Z, z = I.astype("c16") * 1j + I, i * 1j + i
    assert (Z.sum(), Z.dot(Z), np.vdot(Z, Z)) == (z.sum(), np.vdot(z, z), np.vdot(z, z))
    assert math.isclose(Z.var(), z.var(), rel_tol=1e-14)
    assert math.isclose(Z.norm(), np.linalg.norm(z), rel_tol=1e-15)
    assert np.allclose(Z.prod(axis=0), z.prod(0))
    assert np.allclose(Z.var(axis=0), z.var(0))
    U, u = I.astype("u4"), i.astype("u4")
    assert (U.sum(), U.max(), U.mean()) == (u.sum(), u.max(), u.mean())
    single, s = I.astype("f4") * 0.1, i.astype("f4") * np.float32(0.1)
    assert single.sum() == math.fsum(s.ravel().astype("f8"))
    assert math.isclose(single.var(), s.astype("f8").var(), rel_tol=1e-14)
    with_nan = gw.where(I - I.max() < 0, I, math.nan)
    assert math.isnan(with_nan.max())
    assert with_nan.argmin() == with_nan.argmax() == I.argmax()
    assert with_nan.allclose(with_nan, equal_nan=True)
    assert not with_nan.allclose(with_nan)
    assert np.isnan(with_nan).sum() == (i == i.max()).sum()


if __name__ == "__main__":
    run_checks(globals())
