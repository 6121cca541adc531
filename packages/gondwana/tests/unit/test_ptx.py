"""What the compiler makes of kernels for devices, seen in the PTX: no device is needed."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

import gondwana as gw
from gondwana.compiler.types.arguments import describe
from gondwana.kernels.cuda.build import build, build_pair
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.intermediate import numbered
from gondwana.kernels.variant import Variant
from gondwana_apps.grayscott.kernels import Noise, Rates, react_and_diffuse

HOPPER = (9, 0)
BOX = gw.RectDomain((0, 0, 0), (6, 6, 6))
RATES = Rates(0.02, 0.048, 0.2, 0.1, 1.0)
NOISE = Noise(0.1, 42, 1)
AROUND = NOISE._replace(side=64)
"""Of a first step, which is computed in ghosts too."""
USUAL = Shape()
DTYPES = ("float64", "float32")


def _variant(args: tuple[Any, ...], **changes: Any) -> Variant:
    specs = numbered(tuple(describe(value)[0] for value in args), {})
    arrays = sum(isinstance(value, gw.Array) for value in args)
    return Variant(specs, 3, "F", True, (0,) * arrays, True, None, **{"contract": False, **changes})


def _fields(dtype: str, count: int) -> list[gw.Array]:
    return [gw.Array.zeros(BOX, dtype, order="F") for _ in range(count)]


@functools.cache
def step(dtype: str, noise: bool = False, shape: Shape = USUAL, contract: bool = False, flush: bool = False) -> str:
    """The PTX of one Gray-Scott step."""
    args = (*_fields(dtype, 4), RATES, NOISE if noise else None)
    variant = _variant(args, contract=contract, flush=flush)
    return build(react_and_diffuse.py_func, variant, shape, HOPPER).code.decode()


@functools.cache
def two_steps(dtype: str) -> str:
    """The PTX of two steps in one sweep."""
    u, v, u_next, v_next = _fields(dtype, 4)
    between = gw.Intermediate(dtype), gw.Intermediate(dtype)
    args = (*between, u, v, RATES, AROUND, u_next, v_next, *between, RATES, NOISE)
    functions = react_and_diffuse.py_func, react_and_diffuse.py_func
    return build_pair(functions, 6, _variant(args), Shape(x=32, y=16), HOPPER).code.decode()


def _innermost_loop(ptx: str) -> list[str]:
    """The instructions of the shortest loop that loads from memory: from a label to a branch back to it."""
    lines = [line.strip() for line in ptx.splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\$\w+:", line)}
    loops = []
    for i, line in enumerate(lines):
        branch = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
        if branch and labels.get(branch[1], i) < i:
            body = lines[labels[branch[1]] : i]
            if any("ld.global" in part for part in body):
                loops.append(body)
    return min(loops, key=len)


@pytest.mark.parametrize("noise", [False, True])
def test_single_precision_is_single_throughout(noise: bool) -> None:
    assert ".f64" not in step("float32", noise)
    assert ".f64" not in two_steps("float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("noise", [False, True])
def test_nothing_is_called_or_kept_in_memory(dtype: str, noise: bool) -> None:
    for ptx in (step(dtype, noise), two_steps(dtype)):
        assert not re.search(r"\bcall\b", ptx)
        assert ".local" not in ptx


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_march_loads_each_plane_once(dtype: str) -> None:
    # Of each field the next plane, and four neighbours in this one; the compiler may do several steps at a time.
    body = _innermost_loop(step(dtype))
    loads, stores = (sum(word in line for line in body) for word in ("ld.global", "st.global"))
    assert loads == 5 * stores
    again = _innermost_loop(step(dtype, shape=Shape(held=False)))
    loads, stores = (sum(word in line for line in again) for word in ("ld.global", "st.global"))
    assert loads == 7 * stores


def test_what_no_thread_writes_is_read_so() -> None:
    ptx = step("float64")
    assert re.findall(r"ld\.global(?!\.nc)", ptx) == []
    assert "ld.global.nc.f64" in ptx


def test_neighbours_along_rows_are_constants_away() -> None:
    ptx = step("float64")
    assert re.search(r"ld\.global\.nc\.f64\s+%fd\d+, \[%rd\d+\+8\]", ptx)
    assert re.search(r"ld\.global\.nc\.f64\s+%fd\d+, \[%rd\d+\+-8\]", ptx)


def test_streamed_stores_are_the_first_to_leave_the_cache() -> None:
    assert "st.global.cs.f64" in step("float64", shape=Shape(streamed=True))
    assert "st.global.cs" not in step("float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_and_sums_are_rounded_apart_unless_allowed(dtype: str) -> None:
    suffix = "f64" if dtype == "float64" else "f32"
    exact, fused = step(dtype), step(dtype, contract=True)
    assert f"fma.rn.{suffix}" not in exact
    assert f"fma.rn.{suffix}" in fused
    # Without .rn the assembler would be free to fuse what follows.
    assert not re.search(rf"\b(mul|add|sub)\.{suffix}", exact)


def test_subnormal_numbers_are_flushed_on_demand() -> None:
    assert ".ftz.f32" in step("float32", flush=True)
    assert ".ftz" not in step("float32")


def test_without_noise_no_random_numbers_are_drawn() -> None:
    multiplier = str(0xD2511F53)  # of Philox
    assert multiplier in step("float64", noise=True)
    assert multiplier not in step("float64")


def test_a_pair_meets_once_a_plane_and_shares_it() -> None:
    ptx = two_steps("float64")
    body = _innermost_loop(ptx)
    barriers = sum("bar.sync" in line or "barrier.sync" in line for line in body)
    assert barriers == 1
    assert sum("ld.shared" in line for line in body) == 8
    assert sum("st.shared" in line for line in body) == 2
    assert sum("st.global" in line for line in body) == 2


def test_bounds_of_launches_reach_the_assembler() -> None:
    ptx = step("float64", shape=Shape(x=64, y=4, resident=3))
    assert ".maxntid 256" in ptx
    assert ".minnctapersm 3" in ptx
