"""put, get and copy in compiled code on one rank: what the compiler refuses, device memory, and a warm start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from support import jobs


@gw.jit
def put(value, ptr):
    gw.put(value, ptr)


@gw.jit
def get_some(ptr, n):
    gw.get(ptr, n)


@gw.jit
def get_into(ptr, array):
    gw.get(ptr, out=array)


@gw.jit
def copy(src, dst):
    gw.copy(src, dst)


@gw.jit
def move(ptr, count):
    return (ptr + count).offset


@pytest.fixture
def segment() -> gw.Segment:
    return gw.Segment(gw.world, 256)


def test_numbers_must_fit_the_pointer(segment: gw.Segment) -> None:
    put(np.int8(3), segment.pointer(dtype="f4"))
    assert segment.view(0).view("f4")[0] == 3
    with pytest.raises(KernelError, match="put of float64 as int32: give a number of that kind"):
        put(1.5, segment.pointer(dtype="i4"))
    with pytest.raises(KernelError, match="put of "):
        put("x", segment.pointer(dtype="i4"))
    with pytest.raises(KernelError, match="ptr is int64: give a global pointer"):
        put(1.5, 3)


def test_arrays_must_have_the_dtype_of_the_pointer(segment: gw.Segment) -> None:
    ptr = segment.pointer(dtype="f8")
    for function, arguments in (
        (put, (np.zeros(4, int), ptr)),
        (get_into, (ptr, np.zeros(4, int))),
        (copy, (np.zeros(4, int), ptr)),
    ):
        with pytest.raises(KernelError, match="has elements of int64, the pointer points to float64"):
            function(*arguments)
    with pytest.raises(KernelError, match="copy from elements of float64 to elements of int64"):
        copy(ptr, ptr.cast(int))


def test_counts_and_places_must_be_there(segment: gw.Segment) -> None:
    ptr = segment.pointer(dtype="f8")
    with pytest.raises(KernelError, match="give the number of elements"):
        copy(ptr, ptr)
    with pytest.raises(KernelError, match="give the array that they go to"):
        get_some(ptr, 3)
    readonly = np.zeros(3)
    readonly.flags.writeable = False
    with pytest.raises(KernelError, match="out is a read-only array"):
        get_into(ptr, readonly)
    with pytest.raises(KernelError, match="added to a global pointer"):
        move(ptr, 1.5)


WARM = """
import json, sys
import numpy as np
import gondwana as gw

@gw.jit
def step(ptr, array):
    gw.put(2.5, ptr)
    gw.put(array, ptr + 1)
    gw.get(ptr + 2, 1, out=array)
    gw.copy(ptr, ptr + 9, 4)
    return gw.get(ptr) + array[0]

segment = gw.Segment(gw.world, 1024)
assert step(segment.pointer((gw.world.rank + 1) % gw.world.size, float), np.arange(4.0)) == 3.5
if gw.world.rank == 0:
    print(json.dumps({"compiled": gw.compilation().compiled, "numba": "numba" in sys.modules}))
gw.barrier(gw.world)
"""


@pytest.mark.parallel
def test_a_warm_start_compiles_nothing_whatever_the_way(mpich_python: Path, tmp_path: Path) -> None:
    """The machine code of a serial run is that of a node, of two nodes, and of another MPI."""

    cache = str(jobs.own_cache(tmp_path))

    def run(ranks: int, python: Any = sys.executable, **variables: str) -> dict[str, Any]:
        variables["GONDWANA_CACHE_DIR"] = cache
        outcome = jobs.run_ranks(ranks, WARM, python=python, variables=variables)
        assert outcome.status == 0, str(outcome)
        found: dict[str, Any] = json.loads(outcome.stdout.splitlines()[0])  # MPI libraries may write after it
        return found

    run(1)
    warm = {"compiled": 0, "numba": False}
    assert run(1) == warm
    assert run(2, GONDWANA_RANKS_PER_NODE="1") == warm
    assert run(2, mpich_python, GONDWANA_RANKS_PER_NODE="1") == warm
