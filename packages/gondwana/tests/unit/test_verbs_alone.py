"""Messages and collectives of compiled code on one rank without MPI, what the compiler refuses, and a warm start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from support import jobs


@gw.jit
def alone(team, array):
    gw.barrier(team)
    gw.allreduce(team, array)
    return team.rank, team.size, gw.allreduce(team, 7, "max"), gw.allreduce(team, array[0])


@gw.jit
def send(team, array):
    gw.send(team, array, 0)


@gw.jit
def recv(team, array):
    gw.recv(team, array, 0)


@gw.jit
def sendrecv(team, array, other):
    gw.sendrecv(team, array, 0, other, 0)


@gw.jit
def isend(team, array):
    return gw.isend(team, array, 0)


@gw.jit
def irecv(team, array):
    return gw.irecv(team, array, 0)


@gw.jit
def wait_for(requests):
    gw.wait_all(requests)


@gw.jit
def average(team, x):
    return gw.allreduce(team, x, "average")


@gw.jit
def both_bits(team, x):
    return gw.allreduce(team, x, "band")


@gw.jit
def chosen(team, x, op):
    return gw.allreduce(team, x, op)


def test_one_rank_needs_no_mpi() -> None:
    array = np.array([2.5, 3.5])
    assert alone(gw.world, array) == (0, 1, 7, 2.5)
    assert array.tolist() == [2.5, 3.5]


def test_one_rank_has_nobody_to_talk_to() -> None:
    array = np.zeros(2)
    calls = (send, (array,)), (recv, (array,)), (sendrecv, (array, array.copy())), (isend, (array,)), (irecv, (array,))
    for function, arguments in calls:
        with pytest.raises(RuntimeError, match="one rank"):
            function(gw.world, *arguments)


def test_python_forms() -> None:
    array = np.arange(3.0)
    gw.send(gw.world, array, 0, 4)
    found = gw.Array.zeros(gw.RectDomain((2,), (5,)))
    gw.recv(gw.world, found, 0, 4)
    assert found.numpy().tolist() == [0, 1, 2]
    gw.sendrecv(gw.world, array + 1, 0, found, 0)
    assert found.numpy().tolist() == [1, 2, 3]
    gw.wait_all([gw.irecv(gw.world, found, 0), gw.isend(gw.world, array + 2, 0)])
    assert found.numpy().tolist() == [2, 3, 4]
    assert gw.allreduce(gw.world, 3) == 3
    assert gw.allreduce(gw.world, True, "lor") is True
    assert isinstance(gw.allreduce(gw.world, np.float32(3)), np.float32)
    assert gw.allreduce(gw.world, array, "min") is None
    gw.barrier(gw.world)


def test_what_is_written_comes_first() -> None:
    pointer = gw.Segment(gw.world, 16).pointer(dtype=float)
    for place in (1.0, np.ones(2), None):
        with pytest.raises(TypeError, match=r"what is written, then the global pointer, as in gw\.put\(1\.0, p\)"):
            gw.put(pointer, place)  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="ptr is float64: give a global pointer"):
        swapped(pointer)


@gw.jit
def swapped(pointer):
    gw.put(pointer, 1.0)


def test_operations_that_do_not_exist_or_do_not_fit() -> None:
    with pytest.raises(UsageError, match=r"no operation 'average': legal are sum, prod"):
        gw.allreduce(gw.world, 1, "average")
    with pytest.raises(UsageError, match="cannot do 'band' on float64: legal are sum, prod, max, min"):
        gw.allreduce(gw.world, 1.0, "band")
    with pytest.raises(KernelError, match="no operation 'average'"):
        average(gw.world, 1)
    with pytest.raises(KernelError, match="cannot do 'band' on float64"):
        both_bits(gw.world, np.ones(2))
    assert both_bits(gw.world, 3) == 3
    assert chosen(gw.world, 3, "max") == 3
    with pytest.raises(KernelError, match="no operation 'median'"):
        chosen(gw.world, 3, "median")
    with pytest.raises(KernelError, match="the operation of allreduce is a name"):
        chosen(gw.world, 3, 4)


def test_buffers_that_compiled_code_refuses() -> None:
    readonly = np.zeros(2)
    readonly.flags.writeable = False
    with pytest.raises(KernelError, match="buf is a read-only array"):
        recv(gw.world, readonly)
    with pytest.raises(KernelError, match="buf is not contiguous"):
        send(gw.world, np.zeros((4, 4))[:, 1])
    with pytest.raises(KernelError, match="buf is int64: give an array"):
        send(gw.world, 3)
    with pytest.raises(KernelError, match="give a team"):
        send(3, np.zeros(2))
    with pytest.raises(KernelError, match="wait_all takes a tuple or an array of requests"):
        wait_for(np.zeros(2))
    wait_for(np.zeros(0, np.int64))


WARM = """
import json, sys
import numpy as np
import gondwana as gw

@gw.jit
def step(team, mine, other, right, left):
    gw.sendrecv(team, mine, right, other, left)
    gw.barrier(team)
    return gw.allreduce(team, other[0] + other.size)

rank, size = gw.world.rank, gw.world.size
found = step(gw.world, np.full(4, rank), np.empty(4, int), (rank + 1) % size, (rank - 1) % size)
assert found == sum(range(size)) + 4 * size
if rank == 0:
    print(json.dumps({"compiled": gw.compilation().compiled, "numba": "numba" in sys.modules}))
"""


@pytest.mark.parallel
def test_a_warm_start_compiles_nothing_whatever_the_mpi(mpich_python: Path, tmp_path: Path) -> None:
    """The machine code that one MPI library was there for is found and works with the other."""
    variables = {"GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path))}
    found = []
    for python in (sys.executable, sys.executable, mpich_python):
        outcome = jobs.run_ranks(2, WARM, python=python, variables=variables)
        assert outcome.status == 0, str(outcome)
        found.append(json.loads(outcome.stdout))
    assert found[1:] == [{"compiled": 0, "numba": False}] * 2, found
