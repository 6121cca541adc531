"""CUDA memory, arrays on GPUs, plans, atomic operations and collectives on the emulated GPU: each check is a test.

The programs share a job for each setting, as most of what a job costs is the start of its ranks. The emulated GPU does
everything as late and in as odd an order as a real one may. Ranks of one node share a GPU, unless there are several.
"""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel

TIMEOUT = 280


def emulated(**more: object) -> dict[str, str]:
    """Environment variables of a job with emulated GPUs."""
    return {"GONDWANA_CUDA": "emulated"} | {f"GONDWANA_{name}": str(value) for name, value in more.items()}


ONE_DEVICE = pytest.mark.ranks(2, variables=emulated(), id="1device", timeout=TIMEOUT)
ALONE = pytest.mark.ranks(1, variables=emulated(EMULATED_DEVICES=2), timeout=TIMEOUT)
THREE = pytest.mark.ranks(3, variables=emulated(EMULATED_DEVICES=2), timeout=TIMEOUT)
ONE_PER_NODE = pytest.mark.ranks(3, ranks_per_node=1, variables=emulated(FAKE_DEVICE_SEED=6), timeout=TIMEOUT)
AWARE = pytest.mark.ranks(2, ranks_per_node=1, variables=emulated(MPI_CUDA=1), id="aware", timeout=TIMEOUT)
TWO_PER_NODE = pytest.mark.ranks(4, ranks_per_node=2, variables=emulated(FAKE_DEVICE_SEED=7), timeout=TIMEOUT)


@ALONE
@ONE_DEVICE
@pytest.mark.ranks(2, variables=emulated(EMULATED_DEVICES=2, FAKE_DEVICE_SEED=5), id="2devices", timeout=TIMEOUT)
@ONE_PER_NODE
@TWO_PER_NODE
@AWARE
@checks.checks("cuda_memory_checks")
def test_cuda_memory(program: str, name: str) -> None:
    """First of all: it begins with what ranks do before they have opened a device.

    On two devices it has a job of its own: later, memory of the peer may be attached by way of the other device.
    """
    checks.run(program, name)


@AWARE
@pytest.mark.ranks(3, ranks_per_node=1, variables=emulated(MPI_CUDA=1), id="aware", timeout=TIMEOUT)
@ONE_PER_NODE
@pytest.mark.ranks(2, ranks_per_node=1, variables=emulated(EMULATED_DEVICES=2), timeout=TIMEOUT)
@checks.checks("memory_kinds_checks")
def test_memory_kinds_between_nodes(program: str, name: str) -> None:
    checks.run(program, name)


@ALONE
@pytest.mark.ranks(2, 4, 6, variables=emulated(EMULATED_DEVICES=2), timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("device_array_checks", "device_atomic_checks", "device_collective_checks")
def test_device_arrays(program: str, name: str) -> None:
    checks.run(program, name)


@ALONE
@TWO_PER_NODE
@checks.checks("plan_checks")
def test_plans(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@THREE
@pytest.mark.ranks(2, ranks_per_node=1, variables=emulated(EMULATED_DEVICES=2), timeout=TIMEOUT)
@checks.checks("device_array_checks", "device_atomic_checks", "device_collective_checks")
def test_arrays_of_three_ranks_and_of_two_nodes(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@THREE
@checks.checks("plan_checks")
def test_plans_of_three_ranks(program: str, name: str) -> None:
    checks.run(program, name)


@ALONE
@ONE_DEVICE
@ONE_PER_NODE
@AWARE
@pytest.mark.ranks(
    4, ranks_per_node=2, variables=emulated(FAKE_DEVICE_SEED=7, DEBUG_COPY=3), id="late", timeout=TIMEOUT
)
@checks.checks("copy_checks")
def test_copy(program: str, name: str) -> None:
    """Last of all: it keeps memory that other ranks attach."""
    checks.run(program, name)
