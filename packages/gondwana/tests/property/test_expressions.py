"""Expressions of any operands against NumPy: dtypes, and values of the kernels' text, which Python executes here."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.arrays.expressions import sweeps
from gondwana.errors import UsageError

DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16")
SAMPLES = (0, 1, 2, 3, 5, 7, 100, 127, -1, -2, -128, 0.5, -3.7, 1e10, np.inf, -np.inf, np.nan, -0.0)


def larger(a: Any, b: Any) -> Any:
    """The maximum, of zeros of both signs the first: NumPy's own depends on the processor."""
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return np.maximum(a, b)
    common = np.maximum(a, b).dtype
    return np.where((a >= b) | (a != a), a, b).astype(common)


# For global arrays, and for ndarrays.
BINARY: dict[str, tuple[Any, Any]] = {
    function.__name__: (function, function)
    for function in (
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
        *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
        *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
        *(np.logical_and, np.logical_or, np.logical_xor, np.copysign, np.fmod, np.power),
    )
} | {"maximum": (np.maximum, larger)}
UNARY: dict[str, Any] = {
    function.__name__: function
    for function in (
        *(np.negative, np.absolute, np.square, np.sqrt, np.sign, np.conjugate, np.real, np.imag, np.isnan, np.isinf),
        *(np.isfinite, np.signbit, np.logical_not, np.invert, np.floor, np.ceil, np.trunc),
    )
}

LEAVES = st.tuples(st.just("leaf"), st.integers(0, 3))
NUMBERS = st.tuples(
    st.just("number"),
    st.one_of(
        st.sampled_from([True, 0, 1, 2, 3, -1, -7, 300, 2**40, 0.1, -2.5, 2j]),
        st.sampled_from([np.float32(0.1), np.int8(-3), np.uint64(5), np.float64(1e30)]),
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), inner),
        st.tuples(st.sampled_from(sorted(BINARY)), inner, st.one_of(inner, NUMBERS)),
        st.tuples(st.sampled_from(sorted(BINARY)), NUMBERS, inner),
        st.tuples(st.just("where"), inner, inner, st.one_of(inner, NUMBERS)),
        st.tuples(st.just("astype"), inner, st.sampled_from(["f4", "f8", "c16", "?"])),
    ),
    max_leaves=8,
)


def evaluated(tree: Any, leaves: list[Any], world: int) -> Any:
    """The value of a tree, with global arrays (0) or ndarrays (1)."""
    name, *parts = tree
    if name == "leaf":
        return leaves[parts[0]]
    if name == "number":
        return parts[0]
    if name == "astype":
        return evaluated(parts[0], leaves, world).astype(parts[1])
    values = [evaluated(part, leaves, world) for part in parts]
    if name == "where":
        return np.where(*values)
    return BINARY[name][world](*values) if name in BINARY else UNARY[name](*values)


def interpreted(value: Any) -> np.ndarray:
    """The values of an expression by the text of its kernel."""
    formula = sweeps._Formula(value)
    names: dict[str, Any] = {"np": np}
    exec(sweeps._text("", value.dtype, formula.steps), names)
    out = np.empty(value.shape, value.dtype)
    for p in np.ndindex(out.shape):
        names["expression"](p, out, *[array.to_numpy() for array in formula.arrays], *formula.scalars)
    return out


def cells_of(dtype: str, numbers: list[Any]) -> np.ndarray:
    kind = np.dtype(dtype).kind
    return np.array([n if kind in "fc" else int(n) if np.isfinite(n) else 1 for n in numbers]).astype(dtype)


@given(
    TREES,
    st.lists(st.sampled_from(DTYPES), min_size=4, max_size=4),
    st.lists(st.sampled_from(SAMPLES), min_size=12, max_size=12),
)
def test_any_expression_has_the_dtype_and_the_values_of_numpy(tree: Any, dtypes: list[str], numbers: Any) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        data = [cells_of(dtype, numbers[3 * i : 3 * i + 3]) for i, dtype in enumerate(dtypes)]
        try:
            wanted = evaluated(tree, data, 1)
        except (TypeError, OverflowError):
            with pytest.raises((UsageError, TypeError, OverflowError)):
                evaluated(tree, list(map(gw.from_numpy, data)), 0)
            return
        except ValueError:  # elements that are negative powers of integers: nothing raises in a kernel
            return
        try:
            found = evaluated(tree, list(map(gw.from_numpy, data)), 0)
        except (UsageError, OverflowError):  # float16, some functions of complex numbers; np.where wraps numbers around
            return
        assert found.dtype == wanted.dtype
        values = interpreted(found)
        exact = "power" not in str(tree) and found.dtype.kind != "c"
        scale = 0.0 if exact else 64 * np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 0.0
        same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
        assert (same | (abs(values - wanted) <= scale * abs(wanted))).all() if scale else same.all(), (values, wanted)
