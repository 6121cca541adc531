"""Tuples of arrays and offsets that a variable indexes: on the host as in the interpreter and on the emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.testing.gpu import emulated_gpu
from support.twins import as_interpreted, same_everywhere

BOX = gw.RectDomain((-2, 3), (7, 12))
INNER = BOX.shrink(1)
E = (0 * gw.X, gw.X, gw.Y, -gw.X, gw.X - gw.Y)
OPPOSITE = (0, 3, 4, 1, 2)


class Fields(NamedTuple):
    f: tuple[gw.Array, ...]
    k: float


@pytest.fixture(autouse=True, scope="module")
def _gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


def arrays(count: int = 5, dtype: Any = float) -> tuple[gw.Array, ...]:
    random = np.random.default_rng(count)
    return tuple(gw.Array(random.random(BOX.shape).astype(dtype), BOX) for _ in range(count))


@gw.foreach
def everything(p, out, fields, e):
    for q in range(len(fields.f)):
        if q == 3:
            continue
        out[OPPOSITE[q]][p] = fields.f[q][p - E[q]] * fields.k
        for r in range(4, -1, -2):
            out[q][p] += fields.f[r][p + e[r]] * fields.f[q - r][p]
        if fields.f[q][p] > 0.75:
            break
    else:
        out[3][p] = 5.0
    out[4][p] += q


def test_loops_over_tuples_do_what_they_do_in_the_interpreter_and_on_a_device() -> None:
    for run in as_interpreted, same_everywhere:
        run(everything, INNER, arrays(), Fields(arrays(), 1.5), E)


def test_a_launch_knows_the_accesses_of_a_written_out_loop() -> None:
    f = (*arrays(4), gw.Array.zeros(INNER))
    with pytest.raises(UsageError, match=r"touches fields.f\[4\] on"):
        everything(INNER, arrays(), Fields(f, 1.5), E)


@gw.foreach
def choose(p, out, f, q, e):
    out[q][p] = f[q][p - e[q]]


@gw.jit
def corner(f, n):
    total = 0.0
    for q in range(n):
        total += f[q][0, 4]
    return total


def test_an_index_that_is_known_at_run_time_chooses_one() -> None:
    for q in 2, -4:
        as_interpreted(choose, INNER, arrays(), arrays(), q, E)
        same_everywhere(choose, INNER, arrays(), arrays(), q, E)
    f = arrays()
    assert corner(f, 5) == sum(one[0, 4] for one in f)
    with pytest.raises(IndexError, match="tuple index out of range"):
        choose(INNER, f, f, 5, E)


def test_arrays_of_a_tuple_must_be_alike() -> None:
    unlike = gw.Array(np.zeros(BOX.shape, order="F"), BOX)
    with pytest.raises(KernelError, match="arrays of different types or layouts"):
        choose(INNER, arrays(), (unlike, *arrays()), 1, E)
